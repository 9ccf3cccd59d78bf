"""What a download tells while it runs and at its end: lines of JSON, written by ``recipes/download/download.py``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from activities.errors import clean
from activities.models.job import Exit
from contracts.models import DownloadSpec, Manifest
from contracts.problem import ProblemCode
from contracts.sizes import size_text

KILLED = 137
"""128 and SIGKILL: what the kernel does to whoever needs more memory than there is."""


@dataclass(frozen=True)
class Ending:
    """How a container ended, in the script's own words."""

    exit_code: int
    kind: str = ""
    file: str = ""
    detail: str = ""


def live_line(log: str) -> str | None:
    """``3 of 12 files, 1.2 GiB of 4.1 GiB, 85.0 MiB/s`` of the last progress in a log; None where it has none yet."""
    for line in reversed(log.splitlines()):
        told = _object(line)
        if told.get("event") == "progress":
            files = f"{_number(told, 'files_done'):.0f} of {_number(told, 'files'):.0f} files"
            done, size, pace = (
                size_text(round(_number(told, name))) for name in ("bytes_done", "bytes", "bytes_per_second")
            )
            return f"{files}, {done} of {size}, {pace}/s"
        if told.get("event") == "waiting":
            return clean(str(told.get("detail", "")), 200)
    return None


def manifest_of(message: str) -> Manifest | None:
    """The manifest in the message that a script has left that succeeded."""
    told = _object(message).get("manifest")
    try:
        return Manifest.model_validate(told)
    except ValidationError:
        return None


def ending_of(exit_code: int, message: str) -> Ending:
    told = _object(message)
    return Ending(
        exit_code, str(told.get("kind", "")), str(told.get("file", "")), clean(str(told.get("detail", "")), 300)
    )


def explain(ending: Ending, spec: DownloadSpec) -> tuple[ProblemCode, str, str, str | None]:
    """Code, detail, remedy and field of the problem that an ending is."""
    code, what, remedy, field = _kind(ending, spec)
    at = f" at {clean(ending.file, 200)}" if ending.file else ""
    said = f": {ending.detail}" if ending.detail else ""
    return code, f"{what}{at}{said}", f"{remedy}; files that are finished are not downloaded again.", field


def _kind(ending: Ending, spec: DownloadSpec) -> tuple[ProblemCode, str, str, str | None]:
    match ending.exit_code:
        case Exit.DENIED:
            remedy = "Accept its terms with the token's account, store a token that may read it, and retry with that"
            return ProblemCode.DENIED, f"the Hub did not let {spec.repository} be read", remedy, "/credential"
        case Exit.NOT_FOUND:
            what = f"the Hub has no {spec.repository} at {spec.revision} for this token"
            return ProblemCode.NOT_FOUND, what, "Check repository, revision and credential, then retry", "/repository"
        case Exit.NO_SPACE:
            remedy = "Make room where it says so, or choose larger nodes by instance_types, then retry"
            return ProblemCode.CAPACITY, "there was no room left", remedy, "/instance_types"
        case Exit.MISMATCH:
            remedy = "A mirror or proxy may be in between: mend it, then retry"
            return ProblemCode.CONFLICT, "what arrived is not what the Hub announced", remedy, None
        case Exit.NOT_WRITABLE:
            remedy = "Give the storage's driver permission to write and delete there, then retry"
            return ProblemCode.DENIED, f"claim {spec.claim} cannot be written", remedy, "/claim"
        case Exit.THROTTLED:
            remedy = "Wait some minutes, or give a credential, then retry"
            return ProblemCode.THROTTLED, "the Hub went on answering with 429", remedy, None
        case Exit.UNREACHABLE:
            remedy = "Look at NAT, DNS and proxies of the nodes, then retry"
            return ProblemCode.UNAVAILABLE, "the pod has no way to the Hub", remedy, None
        case Exit.BOOTSTRAP:
            remedy = "Give the nodes a way to it, or retry with an image that has huggingface_hub"
            what = "the pod has no way to the package index that the Hub's library comes from"
            return ProblemCode.UNAVAILABLE, what, remedy, "/image"
        case code if code == KILLED:
            what = "the container was killed (exit code 137), as a rule for want of memory"
            return ProblemCode.CAPACITY, what, "Retry with more memory_gib", "/memory_gib"
    what = f"the download ended with exit code {ending.exit_code}"
    return ProblemCode.INTERNAL, what, "Look at the pod's log, mend what it names, and retry", None


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _number(told: dict[str, Any], name: str) -> float:
    value = told.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0
