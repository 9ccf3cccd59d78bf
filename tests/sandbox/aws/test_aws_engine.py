"""The engine: faults, the ledger, what is not implemented, concurrency, and the admin API."""

from __future__ import annotations

import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from aws_support import REGION, Api, code
from botocore.exceptions import ClientError, ConnectionClosedError, ConnectionError, HTTPClientError

from sandbox import credentials


def test_identity_is_a_session_of_a_role_with_a_path(api: Api) -> None:
    identity = api.client("sts").get_caller_identity()
    assert identity["Arn"] == credentials.SESSION_ARN
    assert api.client("iam").get_role(RoleName=credentials.ROLE_NAME)["Role"]["Arn"] == credentials.ROLE_ARN


def test_lost_response_leaves_one_effect(api: Api) -> None:
    rule = {"id": "lost", "operation": "CreateVpc", "phase": "after", "action": "drop", "times": 1}
    api.admin("POST", "faults", [rule])
    ec2 = api.client("ec2")
    before = len(ec2.describe_vpcs()["Vpcs"])
    with pytest.raises((ConnectionClosedError, ConnectionError, HTTPClientError)):
        ec2.create_vpc(CidrBlock="10.9.0.0/16")
    assert len(ec2.describe_vpcs()["Vpcs"]) == before + 1
    (entry,) = api.effects("ec2", "CreateVpc")
    assert entry["response_lost"]
    assert entry["resource"].startswith("vpc-")
    assert entry["parameters"] == {"CidrBlock": "10.9.0.0/16"}
    assert [f["rule"] for f in api.admin("GET", "faults")["fired"]] == ["lost"]


def test_lost_request_has_no_effect(api: Api) -> None:
    api.admin("POST", "faults", [{"operation": "CreateVpc", "action": "drop", "times": 1}])
    ec2 = api.client("ec2")
    with pytest.raises((ConnectionClosedError, ConnectionError, HTTPClientError)):
        ec2.create_vpc(CidrBlock="10.9.0.0/16")
    assert len(ec2.describe_vpcs()["Vpcs"]) == 1
    assert api.effects("ec2", "CreateVpc") == []
    refused = api.admin("GET", "ledger?operation=CreateVpc")["entries"]
    assert [(e["status"], e["effect"]) for e in refused] == [(0, False)]


@pytest.mark.parametrize(
    ("service", "method", "throttle"),
    [
        ("sagemaker", "list_clusters", "ThrottlingException"),
        ("ec2", "describe_vpcs", "RequestLimitExceeded"),
        ("eks", "list_clusters", "ThrottlingException"),
        ("iam", "list_roles", "Throttling"),
        ("s3", "list_buckets", "SlowDown"),
    ],
)
def test_throttling_is_understood_and_retried(api: Api, service: str, method: str, throttle: str) -> None:
    rule = {"service": service, "code": throttle, "times": 1, "headers": {"Retry-After": "1"}}
    api.admin("POST", "faults", [rule])
    with pytest.raises(ClientError) as error:
        getattr(api.client(service), method)()
    assert code(error) == throttle
    assert error.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "1"
    assert error.value.response["Error"]["Message"] == "Rate exceeded"
    getattr(api.client(service), method)()


def test_internal_error_and_latency(api: Api) -> None:
    api.admin("POST", "faults", [{"operation": "ListClusters", "action": "http500", "times": 1}])
    with pytest.raises(ClientError) as error:
        api.client("eks").list_clusters()
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    api.admin("POST", "faults", [{"operation": "ListClusters", "action": "latency", "latency": 0.05}])
    assert api.client("eks").list_clusters()["clusters"] == []


@pytest.mark.parametrize(
    ("service", "method", "arguments"),
    [
        ("sagemaker", "list_cluster_scheduler_configs", {}),
        ("sagemaker", "list_optimization_jobs", {}),
        ("eks", "list_insights", {"clusterName": "x"}),
        ("ec2", "describe_instance_topology", {}),
        ("iam", "simulate_principal_policy", {"PolicySourceArn": credentials.ROLE_ARN, "ActionNames": ["s3:*"]}),
        ("amp", "list_scrapers", {}),
        ("grafana", "list_versions", {}),
    ],
)
def test_what_is_missing_says_so_once(api: Api, service: str, method: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ClientError) as error:
        getattr(api.client(service, attempts=3), method)(**arguments)
    assert code(error) == "SandboxNotImplemented"
    metadata = error.value.response["ResponseMetadata"]
    assert metadata["HTTPStatusCode"] == 400
    assert metadata["RetryAttempts"] == 0


def test_request_ids_and_read_counts(api: Api) -> None:
    response = api.client("eks").list_clusters()
    first = response["ResponseMetadata"]["RequestId"]
    assert first != api.client("eks").list_clusters()["ResponseMetadata"]["RequestId"]
    reads = {(r["service"], r["operation"]): r["count"] for r in api.admin("GET", "ledger")["reads"]}
    assert reads[("eks", "ListClusters")] == 2


def test_refused_calls_are_in_the_ledger(api: Api) -> None:
    with pytest.raises(ClientError):
        api.client("ec2").create_subnet(VpcId="vpc-none", CidrBlock="10.0.0.0/24")
    (entry,) = api.admin("GET", "ledger?operation=CreateSubnet")["entries"]
    assert (entry["status"], entry["effect"], entry["error"]) == (400, False, "InvalidVpcID.NotFound")


def test_twenty_creators_have_one_winner(api: Api, network: Any, role: Any) -> None:
    arn = role("eks", "eks.amazonaws.com")
    eks = api.client("eks")

    def create(index: int) -> str:
        try:
            eks.create_cluster(
                name="race",
                roleArn=arn,
                resourcesVpcConfig={"subnetIds": network.subnets},
                clientRequestToken=f"t{index}",
            )
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "created"

    with ThreadPoolExecutor(20) as pool:
        outcomes = list(pool.map(create, range(20)))
    assert sorted(outcomes) == ["ResourceInUseException"] * 19 + ["created"]
    assert len(api.effects("eks", "CreateCluster")) == 1


def test_buckets_by_path_and_by_host(api: Api) -> None:
    s3 = api.client("s3")
    s3.create_bucket(Bucket="things", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="things", Key="a/b c.txt", Body=b"x" * 100_000)
    assert s3.head_object(Bucket="things", Key="a/b c.txt")["ContentLength"] == 100_000
    # Not every machine resolves names below localhost, so the host is only said and not looked up.
    signed = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": "things", "Key": "a/b c.txt"}))
    path = signed.path.removeprefix("/things")
    host = f"things.localhost:{urlsplit(api.url).port}"
    request = urllib.request.Request(f"{api.url}{path}?{signed.query}", headers={"Host": host})
    with urllib.request.urlopen(request) as response:
        assert len(response.read()) == 100_000
    with pytest.raises(ClientError) as error:
        s3.create_bucket(Bucket="things", CreateBucketConfiguration={"LocationConstraint": REGION})
    assert code(error) == "BucketAlreadyOwnedByYou"


def test_regions_are_apart(api: Api) -> None:
    api.client("ec2", "eu-west-1").create_vpc(CidrBlock="10.9.0.0/16")
    assert len(api.client("ec2").describe_vpcs()["Vpcs"]) == 1
    assert len(api.client("ec2", "eu-west-1").describe_vpcs()["Vpcs"]) == 2


def test_admin_refuses_nonsense(api: Api) -> None:
    for method, path, body, status in (
        ("POST", "clock", {"jump": 1}, 400),
        ("POST", "faults", [{"operation": "("}], 400),
        ("POST", "faults", [{"nonsense": 1}], 400),
        ("PUT", "clock", {}, 405),
        ("GET", "nothing", None, 404),
    ):
        with pytest.raises(urllib.error.HTTPError) as error:
            api.admin(method, path, body)
        assert error.value.code == status
    assert api.admin("GET", "health")["status"] == "ok"
    assert api.admin("GET", "clock")["paused"]
