"""Deleting a cluster, or parts of it, until nothing is left that was not kept on purpose.

What there is to delete is found anew by every activity: by tag, by derived name, and by what belongs to the EKS and
HyperPod clusters. What a record says are only hints where to look.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import Field, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.cluster import ClusterRecord
from contracts.model import Ensured, Model, fault
from contracts.names import ClusterNames
from contracts.network import Scope


class Level(StrEnum):
    """How much goes. Each includes those before it."""

    HYPERPOD = "hyperpod"
    """The HyperPod cluster with its nodes."""
    EKS = "eks"
    """The EKS cluster too, with everything on it and the roles that it used."""
    NETWORK = "network"
    """The network too: nothing is left but what is kept on purpose."""

    def includes(self, other: Level) -> bool:
        order = list(Level)
        return order.index(other) <= order.index(self)


class DeleteClusterSpec(Model):
    level: Level = Level.NETWORK
    abort_running: bool = False
    """Abort operations that hold the cluster, instead of waiting for their ends."""
    delete_bucket: bool = False
    """Delete the cluster's own bucket with everything in it."""
    delete_file_systems: bool = False
    """Delete FSx file systems that the platform made for the cluster, with everything in them. Without it they stay,
    and the network stays where they are in it."""
    delete_dedicated_subnets: bool = False
    """Delete dedicated compute subnets. They go in any case where the VPC goes."""
    keep: list[str] = Field(default_factory=list)
    """IDs, ARNs or names that must stay, e.g. a volume or a load balancer; objects of Kubernetes as
    ``namespace/name``."""

    @model_validator(mode="after")
    def _bucket_is_used(self) -> DeleteClusterSpec:
        for member, what in (("delete_bucket", "the bucket goes"), ("delete_file_systems", "file systems go")):
            if getattr(self, member) and self.level is Level.HYPERPOD:
                raise fault(f"/{member}", f"{what} with the EKS cluster at the earliest: give level eks or network")
        return self


class Part(StrEnum):
    """What is deleted together, in the order of deletion."""

    WORKLOADS = "workloads"
    """Services, Ingresses and claims that hold resources of AWS, and who uses those claims."""
    NODE_POOLS = "node-pools"
    HYPERPOD = "hyperpod"
    NODE_GROUPS = "node-groups"
    """And Fargate profiles."""
    CONTROL_PLANE = "control-plane"
    """With it go its add-ons, Pod Identity associations and access entries."""
    FILE_SYSTEMS = "file-systems"
    """FSx file systems that were made for claims."""
    FEATURES = "features"
    """What managed features, node groups, experiments and training have left beside the cluster."""
    IDENTITY = "identity"
    """Roles, policies, instance profiles and identity providers."""
    EGRESS = "egress"
    """NAT gateways and VPC endpoints."""
    ADDRESSES = "addresses"
    INTERFACES = "interfaces"
    """Network interfaces that nodes have left behind."""
    SUBNETS = "subnets"
    """And their route tables."""
    GATEWAYS = "gateways"
    SECURITY_GROUPS = "security-groups"
    VPC = "vpc"
    BUCKET = "bucket"

    def goes(self, spec: DeleteClusterSpec) -> bool:
        """Whether something of this part goes as ``spec`` says."""
        match self:
            case Part.BUCKET:
                return spec.delete_bucket
            case Part.FILE_SYSTEMS:
                return spec.delete_file_systems
            case Part.NODE_POOLS | Part.HYPERPOD:
                return True
            case Part.SUBNETS | Part.INTERFACES:
                return spec.level is Level.NETWORK or spec.delete_dedicated_subnets
            case Part.WORKLOADS | Part.NODE_GROUPS | Part.CONTROL_PLANE | Part.FEATURES | Part.IDENTITY:
                return spec.level.includes(Level.EKS)
        return spec.level is Level.NETWORK


KUBERNETES_PARTS = (Part.WORKLOADS, Part.NODE_POOLS)


class Resource(Model):
    """Something that there is. ``id`` is what its API calls it: an ID, ARN or name; ``namespace/name`` in
    Kubernetes."""

    part: Part
    kind: str
    id: str
    name: str = ""
    detail: str | None = None
    """Its state, or what it holds."""

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name or self.id}"


class Kept(Model):
    """Something that stays on purpose."""

    kind: str
    id: str
    why: str


class Leftover(Model):
    """Something that is not the platform's to delete, and stands in the way."""

    kind: str
    id: str
    detail: str
    """What it is, and what it holds on to."""
    remedy: str


class Known(Model):
    """Where to look, beside tags and derived names."""

    eks_clusters: list[str] = Field(default_factory=list)
    hyperpod_clusters: list[str] = Field(default_factory=list)
    recorded: list[str] = Field(default_factory=list)
    """EKS and HyperPod clusters that the record says are the cluster's: one without our tag is not just some other."""
    bucket: str | None = None
    retained: dict[str, str] = Field(default_factory=dict)
    """What an earlier stage has left on purpose, with why: volumes of a StorageClass that retains them."""

    @classmethod
    def of(cls, record: ClusterRecord) -> Known:
        names = ClusterNames(record.tag)
        eks = [record.control_plane.name] if record.control_plane else []
        hyperpod = [record.hyperpod.name] if record.hyperpod else []
        return cls(
            eks_clusters=list(dict.fromkeys([*eks, names.eks_cluster])),
            hyperpod_clusters=list(dict.fromkeys([*hyperpod, names.hyperpod_cluster])),
            recorded=[*eks, *hyperpod],
            bucket=record.identity.bucket if record.identity else None,
        )


class Teardown(Model):
    """What every activity of a deletion is told."""

    scope: Scope
    known: Known
    spec: DeleteClusterSpec


class TeardownPart(Teardown):
    part: Part


class Inventory(Model):
    """What there is of a cluster now."""

    resources: list[Resource] = Field(default_factory=list)
    """What goes, in the order of deletion."""
    kept: list[Kept] = Field(default_factory=list)
    leftovers: list[Leftover] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    known: Known
    """With every name that was found."""


class Settled(Model):
    """EKS clusters of the cluster whose Kubernetes API answers."""

    active: list[str]


class DeletedPart(Ensured):
    resources: list[Resource]
    """What was there; its deletion has begun."""
    kept: list[Kept] = Field(default_factory=list)
    """What stays of it, with why."""

    @property
    def identifier(self) -> str:
        return ", ".join(resource.label for resource in self.resources) or "nothing"


class GonePart(Model):
    part: Part


class Report(Model):
    """The end of a deletion. ``remaining`` was looked for after it, not remembered."""

    level: Level
    deleted: list[Resource] = Field(default_factory=list)
    kept: list[Kept] = Field(default_factory=list)
    remaining: list[Resource] = Field(default_factory=list)
    leftovers: list[Leftover] = Field(default_factory=list)


class EndWaiting(Model):
    """End the operations on a cluster that wait for a person's approval, or watch a training run: they hold no lease
    that would tell of them."""

    cluster: str
    by: str
    reason: str


class EndedWaiting(Model):
    operations: list[str]


END_WAITING = Act("cluster.end_waiting", EndWaiting, EndedWaiting, queue=Queue.PLATFORM)
SURVEY = Act("teardown.survey", Teardown, Inventory)
SWEEP = Act("teardown.sweep", Teardown, Inventory)
"""The survey after everything, with what carries the tag in any service."""
WAIT_UNTIL_SETTLED = Wait("teardown.wait_until_settled", Teardown, Settled, limit=timedelta(minutes=45))
DELETE_OBJECTS = Act("teardown.delete_objects", TeardownPart, DeletedPart, queue=Queue.KUBERNETES)
DELETE_PART = Act("teardown.delete_part", TeardownPart, DeletedPart, limit=timedelta(hours=4), attempts=60)
"""The limit is a bucket's with many objects; everything else takes seconds."""
WAIT_UNTIL_GONE = Wait("teardown.wait_until_gone", TeardownPart, GonePart, limit=timedelta(hours=3))
