"""EKS managed node groups: requests, life, and the nodes that they bring into Kubernetes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from aws_support import Api, Network, kubernetes
from botocore.exceptions import ClientError
from kubernetes import client

from sandbox.kubernetes.dataplane import KubernetesDataPlane
from sandbox.run import Sandbox

TYPE = "g5.8xlarge"


class Groups:
    """Node groups of the cluster ``demo``."""

    def __init__(self, api: Api, network: Network, role: str) -> None:
        self.api, self.eks, self.network, self.role = api, api.client("eks"), network, role

    def request(self, name: str = "workers", nodes: int = 2, **more: Any) -> dict[str, Any]:
        scaling = {"minSize": 0, "maxSize": 10, "desiredSize": nodes}
        return {
            "clusterName": "demo",
            "nodegroupName": name,
            "subnets": self.network.subnets,
            "nodeRole": self.role,
            "instanceTypes": [TYPE],
            "scalingConfig": scaling,
            **more,
        }

    def create(self, name: str = "workers", nodes: int = 2, **more: Any) -> dict[str, Any]:
        made: dict[str, Any] = self.eks.create_nodegroup(**self.request(name, nodes, **more))["nodegroup"]
        return made

    def get(self, name: str = "workers") -> dict[str, Any]:
        found: dict[str, Any] = self.eks.describe_nodegroup(clusterName="demo", nodegroupName=name)["nodegroup"]
        return found

    def scale(self, nodes: int, name: str = "workers") -> dict[str, Any]:
        update: dict[str, Any] = self.eks.update_nodegroup_config(
            clusterName="demo", nodegroupName=name, scalingConfig={"desiredSize": nodes}
        )["update"]
        return update

    def update(self, update: str, name: str = "workers") -> dict[str, Any]:
        found: dict[str, Any] = self.eks.describe_update(name="demo", updateId=update, nodegroupName=name)["update"]
        return found

    def delete(self, name: str = "workers") -> dict[str, Any]:
        found: dict[str, Any] = self.eks.delete_nodegroup(clusterName="demo", nodegroupName=name)["nodegroup"]
        return found


@pytest.fixture
def groups(api: Api, network: Network, eks_cluster: str, role: Any) -> Groups:
    return Groups(api, network, role("node", "ec2.amazonaws.com"))


@pytest.fixture
def core(behind: KubernetesDataPlane, api: Api, eks_cluster: str) -> client.CoreV1Api:
    """The cluster's Kubernetes, with a network for its nodes."""
    eks = api.client("eks")
    for name in ("vpc-cni", "kube-proxy"):
        eks.create_addon(clusterName="demo", addonName=name)
    return client.CoreV1Api(kubernetes(api, "demo"))


def deploy(core: client.CoreV1Api, replicas: int, **budget: Any) -> None:
    """A deployment and a budget that covers it."""
    labels = {"app": "web"}
    apps, policy = client.AppsV1Api(core.api_client), client.PolicyV1Api(core.api_client)
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    apps.create_namespaced_deployment("default", {"metadata": {"name": "web"}, "spec": spec})
    budget_spec = {"selector": {"matchLabels": labels}, **budget}
    policy.create_namespaced_pod_disruption_budget("default", {"metadata": {"name": "web"}, "spec": budget_spec})


def pods_on(core: client.CoreV1Api) -> set[str]:
    return {p.spec.node_name for p in core.list_namespaced_pod("default").items if p.status.phase == "Running"}


def test_group_is_active_when_its_nodes_are_ready(api: Api, core: client.CoreV1Api, groups: Groups) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NO_SCHEDULE"}
    made = groups.create(labels={"team": "a"}, taints=[taint], tags={"owner": "me"})
    assert (made["status"], made["amiType"], made["capacityType"]) == ("CREATING", "AL2023_x86_64_NVIDIA", "ON_DEMAND")
    api.advance(60)
    assert groups.get()["status"] == "CREATING"
    assert not core.list_node().items
    api.advance(240)
    found = groups.get()
    assert (found["status"], found["health"]["issues"], found["tags"]) == ("ACTIVE", [], {"owner": "me"})
    nodes = core.list_node().items
    assert {n.metadata.labels["topology.kubernetes.io/zone"] for n in nodes} == {"us-west-2b", "us-west-2c"}
    for node in nodes:
        assert node.metadata.name.startswith("ip-10-0-")
        assert (
            node.metadata.labels.items()
            >= {
                "eks.amazonaws.com/nodegroup": "workers",
                "eks.amazonaws.com/capacityType": "ON_DEMAND",
                "node.kubernetes.io/instance-type": TYPE,
                "team": "a",
            }.items()
        )
        assert [(t.key, t.value, t.effect) for t in node.spec.taints] == [("gpu", "yes", "NoSchedule")]
        (instance,) = api.client("ec2").describe_instances(InstanceIds=[node.spec.provider_id.rsplit("/", 1)[-1]])[
            "Reservations"
        ][0]["Instances"]
        assert instance["State"]["Name"] == "running"
        assert {"Key": "eks:nodegroup-name", "Value": "workers"} in instance["Tags"]
    entry = api.client("eks").describe_access_entry(clusterName="demo", principalArn=groups.role)["accessEntry"]
    assert entry["type"] == "EC2_LINUX"


def test_group_whose_nodes_have_no_network_fails(
    behind: KubernetesDataPlane, api: Api, eks_cluster: str, groups: Groups
) -> None:
    groups.create()
    api.advance(1300)
    found = groups.get()
    assert (found["status"], found["health"]["issues"][0]["code"]) == ("CREATE_FAILED", "NodeCreationFailure")
    with pytest.raises(groups.eks.exceptions.InvalidRequestException):
        groups.scale(1)
    groups.delete()
    api.advance(200)
    assert groups.eks.list_nodegroups(clusterName="demo")["nodegroups"] == []


def test_accelerators_appear_with_their_plugins(api: Api, core: client.CoreV1Api, groups: Groups) -> None:
    plugins = {"nvidia": "nvcr.io/nvidia/k8s-device-plugin:v1", "efa": "eks/aws-efa-k8s-device-plugin:v1"}
    for name, image in plugins.items():
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "plugin", "image": image}], "tolerations": [{"operator": "Exists"}]},
        }
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        client.AppsV1Api(core.api_client).create_namespaced_daemon_set(
            "kube-system", {"metadata": {"name": name}, "spec": spec}
        )
    data = {
        "InstanceType": "p5.48xlarge",
        "NetworkInterfaces": [
            {"DeviceIndex": 0, "NetworkCardIndex": 0, "InterfaceType": "efa", "Groups": [groups.network.group]},
            {"DeviceIndex": 1, "NetworkCardIndex": 1, "InterfaceType": "efa", "Groups": [groups.network.group]},
        ],
    }
    template_id = api.client("ec2").create_launch_template(LaunchTemplateName="efa", LaunchTemplateData=data)[
        "LaunchTemplate"
    ]["LaunchTemplateId"]
    request = groups.request("efa", 1, launchTemplate={"id": template_id})
    del request["instanceTypes"]
    made = groups.eks.create_nodegroup(**request)["nodegroup"]
    assert made["launchTemplate"] == {"id": template_id, "name": "efa", "version": "1"}
    assert "instanceTypes" not in made
    groups.create("plain", 1, amiType="AL2023_x86_64_STANDARD")
    api.advance(400)
    allocatable = {
        n.metadata.labels["eks.amazonaws.com/nodegroup"]: n.status.allocatable for n in core.list_node().items
    }
    assert (allocatable["efa"]["nvidia.com/gpu"], allocatable["efa"]["vpc.amazonaws.com/efa"]) == ("8", "2")
    assert "nvidia.com/gpu" not in allocatable["plain"]


def test_refused_requests(groups: Groups, role: Any) -> None:
    for change, wording in (
        ({"nodeRole": "arn:aws:iam::123456789012:role/none"}, "does not exist"),
        ({"nodeRole": role("other", "eks.amazonaws.com")}, "trust relationships"),
        ({"subnets": ["subnet-none"]}, "does not exist"),
        ({"instanceTypes": ["x9.large"]}, "do not exist"),
        ({"scalingConfig": {"minSize": 3, "maxSize": 5, "desiredSize": 1}}, "can't be greater than desired size"),
        ({"scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 2}}, "can't be greater than max size"),
        ({"amiType": "AL2023_ARM_64_STANDARD"}, "not a valid instance type"),
        ({"capacityType": "CAPACITY_BLOCK"}, "launch template"),
        ({"launchTemplate": {"name": "none"}}, "was not found"),
        ({"labels": {"kubernetes.io/x": "y"}}, "reserved prefixes"),
    ):
        with pytest.raises(groups.eks.exceptions.InvalidParameterException, match=wording):
            groups.eks.create_nodegroup(**{**groups.request(), **change})
    assert groups.eks.list_nodegroups(clusterName="demo")["nodegroups"] == []


def test_client_token_makes_one_group(api: Api, groups: Groups) -> None:
    first = groups.create(clientRequestToken="t")
    api.advance(300)
    again = groups.create(clientRequestToken="t")
    assert (again["nodegroupArn"], again["status"]) == (first["nodegroupArn"], "ACTIVE")
    with pytest.raises(groups.eks.exceptions.ResourceInUseException):
        groups.create(clientRequestToken="other")
    with pytest.raises(groups.eks.exceptions.ResourceNotFoundException):
        groups.get("none")


def test_names_are_listed_in_pages_and_keep_the_cluster(api: Api, groups: Groups) -> None:
    for name in ("a", "b", "c"):
        groups.create(name, 0)
    pages = groups.eks.get_paginator("list_nodegroups").paginate(clusterName="demo", PaginationConfig={"PageSize": 2})
    assert [page["nodegroups"] for page in pages] == [["a", "b"], ["c"]]
    api.advance(60)
    assert groups.get("a")["status"] == "ACTIVE"
    with pytest.raises(groups.eks.exceptions.ResourceInUseException):
        groups.eks.delete_cluster(name="demo")
    for name in ("a", "b", "c"):
        groups.delete(name)
    api.advance(120)
    groups.eks.delete_cluster(name="demo")


def test_settings_change_nodes_one_update_at_a_time(api: Api, core: client.CoreV1Api, groups: Groups) -> None:
    groups.create(nodes=1, labels={"old": "1"})
    api.advance(300)
    update = groups.eks.update_nodegroup_config(
        clusterName="demo",
        nodegroupName="workers",
        scalingConfig={"minSize": 1, "maxSize": 4, "desiredSize": 3},
        labels={"addOrUpdateLabels": {"new": "2"}, "removeLabels": ["old"]},
        taints={"addOrUpdateTaints": [{"key": "only", "value": "x", "effect": "NO_EXECUTE"}]},
    )["update"]
    assert (update["status"], update["type"]) == ("InProgress", "ConfigUpdate")
    assert groups.get()["status"] == "UPDATING"
    with pytest.raises(groups.eks.exceptions.ResourceInUseException):
        groups.scale(1)
    api.advance(40)
    assert groups.update(update["id"])["status"] == "Successful"
    assert groups.eks.list_updates(name="demo", nodegroupName="workers")["updateIds"] == [update["id"]]
    assert groups.eks.list_updates(name="demo")["updateIds"] == []
    (node,) = core.list_node().items
    assert (node.metadata.labels.get("new"), node.metadata.labels.get("old")) == ("2", None)
    assert [t.key for t in node.spec.taints] == ["only"]
    api.advance(200)
    assert len(core.list_node().items) == 3
    assert groups.get()["scalingConfig"] == {"minSize": 1, "maxSize": 4, "desiredSize": 3}


def test_shortage_fails_a_new_group_and_degrades_one_that_grows(api: Api, groups: Groups) -> None:
    api.admin("PUT", "capacity", {"*": {TYPE: 2}})
    groups.create()
    api.advance(300)
    assert groups.get()["status"] == "ACTIVE"
    groups.create("more", 1)
    api.advance(60)
    waiting = groups.get("more")
    assert (waiting["status"], waiting["health"]["issues"][0]["code"]) == ("CREATING", "AsgInstanceLaunchFailures")
    assert "InsufficientInstanceCapacity" in waiting["health"]["issues"][0]["message"]
    api.advance(1300)
    assert groups.get("more")["status"] == "CREATE_FAILED"
    update = groups.scale(3)
    api.advance(60)
    assert groups.update(update["id"])["status"] == "Successful"
    grown = groups.get()
    assert (grown["status"], grown["health"]["issues"][0]["code"]) == ("DEGRADED", "AsgInstanceLaunchFailures")
    api.admin("PUT", "capacity", {})
    api.advance(300)
    assert (groups.get()["status"], groups.get()["health"]["issues"]) == ("ACTIVE", [])


def test_small_subnet_is_reported(api: Api, groups: Groups) -> None:
    subnet = api.client("ec2").create_subnet(
        VpcId=groups.network.vpc, CidrBlock="10.0.255.240/28", AvailabilityZone="us-west-2b"
    )["Subnet"]["SubnetId"]
    groups.create(nodes=1, subnets=[subnet])
    api.advance(60)
    assert groups.get()["health"]["issues"][0]["code"] == "InsufficientFreeAddresses"


def test_scaling_in_drains_a_node_as_its_budget_lets(api: Api, core: client.CoreV1Api, groups: Groups) -> None:
    groups.create()
    api.advance(300)
    deploy(core, 4, maxUnavailable=1)
    api.advance(60)
    assert len(pods_on(core)) == 2
    groups.scale(1)
    api.advance(300)
    (node,) = core.list_node().items
    assert pods_on(core) == {node.metadata.name}
    assert len(core.list_namespaced_pod("default").items) == 4


def test_deletion_drains_and_then_ends_nodes(api: Api, core: client.CoreV1Api, groups: Groups) -> None:
    groups.create()
    api.advance(300)
    deploy(core, 1, minAvailable=1)
    api.advance(60)
    assert groups.delete()["status"] == "DELETING"
    api.advance(60)
    (node,) = core.list_node().items
    assert node.spec.unschedulable
    assert pods_on(core) == {node.metadata.name}
    api.advance(1000)
    assert core.list_node().items == []
    assert pods_on(core) == set()
    with pytest.raises(groups.eks.exceptions.ResourceNotFoundException):
        groups.get()
    entries = api.client("eks").list_access_entries(clusterName="demo")["accessEntries"]
    assert groups.role not in entries
    ec2 = api.client("ec2")
    states = {i["State"]["Name"] for r in ec2.describe_instances()["Reservations"] for i in r["Instances"]}
    assert states == {"terminated"}
    for subnet in groups.network.subnets:
        interfaces = ec2.describe_network_interfaces(Filters=[{"Name": "subnet-id", "Values": [subnet]}])
        assert all("EKS" in i["Description"] for i in interfaces["NetworkInterfaces"])


def test_terminated_instance_is_replaced(api: Api, core: client.CoreV1Api, groups: Groups) -> None:
    groups.create(nodes=1)
    api.advance(300)
    (before,) = core.list_node().items
    instance = before.spec.provider_id.rsplit("/", 1)[-1]
    api.client("ec2").terminate_instances(InstanceIds=[instance])
    groups.get()
    api.advance(300)
    (after,) = core.list_node().items
    assert after.spec.provider_id != before.spec.provider_id


def test_version_update_rolls_and_stops_at_a_budget(api: Api, core: client.CoreV1Api, groups: Groups) -> None:
    groups.create()
    api.advance(300)
    before = {n.metadata.uid for n in core.list_node().items}
    request = {"clusterName": "demo", "nodegroupName": "workers"}
    update = groups.eks.update_nodegroup_version(**request, releaseVersion="1.34.2-20251201")["update"]
    api.advance(900)
    assert groups.update(update["id"])["status"] == "Successful"
    after = {n.metadata.uid for n in core.list_node().items}
    assert (len(after), groups.get()["releaseVersion"]) == (2, "1.34.2-20251201")
    assert not before & after
    deploy(core, 2, maxUnavailable=0)
    api.advance(60)
    update = groups.eks.update_nodegroup_version(**request, releaseVersion="1.34.2-20251231")["update"]
    api.advance(1500)
    failed = groups.update(update["id"])
    assert (failed["status"], failed["errors"][0]["errorCode"]) == ("Failed", "PodEvictionFailure")
    assert (groups.get()["status"], groups.get()["releaseVersion"]) == ("ACTIVE", "1.34.2-20251201")
    with pytest.raises(ClientError):
        groups.eks.update_nodegroup_version(**request, version="1.35")


def test_snapshot_brings_a_group_back_in_the_middle_of_its_life(
    sandbox: Sandbox, api: Api, core: client.CoreV1Api, groups: Groups, tmp_path: Path
) -> None:
    groups.create()
    api.advance(300)
    groups.create("more", 1)
    update = groups.scale(1)
    # A copy: what changes from here on is soon in the sandbox's own.
    saved = sandbox.state.save()
    assert saved is not None
    snapshot = shutil.copy(saved, tmp_path)
    groups.delete("more")
    api.advance(300)
    assert sandbox.state.restore(Path(snapshot))
    assert groups.update(update["id"])["status"] == "InProgress"
    assert groups.get("more")["status"] == "CREATING"
    api.advance(300)
    assert (groups.get()["status"], groups.get("more")["status"]) == ("ACTIVE", "ACTIVE")
    assert groups.eks.list_nodegroups(clusterName="demo")["nodegroups"] == ["more", "workers"]
