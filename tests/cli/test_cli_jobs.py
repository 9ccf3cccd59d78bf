"""Commands about Jobs: what they ask for, and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from cli.commands.job import STATES
from contracts.jobs import JobDetail, JobList, JobPod, JobState, JobView
from contracts.problem import ProblemCode, problem
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]
JOBS = "/api/v1/clusters/demo/jobs"
NOW = datetime.now(UTC)


def view(name: str, **more: Any) -> JobView:
    return JobView.model_validate({"namespace": "ml", "name": name, "state": JobState.RUNNING, **more})


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_jobs_are_listed_with_what_they_do_and_why(gateway: Gateway, cli: Cli) -> None:
    failed = view("b", state=JobState.FAILED, reason="BackoffLimitExceeded: no more", completions=4, succeeded=1)
    page = JobList(jobs=[view("a", active=2, parallelism=2), failed], read_at=NOW)
    gateway.answers["GET", JOBS] = (200, page.model_dump(mode="json"))
    ran = cli("job", "list", "demo", "-n", "ml", "--state", "failed")
    (asked,) = gateway.requests("GET", "/jobs")
    assert asked.query == {"namespace": "ml", "state": "failed", "page_size": "200"}
    first, second = rows(ran.out)[1:]
    assert first == ["ml", "a", "running", "0/1", "of", "2", "2", "0", "-", "-"]
    assert second[:4] == ["ml", "b", "failed", "1/4"]
    assert ran.out.endswith("BackoffLimitExceeded: no more\n")
    assert [each["name"] for each in json.loads(cli("job", "list", "demo", "-o", "json").out)] == ["a", "b"]


def test_every_state_can_be_asked_for() -> None:
    assert set(STATES) == set(JobState)


def test_a_job_is_shown_with_its_pods(gateway: Gateway, cli: Cli) -> None:
    pods = [
        JobPod(name="a-1", phase="Pending", reason="Unschedulable", message="0/2 nodes are available"),
        JobPod(name="a-2", phase="Failed", node="hyperpod-i-1", exit_code=137, restarts=2, reason="OOMKilled"),
    ]
    detail = JobDetail(job=view("a", images=["train:1"]), pods=pods, more_pods=3, read_at=NOW)
    gateway.answers["GET", f"{JOBS}/ml/a"] = (200, detail.model_dump(mode="json"))
    ran = cli("job", "get", "demo", "a", "-n", "ml")
    assert ["Images", "train:1"] in rows(ran.out)
    waiting = ["a-1", "Pending", "-", "0", "-", "Unschedulable:", "0/2", "nodes", "are", "available"]
    assert waiting in rows(ran.out)
    assert ["a-2", "Failed", "hyperpod-i-1", "2", "137", "OOMKilled"] in rows(ran.out)
    assert ran.out.endswith("… and 3 pods more\n")


def test_a_job_is_looked_for_in_the_default_namespace_and_its_absence_is_exit_code_3(
    gateway: Gateway, cli: Cli
) -> None:
    missing = problem(ProblemCode.NOT_FOUND, "namespace default has no Job a; it has b")
    gateway.answers["GET", f"{JOBS}/default/a"] = (404, missing.model_dump(mode="json"))
    ran = cli("job", "get", "demo", "a")
    assert (ran.code, ran.out) == (3, "")
    assert "it has b" in ran.err
