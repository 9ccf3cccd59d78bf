"""What the tests of the simulated AWS share: the admin API, boto3 clients, and a network to put clusters into."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

import boto3
import urllib3
from botocore.config import Config
from botocore.session import Session
from botocore.signers import RequestSigner
from kubernetes import client as kubernetes_client

from sandbox import credentials

REGION = "us-west-2"


class Api:
    """The admin API and boto3 clients of one sandbox."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._clients: dict[tuple[str, str, int], Any] = {}

    def client(self, service: str, region: str = REGION, attempts: int = 1) -> Any:
        key = (service, region, attempts)
        if key not in self._clients:
            self._clients[key] = boto3.client(
                service,
                region_name=region,
                endpoint_url=self.url,
                aws_access_key_id=credentials.ACCESS_KEY_ID,
                aws_secret_access_key=credentials.SECRET_ACCESS_KEY,
                config=Config(retries={"mode": "standard", "total_max_attempts": attempts}, max_pool_connections=32),
            )
        return self._clients[key]

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_sandbox/{path}", data=data, method=method)
        with urllib.request.urlopen(request) as response:
            return json.load(response)

    def advance(self, seconds: float) -> None:
        self.admin("POST", "clock", {"advance": seconds})

    def effects(self, service: str, operation: str) -> list[dict[str, Any]]:
        path = f"ledger?service={service}&operation={operation}&effects_only=true"
        entries: list[dict[str, Any]] = self.admin("GET", path)["entries"]
        return entries


def kubernetes(api: Api, cluster: str) -> Any:
    """A Kubernetes client of an EKS cluster, as ``aws eks get-token`` lets one in."""
    found = api.client("eks").describe_cluster(name=cluster)["cluster"]
    session = Session()
    session.set_credentials(credentials.ACCESS_KEY_ID, credentials.SECRET_ACCESS_KEY)
    service = session.get_service_model("sts").service_id
    emitter = session.get_component("event_emitter")
    signer = RequestSigner(service, REGION, "sts", "v4", session.get_credentials(), emitter)
    request = {
        "method": "GET",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
        "url": f"https://sts.{REGION}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
    }
    url = signer.generate_presigned_url(request, region_name=REGION, expires_in=60, operation_name="")
    configuration = kubernetes_client.Configuration(host=found["endpoint"])
    configuration.ca_cert_data = base64.b64decode(found["certificateAuthority"]["data"]).decode()
    token = base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
    configuration.api_key = {"authorization": f"k8s-aws-v1.{token}"}
    configuration.api_key_prefix = {"authorization": "Bearer"}
    configuration.retries = urllib3.Retry(0)
    return kubernetes_client.ApiClient(configuration)


class Network:
    """A VPC with subnets in two zones and a security group that is open to itself."""

    def __init__(self, api: Api) -> None:
        ec2 = api.client("ec2")
        self.vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        self.subnets = [
            ec2.create_subnet(VpcId=self.vpc, CidrBlock=f"10.0.{64 * i}.0/18", AvailabilityZone=REGION + zone)[
                "Subnet"
            ]["SubnetId"]
            for i, zone in enumerate("bc")
        ]
        self.group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=self.vpc)["GroupId"]
        itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": self.group}]}]
        ec2.authorize_security_group_ingress(GroupId=self.group, IpPermissions=itself)
        ec2.authorize_security_group_egress(GroupId=self.group, IpPermissions=itself)

    @property
    def vpc_config(self) -> dict[str, Any]:
        return {"SecurityGroupIds": [self.group], "Subnets": self.subnets}


def code(error: Any) -> str:
    """The AWS error code of a ClientError."""
    found: str = error.value.response["Error"]["Code"]
    return found
