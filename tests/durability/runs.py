"""Runs of create-cluster on the local stack: how they are asked for, what they touched, what they left in Temporal."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client, WorkflowHistory

from cli.stack.folder import ROOT
from tests.local_stack import LocalStack

CHART = ROOT / "sandbox" / "charts" / "hyperpod-dependencies"
SPEED = 200.0
POLL = "0.25"
ENDS = ("succeeded", "blocked", "aborted", "failed")
QUOTAS = {"vpcs": 50, "elastic-ips": 50, "ml.g5.8xlarge": 100}
REGIONS = {"west": "us-west-2", "east": "us-east-1"}
WORKERS = [{"name": "workers", "instance_type": "ml.g5.8xlarge", "count": 1}]


def chart_of(folder: Path) -> Path:
    """The shared stack's own copy of the chart of the dependencies, which a test may change."""
    return folder / "chart"


@dataclass(frozen=True)
class Pair:
    """Two clusters that were created at once, in two regions, each asked for by a crowd."""

    crowds: dict[str, list[httpx.Response]]
    others: dict[str, httpx.Response]
    """Answers to another spec for the same tag."""
    ended: dict[str, dict[str, Any]]


def create_pair(stack: LocalStack) -> Pair:
    wanted = {tag: {"tag": tag, "region": region, "instance_groups": WORKERS} for tag, region in REGIONS.items()}
    with ThreadPoolExecutor(20) as crowd:
        asked = {
            tag: [crowd.submit(stack.gateway.post, "/clusters", json=body) for _ in range(10)]
            for tag, body in wanted.items()
        }
        crowds = {tag: [answer.result() for answer in answers] for tag, answers in asked.items()}
    others = {
        tag: stack.gateway.post("/clusters", json={**body, "kubernetes_version": "1.33"})
        for tag, body in wanted.items()
    }
    return Pair(crowds, others, {tag: finish(stack, f"create-cluster/{tag}") for tag in REGIONS})


def raise_quotas(stack: LocalStack, **others: int) -> None:
    stack.sandbox.put("/quotas", json={**QUOTAS, **others}).raise_for_status()


def create(stack: LocalStack, tag: str, **more: Any) -> str:
    """Ask for a cluster with one node; returns the operation's id."""
    answer = stack.gateway.post("/clusters", json={"tag": tag, "instance_groups": WORKERS, **more})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def finish(stack: LocalStack, operation: str, limit: float = 240.0) -> dict[str, Any]:
    """Wait until the operation has succeeded."""
    ended = stack.until(operation, lambda found: found["phase"] in ENDS, limit)
    assert ended["phase"] == "succeeded", ended
    return ended


def states(operation: dict[str, Any]) -> dict[str, str]:
    return {stage["name"]: stage["state"] for stage in operation["stages"]}


def entries(stack: LocalStack, tag: str | None = None, since: int = 0, effects: bool = True) -> list[dict[str, Any]]:
    """The ledger's entries that operations of a cluster caused."""
    query = {"effects_only": str(effects).lower(), "since": str(since)}
    rows: list[dict[str, Any]] = stack.sandbox.get("/ledger", params=query).json()["entries"]
    return rows if tag is None else [row for row in rows if _caused_by(row, tag)]


def _caused_by(row: dict[str, Any], tag: str) -> bool:
    if row["api"] == "kubernetes":
        return bool(row["service"] == f"eks-cluster-{tag}")
    operation = str(row["user_agent"]).rpartition(" op/")[2].partition(" ")[0]
    return operation.split("/")[1:2] == [tag]


def last_entry(stack: LocalStack) -> int:
    return max((row["number"] for row in entries(stack, effects=False)), default=0)


def effects(stack: LocalStack, tag: str, since: int = 0) -> Counter[str]:
    """How often each AWS call had an effect for a cluster, and each Kubernetes object was made.

    Helm's bookkeeping is left out, and so is what applying an object again changes: nothing.
    """
    return Counter(
        f"{row['api']} {row['service']} {row['operation']}".replace(tag, "<tag>")
        for row in entries(stack, tag, since)
        if row["api"] == "aws" or (row["status"] == 201 and "/secrets" not in row["operation"])
    )


def fired(stack: LocalStack) -> Counter[str]:
    """How often each rule of the faults fired, by its id."""
    return Counter(fault["rule"] for fault in stack.sandbox.get("/faults").json()["fired"])


@contextmanager
def faults(stack: LocalStack, *rules: dict[str, Any]) -> Iterator[None]:
    """Faults in force; in the end each of their rules must have fired, unless it fires by chance only."""
    named = [{"id": str(number), **rule} for number, rule in enumerate(rules)]
    stack.sandbox.post("/faults", json=named).raise_for_status()
    yield
    seen = fired(stack)
    assert not [rule for rule in named if "p" not in rule and not seen[rule["id"]]], (
        f"rules that never fired; fired: {seen}"
    )
    assert seen
    stack.sandbox.delete("/faults").raise_for_status()


def history(stack: LocalStack, workflow_id: str, run_id: str | None = None) -> WorkflowHistory:
    async def fetch() -> WorkflowHistory:
        client = await Client.connect(f"127.0.0.1:{stack.settings.ports.temporal}")
        return await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()

    return asyncio.run(fetch())


def wait_for(condition: Callable[[], bool], limit: float = 60.0, pause: float = 0.1) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "not within the limit"
        time.sleep(pause)
