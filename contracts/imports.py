"""Taking over a cluster that others made, and finding out again what a cluster is made of."""

from __future__ import annotations

from pydantic import Field, field_validator

from contracts.activity import Act, Queue
from contracts.dependencies import ComponentStatus
from contracts.eks import ControlPlane
from contracts.hyperpod import HyperPodCluster
from contracts.identity import Identity
from contracts.model import Ensured, Model
from contracts.names import slug, tag_violation
from contracts.network import Network, Scope
from contracts.storage import Claim


class ImportClusterSpec(Model):
    """An existing EKS cluster, with or without a HyperPod cluster on it."""

    tag: str
    """What the cluster is called here."""
    region: str | None = Field(None, pattern=r"^[a-z]{2}(-[a-z]+)+-\d$", examples=["us-west-2"])
    """AWS region; null: the deployment's default."""
    eks_cluster: str | None = Field(None, pattern=r"^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$", examples=["training-cluster"])
    """Name; null: the name that a cluster made here under this tag would have (a lost record is rebuilt so)."""
    hyperpod_cluster: str | None = None
    """Name or ARN; null: the one that belongs to the EKS cluster, if there is one."""
    grant_access: bool = False
    """Make an access entry for the platform where it has none. Without it, nothing at all is changed."""
    adopt: bool = False
    """Tag the EKS and HyperPod cluster as this platform's, so that it may delete them later."""

    @field_validator("tag")
    @classmethod
    def _tag(cls, tag: str) -> str:
        if violation := tag_violation(tag):
            raise ValueError(f"{violation}. Use for example {slug(tag)!r}")
        return tag


class RedetectClusterSpec(Model):
    """Nothing to choose: the record is compared with what there is, and brought up to date."""


class Detect(Model):
    """Which clusters to look at. ``hyperpod_cluster`` null: the one on the EKS cluster, if there is one."""

    scope: Scope
    eks_cluster: str
    hyperpod_cluster: str | None = None


class Gap(Model):
    """What an imported cluster lacks, or has otherwise than clusters that are made here."""

    what: str
    detail: str
    remedy: str | None = None


class Detected(Model):
    """What a cluster is made of, read from AWS. ``owned``: which of its parts carry this platform's tag for it."""

    control_plane: ControlPlane
    network: Network
    identity: Identity
    dependencies: list[ComponentStatus] = Field(default_factory=list)
    hyperpod: HyperPodCluster | None = None
    provisioning: str | None = None
    node_recovery: str | None = None
    owned: list[str] = Field(default_factory=list)
    administered: bool = False
    """The platform's principal may administer the Kubernetes API by an access entry."""
    gaps: list[Gap] = Field(default_factory=list)


class DetectWorkloads(Model):
    scope: Scope
    eks_cluster: str


class DetectedWorkloads(Model):
    """What is seen through the Kubernetes API."""

    kubernetes_version: str
    storage: list[Claim] = Field(default_factory=list)
    dependencies: list[ComponentStatus] = Field(default_factory=list)
    gaps: list[Gap] = Field(default_factory=list)


class Adopt(Model):
    """Tag the clusters as this platform's."""

    scope: Scope
    eks_cluster_arn: str
    hyperpod_cluster_arn: str | None = None


class Adopted(Ensured):
    arns: list[str]


DETECT_CLUSTER = Act("imports.detect_cluster", Detect, Detected)
DETECT_WORKLOADS = Act("imports.detect_workloads", DetectWorkloads, DetectedWorkloads, queue=Queue.KUBERNETES)
ADOPT = Act("imports.adopt", Adopt, Adopted)
