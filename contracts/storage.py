"""Shared storage of a cluster: an S3 bucket mounted by Mountpoint for Amazon S3."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import Field, field_validator

from contracts.activity import Act, Queue, Wait
from contracts.model import Ensured, Model
from contracts.names import KUBERNETES_NAME
from contracts.network import Scope


class StorageSpec(Model):
    """A claim that pods mount (conventionally at ``/s3``)."""

    claim: str = "s3-claim"
    """Name of the PersistentVolumeClaim."""
    namespace: str = "default"
    bucket: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", examples=["training-data"])
    """An existing bucket; null: the cluster's own."""
    prefix: str | None = Field(None, pattern=r"^[^/].*/$", max_length=512, examples=["data/"])
    """Mount only keys under this prefix; ends in ``/``."""
    read_only: bool = False

    @field_validator("claim", "namespace")
    @classmethod
    def _kubernetes_name(cls, name: str) -> str:
        if violation := KUBERNETES_NAME.violation(name):
            raise ValueError(violation)
        return name


class EnsureClaim(Model):
    scope: Scope
    eks_cluster: str
    bucket: str
    spec: StorageSpec


class Claim(Ensured):
    """A PersistentVolumeClaim on a bucket, as the cluster has it."""

    claim: str
    namespace: str
    volume: str
    bucket: str
    """Empty where its volume is gone."""
    prefix: str | None = None
    """Pods see only keys under it."""
    read_only: bool = False
    phase: str
    """``Pending``, ``Bound`` or ``Lost``, as Kubernetes says it."""
    managed: bool = True
    """Whether the platform made it for this cluster."""


class WaitForClaim(Model):
    scope: Scope
    eks_cluster: str
    claim: str
    namespace: str


class ListStorage(Model):
    """Which S3 claims a cluster has."""

    scope: Scope
    eks_cluster: str


class StorageClaims(Model):
    claims: list[Claim] = Field(default_factory=list)
    """By namespace and name."""


class StorageList(Model):
    """The S3 claims of a cluster, others' among them."""

    claims: list[Claim] = Field(default_factory=list)
    live: bool
    """Whether Kubernetes was asked just now; false: what the cluster's record says."""


class ReadStorageDefaults(Model):
    """What a storage without a specification would be."""

    scope: Scope
    eks_cluster: str | None = None
    """Null: there is none yet."""
    bucket: str | None = None
    """The bucket that the cluster's record names; null: by its name in the platform's account."""


class StorageDefaults(Model):
    """What ``create-storage`` without a specification makes, or finds made."""

    claim: str
    namespace: str
    bucket: str
    region: str
    bucket_exists: bool
    claim_exists: bool


class ListContents(Model):
    """What is under a prefix of a claim, some of it at a time."""

    scope: Scope
    eks_cluster: str
    claim: str
    namespace: str
    prefix: str = ""
    size: int
    after: str | None = None
    """Where the page before ended, in S3's words."""


class StoredObject(Model):
    key: str
    """Below the claim's own prefix: the path that a pod has under its mount. May hold any character."""
    size: int
    """Bytes."""
    modified: datetime


class ContentsRead(Model):
    """Some of what is under a prefix of a claim."""

    claim: Claim
    objects: list[StoredObject] = Field(default_factory=list)
    common_prefixes: list[str] = Field(default_factory=list)
    last: str | None = None
    """Where this page ended, in S3's words; null on the last page."""


class StorageContents(Model):
    """Some of what a claim's bucket holds under a prefix, in the order of keys, one level deep."""

    claim: Claim
    prefix: str
    """What was asked for, below the claim's own prefix."""
    objects: list[StoredObject] = Field(default_factory=list)
    common_prefixes: list[str] = Field(default_factory=list)
    """What lies deeper, up to the next ``/``, each below the claim's own prefix as keys are: ask for it to go there."""
    next_page_token: str | None = None
    """Absent on the last page."""


ENSURE_CLAIM = Act("storage.ensure_claim", EnsureClaim, Claim, queue=Queue.KUBERNETES)
WAIT_FOR_CLAIM = Wait("storage.wait_for_claim", WaitForClaim, Claim, limit=timedelta(minutes=10))
LIST_STORAGE = Act("storage.list", ListStorage, StorageClaims, queue=Queue.KUBERNETES)
READ_STORAGE_DEFAULTS = Act("storage.read_defaults", ReadStorageDefaults, StorageDefaults, queue=Queue.KUBERNETES)
LIST_STORAGE_CONTENTS = Act("storage.list_contents", ListContents, ContentsRead, queue=Queue.KUBERNETES)
