"""What there is in the sandbox's account and clusters, read past the platform with plain clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from kubernetes import client

from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients
from activities.settings import Settings
from tests.chaos.wishes import REGIONS
from tests.local_stack import LocalStack

CLUSTER_TAG = "instantstart:cluster"
THEIRS = "theirs"
"""The name of what others have in a cluster."""
CALM_LIMIT = 60.0
GONE = ("deleted", "deleting", "terminated", "shutting-down")


@dataclass(frozen=True)
class Thing:
    """A resource of AWS, or an object of Kubernetes."""

    kind: str
    id: str
    place: str
    """Region, or the EKS cluster's name."""
    name: str = ""
    """The name by which the platform finds it: unique for its kind and cluster."""
    cluster: str = ""
    """The tag of the cluster that it is marked for; empty: none."""
    within: str = ""
    """The VPC that it is in."""
    facts: str = ""
    """What must stay as it is, of things that are not the platform's."""

    def __str__(self) -> str:
        named = f" {self.name}" if self.name and self.name != self.id else ""
        return f"{self.kind} {self.id}{named} in {self.place}" + (f" of {self.cluster}" if self.cluster else "")


@dataclass(frozen=True)
class Group:
    """An instance group of a HyperPod cluster, or an EKS node group."""

    count: int
    labels: tuple[tuple[str, str], ...] = ()


@dataclass
class Holdings:
    """What one cluster has, in the terms in which it was asked for."""

    groups: dict[str, Group] = field(default_factory=dict)
    node_groups: dict[str, Group] = field(default_factory=dict)
    deployments: dict[str, int] = field(default_factory=dict)
    """Replicas of model servers and pools."""
    claims: set[str] = field(default_factory=set)
    credentials: set[str] = field(default_factory=set)
    rays: set[str] = field(default_factory=set)
    servers: set[str] = field(default_factory=set)
    """Tracking servers."""
    routers: set[str] = field(default_factory=set)
    endpoints: set[str] = field(default_factory=set)
    """Managed ones."""
    autoscalers: set[str] = field(default_factory=set)
    node_pools: set[str] = field(default_factory=set)
    connections: set[str] = field(default_factory=set)
    """Namespaces whose training may report to a tracking server."""


class _SandboxSession(boto3.Session):
    """All of its clients speak to the sandbox, whatever the environment says."""

    url = ""

    def client(self, *arguments: Any, **more: Any) -> Any:
        return super().client(*arguments, **{**more, "endpoint_url": self.url})


class World:
    """The account in all regions that are used, and the Kubernetes APIs of its clusters."""

    def __init__(self, stack: LocalStack) -> None:
        env = stack.environment("worker")
        self._session = _SandboxSession(
            aws_access_key_id=env["AWS_ACCESS_KEY_ID"], aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"]
        )
        self.url = self._session.url = stack.settings.sandbox_url
        self._clients: dict[tuple[str, str], Any] = {}
        self._kubernetes = KubernetesClients(AwsClients(Settings(), self._session))

    def aws(self, service: str, region: str = REGIONS[0]) -> Any:
        """A client of the sandbox."""
        if (service, region) not in self._clients:
            self._clients[service, region] = self._session.client(service, region_name=region)
        return self._clients[service, region]

    @contextmanager
    def kubernetes(self, region: str, cluster: str) -> Iterator[client.ApiClient]:
        """The API of an EKS cluster."""
        with self._kubernetes.connect(region, cluster) as api:
            yield api

    def things(self) -> list[Thing]:
        """All resources of the account that a cluster may be made of."""
        found = [thing for region in REGIONS for thing in self._in_region(region)]
        return found + list(self._global())

    def _in_region(self, region: str) -> Iterator[Thing]:
        ec2 = self.aws("ec2", region)
        for kind, operation, key, identifier in _EC2:
            for each in _all(ec2, operation, key):
                if str(each.get("State", "")).lower() in GONE or _state_name(each) in GONE:
                    continue
                if kind == "volume" and each.get("Attachments"):  # It goes with its machine.
                    continue
                tags = _tags(each.get("Tags") or each.get("TagSet"))
                name = tags.get("Name") or each.get("GroupName") or each.get("LaunchTemplateName") or ""
                within = str(each.get("VpcId", ""))
                yield Thing(kind, each[identifier], region, name, tags.get(CLUSTER_TAG, ""), within, _facts(each))
        yield from self._eks(region)
        yield from self._sagemaker(region)
        for each in _all(self.aws("fsx", region), "describe_file_systems", "FileSystems"):
            tags = _tags(each["Tags"])
            yield Thing("file system", each["FileSystemId"], region, tags.get("Name", ""), tags.get(CLUSTER_TAG, ""))
        for each in _all(self.aws("elbv2", region), "describe_load_balancers", "LoadBalancers"):
            yield Thing("load balancer", each["LoadBalancerArn"], region, each["LoadBalancerName"])
        for each in _all(self.aws("amp", region), "list_workspaces", "workspaces"):
            tags = each.get("tags", {})
            yield Thing("workspace", each["workspaceId"], region, each.get("alias", ""), tags.get(CLUSTER_TAG, ""))

    def _eks(self, region: str) -> Iterator[Thing]:
        eks = self.aws("eks", region)
        for name in _all(eks, "list_clusters", "clusters"):
            found = eks.describe_cluster(name=name)["cluster"]
            yield Thing("EKS cluster", name, region, name, found["tags"].get(CLUSTER_TAG, ""), "", str(found["tags"]))
            for group in _all(eks, "list_nodegroups", "nodegroups", clusterName=name):
                yield Thing("node group", f"{name}/{group}", region, f"{name}/{group}")

    def _sagemaker(self, region: str) -> Iterator[Thing]:
        sagemaker = self.aws("sagemaker", region)
        for each in _all(sagemaker, "list_clusters", "ClusterSummaries"):
            tags = _tags(sagemaker.list_tags(ResourceArn=each["ClusterArn"])["Tags"])
            yield Thing("HyperPod cluster", each["ClusterName"], region, each["ClusterName"], tags.get(CLUSTER_TAG, ""))
        for each in _all(sagemaker, "list_mlflow_tracking_servers", "TrackingServerSummaries"):
            name = each["TrackingServerName"]
            tags = _tags(sagemaker.list_tags(ResourceArn=each["TrackingServerArn"])["Tags"])
            yield Thing("tracking server", name, region, name, tags.get(CLUSTER_TAG, ""))

    def _global(self) -> Iterator[Thing]:
        iam = self.aws("iam")
        for each in _all(iam, "list_roles", "Roles"):
            tags = _tags(iam.list_role_tags(RoleName=each["RoleName"])["Tags"])
            yield Thing("role", each["RoleName"], "iam", each["RoleName"], tags.get(CLUSTER_TAG, ""))
        for each in _all(iam, "list_policies", "Policies", Scope="Local"):
            yield Thing("policy", each["Arn"], "iam", each["PolicyName"])
        for each in iam.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
            tags = _tags(iam.list_open_id_connect_provider_tags(OpenIDConnectProviderArn=each["Arn"])["Tags"])
            yield Thing("identity provider", each["Arn"], "iam", each["Arn"], tags.get(CLUSTER_TAG, ""))
        for each in _all(iam, "list_instance_profiles", "InstanceProfiles"):
            yield Thing("instance profile", each["InstanceProfileName"], "iam", each["InstanceProfileName"])
        s3 = self.aws("s3")
        for each in s3.list_buckets()["Buckets"]:
            objects = s3.list_objects_v2(Bucket=each["Name"]).get("Contents", [])
            facts = str(sorted((item["Key"], item["ETag"]) for item in objects))
            yield Thing("bucket", each["Name"], "s3", each["Name"], facts=facts)

    def holdings(self, tag: str, region: str) -> Holdings:
        """What a cluster that the platform made has now."""
        eks_name, hyperpod = f"eks-cluster-{tag}", f"hp-cluster-{tag}"
        held = Holdings()
        sagemaker, eks = self.aws("sagemaker", region), self.aws("eks", region)
        clusters = [each["ClusterName"] for each in _all(sagemaker, "list_clusters", "ClusterSummaries")]
        if hyperpod in clusters:
            for each in sagemaker.describe_cluster(ClusterName=hyperpod)["InstanceGroups"]:
                if each["InstanceGroupName"] == THEIRS:
                    continue
                labels = each.get("KubernetesConfig", {}).get("CurrentLabels", {})
                held.groups[each["InstanceGroupName"]] = Group(each["CurrentCount"], tuple(sorted(labels.items())))
        for each in _all(sagemaker, "list_mlflow_tracking_servers", "TrackingServerSummaries"):
            if each["TrackingServerName"].startswith(f"{tag}-"):
                held.servers.add(each["TrackingServerName"])
        if eks_name not in _all(eks, "list_clusters", "clusters"):
            return held
        for name in _all(eks, "list_nodegroups", "nodegroups", clusterName=eks_name):
            found = eks.describe_nodegroup(clusterName=eks_name, nodegroupName=name)["nodegroup"]
            held.node_groups[name] = Group(found["scalingConfig"]["desiredSize"])
        for each in _all(eks, "list_pod_identity_associations", "associations", clusterName=eks_name):
            if each["serviceAccount"] == "experiments":
                held.connections.add(each["namespace"])
        if eks.describe_cluster(name=eks_name)["cluster"]["status"] == "ACTIVE":
            with self.kubernetes(region, eks_name) as api:
                _read_objects(api, held)
        return held

    def calm(self, tag: str, region: str) -> None:
        """Wait until the instance groups of a cluster have what was asked for, or do not come to it."""
        deadline = time.monotonic() + CALM_LIMIT
        while time.monotonic() < deadline:
            found = self.aws("sagemaker", region).describe_cluster(ClusterName=f"hp-cluster-{tag}")["InstanceGroups"]
            configs = [each.get("KubernetesConfig", {}) for each in found]
            labelled = all(each.get("DesiredLabels", {}) == each.get("CurrentLabels", {}) for each in configs)
            if labelled and all(each["CurrentCount"] == each["TargetCount"] for each in found):
                return
            time.sleep(0.3)

    def node_of(self, tag: str, region: str, group: str) -> str | None:
        """The first node of a group, by the name of its instance; None where it has none."""
        sagemaker = self.aws("sagemaker", region)
        try:
            listed = _all(sagemaker, "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=f"hp-cluster-{tag}")
        except (ClientError, BotoCoreError):  # There is no such cluster, or a fault was meant for somebody else.
            return None
        mine = sorted(str(each["InstanceId"]) for each in listed if each["InstanceGroupName"] == group)
        return mine[0] if mine else None


_EC2 = (
    ("VPC", "describe_vpcs", "Vpcs", "VpcId"),
    ("subnet", "describe_subnets", "Subnets", "SubnetId"),
    ("security group", "describe_security_groups", "SecurityGroups", "GroupId"),
    ("route table", "describe_route_tables", "RouteTables", "RouteTableId"),
    ("internet gateway", "describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    ("NAT gateway", "describe_nat_gateways", "NatGateways", "NatGatewayId"),
    ("elastic IP", "describe_addresses", "Addresses", "AllocationId"),
    ("VPC endpoint", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    ("launch template", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    ("volume", "describe_volumes", "Volumes", "VolumeId"),
    ("interface", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
)


def _read_objects(api: client.ApiClient, held: Holdings) -> None:
    labels = "instantstart.dev/{}"
    core, custom = client.CoreV1Api(api), client.CustomObjectsApi(api)
    for kind in ("deployment", "model-pool"):
        listed: Any = client.AppsV1Api(api).list_namespaced_deployment("default", label_selector=labels.format(kind))
        for each in listed.items:
            held.deployments[each.metadata.name] = each.spec.replicas
    claims: Any = core.list_namespaced_persistent_volume_claim("default")
    held.claims = {each.metadata.name for each in claims.items if not each.metadata.deletion_timestamp}
    secrets: Any = core.list_namespaced_secret("default", label_selector=labels.format("credential"))
    held.credentials = {each.metadata.labels[labels.format("credential")] for each in secrets.items}
    routers: Any = client.AppsV1Api(api).list_namespaced_deployment("default", label_selector=labels.format("router"))
    held.routers = {each.metadata.name for each in routers.items}
    held.rays = _custom(custom, "ray.io", "v1", "rayclusters")
    # A run on Ray has a cluster for itself, which is of the run.
    held.rays -= {name for name in held.rays if name.startswith("grpo")}
    held.endpoints = _custom(custom, "inference.sagemaker.aws.amazon.com", "v1", "inferenceendpointconfigs")
    held.autoscalers = _custom(custom, "keda.sh", "v1alpha1", "scaledobjects")
    held.node_pools = _custom(custom, "karpenter.sh", "v1", "nodepools", everywhere=True)


def _custom(api: client.CustomObjectsApi, group: str, version: str, plural: str, everywhere: bool = False) -> set[str]:
    """Names of a kind's objects in the default namespace, or of one that has no namespaces; none if nobody knows it."""
    try:
        if everywhere:
            listed: Any = api.list_cluster_custom_object(group, version, plural)
        else:
            listed = api.list_namespaced_custom_object(group, version, "default", plural)
    except client.ApiException as error:
        if error.status != 404:
            raise
        return set()
    return {each["metadata"]["name"] for each in listed["items"] if not each["metadata"].get("deletionTimestamp")}


def _all(api: Any, operation: str, key: str, **arguments: Any) -> list[Any]:
    call: Callable[..., Any] = getattr(api, operation)
    if not api.can_paginate(operation):
        return list(call(**arguments).get(key, []))
    pages: Any = api.get_paginator(operation).paginate(**arguments)
    return [each for page in pages for each in page.get(key, [])]


def _tags(listed: Any) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in listed or ()}


def _state_name(each: Any) -> str:
    state = each.get("State")
    return str(state.get("Name", "")) if isinstance(state, dict) else ""


def _facts(each: Any) -> str:
    rules = [each.get(key) for key in ("IpPermissions", "IpPermissionsEgress", "Routes") if each.get(key)]
    return f"{sorted(_tags(each.get('Tags') or each.get('TagSet')).items())} {rules}"
