"""What an agent may correct of an operation depends on what it carries out now, not only on what it would change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from api.decisions import _settled

PUBLIC = {
    "name": "chat",
    "command": "vllm serve Qwen/Qwen3-0.6B --port 8000",
    "gpu_count": 1,
    "service": "public",
}


class Temporal:
    def __init__(self, spec: dict[str, Any] | None) -> None:
        self._spec = spec

    async def query(self, *_: Any) -> dict[str, Any] | None:
        return self._spec


@pytest.mark.parametrize(
    ("kind", "spec", "corrections", "settled"),
    [
        ("create-deployment", {**PUBLIC, "service": "in_cluster"}, {"replicas": 4}, False),
        ("create-deployment", {**PUBLIC, "service": "in_cluster"}, {"service": "public"}, True),
        ("create-deployment", PUBLIC, {"replicas": 4}, True),
        ("create-deployment", None, {"replicas": 4}, True),
        ("create-cluster", None, {"kubernetes_version": "1.33"}, True),
        ("download-model", None, {"cpu": 4}, False),
    ],
)
async def test_what_a_person_has_approved_is_corrected_by_no_agent_whichever_member_it_changes(
    kind: str, spec: dict[str, Any] | None, corrections: dict[str, Any], settled: bool
) -> None:
    services: Any = SimpleNamespace(temporal=Temporal(spec))
    seen: Any = SimpleNamespace(operation=SimpleNamespace(kind=kind, id=f"{kind}/demo", run_id="run"))
    assert await _settled(services, seen, corrections) is settled
