"""EKS: clusters, add-ons, access entries, pod identity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aws_support import Api, Network, code
from botocore.exceptions import ClientError

from sandbox import credentials
from sandbox.dataplane import AccessEntry, AddonHealth, AddonSettings, Endpoint, NoDataPlane
from sandbox.run import Sandbox


class Recorder(NoDataPlane):
    """A data plane that remembers, and whose Deployments wait for a node."""

    def __init__(self) -> None:
        self.access: list[AccessEntry] = []
        self.nodes: set[str] = set()
        self.addons: set[str] = set()

    def set_access(self, arn: str, entries: list[AccessEntry]) -> None:
        self.access = entries

    def add_node(self, arn: str, node: Any) -> None:
        self.nodes.add(node.name)

    def remove_node(self, arn: str, name: str) -> None:
        self.nodes.discard(name)

    def install_addon(
        self, arn: str, name: str, version: str, settings: AddonSettings | None = None
    ) -> tuple[str, ...]:
        self.addons.add(name)
        return ()

    def remove_addon(self, arn: str, name: str, preserve: bool = False) -> None:
        self.addons.discard(name)

    def addon_health(self, arn: str, name: str) -> AddonHealth:
        if name == "coredns" and not self.nodes:
            return AddonHealth(False, (("InsufficientNumberOfReplicas", "0 of 2 replicas are available"),))
        return AddonHealth(True)


@pytest.fixture
def dataplane(sandbox: Sandbox) -> Iterator[Recorder]:
    recorder, before = Recorder(), sandbox.aws.world.dataplane
    sandbox.aws.use_dataplane(recorder)
    yield recorder
    sandbox.aws.use_dataplane(before)


def test_cluster_comes_and_goes(api: Api, eks_cluster: str) -> None:
    eks = api.client("eks")
    cluster = eks.describe_cluster(name="demo")["cluster"]
    assert cluster["status"] == "ACTIVE"
    assert cluster["version"] == "1.34"
    assert cluster["resourcesVpcConfig"]["clusterSecurityGroupId"].startswith("sg-")
    assert cluster["identity"]["oidc"]["issuer"].startswith("https://oidc.eks.us-west-2.amazonaws.com/id/")
    assert eks.list_clusters()["clusters"] == ["demo"]
    assert eks.delete_cluster(name="demo")["cluster"]["status"] == "DELETING"
    api.advance(300)
    with pytest.raises(eks.exceptions.ResourceNotFoundException):
        eks.describe_cluster(name="demo")


def test_clusters_of_a_snapshot_answer_where_the_data_plane_is_now(
    sandbox: Sandbox, api: Api, eks_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sandbox.aws.world.dataplane,
        "create_cluster",
        lambda facts: Endpoint(f"https://moved.invalid/{facts.name}", "ca"),
    )
    sandbox.aws.ready()
    assert api.client("eks").describe_cluster(name="demo")["cluster"]["endpoint"] == "https://moved.invalid/demo"


def test_cluster_is_creating_for_ten_minutes(api: Api, network: Network, role: Any) -> None:
    eks = api.client("eks")
    request: dict[str, Any] = {
        "name": "slow",
        "roleArn": role("eks", "eks.amazonaws.com"),
        "resourcesVpcConfig": {"subnetIds": network.subnets},
        "clientRequestToken": "token",
    }
    eks.create_cluster(**request)
    api.advance(590)
    described = eks.describe_cluster(name="slow")["cluster"]
    assert described["status"] == "CREATING"
    assert "endpoint" not in described
    assert eks.create_cluster(**request)["cluster"]["arn"] == described["arn"]
    with pytest.raises(eks.exceptions.ResourceInUseException):
        eks.create_cluster(**{**request, "clientRequestToken": "other"})
    with pytest.raises(eks.exceptions.InvalidRequestException):
        eks.create_addon(clusterName="slow", addonName="vpc-cni")
    api.advance(20)
    assert eks.describe_cluster(name="slow")["cluster"]["status"] == "ACTIVE"


def test_cluster_refusals(api: Api, network: Network, role: Any) -> None:
    eks = api.client("eks")
    arn = role("eks", "eks.amazonaws.com")
    good: dict[str, Any] = {
        "name": "x",
        "roleArn": arn,
        "resourcesVpcConfig": {"subnetIds": network.subnets},
    }
    for change, wording in (
        ({"roleArn": arn + "none"}, "could not be assumed"),
        ({"resourcesVpcConfig": {"subnetIds": network.subnets[:1]}}, "at least two different AZs"),
        ({"resourcesVpcConfig": {"subnetIds": ["subnet-none", *network.subnets]}}, "does not exist"),
        ({"version": "1.20"}, "unsupported Kubernetes version"),
        ({"roleArn": role("young", "eks.amazonaws.com", wait=0)}, "could not be assumed"),
    ):
        with pytest.raises(eks.exceptions.InvalidParameterException) as error:
            eks.create_cluster(**{**good, **change})
        assert wording in str(error.value)


def test_updates(api: Api, eks_cluster: str) -> None:
    eks = api.client("eks")
    update = eks.update_cluster_config(name="demo", accessConfig={"authenticationMode": "API"})["update"]
    assert update["status"] == "InProgress"
    with pytest.raises(eks.exceptions.ResourceInUseException):
        eks.update_cluster_version(name="demo", version="1.35")
    api.advance(121)
    assert eks.describe_update(name="demo", updateId=update["id"])["update"]["status"] == "Successful"
    with pytest.raises(eks.exceptions.InvalidParameterException):
        eks.update_cluster_config(name="demo", accessConfig={"authenticationMode": "CONFIG_MAP"})
    eks.update_cluster_version(name="demo", version="1.35")
    api.advance(901)
    assert eks.describe_cluster(name="demo")["cluster"]["version"] == "1.35"


def test_addon_waits_for_nodes(api: Api, dataplane: Recorder, eks_cluster: str, make_hyperpod: Any) -> None:
    eks = api.client("eks")
    for name in ("vpc-cni", "coredns"):
        assert eks.create_addon(clusterName="demo", addonName=name)["addon"]["status"] == "CREATING"
    api.advance(60)
    assert eks.describe_addon(clusterName="demo", addonName="vpc-cni")["addon"]["status"] == "ACTIVE"
    waiting = eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]
    assert waiting["status"] == "CREATING"
    assert waiting["health"]["issues"][0]["code"] == "InsufficientNumberOfReplicas"
    api.advance(1300)
    assert eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]["status"] == "DEGRADED"
    make_hyperpod()
    api.advance(600)
    assert len(dataplane.nodes) == 2
    assert eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]["status"] == "ACTIVE"
    with pytest.raises(eks.exceptions.ResourceInUseException):
        eks.create_addon(clusterName="demo", addonName="coredns")
    eks.delete_addon(clusterName="demo", addonName="coredns")
    api.advance(30)
    assert eks.list_addons(clusterName="demo")["addons"] == ["vpc-cni"]
    assert dataplane.addons == {"vpc-cni"}


def test_addon_catalogue(api: Api, eks_cluster: str) -> None:
    eks = api.client("eks")
    found = eks.describe_addon_versions(kubernetesVersion="1.34")["addons"]
    assert {"vpc-cni", "coredns", "amazon-sagemaker-hyperpod-training-operator"} <= {a["addonName"] for a in found}
    with pytest.raises(eks.exceptions.InvalidParameterException):
        eks.create_addon(clusterName="demo", addonName="no-such-addon")
    with pytest.raises(eks.exceptions.InvalidParameterException):
        eks.create_addon(clusterName="demo", addonName="coredns", addonVersion="v0.0.1-eksbuild.1")
    update = None
    eks.create_addon(clusterName="demo", addonName="coredns", configurationValues='{"replicaCount": 1}')
    api.advance(60)
    update = eks.update_addon(clusterName="demo", addonName="coredns", configurationValues='{"replicaCount": 2}')
    api.advance(60)
    described = eks.describe_update(name="demo", updateId=update["update"]["id"], addonName="coredns")["update"]
    assert described["status"] == "Successful"
    defaults = eks.describe_cluster_versions(defaultOnly=True)["clusterVersions"]
    assert [v["clusterVersion"] for v in defaults] == ["1.34"]


def test_access_entries(api: Api, dataplane: Recorder, eks_cluster: str, role: Any) -> None:
    eks = api.client("eks")
    assert eks.list_access_entries(clusterName="demo")["accessEntries"] == [credentials.ROLE_ARN]
    assert [(e.principal_arn, e.admin) for e in dataplane.access] == [(credentials.ROLE_ARN, True)]
    with pytest.raises(eks.exceptions.InvalidParameterException):
        eks.create_access_entry(clusterName="demo", principalArn=credentials.SESSION_ARN)
    arn = role("viewer", "ec2.amazonaws.com")
    eks.create_access_entry(clusterName="demo", principalArn=arn, kubernetesGroups=["viewers"])
    with pytest.raises(eks.exceptions.ResourceInUseException):
        eks.create_access_entry(clusterName="demo", principalArn=arn)
    policy = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    eks.associate_access_policy(clusterName="demo", principalArn=arn, policyArn=policy, accessScope={"type": "cluster"})
    found = eks.list_associated_access_policies(clusterName="demo", principalArn=arn)["associatedAccessPolicies"]
    assert [p["policyArn"] for p in found] == [policy]
    assert {e.principal_arn: e.admin for e in dataplane.access}[arn]
    eks.delete_access_entry(clusterName="demo", principalArn=arn)
    assert arn not in {e.principal_arn for e in dataplane.access}


def test_pod_identity(api: Api, eks_cluster: str, role: Any) -> None:
    eks = api.client("eks")
    arn = role("pods", "pods.eks.amazonaws.com")
    request = {"clusterName": "demo", "namespace": "default", "serviceAccount": "app", "roleArn": arn}
    made = eks.create_pod_identity_association(**request)["association"]
    with pytest.raises(eks.exceptions.ResourceInUseException):
        eks.create_pod_identity_association(**request)
    (listed,) = eks.list_pod_identity_associations(clusterName="demo")["associations"]
    assert listed["associationId"] == made["associationId"]
    eks.tag_resource(resourceArn=made["associationArn"], tags={"a": "b"})
    assert eks.list_tags_for_resource(resourceArn=made["associationArn"])["tags"] == {"a": "b"}
    eks.delete_pod_identity_association(clusterName="demo", associationId=made["associationId"])
    assert eks.list_pod_identity_associations(clusterName="demo")["associations"] == []


def test_config_map_clusters_have_no_entries_and_no_hyperpod(api: Api, network: Network, role: Any) -> None:
    eks = api.client("eks")
    arn = eks.create_cluster(
        name="old", roleArn=role("eks", "eks.amazonaws.com"), resourcesVpcConfig={"subnetIds": network.subnets}
    )["cluster"]["arn"]
    api.advance(601)
    with pytest.raises(eks.exceptions.InvalidRequestException):
        eks.list_access_entries(clusterName="old")
    with pytest.raises(ClientError) as error:
        api.client("sagemaker").create_cluster(
            ClusterName="hp", VpcConfig=network.vpc_config, Orchestrator={"Eks": {"ClusterArn": arn}}
        )
    assert code(error) == "ValidationException"
    assert "authentication mode" in str(error.value)
