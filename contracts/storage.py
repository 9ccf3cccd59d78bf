"""Shared storage of a cluster: an S3 bucket mounted by Mountpoint for Amazon S3."""

from __future__ import annotations

from datetime import timedelta

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
    bucket: str | None = Field(None, pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    """An existing bucket; null: the cluster's own."""
    prefix: str | None = Field(None, pattern=r"^[^/].*/$", max_length=512)
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
    claim: str
    namespace: str
    volume: str
    bucket: str
    prefix: str | None = None
    phase: str


class WaitForClaim(Model):
    scope: Scope
    eks_cluster: str
    claim: str
    namespace: str


ENSURE_CLAIM = Act("storage.ensure_claim", EnsureClaim, Claim, queue=Queue.KUBERNETES)
WAIT_FOR_CLAIM = Wait("storage.wait_for_claim", WaitForClaim, Claim, limit=timedelta(minutes=10))
