"""Shared storage of a cluster: claims that pods mount, on S3 (by Mountpoint for Amazon S3) and on FSx for Lustre.

What only FSx has is in ``contracts/fsx_storage.py``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field

from contracts.activity import Act, Queue, Wait
from contracts.model import Ensured, Model
from contracts.network import Scope
from contracts.objects import DEFAULT_NAMESPACE, ObjectName


class StorageType(StrEnum):
    S3 = "s3"
    FSX_LUSTRE = "fsx_lustre"


class StorageSpec(Model):
    """A claim that pods mount (conventionally at ``/s3``)."""

    claim: ObjectName = "s3-claim"
    """Name of the PersistentVolumeClaim."""
    namespace: ObjectName = DEFAULT_NAMESPACE
    bucket: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", examples=["training-data"])
    """An existing bucket; null: the cluster's own."""
    prefix: str | None = Field(None, pattern=r"^[^/].*/$", max_length=512, examples=["data/"])
    """Mount only keys under this prefix; ends in ``/``."""
    read_only: bool = False
    allow_foreign_bucket: bool = False
    """Mount the bucket although it is another account's, or the platform may not look at it."""


class DeleteStorageSpec(Model):
    """A claim that goes, with its volume. What it holds stays in S3, or in its file system."""

    claim: str
    namespace: str = DEFAULT_NAMESPACE
    delete_file_system: bool = False
    """Delete its FSx file system with all data, too: only one that the platform made."""
    foreign: bool = False
    """The claim goes although others made it."""


class EnsureClaim(Model):
    scope: Scope
    eks_cluster: str
    bucket: str
    spec: StorageSpec
    pointer: str = "/storage"
    """Where ``spec`` stands in the operation's own."""


class Claim(Ensured):
    """A PersistentVolumeClaim on a bucket or a file system, as the cluster has it."""

    claim: str
    namespace: str
    type: StorageType = StorageType.S3
    volume: str
    bucket: str = ""
    """Empty where its volume is gone, and of a file system."""
    file_system: str | None = None
    """ID of its FSx file system."""
    prefix: str | None = None
    """Pods see only keys under it."""
    read_only: bool = False
    phase: str
    """``Pending``, ``Bound`` or ``Lost``, as Kubernetes says it."""
    managed: bool = True
    """Whether the platform made it for this cluster."""
    used_by: int = 0
    """Pods that mount it and have not ended."""

    @property
    def source(self) -> str:
        """What pods see: a URL of S3, or a file system."""
        if self.type is StorageType.FSX_LUSTRE:
            return f"FSx file system {self.file_system}" if self.file_system else "no file system"
        return f"s3://{self.bucket}/{self.prefix or ''}"


class WaitForClaim(Model):
    scope: Scope
    eks_cluster: str
    claim: str
    namespace: str


class ProbeStorage(Model):
    """A pod that mounts a claim, looks at it and, where it may, writes, reads and removes a file."""

    scope: Scope
    eks_cluster: str
    claim: str
    namespace: str
    read_only: bool = False


class ProbeState(StrEnum):
    RUNNING = "running"
    VERIFIED = "verified"
    """A pod has used the claim."""
    NOT_VERIFIED = "not_verified"
    """There is no node that a pod could have run on."""


class Probe(Model):
    """What became of the pod that tries a claim."""

    pod: str
    state: ProbeState
    node: str | None = None
    detail: str | None = None


class ProbeRemoved(Model):
    pod: str


class ClaimRef(Model):
    scope: Scope
    eks_cluster: str
    claim: str
    namespace: str


class DeleteVolume(Model):
    """A volume that a claim had; others of the name are left alone."""

    scope: Scope
    eks_cluster: str
    volume: str
    claim: str
    namespace: str


class DeletedClaim(Ensured):
    """``volume`` and ``file_system`` are what the claim was on; absent where it was gone already, and nothing was
    left."""

    claim: str
    namespace: str
    volume: str | None = None
    type: StorageType = StorageType.S3
    bucket: str = ""
    file_system: str | None = None


class ClaimGone(Model):
    claim: str
    namespace: str


class DeletedVolume(Ensured):
    volume: str


class ListStorage(Model):
    """Which claims on S3 and FSx a cluster has."""

    scope: Scope
    eks_cluster: str


class StorageClaims(Model):
    claims: list[Claim] = Field(default_factory=list)
    """By namespace and name."""


class StorageList(Model):
    """The claims of a cluster on S3 and FSx, others' among them."""

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
ENSURE_PROBE = Act("storage.ensure_probe", ProbeStorage, Probe, queue=Queue.KUBERNETES)
WAIT_FOR_PROBE = Wait("storage.wait_for_probe", ProbeStorage, Probe, limit=timedelta(minutes=15))
REMOVE_PROBE = Act("storage.remove_probe", ProbeStorage, ProbeRemoved, queue=Queue.KUBERNETES)
DELETE_CLAIM = Act("storage.delete_claim", ClaimRef, DeletedClaim, queue=Queue.KUBERNETES)
WAIT_FOR_CLAIM_GONE = Wait("storage.wait_for_claim_gone", ClaimRef, ClaimGone, limit=timedelta(minutes=10))
DELETE_VOLUME = Act("storage.delete_volume", DeleteVolume, DeletedVolume, queue=Queue.KUBERNETES)
LIST_STORAGE = Act("storage.list", ListStorage, StorageClaims, queue=Queue.KUBERNETES)
READ_STORAGE_DEFAULTS = Act("storage.read_defaults", ReadStorageDefaults, StorageDefaults, queue=Queue.KUBERNETES)
LIST_STORAGE_CONTENTS = Act("storage.list_contents", ListContents, ContentsRead, queue=Queue.KUBERNETES)
