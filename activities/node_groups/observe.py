"""Node groups as both sides see them: EKS's description, and Kubernetes' nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubernetes import client

from activities.aws import AwsClients, is_ours, pages
from activities.errors import clean, is_absent
from activities.instance_types import EFA, NEURON, NVIDIA, InstanceFacts
from activities.kubernetes import REQUEST_TIMEOUT
from contracts.names import LABEL_DOMAIN
from contracts.node_groups import NodeGroup

if TYPE_CHECKING:
    from mypy_boto3_eks.type_defs import NodegroupTypeDef

LABEL_GROUP = "eks.amazonaws.com/nodegroup"
LABEL_EFA = f"{LABEL_DOMAIN}/efa"
"""Of groups whose nodes have EFA interfaces: their device plugin runs nowhere else."""
LABEL_TYPE = "node.kubernetes.io/instance-type"
CAPACITY = {"ON_DEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
PAGE = 500


@dataclass
class NodesSeen:
    """The nodes of one group in Kubernetes."""

    total: int = 0
    ready: int = 0
    working: int = 0
    """Ready, with all accelerators of their type."""
    accelerators: int = 0
    types: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    """Ready nodes that lack something, with what."""


def describe(aws: AwsClients, region: str, cluster: str, name: str) -> NodegroupTypeDef | None:
    """The node group as it is; None only where EKS says that there is none."""
    try:
        return aws.read.eks(region).describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
    except Exception as error:
        if is_absent(error, "ResourceNotFoundException"):
            return None
        raise


def describe_all(aws: AwsClients, region: str, cluster: str) -> list[NodegroupTypeDef]:
    """Every node group of the cluster, by name. One that goes meanwhile is left out."""
    names = sorted(pages(aws.read.eks(region), "list_nodegroups", "nodegroups", clusterName=cluster))
    return [found for name in names if (found := describe(aws, region, cluster, name)) is not None]


def list_nodes(api: client.ApiClient, selector: str) -> list[Any]:
    """Kubernetes nodes by a label selector, paged."""
    core, found, mark = client.CoreV1Api(api), [], None
    while True:
        page: Any = core.list_node(
            label_selector=selector, limit=PAGE, _continue=mark, _request_timeout=REQUEST_TIMEOUT
        )
        found += page.items
        mark = page.metadata._continue if page.metadata else None
        if not mark:
            return found


def see(nodes: list[Any], facts: dict[str, InstanceFacts], efa: bool = False) -> NodesSeen:
    """Sum up the nodes of a group. With ``facts`` of their types, a node without its accelerators does not count as
    working; with ``efa``, nor does one that offers no EFA interface."""
    types = {(node.metadata.labels or {}).get(LABEL_TYPE, "") for node in nodes}
    seen = NodesSeen(total=len(nodes), types=sorted(types - {""}))
    for node in nodes:
        if not _is_ready(node):
            continue
        seen.ready += 1
        allocatable = (node.status.allocatable if node.status else None) or {}
        seen.accelerators += sum(_count(allocatable, resource) for resource in (NVIDIA, NEURON))
        fact = facts.get((node.metadata.labels or {}).get(LABEL_TYPE, ""))
        if missing := _missing(allocatable, fact, efa):
            seen.lacking.append(f"{node.metadata.name} lacks {missing}")
        else:
            seen.working += 1
    return seen


def as_node_group(
    found: NodegroupTypeDef, cluster: str, nodes: NodesSeen | None = None, *, changed: bool = True
) -> NodeGroup:
    """``cluster`` is the tag of the cluster that asks: the group is ours if it carries it."""
    scaling = found.get("scalingConfig", {})
    return NodeGroup(
        name=found["nodegroupName"],
        status=found["status"],
        # Of a capacity block, the type stands in the launch template only.
        instance_types=list(found.get("instanceTypes", [])) or (nodes.types if nodes else []),
        capacity=CAPACITY.get(found.get("capacityType", "ON_DEMAND"), "on-demand"),
        desired=scaling.get("desiredSize", 0),
        minimum=scaling.get("minSize", 0),
        maximum=scaling.get("maxSize", 0),
        ready=nodes.ready if nodes else 0,
        accelerators=nodes.accelerators if nodes else 0,
        subnet_ids=list(found.get("subnets", [])),
        owned=is_ours(found.get("tags", {}), cluster),
        problem=issues_of(found) or None,
        changed=changed,
    )


def issues_of(found: NodegroupTypeDef) -> str:
    """EKS's health issues in one line; empty where there are none."""
    issues = found.get("health", {}).get("issues", [])
    return clean("; ".join(f"{issue.get('code')}: {issue.get('message')}" for issue in issues))


def _missing(allocatable: dict[str, Any], facts: InstanceFacts | None, efa: bool) -> str:
    if facts is not None and facts.accelerator_resource:
        count = _count(allocatable, facts.accelerator_resource)
        if count != facts.accelerators:
            return f"{facts.accelerator_resource} ({count} of {facts.accelerators})"
    return EFA if efa and not _count(allocatable, EFA) else ""


def _is_ready(node: Any) -> bool:
    conditions = (node.status.conditions if node.status else None) or []
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def _count(allocatable: dict[str, Any], resource: str) -> int:
    text = str(allocatable.get(resource, "0"))
    return int(text) if text.isdigit() else 0
