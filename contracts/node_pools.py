"""Managed Karpenter: node classes of instance groups, and node pools on them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator

from contracts.activity import Act, Queue, Wait
from contracts.capacity import GroupName, Taint, check_labels
from contracts.model import Ensured, Model
from contracts.names import KUBERNETES_NAME
from contracts.network import Scope

MOST_GROUPS = 10
"""Instance groups of one HyperpodNodeClass. (SageMaker Developer Guide: HyperPod autoscaling, HyperpodNodeClass)"""


class NodePoolSpec(Model):
    """A NodePool and the HyperpodNodeClass of the same name: pods that fit its groups get nodes, idle nodes go."""

    name: str
    instance_groups: list[GroupName] = Field(min_length=1, max_length=MOST_GROUPS)
    """Groups that it scales, from zero."""
    accept_scale_down: bool = False
    """Groups that have instances now are scaled down to what pods need; this says that it is wanted."""
    gpu_limit: int | None = Field(None, ge=1)
    """Accelerators that the pool may have at most; null: what its groups' quotas give."""
    consolidation: Literal["WhenEmpty", "WhenEmptyOrUnderutilized"] = "WhenEmpty"
    consolidate_after: str = "5m"
    """How long a node must be idle; ``Never`` keeps it."""
    labels: dict[str, str] = Field(default_factory=dict, max_length=50)
    taints: list[Taint] = Field(default_factory=list, max_length=50)
    weight: int | None = Field(None, ge=1, le=100)
    """Among pools that a pod fits, the heaviest is taken."""

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if violation := KUBERNETES_NAME.violation(name):
            raise ValueError(violation)
        return name

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        return check_labels(labels)

    @field_validator("consolidate_after")
    @classmethod
    def _duration(cls, text: str) -> str:
        if not text or (text != "Never" and not re.fullmatch(r"(\d+h)?(\d+m)?(\d+s)?", text)):
            raise ValueError(f"a duration looks like 30s, 5m or 1h30m, or is Never; {text!r} is not")
        return text

    @field_validator("instance_groups")
    @classmethod
    def _unique(cls, groups: list[str]) -> list[str]:
        if len(set(groups)) != len(groups):
            raise ValueError("a group is named twice")
        return groups


class DeleteNodePoolSpec(Model):
    node_pool: str


class NodePool(Ensured):
    """A node pool as the cluster has it."""

    name: str
    node_class: str | None = None
    instance_groups: list[str] = Field(default_factory=list)
    ready: bool = False
    reason: str | None = None
    """Why it is not ready."""
    nodes: int = 0
    accelerators: int = 0
    """On those nodes: what counts against the limit."""
    gpu_limit: int | None = None
    consolidation: str | None = None
    consolidate_after: str | None = None
    owned: bool = True
    """Whether we made it."""


class EnsureNodeClass(Model):
    scope: Scope
    eks_cluster: str
    name: str
    instance_groups: list[str]


class NodeClass(Ensured):
    name: str


class EnsureNodePool(Model):
    """A node pool on the node class of its name."""

    scope: Scope
    eks_cluster: str
    hyperpod_cluster: str
    spec: NodePoolSpec


class NodePoolRef(Model):
    """A node pool by its name."""

    scope: Scope
    eks_cluster: str
    name: str


class NodePoolGone(Ensured):
    name: str
    node_class: str | None = None
    """What it used."""


class DeleteNodeClass(Model):
    scope: Scope
    eks_cluster: str
    name: str


class NodeClassGone(Ensured):
    name: str
    kept: str | None = None
    """Why it stays."""


class ListNodePools(Model):
    scope: Scope
    eks_cluster: str


class NodePools(Model):
    node_pools: list[NodePool] = Field(default_factory=list)


READY_LIMIT = timedelta(minutes=30)
IDLE_LIMIT = timedelta(minutes=60)
"""How long a node pool's deletion waits for its nodes to go."""

ENSURE_NODE_CLASS = Act("node_pools.ensure_node_class", EnsureNodeClass, NodeClass, queue=Queue.KUBERNETES)
ENSURE_NODE_POOL = Act("node_pools.ensure", EnsureNodePool, NodePool, queue=Queue.KUBERNETES)
WAIT_FOR_NODE_POOL = Wait("node_pools.wait_until_ready", NodePoolRef, NodePool, limit=READY_LIMIT)
START_NODE_POOL_DELETION = Act("node_pools.delete", NodePoolRef, NodePoolGone, queue=Queue.KUBERNETES)
WAIT_FOR_NODE_POOL_GONE = Wait("node_pools.wait_until_gone", NodePoolRef, NodePoolGone, limit=IDLE_LIMIT)
DELETE_NODE_CLASS = Act("node_pools.delete_node_class", DeleteNodeClass, NodeClassGone, queue=Queue.KUBERNETES)
LIST_NODE_POOLS = Act("node_pools.list", ListNodePools, NodePools, queue=Queue.KUBERNETES)
