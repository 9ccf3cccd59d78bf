"""A managed cluster: what may be asked, the record of what it is made of, and its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import Field, JsonValue, field_validator, model_validator

from contracts.activity import Act, Queue
from contracts.capacity import InstanceGroupSpec, check_groups
from contracts.dependencies import ComponentStatus
from contracts.drift import DriftState
from contracts.eks import DEFAULT_KUBERNETES_VERSION, ControlPlane, KubernetesVersion
from contracts.features import FeatureStatus
from contracts.hyperpod import HyperPodCluster, HyperPodSpec, Node, NodeCount, counts_of
from contracts.identity import Identity
from contracts.lease import Lease, LeaseGrant, LeaseRequest
from contracts.model import Model
from contracts.names import slug, tag_violation
from contracts.network import Network, NetworkSpec
from contracts.node_groups import NodeGroup
from contracts.node_pools import NodePool
from contracts.operation import Phase
from contracts.storage import Claim, StorageSpec

REGION_PATTERN = r"^[a-z]{2}(-[a-z]+)+-\d$"


class ClusterSpec(Model):
    """A cluster from nothing. Only the tag is needed."""

    tag: str
    """The cluster's name; the names of everything that is made derive from it."""
    region: str | None = Field(None, pattern=REGION_PATTERN, examples=["us-west-2"])
    """AWS region; null: the deployment's default."""
    kubernetes_version: KubernetesVersion = DEFAULT_KUBERNETES_VERSION
    network: NetworkSpec = Field(default_factory=NetworkSpec)
    hyperpod: HyperPodSpec = Field(default_factory=HyperPodSpec)
    instance_groups: list[InstanceGroupSpec] = Field(default_factory=list, max_length=100)
    """Empty: the operation asks which capacity to take, with the options that exist then."""
    storage: StorageSpec = Field(default_factory=StorageSpec)

    @field_validator("tag")
    @classmethod
    def _tag(cls, tag: str) -> str:
        if violation := tag_violation(tag):
            raise ValueError(f"{violation}. Use for example {slug(tag)!r}")
        return tag

    @model_validator(mode="after")
    def _groups(self) -> ClusterSpec:
        check_groups(self.instance_groups, self.hyperpod.provisioning)
        return self


class ClusterRecord(Model):
    """What a cluster is made of, as far as operations have verified it."""

    tag: str
    region: str
    created_by: str
    created_at: datetime
    origin: Literal["created", "imported"] = "created"
    """Imported: others made it. Its parts have names of their own then, and what carries no tag of ours is kept."""
    kubernetes_version: str | None = None
    network: Network | None = None
    identity: Identity | None = None
    control_plane: ControlPlane | None = None
    dependencies: list[ComponentStatus] = Field(default_factory=list)
    hyperpod: HyperPodCluster | None = None
    nodes: list[Node] = Field(default_factory=list)
    """At most 100 of HyperPod's nodes, as last verified; ``GET …/nodes`` lists all as they are."""
    node_counts: list[NodeCount] = Field(default_factory=list)
    """All of them as numbers, by instance group; empty where ``nodes`` are all."""
    storage: list[Claim] = Field(default_factory=list)
    node_groups: list[NodeGroup] = Field(default_factory=list)
    node_pools: list[NodePool] = Field(default_factory=list)
    features: list[FeatureStatus] = Field(default_factory=list)
    """As last read; ``GET …/features`` reads them anew."""
    drift: DriftState | None = None
    """What the last check found to be otherwise than recorded here; null: there was none yet."""
    updated_at: datetime

    @property
    def counts(self) -> list[NodeCount]:
        """HyperPod's nodes as numbers, by instance group."""
        return self.node_counts or counts_of(self.nodes)

    @property
    def node_total(self) -> int:
        return sum(each.nodes for each in self.counts)

    @property
    def nodes_ready(self) -> int:
        return sum(each.ready for each in self.counts)

    @property
    def accelerator_total(self) -> int:
        """Accelerators of all HyperPod nodes: every node counts as many as the most that one of its type has shown (one
        that is not Ready may show none). Nodes that the record only counts are of their group's type."""
        shown: dict[str, int] = {}
        for node in self.nodes:
            shown[node.instance_type] = max(shown.get(node.instance_type, 0), node.accelerators)
        types = {node.instance_group: node.instance_type for node in self.nodes}
        types |= {group.name: group.instance_type for group in (self.hyperpod.groups if self.hyperpod else [])}
        kept = Counter(node.instance_group for node in self.nodes)
        counted_only = sum(
            max(each.nodes - kept[each.group], 0) * shown.get(types.get(each.group, ""), 0) for each in self.counts
        )
        return sum(shown[node.instance_type] for node in self.nodes) + counted_only


KEYS: dict[str, tuple[str, ...]] = {
    "storage": ("namespace", "claim"),
    "node_groups": ("name",),
    "node_pools": ("name",),
    "features": ("feature",),
}
"""Lists of the record whose items operations change side by side, with what tells an item from the others."""

Item = TypeVar("Item", bound=Model)


def without(member: str, items: Iterable[Item], *key: object) -> list[Item]:
    """The items of a list of the record (``KEYS``) but the one with this key."""
    return [each for each in items if _key_of(member, each) != key]


def replaced(member: str, items: Iterable[Item], item: Item) -> list[Item]:
    """The items of a list of the record (``KEYS``) with ``item`` in the place of the one that has its key."""
    return [*without(member, items, *_key_of(member, item)), item]


def _key_of(member: str, item: Model) -> tuple[object, ...]:
    return tuple(getattr(item, part) for part in KEYS[member])


class RecordChange(Model):
    """What of the record an operation has just verified."""

    changes: dict[str, JsonValue]
    """Whole members."""
    put: dict[str, list[dict[str, JsonValue]]] = Field(default_factory=dict)
    """Items of lists (``KEYS``) that are new or have changed."""
    gone: dict[str, list[dict[str, JsonValue]]] = Field(default_factory=dict)
    """Keys of items that are not there any more."""
    by: str
    """The operation."""

    @classmethod
    def between(cls, before: ClusterRecord, after: ClusterRecord, members: Iterable[str], by: str) -> RecordChange:
        """What an operation has changed of these members. Its own copy of a list may be older than the record's: only
        the items that it has changed are told."""
        old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
        put, gone = {}, {}
        for member in (each for each in members if each in KEYS):
            were, are = _by_key(member, old[member]), _by_key(member, new[member])
            put[member] = [item for key, item in are.items() if were.get(key) != item]
            gone[member] = [dict(zip(KEYS[member], key, strict=True)) for key in were if key not in are]
        return cls(changes={each: new[each] for each in members if each not in KEYS}, put=put, gone=gone, by=by)

    def applied(self, record: ClusterRecord) -> dict[str, Any]:
        """The record's document with these changes. Changed items come in the order of their keys."""
        document = record.model_dump(mode="json") | self.changes
        for member in (each for each in KEYS if each in self.put or each in self.gone):
            items = _by_key(member, document[member]) | _by_key(member, self.put.get(member, []))
            lost = _by_key(member, self.gone.get(member, []))
            document[member] = [items[key] for key in sorted(items) if key not in lost]
        return document


def _by_key(member: str, items: list[dict[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
    return {tuple(str(item[part]) for part in KEYS[member]): item for item in items}


class HistoryEntry(Model):
    """An operation that has ended, kept longer than Temporal keeps its workflow."""

    operation: str
    run_id: str
    kind: str
    by: str
    phase: Phase
    started_at: datetime
    finished_at: datetime
    detail: str | None = None


class ClusterView(Model):
    """A cluster as every face shows it."""

    record: ClusterRecord
    holding: list[Lease] = Field(default_factory=list)
    queued: list[Lease] = Field(default_factory=list)
    history: list[HistoryEntry] = Field(default_factory=list)
    """The newest first."""


class ClusterSummary(Model):
    """A cluster in a list."""

    tag: str
    region: str
    eks_cluster: str | None = None
    eks_status: str | None = None
    hyperpod_cluster: str | None = None
    hyperpod_status: str | None = None
    nodes: int = 0
    """HyperPod's, as last verified; so are the next two."""
    nodes_ready: int = 0
    accelerators: int = 0
    created_by: str
    created_at: datetime
    updated_at: datetime


class EntityState(Model):
    """Everything that a cluster's entity carries over when it continues as new."""

    record: ClusterRecord
    holding: list[Lease] = Field(default_factory=list)
    queue: list[Lease] = Field(default_factory=list)
    history: list[HistoryEntry] = Field(default_factory=list)


MEMO_RECORD = "record"
MEMO_SUMMARY = "summary"
HISTORY_LIMIT = 200


class Acquire(Model):
    """Ask a cluster's entity for leases; the entity is started if the cluster is new."""

    record: ClusterRecord
    request: LeaseRequest


class Acquired(Model):
    grant: LeaseGrant
    record: ClusterRecord


class Holder(Model):
    operation: str
    run_id: str


class HolderState(Model):
    running: bool


class AbortHolders(Model):
    """End, from outside, every operation that holds or waits for a cluster's leases, but the one that asks."""

    cluster: str
    by: str
    except_run: str


class AbortedHolders(Model):
    operations: list[str]


ACQUIRE_LEASES = Act("cluster.acquire_leases", Acquire, Acquired, queue=Queue.PLATFORM)
ABORT_HOLDERS = Act("cluster.abort_holders", AbortHolders, AbortedHolders, queue=Queue.PLATFORM)
HOLDER_STATE = Act("cluster.holder_state", Holder, HolderState, queue=Queue.PLATFORM)
