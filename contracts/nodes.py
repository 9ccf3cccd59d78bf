"""Nodes of a HyperPod cluster: rebooted, replaced and deleted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from contracts.activity import Act, Wait
from contracts.hyperpod import CountedNodes
from contracts.model import Ensured, Model
from contracts.names import LABEL_DOMAIN, short_hash
from contracts.network import Scope

MOST_NODES = 500

REPAIR_BATCH = 25
"""Nodes of one BatchRebootClusterNodes or BatchReplaceClusterNodes. (SageMaker API)"""
DELETE_BATCH = 99
"""Instances of one BatchDeleteClusterNodes; more need AWS Support. (SageMaker API)"""
DELETE_LOGICAL_BATCH = 50
"""Identifiers of one BatchDeleteClusterNodes that names logical IDs. (SageMaker API)"""

ANNOTATION_CHECKPOINT = f"{LABEL_DOMAIN}/last-checkpoint"
"""On a pod of a training job: when (ISO 8601) its last checkpoint was complete. Plans tell its age."""


def _node_name(text: str) -> str:
    if not re.fullmatch(r"(hyperpod-)?i-[0-9a-f]{8}([0-9a-f]{9})?|[a-zA-Z0-9]([a-zA-Z0-9-]{0,126}[a-zA-Z0-9])", text):
        raise ValueError(
            f"a node is named by its instance (i-…), its Kubernetes name (hyperpod-i-…) or its logical ID, not {text!r}"
        )
    return text


NodeName = Annotated[str, AfterValidator(_node_name)]
"""Instance ID, Kubernetes name (``hyperpod-i-…``) or logical ID of a node."""


class NodesSpec(Model):
    """Which nodes, and whether their pods are moved first."""

    nodes: list[NodeName] = Field(min_length=1, max_length=MOST_NODES)
    drain: bool = False
    """Cordon the nodes and evict their pods first, within their disruption budgets."""
    drain_timeout_minutes: int = Field(30, ge=1, le=1440)


class RebootNodesSpec(NodesSpec):
    """The nodes keep their instances and volumes."""


class ReplaceNodesSpec(NodesSpec):
    """The nodes get other instances: names, addresses and everything on local volumes are lost."""


class DeleteNodesSpec(NodesSpec):
    """The nodes go, and their groups are smaller by as many."""


def nodes_target(nodes: Iterable[str]) -> str:
    """What an operation on nodes is called after its cluster: the node's name, else their number and a hash."""
    names = sorted({name.removeprefix("hyperpod-") for name in nodes})
    return names[0] if len(names) == 1 else f"{len(names)}-nodes-{short_hash(' '.join(names))}"


class NodeIdentity(Model):
    """A node as it was before anything was done to it: what a later look tells an accepted request by."""

    asked: str
    """As the request named it."""
    instance_group: str
    instance_id: str | None = None
    """Null: it has no instance yet."""
    logical_id: str | None = None
    """Null: the cluster's provisioning knows none."""
    kubernetes_name: str | None = None
    """Null: it has not joined."""
    status: str = ""
    """SageMaker's own."""
    launched_at: datetime | None = None
    boot_id: str | None = None
    """Kubernetes' status.nodeInfo.bootID: another after every boot."""
    faults: list[str] = Field(default_factory=list)
    """What Kubernetes told of its faults (labels, taints, conditions): it tells later what a repair was for."""

    @property
    def name(self) -> str:
        return self.kubernetes_name or self.instance_id or self.logical_id or self.asked


class ObserveNodes(Model):
    scope: Scope
    name: str
    """The HyperPod cluster."""
    eks_cluster: str
    nodes: list[str]


class ObservedNodes(Model):
    nodes: list[NodeIdentity]
    others: list[str] = Field(default_factory=list)
    """Instances of the same groups that are not among them: a new one is told by not being one of these."""


class ActOnNodes(Model):
    """As many nodes as one call takes."""

    scope: Scope
    name: str
    eks_cluster: str
    nodes: list[NodeIdentity]


class NodeFailure(Model):
    """A node that the service did not take, with its code and words."""

    node: str
    code: str
    message: str = ""


class NodesAccepted(Ensured):
    """What came of one call. ``accepted`` and the failures name nodes as they were asked for."""

    summary: str
    accepted: list[str] = Field(default_factory=list)
    already: list[str] = Field(default_factory=list)
    """Among ``accepted``: those on which it was under way before this call."""
    failed: list[NodeFailure] = Field(default_factory=list)


class WaitForNodesBack(Model):
    """Reboot: until each has booted anew; replace: until each has a successor. Both: Ready with its accelerators."""

    scope: Scope
    name: str
    eks_cluster: str
    action: Literal["reboot", "replace"]
    nodes: list[NodeIdentity]
    others: list[str] = Field(default_factory=list)


class NodeOutcome(Model):
    """What became of a node. ``now`` differs from ``before`` where it has another instance."""

    before: str
    now: str | None = None
    instance_group: str
    instance_before: str | None = None
    instance_now: str | None = None
    faults: list[str] = Field(default_factory=list)
    """What was told of the node's faults before it was repaired."""


class NodesBack(CountedNodes):
    """All of the cluster."""

    outcomes: list[NodeOutcome]


class WaitForNodesGone(Model):
    """Until neither SageMaker nor Kubernetes has them."""

    scope: Scope
    name: str
    eks_cluster: str
    nodes: list[NodeIdentity]


OBSERVE_NODES = Act("nodes.observe", ObserveNodes, ObservedNodes)
REBOOT_NODES = Act("nodes.reboot", ActOnNodes, NodesAccepted)
REPLACE_NODES = Act("nodes.replace", ActOnNodes, NodesAccepted)
DELETE_NODES = Act("nodes.delete", ActOnNodes, NodesAccepted)
WAIT_FOR_NODES_BACK = Wait("nodes.wait_for_nodes_back", WaitForNodesBack, NodesBack, limit=timedelta(hours=3))
WAIT_FOR_NODES_GONE = Wait("nodes.wait_for_nodes_gone", WaitForNodesGone, NodesBack, limit=timedelta(minutes=60))
