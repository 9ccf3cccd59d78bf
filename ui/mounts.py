"""Storage that is mounted, as text: one mount on each line, ``claim:/path`` or ``claim/folder:/path``.

``:ro`` or ``:rw`` at the end says what may be done there, where that is not what the model takes by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import streamlit as st

from contracts.deployment_parts import StorageMount
from ui.fields import Entered, Fields
from ui.marks import lines_field

_READ_ONLY = {"ro": True, "rw": False}


def mounts_field(fields: Fields) -> Entered:
    """``storage`` of the model, where something was entered: its mounts, or none at all."""
    if st.toggle("Mount no storage", key=f"{fields.key}/no-storage", disabled=fields.disabled):
        return {"storage": []}
    lines = lines_field(fields, "storage", "Storage", "s3-claim:/s3").get("storage", [])
    return {"storage": [mount_of(line) for line in lines]} if lines else {}


def mounts_text(mounts: Iterable[StorageMount]) -> str:
    """One mount a line."""
    return "\n".join(_line(each) for each in mounts)


def _line(mount: StorageMount) -> str:
    folder = f"/{mount.sub_path}" if mount.sub_path else ""
    usual = type(mount).model_fields["read_only"].default
    access = "" if mount.read_only == usual else ":ro" if mount.read_only else ":rw"
    return f"{mount.claim}{folder}:{mount.mount_path}{access}"


def mount_of(line: str) -> Entered:
    """A mount as the gateway takes it; what is wrong with it the gateway says."""
    source, _, rest = line.partition(":")
    claim, _, folder = source.strip().partition("/")
    path, _, access = (part.strip() for part in rest.partition(":"))
    told: dict[str, Any] = {"mount_path": path, "sub_path": folder, "read_only": _READ_ONLY.get(access, access)}
    return {"claim": claim, **{name: value for name, value in told.items() if value != ""}}
