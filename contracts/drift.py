"""Drift: what a cluster is, compared with what its record says, by meaning.

Both sides are told as members: things of a kind with a name and properties. ``contracts/drift_recorded.py`` tells the
record as members, ``activities/drift/`` tells what there is, ``contracts/drift_compare.py`` compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue, field_validator

from contracts.activity import Act, Queue
from contracts.model import Ensured, Model
from contracts.names import short_hash
from contracts.network import Network, Scope

CHECK_DRIFT_WORKFLOW = "check-drift"
AS_MADE = "as made"
"""The value of properties that are told by their difference from what this platform makes."""
DRIFT_STAGE = "drift_checks"

Properties = dict[str, JsonValue]


class DriftKind(StrEnum):
    """What a member is, as its identifier begins."""

    VPC = "vpc"
    SUBNET = "subnet"
    NAT_GATEWAY = "nat-gateway"
    S3_ENDPOINT = "s3-endpoint"
    SECURITY_GROUP = "security-group"
    ROLE = "role"
    ACCESS_ENTRY = "access-entry"
    POD_IDENTITY = "pod-identity"
    BUCKET = "bucket"
    LIFECYCLE_SCRIPTS = "lifecycle-scripts"
    CONTROL_PLANE = "control-plane"
    COMPONENT = "component"
    HYPERPOD = "hyperpod"
    INSTANCE_GROUP = "instance-group"
    NODE_GROUP = "node-group"
    NODE_POOL = "node-pool"
    FEATURE = "feature"
    STORAGE = "storage"
    FILE_SYSTEM = "file-system"
    DEPLOYMENT = "deployment"
    MODEL_POOL = "model-pool"
    ROUTER = "router"
    ENDPOINT = "endpoint"
    TRACKING_SERVER = "tracking-server"


TITLES = {
    DriftKind.VPC: "VPC",
    DriftKind.NAT_GATEWAY: "NAT gateway",
    DriftKind.S3_ENDPOINT: "S3 endpoint",
    DriftKind.ROLE: "IAM role",
    DriftKind.POD_IDENTITY: "Pod Identity association",
    DriftKind.CONTROL_PLANE: "EKS cluster",
    DriftKind.HYPERPOD: "HyperPod cluster",
    DriftKind.FILE_SYSTEM: "FSx file system",
}
"""Kinds whose name is not their value with blanks."""

NAMESPACED = frozenset(
    {DriftKind.STORAGE, DriftKind.DEPLOYMENT, DriftKind.MODEL_POOL, DriftKind.ROUTER, DriftKind.ENDPOINT}
)
"""Members of these kinds are called ``namespace/name``."""


def title(kind: DriftKind) -> str:
    return TITLES.get(kind, kind.value.replace("-", " "))


class Severity(StrEnum):
    CRITICAL = "critical"
    """Something does not work any more, or lets in who should not be."""
    WARNING = "warning"
    """It works otherwise than recorded."""
    INFO = "info"


class Change(StrEnum):
    CHANGED = "changed"
    GONE = "gone"
    EXTRA = "extra"
    """There, with this cluster's ownership tags, and not recorded."""


class Member(Model):
    """One thing. A property that only one side tells is not compared: it cannot be known there, or is somebody else's
    to decide (a count that an autoscaler sets)."""

    kind: DriftKind
    name: str
    properties: Properties = Field(default_factory=dict)
    owned: bool = True
    """It carries this cluster's ownership tags."""
    by: str | None = None
    """Who changed it last, where that is known: a field manager of Kubernetes that is not ours."""

    @property
    def key(self) -> str:
        return key_of(self.kind, self.name)


def key_of(kind: DriftKind, name: str) -> str:
    return f"{kind.value}/{name}"


class Unread(Model):
    """What could not be looked at. That is no drift."""

    kinds: list[DriftKind]
    detail: str


class Sight(Model):
    """What there is of some kinds of members."""

    kinds: list[DriftKind] = Field(default_factory=list)
    """Those that were looked at, whole."""
    members: list[Member] = Field(default_factory=list)
    unread: list[Unread] = Field(default_factory=list)


class Way(Model):
    """Whether a difference can be settled so. ``why``: what it would do, or why it cannot be done."""

    possible: bool
    why: str
    operation: str | None = None
    """The kind of operation to use instead."""


_IDENTIFIER = re.compile(r"[a-z0-9-]+/\S+~[0-9a-f]{8}")


def _identifier(text: str) -> str:
    kind = text.partition("/")[0]
    if not _IDENTIFIER.fullmatch(text) or kind not in list(DriftKind):
        raise ValueError(f"a difference is called like instance-group/workers/target~0a1b2c3d, not {text[:100]!r}")
    return text


DifferenceId = Annotated[str, Field(max_length=400), AfterValidator(_identifier)]


class Difference(Model):
    """One thing that is otherwise than recorded. Its ID changes with what is recorded and with what is found, so that
    an answer to it is never carried out on another difference."""

    id: DifferenceId
    kind: DriftKind
    name: str
    path: str | None = None
    """The property; null: the whole member."""
    change: Change
    recorded: JsonValue = None
    found: JsonValue = None
    severity: Severity
    detail: str
    """In a sentence."""
    since: datetime
    """When a check first saw it so."""
    by: str | None = None
    """Who did it, where that is known."""
    weakens: bool = False
    """To adopt it would accept a hole in the cluster's security: a person has to say so."""
    adopt: Way
    restore: Way

    @property
    def member(self) -> str:
        return key_of(self.kind, self.name)

    @property
    def place(self) -> str:
        """Where it is, whatever was found there."""
        return f"{self.member}/{self.path or ''}/{self.change.value}"


def identifier(kind: DriftKind, name: str, path: str | None, recorded: JsonValue, found: JsonValue) -> str:
    """The ID of a difference: where it is, and a hash of both sides."""
    where = "/".join([kind.value, name, *([path] if path else [])])
    sides = json.dumps([recorded, found], sort_keys=True, ensure_ascii=False)
    return f"{where}~{short_hash(sides)}"


class DriftReport(Model):
    """What the last check found."""

    checked_at: datetime
    differences: list[Difference] = Field(default_factory=list)
    """The gravest first."""
    more: int = 0
    """Differences that were found and are not listed."""
    skipped: list[str] = Field(default_factory=list)
    """Members that were left out because an operation was at work on them, each with which."""
    unread: list[Unread] = Field(default_factory=list)

    @property
    def total(self) -> int:
        return len(self.differences) + self.more


class DriftState(Model):
    """What a cluster's record keeps of drift."""

    report: DriftReport
    known: dict[str, Properties] = Field(default_factory=dict)
    """By ``kind/name``: what no other member of the record tells and was seen or adopted; later checks compare with
    it."""
    looked_at: dict[DriftKind, datetime] | None = None
    """When each kind was last looked at; not the kinds that never could be. What operations have done since then is no
    drift. Null: all of them by the report's check."""
    left_out: dict[str, datetime | None] = Field(default_factory=dict)
    """By ``kind/name``: members that the check left out, with when they were last looked at; null: never."""


MOST_DIFFERENCES = 100
"""In a report: each is some hundred bytes of the cluster's record."""


class DriftAnswer(Model):
    """What is known of a cluster's drift."""

    cluster: str
    report: DriftReport | None = None
    """Null: it was never looked for."""
    live: bool
    """Whether it was looked just now."""


class _Chosen(Model):
    differences: list[DifferenceId] = Field(min_length=1, max_length=MOST_DIFFERENCES)
    """IDs of a report. One that has changed since is refused."""

    @field_validator("differences")
    @classmethod
    def _once(cls, differences: list[str]) -> list[str]:
        if len(set(differences)) != len(differences):
            raise ValueError("a difference is named twice")
        return differences


class AdoptDriftSpec(_Chosen):
    """What is becomes what is recorded. Nothing in the cluster changes."""

    accept_weaker_security: bool = False
    """Adopt those, too, that are a hole in the cluster's security."""


class RestoreDriftSpec(_Chosen):
    """What is recorded comes back. No workload is deleted, and no node taken away."""


LEASES: dict[DriftKind, str] = {
    DriftKind.VPC: "network",
    DriftKind.SUBNET: "network/compute",
    DriftKind.NAT_GATEWAY: "network",
    DriftKind.S3_ENDPOINT: "network",
    DriftKind.SECURITY_GROUP: "network",
    DriftKind.ROLE: "eks",
    DriftKind.ACCESS_ENTRY: "eks/access",
    DriftKind.POD_IDENTITY: "eks",
    DriftKind.BUCKET: "eks",
    DriftKind.LIFECYCLE_SCRIPTS: "hyperpod",
    DriftKind.CONTROL_PLANE: "eks",
    DriftKind.COMPONENT: "eks",
    DriftKind.HYPERPOD: "hyperpod",
    DriftKind.INSTANCE_GROUP: "hyperpod",
    DriftKind.FILE_SYSTEM: "storage",
}
OWN_LEASES: dict[DriftKind, str] = {
    DriftKind.NODE_GROUP: "node-groups",
    DriftKind.NODE_POOL: "node-pools",
    DriftKind.FEATURE: "features",
    DriftKind.STORAGE: "storage",
    DriftKind.DEPLOYMENT: "deployments",
    DriftKind.MODEL_POOL: "model-pools",
    DriftKind.ROUTER: "routers",
    DriftKind.ENDPOINT: "endpoints",
    DriftKind.TRACKING_SERVER: "tracking-server",
}
"""Kinds whose members have a lease each: the first part of it."""


def leases_of(kind: DriftKind, name: str) -> tuple[str, ...]:
    """What an operation on the member holds: a member whose leases somebody holds is being changed on purpose."""
    if kind is DriftKind.FEATURE:
        return (f"features/{name}", "hyperpod")
    own = OWN_LEASES.get(kind)
    return (LEASES[kind],) if own is None else (f"{own}/{name}",)


def leases_for(chosen: Iterable[str]) -> tuple[str, ...]:
    """What is needed to settle differences, by their IDs."""
    found: list[str] = []
    for each in chosen:
        kind_name, _, rest = each.rpartition("~")[0].partition("/")
        kind = DriftKind(kind_name)
        parts = rest.split("/")
        found += leases_of(kind, "/".join(parts[:2]) if kind in NAMESPACED else parts[0])
        if kind in (DriftKind.NAT_GATEWAY, DriftKind.FEATURE, DriftKind.POD_IDENTITY):
            found += ["eks"]
    return tuple(dict.fromkeys(found))


class CheckDrift(Model):
    """Which cluster to look at."""

    cluster: str
    region: str


class EnsureDriftSchedule(Model):
    cluster: str
    region: str


class DriftSchedule(Ensured):
    """A cluster's schedule of drift checks."""

    schedule: str
    paused: bool = False
    every_minutes: int


class DriftScheduleGone(Ensured):
    schedule: str


class NodeRecovery(Model):
    """How a HyperPod cluster should treat faulty nodes, by its name."""

    scope: Scope
    hyperpod_cluster: str
    node_recovery: str


class NodeRecoverySet(Ensured):
    hyperpod_cluster: str


class WaysOut(Model):
    """Compute subnets whose routes should lead to the cluster's NAT gateways and S3 endpoint."""

    scope: Scope
    network: Network


class WaysOutRestored(Ensured):
    subnets: list[str]


ENSURE_DRIFT_SCHEDULE = Act("drift.ensure_schedule", EnsureDriftSchedule, DriftSchedule, queue=Queue.PLATFORM)
REMOVE_DRIFT_SCHEDULE = Act("drift.remove_schedule", EnsureDriftSchedule, DriftScheduleGone, queue=Queue.PLATFORM)
SET_NODE_RECOVERY = Act("drift.set_node_recovery", NodeRecovery, NodeRecoverySet)
RESTORE_WAYS_OUT = Act("drift.restore_ways_out", WaysOut, WaysOutRestored)
