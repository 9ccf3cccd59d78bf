"""Nodes from both sides: SageMaker's members of a cluster and Kubernetes' nodes, raw, and which belongs to which.

Kubernetes' lists are read without the client's models: a thousand nodes with their pods would take many seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kubernetes import client

from activities.aws import AwsClients, pages
from activities.errors import fail
from activities.hyperpod.cluster import describe
from activities.hyperpod.groups import Specification
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients
from contracts.nodes import NodeIdentity
from contracts.problem import ProblemCode

Raw = dict[str, Any]

PAGE = 500
MEMBERS_PAGE = 100

_INSTANCE = re.compile(r"i-[0-9a-f]{8}(?:[0-9a-f]{9})?(?![0-9a-f])")


@dataclass(frozen=True)
class Sight:
    """A cluster at one moment."""

    cluster: Specification
    members: list[Raw]
    """SageMaker's (ClusterNodeSummary), those without an instance too."""
    nodes: dict[str, Raw]
    """Kubernetes' nodes by instance ID."""

    def member(self, identity: NodeIdentity) -> Raw | None:
        """The member that still is the very instance (or, without one, the logical ID) of ``identity``."""
        key, value = (
            ("InstanceId", identity.instance_id) if identity.instance_id else ("NodeLogicalId", _logical(identity))
        )
        return next((each for each in self.members if each.get(key) == value), None)

    def successor(self, identity: NodeIdentity) -> Raw | None:
        """Another instance with the same logical ID; None where there is none, or the cluster knows no logical IDs."""
        if not identity.logical_id or not identity.instance_id:
            return None
        return next(
            (
                each
                for each in self.members
                if each.get("NodeLogicalId") == identity.logical_id and each.get("InstanceId") != identity.instance_id
            ),
            None,
        )

    def node(self, member: Raw | None) -> Raw | None:
        """Kubernetes' node of a member."""
        return self.nodes.get((member or {}).get("InstanceId") or "")


def _logical(identity: NodeIdentity) -> str:
    return identity.logical_id or identity.asked


def look(aws: AwsClients, kubernetes: KubernetesClients, region: str, hyperpod: str, eks_cluster: str | None) -> Sight:
    """Both sides. Raises NOT_FOUND where there is no such HyperPod cluster."""
    found = required(aws, region, hyperpod)
    listed = members(aws, region, found)
    nodes: list[Raw] = []
    if eks_cluster is not None:
        with kubernetes.connect(region, eks_cluster) as api:
            nodes = nodes_of(api)
    return Sight(found, listed, by_instance(nodes))


def required(aws: AwsClients, region: str, hyperpod: str) -> Specification:
    """The HyperPod cluster as described. Raises NOT_FOUND."""
    found = describe(aws, region, hyperpod)
    if found is None:
        fail(
            ProblemCode.NOT_FOUND,
            f"There is no HyperPod cluster {hyperpod} in {region}",
            "Create it (create-hyperpod), or detect the cluster anew (redetect-cluster).",
        )
    return found


def members(aws: AwsClients, region: str, cluster: Specification) -> list[Raw]:
    """Every member of the cluster; with Continuous provisioning those that have no instance yet, too."""
    logical: Any = {"IncludeNodeLogicalIds": True} if cluster.get("NodeProvisioningMode") == "Continuous" else {}
    return list(
        pages(
            aws.read.sagemaker(region),
            "list_cluster_nodes",
            "ClusterNodeSummaries",
            ClusterName=cluster["ClusterName"],
            MaxResults=MEMBERS_PAGE,
            **logical,
        )
    )


def items(listing: Callable[..., Any], **query: str) -> Iterator[Raw]:
    """Every object of a list method of the Kubernetes client, as plain JSON, page by page."""
    following: str | None = None
    while True:
        page, following = page_of(listing, PAGE, following, **query)
        yield from page
        if following is None:
            return


def page_of(listing: Callable[..., Any], size: int, begin: str | None, **query: str) -> tuple[list[Raw], str | None]:
    """Up to ``size`` objects of a list method, from where ``begin`` (Kubernetes' continue token) says, and where the
    next ones begin."""
    mark = {"_continue": begin} if begin else {}
    answer = listing(limit=size, _preload_content=False, _request_timeout=REQUEST_TIMEOUT, **query, **mark)
    page = json.loads(answer.data)
    return page.get("items") or [], (page.get("metadata") or {}).get("continue") or None


def nodes_of(api: client.ApiClient) -> list[Raw]:
    return list(items(client.CoreV1Api(api).list_node))


def by_instance(nodes: Iterable[Raw]) -> dict[str, Raw]:
    return {instance: node for node in nodes if (instance := instance_of(node))}


def instance_of(node: Raw) -> str | None:
    """The instance of a Kubernetes node, from its name or provider ID."""
    text = f"{node['metadata']['name']} {(node.get('spec') or {}).get('providerID') or ''}"
    return next(iter(_INSTANCE.findall(text)), None)


def labels_of(node: Raw) -> dict[str, str]:
    return node["metadata"].get("labels") or {}


def is_ready(node: Raw) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def boot_id(node: Raw | None) -> str | None:
    info = ((node or {}).get("status") or {}).get("nodeInfo") or {}
    return info.get("bootID") or None


def status_of(member: Raw) -> str:
    return str((member.get("InstanceStatus") or {}).get("Status") or "Unknown")


def message_of(member: Raw) -> str:
    return str((member.get("InstanceStatus") or {}).get("Message") or "")


def count(resources: dict[str, Any] | None, name: str) -> int:
    """A whole number of devices; 0 where there are none."""
    try:
        return int(str((resources or {}).get(name, "0")))
    except ValueError:
        return 0


def find_member(sight: Sight, name: str) -> Raw | None:
    """A member by any of its names: instance, Kubernetes name, logical ID."""
    instance = name.removeprefix("hyperpod-")
    for member in sight.members:
        if name == member.get("NodeLogicalId") or instance == member.get("InstanceId"):
            return member
    named = next((node for node in sight.nodes.values() if node["metadata"]["name"] == name), None)
    found = instance_of(named) if named is not None else None
    return next((each for each in sight.members if found and each.get("InstanceId") == found), None)


def identity(sight: Sight, asked: str, member: Raw) -> NodeIdentity:
    node = sight.node(member)
    return NodeIdentity(
        asked=asked,
        instance_group=member.get("InstanceGroupName") or "",
        instance_id=member.get("InstanceId") or None,
        logical_id=member.get("NodeLogicalId") or None,
        kubernetes_name=node["metadata"]["name"] if node is not None else None,
        status=status_of(member),
        launched_at=member.get("LaunchTime") if member.get("InstanceId") else None,
        boot_id=boot_id(node),
    )
