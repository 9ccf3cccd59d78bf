"""Presets: training runs without a name, saved, versioned, shared and loaded.

A preset is an entity of its own (``preset/<name>``), which keeps its last versions and no other state. How one is
loaded is said in ``contracts/preset_loading.py``.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, model_validator

from contracts.model import Model, fault
from contracts.names import KUBERNETES_NAME
from contracts.requests import Document

PRESET_WORKFLOW = "preset"
MEMO_PRESET = "preset"
"""The memo of a preset's entity: its summary. Lists need nothing else, and wake nobody."""
SAVE_PRESET, DELETE_PRESET, PRESET_VERSION = "save", "delete", "version"
"""Names of the entity's updates and of its query."""

MOST_VERSIONS = 20
"""The last so many are kept."""
LARGEST = 64 * 1024
"""Bytes of one version as JSON."""
LARGEST_IN_ALL = 1024 * 1024
"""Bytes of all versions: an entity hands them on as one payload, which Temporal limits to 2 MiB."""
NAMELESS = "preset"
"""What a run that is only checked is called."""

PresetKind = Literal["training"]


def _name(name: str) -> str:
    if violation := KUBERNETES_NAME.violation(name):
        raise ValueError(violation)
    return name


PresetName = Annotated[str, AfterValidator(_name), Field(examples=["llama-8b-sft"])]


class SavePreset(Model):
    """A new version of a preset. What is equal to the last one makes none."""

    kind: PresetKind = "training"
    document: Document
    """A training run without ``name``: what may stand in the body of POST …/training-runs."""
    comment: str = Field("", max_length=500)
    """What is new in this version."""
    shared: bool | None = None
    """Everybody may load it; false: its owner only. Null: as it was, at first false."""

    @model_validator(mode="after")
    def _sized(self) -> SavePreset:
        if "name" in self.document:
            raise fault("/document/name", "a preset has no run's name: leave it out")
        if (size := size_of(self.document)) > LARGEST:
            raise fault(
                "/document", f"has {size:,} bytes as JSON, and may have {LARGEST:,}: keep scripts on the storage"
            )
        return self


class PresetVersion(Model):
    """One version of a preset."""

    version: int = Field(ge=1)
    kind: PresetKind
    document: dict[str, JsonValue]
    comment: str = ""
    saved_by: str
    saved_at: datetime


class PresetSummary(Model):
    """A preset in a list."""

    name: str
    kind: PresetKind
    title: str = ""
    """What it runs, in a few words."""
    owner: str
    shared: bool
    version: int
    """The last one."""
    oldest: int
    """The oldest that is still kept."""
    saved_by: str
    saved_at: datetime
    comment: str = ""


class PresetDetail(Model):
    """A preset and one version of it."""

    preset: PresetSummary
    version: PresetVersion
    problem: str | None = None
    """Why the version is no valid run any more, where rules have changed since it was saved."""


class PresetList(Model):
    """Presets that the caller may load."""

    presets: list[PresetSummary] = Field(default_factory=list)
    next_page_token: str | None = None
    """Absent on the last page. A page may have fewer than were asked for: others' presets are left out."""


class SavedPreset(Model):
    """What saving came to."""

    preset: PresetSummary
    changed: bool
    """Whether a version was made."""


class SaveVersion(Model):
    """What the entity is asked: who saves what, and upon which version."""

    name: str
    kind: PresetKind
    document: dict[str, JsonValue]
    comment: str = ""
    title: str = ""
    shared: bool | None = None
    by: str
    may_change: bool = False
    """Of others, too: what is shared, by operators; everything, by administrators."""
    may_see: bool = False
    """Also what is not shared."""
    expected: int | None = None
    """The last version, as the caller knows it; 0: there is none; null: whatever is there."""


class RemovePreset(Model):
    by: str
    may_change: bool = False
    may_see: bool = False
    expected: int | None = None


class PresetState(Model):
    """What the entity is, and takes along when it continues as new."""

    name: str
    owner: str = ""
    shared: bool = False
    title: str = ""
    versions: list[PresetVersion] = Field(default_factory=list)
    """The oldest first."""

    @property
    def summary(self) -> PresetSummary:
        """Only where there is a version."""
        last = self.versions[-1]
        return PresetSummary(
            name=self.name,
            kind=last.kind,
            title=self.title,
            owner=self.owner,
            shared=self.shared,
            version=last.version,
            oldest=self.versions[0].version,
            saved_by=last.saved_by,
            saved_at=last.saved_at,
            comment=last.comment,
        )

    def with_version(self, asked: SaveVersion, now: datetime) -> PresetState:
        """The state after saving; the same where nothing is new. Old versions go where there are too many."""
        shared = self.shared if asked.shared is None else asked.shared
        last = self.versions[-1] if self.versions else None
        if last is not None and last.kind == asked.kind and same(last.document, asked.document):
            return self.model_copy(update={"shared": shared})
        version = PresetVersion(
            version=(last.version if last else 0) + 1,
            kind=asked.kind,
            document=asked.document,
            comment=asked.comment,
            saved_by=asked.by,
            saved_at=now,
        )
        versions = [*self.versions, version][-MOST_VERSIONS:]
        while len(versions) > 1 and sum(size_of(each.document) for each in versions) > LARGEST_IN_ALL:
            versions = versions[1:]
        owner = self.owner or asked.by
        return PresetState(name=self.name, owner=owner, shared=shared, title=asked.title, versions=versions)

    def find(self, version: int | None) -> PresetVersion | None:
        """A version, or the last; None where it is not kept."""
        if version is None:
            return self.versions[-1] if self.versions else None
        return next((each for each in self.versions if each.version == version), None)


class AskVersion(Model):
    """Which version; null: the last."""

    version: int | None = None


class PresetAnswer(Model):
    """What the entity answers a query with. ``version`` is null where it is not kept."""

    summary: PresetSummary | None = None
    version: PresetVersion | None = None


def size_of(document: dict[str, Any]) -> int:
    """Bytes as compact JSON."""
    return len(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two documents are one and the same JSON: Python takes 1, 1.0 and true for equal."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
