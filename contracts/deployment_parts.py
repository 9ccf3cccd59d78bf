"""What a model server is made of: storage, resources, and how it is seen that it answers."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field, field_validator, model_validator

from contracts.model import Model, fault
from contracts.names import namespaced
from contracts.objects import DEFAULT_NAMESPACE, ObjectName

DEFAULT_MOUNT = "/s3"
DEFAULT_CLAIM = "s3-claim"
_PLACE = r"^/[^:\s]*$"
SYSTEM = tuple(
    PurePosixPath(place)
    for place in (
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys"),
        *("/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin", "/usr/local/bin", "/usr/local/lib"),
    )
)
"""Folders whose content an image does not start without, with all below them."""
WHOLE = tuple(PurePosixPath(place) for place in ("/usr", "/usr/local", "/opt", "/var"))
"""Folders of which only parts may be covered by a mount."""


class StorageMount(Model):
    """Shared storage as a replica sees it."""

    claim: ObjectName = DEFAULT_CLAIM
    mount_path: str = Field(DEFAULT_MOUNT, pattern=_PLACE, max_length=255, examples=[DEFAULT_MOUNT])
    read_only: bool = True
    sub_path: str | None = Field(None, max_length=1024, pattern=r"^[^/].*$", examples=["models"])
    """Only this folder of it."""

    @field_validator("mount_path")
    @classmethod
    def _place(cls, text: str) -> str:
        path = PurePosixPath("/" + text.strip("/"))
        if ".." in path.parts:
            raise ValueError("a place is told without ..")
        if path in WHOLE or any(path.is_relative_to(each) for each in SYSTEM):
            raise ValueError(f"{path} is a folder of the image's system, which the storage would hide; take another")
        return text

    @field_validator("sub_path")
    @classmethod
    def _below(cls, text: str | None) -> str | None:
        if text is not None and ".." in text.split("/"):
            raise ValueError("a folder of the storage is told without ..")
        return text


class ServerResources(Model):
    """Requested for one replica. What is left out is reckoned from its GPUs."""

    cpu: float | None = Field(None, gt=0, le=1024)
    memory_gib: float | None = Field(None, gt=0, le=24_576)


class Verification(Model):
    """How it is seen that a server answers, before its operation succeeds."""

    kind: Literal["openai", "http", "none"] = "openai"
    """``openai``: it names its models and completes a few tokens. ``http``: ``path`` answers with success. ``none``:
    nobody looks; ``reason`` says why."""
    path: str = Field("/health", pattern=r"^/\S*$", max_length=1024)
    reason: str | None = Field(None, max_length=200)

    @model_validator(mode="after")
    def _reasoned(self) -> Verification:
        if self.kind == "none" and not self.reason:
            raise fault("/reason", "say why nobody is to look whether it answers")
        return self


class DeploymentName(Model):
    """A deployment by its name."""

    name: ObjectName
    namespace: ObjectName = DEFAULT_NAMESPACE

    @property
    def target(self) -> str:
        return namespaced(self.name, self.namespace)

    @property
    def lease(self) -> str:
        return f"deployments/{self.namespace}/{self.name}"
