"""Shared storage on Amazon FSx for Lustre: a file system, one that exists or a new one, as a volume of a cluster.

Capacities and throughput: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html and
https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystemLustreConfiguration.html
"""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field, field_validator, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.model import Ensured, Model, fault
from contracts.network import Scope
from contracts.objects import DEFAULT_NAMESPACE, ObjectName
from contracts.storage import Claim

SMALLEST_GIB = 1200
STEP_GIB = 2400
PERSISTENT_PRICE = "fsx-lustre-persistent-2-"
FILE_SYSTEM_ID = r"^fs-[0-9a-f]{8,17}$"
LUSTRE_PORTS = ((988, 988), (1018, 1023))
"""TCP, among file servers and between them and clients, both ways.

https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
"""
_MOUNT_OPTION = re.compile(r"[A-Za-z][\w.:-]*(=[\w.:/-]+)?")


class DeploymentType(StrEnum):
    PERSISTENT_2 = "PERSISTENT_2"
    """Replicated within its zone; for data that must stay."""
    SCRATCH_2 = "SCRATCH_2"
    """Not replicated: a file server that fails takes its data with it."""


class NewFileSystem(Model):
    """A file system that is made for a claim."""

    capacity_gib: int = SMALLEST_GIB
    """1200, or a multiple of 2400."""
    deployment_type: DeploymentType = DeploymentType.PERSISTENT_2
    throughput: Literal[125, 250, 500, 1000] | None = None
    """MB/s for each TiB; null: 125. ``SCRATCH_2`` always has 200, and takes none."""
    availability_zone: str | None = Field(None, pattern=r"^[a-z]{2}(-[a-z]+)+-\d[a-z]$", examples=["us-west-2a"])
    """Null: the zone that most nodes are in."""
    subnet_id: str | None = Field(None, pattern=r"^subnet-[0-9a-f]{8,17}$")
    """Null: the nodes' own in that zone."""

    @field_validator("capacity_gib")
    @classmethod
    def _capacity(cls, gib: int) -> int:
        if gib != SMALLEST_GIB and (gib <= 0 or gib % STEP_GIB):
            above = max(STEP_GIB, -(-gib // STEP_GIB) * STEP_GIB)
            raise ValueError(f"a file system has 1200 GiB or a multiple of 2400; {gib} is neither. Take {above}")
        return gib

    @model_validator(mode="after")
    def _throughput_fits(self) -> NewFileSystem:
        if self.deployment_type is DeploymentType.SCRATCH_2 and self.throughput is not None:
            raise fault("/throughput", "SCRATCH_2 always has 200 MB/s for each TiB: leave throughput out")
        return self

    @property
    def megabytes(self) -> int:
        """MB/s for each TiB."""
        return 200 if self.deployment_type is DeploymentType.SCRATCH_2 else self.throughput or 125


def price_item(deployment_type: str, throughput: int | None) -> str:
    """What a GiB of a file system is called in plans and price files."""
    if deployment_type == DeploymentType.PERSISTENT_2 and throughput:
        return f"{PERSISTENT_PRICE}{throughput}-gib"
    return f"fsx-lustre-{deployment_type.lower().replace('_', '-')}-gib"


class FsxStorageSpec(Model):
    """A claim on an FSx for Lustre file system: one that exists, or a new one."""

    claim: ObjectName = "fsx-claim"
    """Name of the PersistentVolumeClaim."""
    namespace: ObjectName = DEFAULT_NAMESPACE
    file_system_id: str | None = Field(None, pattern=FILE_SYSTEM_ID, examples=["fs-0123456789abcdef0"])
    """Mount this one."""
    create: NewFileSystem | None = None
    """Make one; ``{}`` makes the smallest."""
    read_only: bool = False
    mount_options: list[str] = Field(default_factory=lambda: ["noatime", "flock"], max_length=20)
    """Of mount.lustre."""

    @field_validator("mount_options")
    @classmethod
    def _options(cls, options: list[str]) -> list[str]:
        for option in options:
            if not _MOUNT_OPTION.fullmatch(option):
                raise ValueError(f"an option looks like flock or acregmin=30; {option!r} does not")
        return options

    @model_validator(mode="after")
    def _one_of_two(self) -> FsxStorageSpec:
        if (self.file_system_id is None) == (self.create is None):
            raise fault("/file_system_id", "give file_system_id (one that exists) or create (a new one), not both")
        return self


class FileSystem(Ensured):
    """An FSx for Lustre file system as AWS describes it."""

    file_system_id: str
    lifecycle: str
    """``CREATING``, ``AVAILABLE`` …, as FSx says it."""
    dns_name: str
    mount_name: str
    capacity_gib: int
    deployment_type: str
    throughput: int | None = None
    """MB/s for each TiB, where it can be chosen."""
    subnet_id: str
    vpc_id: str
    owned: bool
    """Whether the platform made it for this cluster."""


class FindPlace(Model):
    """Where a new file system goes."""

    scope: Scope
    eks_cluster: str
    hyperpod_cluster: str | None = None
    create: NewFileSystem


class FileSystemPlace(Model):
    vpc_id: str
    subnet_id: str
    zone: str
    security_group_id: str
    """Its file servers' own."""
    client_group_ids: list[str] = Field(default_factory=list)
    """What nodes have beside that."""


class EnsureLustreAccess(Model):
    """Rules of a security group that let Lustre through, among its members and from those of ``client_group_ids``."""

    scope: Scope
    vpc_id: str
    security_group_id: str
    client_group_ids: list[str] = Field(default_factory=list)


class LustreAccess(Ensured):
    security_group_id: str


class EnsureFileSystem(Model):
    scope: Scope
    claim: str
    namespace: str
    create: NewFileSystem
    place: FileSystemPlace


class FileSystemRef(Model):
    scope: Scope
    file_system_id: str


class FileSystemGone(Ensured):
    file_system_id: str


class EnsureFsxClaim(Model):
    scope: Scope
    eks_cluster: str
    file_system: FileSystem
    spec: FsxStorageSpec


FIND_FILE_SYSTEM_PLACE = Act("fsx_storage.find_place", FindPlace, FileSystemPlace)
ENSURE_LUSTRE_ACCESS = Act("fsx_storage.ensure_access", EnsureLustreAccess, LustreAccess)
ENSURE_FILE_SYSTEM = Act("fsx_storage.ensure_file_system", EnsureFileSystem, FileSystem)
WAIT_FOR_FILE_SYSTEM = Wait("fsx_storage.wait_for_file_system", FileSystemRef, FileSystem, limit=timedelta(minutes=60))
ENSURE_FSX_CLAIM = Act("fsx_storage.ensure_claim", EnsureFsxClaim, Claim, queue=Queue.KUBERNETES)
DELETE_FILE_SYSTEM = Act("fsx_storage.delete_file_system", FileSystemRef, FileSystemGone)
WAIT_FOR_FILE_SYSTEM_GONE = Wait(
    "fsx_storage.wait_for_file_system_gone", FileSystemRef, FileSystemGone, limit=timedelta(minutes=60)
)
