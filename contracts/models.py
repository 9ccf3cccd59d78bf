"""Models and data sets of the Hugging Face Hub on a cluster's storage: what a download is asked with, and what it left.

Hub API: https://huggingface.co/docs/hub/api (revision, tree), https://huggingface.co/docs/huggingface_hub
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from contracts.activity import Act, Queue, Wait
from contracts.credentials import CredentialName
from contracts.model import Ensured, Model
from contracts.names import download_target, repository_folder, short_hash
from contracts.network import Scope
from contracts.objects import DEFAULT_NAMESPACE, ObjectName

IMAGE = "public.ecr.aws/docker/library/python:3.12.12-slim-bookworm"
"""Where the script runs: a plain Python, which installs the Hub's library by itself."""
MANIFEST = ".instantstart.json"
"""Beside the files of a download, written last: what they are. (``recipes/download/download.py``)"""
FILE_LIST = ".instantstart.files.json"
"""Beside it: every file with its size and hash."""

LONGEST_DEADLINE = timedelta(days=7)
SHORTEST_DEADLINE = timedelta(hours=2)
WAIT_LIMIT = LONGEST_DEADLINE + timedelta(hours=2)
"""The Job ends itself before the wait for it does."""
UNKNOWN_DEADLINE = timedelta(hours=24)
"""Where the repository's size is not known."""
SLOWEST = 20 * 2**20
"""Bytes per second that a deadline reckons with: a tenth of what one connection to the Hub commonly gives."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]{0,254}", re.ASCII)
_PATH = re.compile(r"[\w.@+=-]+(/[\w.@+=-]+)*", re.ASCII)


def _repository(name: str) -> str:
    if not _REPOSITORY.fullmatch(name) or ".." in name or "--" in name:
        raise ValueError(f"a repository of the Hub is called owner/name; {name!r} is not")
    return name


def _revision(name: str) -> str:
    if not _REVISION.fullmatch(name) or ".." in name:
        raise ValueError(f"{name!r} is no branch, tag or commit")
    return name


Repository = Annotated[str, AfterValidator(_repository), Field(examples=["Qwen/Qwen3-0.6B"])]
Pattern = Annotated[str, Field(min_length=1, max_length=200, examples=["*.safetensors"])]


class RepositoryType(StrEnum):
    MODEL = "model"
    DATASET = "dataset"

    @property
    def folder(self) -> str:
        """Where downloads of the type go to on a claim, unless a path is given."""
        return f"{self.value}s"


class DownloadSpec(Model):
    """A repository of the Hub, or some of its files, into a folder of a claim."""

    repository: Repository
    repository_type: RepositoryType = RepositoryType.MODEL
    revision: Annotated[str, AfterValidator(_revision)] = "main"
    """Branch, tag or commit. What it is when the download begins is downloaded to the end."""
    include: list[Pattern] = Field(default_factory=list, max_length=50)
    """Globs of files to take; none: all. ``*`` also matches ``/``."""
    exclude: list[Pattern] = Field(default_factory=list, max_length=50)
    """Globs of files to leave out; they win."""
    claim: ObjectName = "s3-claim"
    """A claim on S3 or FSx for Lustre that may be written."""
    namespace: ObjectName = DEFAULT_NAMESPACE
    """Of the claim, and of the Job that downloads."""
    path: str | None = Field(None, max_length=400, examples=["models/Qwen-Qwen3-0.6B"])
    """Folder on the claim; null: ``models/owner-name`` or ``datasets/owner-name``."""
    credential: CredentialName | None = None
    """Credential of the namespace with a token of the Hub; null: as anybody."""
    cpu: float = Field(2.0, ge=0.5, le=192)
    memory_gib: int = Field(8, ge=1, le=2048)
    instance_types: list[str] = Field(default_factory=list, max_length=20, examples=[["ml.c5.2xlarge"]])
    """Nodes of these types only; none: any."""
    deadline_hours: float | None = Field(None, ge=0.5, le=168)
    """After so long the Job is ended; null: by the repository's size, from 2 hours to 7 days."""
    image: str = Field(IMAGE, min_length=1, max_length=400, pattern=r"^\S+$")
    """An image with Python 3.11 or newer."""

    @field_validator("path")
    @classmethod
    def _path(cls, path: str | None) -> str | None:
        if path is None:
            return None
        kept = path.strip("/")
        if not _PATH.fullmatch(kept) or any(set(part) == {"."} for part in kept.split("/")):
            raise ValueError("a path is made of names with letters, digits, dots, dashes and underscores, parted by /")
        return kept

    @property
    def folder(self) -> str:
        """The folder on the claim."""
        return self.path or f"{self.repository_type.folder}/{repository_folder(self.repository)}"

    @property
    def selection(self) -> str:
        """Fingerprint of what is included and excluded; empty for everything."""
        return short_hash(json.dumps([self.include, self.exclude])) if self.include or self.exclude else ""

    @property
    def target(self) -> str:
        """What the operation is about: the repository, and where it goes to."""
        return download_target(self.repository, self.repository_type.value, self.claim, self.namespace, self.folder)


def deadline_of(spec: DownloadSpec, size: int | None) -> timedelta:
    """How long the Job may take for ``size`` bytes; None where that is not known."""
    if spec.deadline_hours is not None:
        return timedelta(hours=spec.deadline_hours)
    if size is None:
        return UNKNOWN_DEADLINE
    return min(LONGEST_DEADLINE, SHORTEST_DEADLINE + timedelta(seconds=size / SLOWEST))


class RepositoryFound(Model):
    """What the Hub says of what a download is asked to take."""

    commit: str | None = None
    """Null: the platform has no way to the Hub; the Job finds out by itself."""
    files: int = 0
    size: int | None = None
    """Bytes."""
    largest: int = 0
    """Bytes of the largest file."""


class ResolveRepository(Model):
    scope: Scope
    eks_cluster: str
    spec: DownloadSpec


class Manifest(Model):
    """What a download left beside its files, and what its Job told at its end."""

    repository: str
    repository_type: RepositoryType
    revision: str
    commit: str
    selection: str = ""
    """Fingerprint of what was included and excluded."""
    files: int
    size: int
    """Bytes."""
    downloaded_files: int = 0
    """As many were not there before."""
    downloaded_size: int = 0
    seconds: float = 0.0
    operation: str | None = None
    finished_at: datetime


class FindDownloaded(Model):
    """Whether the files are there already."""

    scope: Scope
    eks_cluster: str
    spec: DownloadSpec
    found: RepositoryFound


class Downloaded(Model):
    """``manifest`` is null where what is there is not what is asked, or cannot be seen from outside (FSx)."""

    manifest: Manifest | None = None


class EnsureDownload(Model):
    """The Job that downloads. ``run`` tells one attempt of an operation from the next: a Job that another run left
    failed is replaced."""

    scope: Scope
    eks_cluster: str
    spec: DownloadSpec
    found: RepositoryFound
    run: str


class DownloadJob(Ensured):
    job: str
    namespace: str
    commit: str | None = None


class WaitForDownload(Model):
    scope: Scope
    eks_cluster: str
    job: str
    namespace: str
    spec: DownloadSpec


class VerifyDownload(Model):
    scope: Scope
    eks_cluster: str
    spec: DownloadSpec
    told: Manifest
    """By the Job."""


class DownloadResult(Model):
    """A finished download."""

    repository: str
    repository_type: RepositoryType
    commit: str
    claim: str
    namespace: str
    path: str
    files: int
    size: int
    """Bytes."""
    seconds: float
    verified_by: Literal["storage", "job"]
    """``storage``: every file was seen in the bucket with its size. ``job``: the Job has checked each that it wrote."""


class DeleteDownload(Model):
    scope: Scope
    eks_cluster: str
    job: str
    namespace: str


class DownloadGone(Ensured):
    job: str


class ModelState(StrEnum):
    READY = "ready"
    """A download has finished here."""
    PROGRESSING = "progressing"
    """A Job downloads into it."""
    UNKNOWN = "unknown"
    """No download has finished here: others' files, or what is left of one that failed."""


class ModelView(Model):
    """A folder of models or data sets on a claim, as its bucket has it, or a download that runs."""

    claim: str
    namespace: str
    path: str
    """Below the mount of the claim."""
    state: ModelState
    repository: str | None = None
    repository_type: RepositoryType | None = None
    revision: str | None = None
    commit: str | None = None
    files: int | None = None
    size: int | None = None
    """Bytes."""
    finished_at: datetime | None = None
    operation: str | None = None
    """What downloads, or has downloaded it."""
    detail: str | None = None


class ListModels(Model):
    """A page of what is on the S3 claims of a cluster."""

    scope: Scope
    eks_cluster: str
    claim: str | None = None
    """Only this one; null: all."""
    namespace: str | None = None
    position: str | None = None
    """Where the page before ended."""
    size: int = Field(50, ge=1, le=200)


class ModelsRead(Model):
    models: list[ModelView] = Field(default_factory=list)
    running: list[ModelView] = Field(default_factory=list)
    unreadable: list[str] = Field(default_factory=list)
    """Claims that were not looked into, each with why."""
    position: str | None = None
    """Where to read on; null on the last page."""
    read_at: datetime


class ModelList(Model):
    """Models and data sets on a cluster's S3 claims, by claim and path, and the downloads that run."""

    models: list[ModelView] = Field(default_factory=list)
    running: list[ModelView] = Field(default_factory=list)
    """On the first page only."""
    unreadable: list[str] = Field(default_factory=list)
    """Claims that were not looked into, each with why: file systems are seen only by pods."""
    next_page_token: str | None = None
    """Absent on the last page."""
    read_at: datetime


RESOLVE_REPOSITORY = Act("models.resolve", ResolveRepository, RepositoryFound, queue=Queue.KUBERNETES)
FIND_DOWNLOADED = Act("models.find_downloaded", FindDownloaded, Downloaded, queue=Queue.KUBERNETES)
ENSURE_DOWNLOAD = Act("models.ensure_download", EnsureDownload, DownloadJob, queue=Queue.KUBERNETES)
WAIT_FOR_DOWNLOAD = Wait("models.wait_for_download", WaitForDownload, Manifest, limit=WAIT_LIMIT)
VERIFY_DOWNLOAD = Act("models.verify_download", VerifyDownload, DownloadResult, queue=Queue.KUBERNETES)
DELETE_DOWNLOAD = Act("models.delete_download", DeleteDownload, DownloadGone, queue=Queue.KUBERNETES)
LIST_MODELS = Act("models.list", ListModels, ModelsRead, queue=Queue.KUBERNETES)
