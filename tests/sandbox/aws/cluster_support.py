"""What tests need where the simulated AWS has simulated clusters behind it: clients with EKS tokens."""

from __future__ import annotations

import base64
from typing import Any

from aws_support import REGION, Api
from botocore.session import Session
from botocore.signers import RequestSigner
from kubernetes import client

from sandbox import credentials


def token(cluster: str) -> str:
    """As ``aws eks get-token`` makes it."""
    session = Session()
    session.set_credentials(credentials.ACCESS_KEY_ID, credentials.SECRET_ACCESS_KEY)
    service = session.get_service_model("sts").service_id
    events = session.get_component("event_emitter")
    signer = RequestSigner(service, REGION, "sts", "v4", session.get_credentials(), events)
    request = {
        "method": "GET",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
        "url": f"https://sts.{REGION}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
    }
    url = signer.generate_presigned_url(request, region_name=REGION, expires_in=60, operation_name="")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


class Kube:
    """A cluster through the Kubernetes client."""

    def __init__(self, api: Api, name: str) -> None:
        found = api.client("eks").describe_cluster(name=name)["cluster"]
        configuration = client.Configuration(host=found["endpoint"])
        configuration.ca_cert_data = base64.b64decode(found["certificateAuthority"]["data"]).decode()
        configuration.api_key = {"authorization": token(name)}
        configuration.api_key_prefix = {"authorization": "Bearer"}
        self.api = client.ApiClient(configuration)
        self.core, self.apps = client.CoreV1Api(self.api), client.AppsV1Api(self.api)
        self.custom = client.CustomObjectsApi(self.api)
        self.extensions = client.ApiextensionsV1Api(self.api)

    def nodes(self) -> dict[str, dict[str, str]]:
        """Labels by node."""
        return {n.metadata.name: n.metadata.labels for n in self.core.list_node().items}

    def create(self, group: str, plural: str, kind: str, name: str, spec: dict[str, Any]) -> None:
        body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.custom.create_cluster_custom_object(group, "v1", plural, body)

    def get(self, group: str, plural: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.custom.get_cluster_custom_object(group, "v1", plural, name)
        return found

    def items(self, group: str, plural: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.custom.list_cluster_custom_object(group, "v1", plural)["items"]
        return found


def condition(obj: dict[str, Any], kind: str) -> dict[str, str]:
    """A condition's status, reason and message."""
    found = next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})
    return {k: found.get(k, "") for k in ("status", "reason", "message")}


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}, "limits": spec.pop("limits", {})}
    container = {"name": "main", "image": "busybox", "resources": resources}
    meta = {"name": name, "annotations": spec.pop("annotations", {"sandbox/run-seconds": "300"})}
    return {"metadata": meta, "spec": {"restartPolicy": "Never", "containers": [container], **spec}}
