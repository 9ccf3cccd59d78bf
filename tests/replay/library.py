"""Histories of workflows, one for each kind and each way it can go, kept under ``tests/histories/<version>/``.

A version's folder is what runs of that version look like: code of a later one must still replay them, because such runs
may be open when it is deployed.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.workflow import _Definition

from cli.stack.folder import ROOT
from worker.platform import restrictions
from workflows.registry import ENTITIES, LOOKUPS, OPERATIONS

FOLDER = ROOT / "tests" / "histories"
MANIFEST = "manifest.json"
SUFFIX = ".json.gz"
BEFORE = "before-"
"""Paths of histories that are kept for a patch begin so; its name follows."""
WORKFLOWS = (*OPERATIONS, *ENTITIES, *LOOKUPS)
TYPES = tuple(sorted(str(_Definition.must_from_class(each).name) for each in WORKFLOWS))


@dataclass(frozen=True)
class Saved:
    """A history on disk. ``path``: what was special about the run, ``done`` where nothing was."""

    version: str
    workflow_type: str
    path: str
    workflow_id: str
    events: int

    @property
    def name(self) -> str:
        return f"{self.version}/{self.workflow_type}.{self.path}"

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}{SUFFIX}"

    def read(self) -> WorkflowHistory:
        # A run's ID is random; the name tells what has failed.
        return WorkflowHistory.from_json(self.workflow_id, gzip.decompress(self.file.read_bytes()).decode())


def saved(folder: Path = FOLDER) -> list[Saved]:
    """All histories that the manifests name, those of earlier versions first."""
    manifests = sorted(folder.glob(f"*/{MANIFEST}"))
    return [Saved(**each) for manifest in manifests for each in json.loads(manifest.read_text())["histories"]]


def save(version: str, histories: Iterable[tuple[str, str, WorkflowHistory]]) -> list[Saved]:
    """Keep histories, each with its workflow type and its path, as those of ``version``. What was there goes, but for
    what was kept for a patch."""
    folder = FOLDER / version
    folder.mkdir(parents=True, exist_ok=True)
    kept = [each for each in saved() if each.version == version and each.path.startswith(BEFORE)]
    for file in set(folder.iterdir()) - {each.file for each in kept}:
        file.unlink()
    for workflow_type, path, history in histories:
        one = Saved(version, workflow_type, path, history.workflow_id, len(history.events))
        text = json.dumps(anonymous(history.to_json_dict()), separators=(",", ":"), sort_keys=True)
        one.file.write_bytes(gzip.compress(text.encode(), mtime=0))
        kept.append(one)
    _write_manifest(version, kept)
    return kept


def keep_before(patch: str, one: Saved) -> Saved:
    """Keep a history beyond the next :func:`save`: what a run looks like that has not taken ``patch``."""
    kept = replace(one, path=f"{BEFORE}{patch}")
    kept.file.write_bytes(one.file.read_bytes())
    others = [each for each in saved() if each.version == one.version and each.name != kept.name]
    _write_manifest(one.version, [*others, kept])
    return kept


def _write_manifest(version: str, kept: Iterable[Saved]) -> None:
    rows = [asdict(each) for each in sorted(kept, key=lambda each: each.name)]
    text = json.dumps({"version": version, "histories": rows}, indent=1)
    (FOLDER / version / MANIFEST).write_text(f"{text}\n")


def anonymous(document: Any) -> Any:
    """A history, as JSON, without what only says on which machine it ran; replay looks at none of that."""
    if isinstance(document, list):
        return [anonymous(each) for each in document]
    if isinstance(document, dict):
        found = {key: anonymous(value) for key, value in document.items() if key not in ("identity", "stackTrace")}
        if isinstance(data := document.get("data"), str) and "metadata" in document:
            found["data"] = base64.b64encode(_placeless(base64.b64decode(data))).decode()
        return found
    return _placeless(document.encode()).decode() if isinstance(document, str) else document


def _placeless(text: bytes) -> bytes:
    machine = re.escape(socket.gethostname().encode())
    return re.sub(rb"(\d+@)?" + machine, b"worker", text.replace(f"{ROOT}/".encode(), b""))


def replayer(workflows: Sequence[type] = WORKFLOWS, restricted: bool = False) -> Replayer:
    """A replayer with all workflows, or these.

    ``restricted``: Temporal's sandbox is on them, which imports them anew for each run; else they pass through.
    """
    runner = SandboxedWorkflowRunner(restrictions=restrictions(*() if restricted else ("workflows", "tests")))
    return Replayer(workflows=workflows, workflow_runner=runner, data_converter=pydantic_data_converter)


async def failures(histories: Iterable[tuple[str, WorkflowHistory]], replaying: Replayer) -> dict[str, BaseException]:
    """Those of the named histories that the present code does not replay, each with what it does otherwise."""
    names: dict[int, str] = {}

    async def given() -> AsyncIterator[WorkflowHistory]:
        for name, history in histories:
            names[id(history)] = name
            yield history

    found: dict[str, BaseException] = {}
    async with replaying.workflow_replay_iterator(given()) as results:
        async for each in results:
            if each.replay_failure is not None:
                found[names[id(each.history)]] = each.replay_failure
    return found


def missing(kept: Iterable[Saved], version: str) -> Iterator[str]:
    """Workflow types that have no history of ``version``."""
    have = {each.workflow_type for each in kept if each.version == version}
    return (each for each in TYPES if each not in have)
