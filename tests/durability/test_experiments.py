"""A copy of an experiment on the whole stack outlives whoever makes it, and doubles nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.credentials import Credentials

from activities.experiments.copying import batches
from activities.experiments.tracking import Tracking
from sandbox import credentials
from tests.durability.runs import create, finish, wait_for
from tests.local_stack import LocalStack

TAG = "lab"
RUNS, POINTS = 6, 3000


@pytest.fixture(scope="module")
def cluster(shared_stack: LocalStack) -> str:
    finish(shared_stack, create(shared_stack, TAG))
    return f"/clusters/{TAG}"


def started(stack: LocalStack, path: str, body: Any) -> str:
    answer = stack.gateway.post(path, json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


@pytest.fixture
def servers(stack: LocalStack, cluster: str) -> Iterator[list[Tracking]]:
    """Two tracking servers: one with runs, one without."""
    keys = Credentials(credentials.ACCESS_KEY_ID, credentials.SECRET_ACCESS_KEY)
    made = [started(stack, f"{cluster}/tracking-servers", {"name": name}) for name in ("source", "copy")]
    arns = [finish(stack, each)["result"]["arn"] for each in made]
    opened = [Tracking(arn, stack.settings.sandbox_url, lambda: keys) for arn in arns]
    fill(opened[0])
    yield opened
    for each in opened:
        each.__exit__()


def fill(tracking: Tracking) -> None:
    experiment = tracking.post("experiments/create", name="qwen")["experiment_id"]
    for number in range(RUNS):
        run = tracking.post(
            "runs/create", experiment_id=experiment, start_time=1000 + number, run_name=f"run-{number}"
        )["run"]["info"]["run_id"]
        points = ({"key": "loss", "value": 1 / (step + 1), "timestamp": step, "step": step} for step in range(POINTS))
        for batch in batches(points, 1000):
            tracking.post("runs/log-batch", run_id=run, metrics=batch)
        tracking.post("runs/update", run_id=run, status="FINISHED", end_time=9000)


def contents(tracking: Tracking) -> dict[str, Any]:
    found = tracking.experiment_named("qwen")
    assert found is not None
    told: dict[str, Any] = {}
    for each in tracking.runs([found["experiment_id"]], max_results=50):
        points = tracking.history(each["info"]["run_id"], "loss")
        assert each["info"]["run_name"] not in told
        told[each["info"]["run_name"]] = (each["info"]["status"], sorted((p["step"], p["value"]) for p in points))
    return told


def test_a_copy_outlives_whoever_makes_it_and_doubles_nothing(
    stack: LocalStack, cluster: str, servers: list[Tracking]
) -> None:
    source, copy = servers
    slow = {"service": "sagemaker-mlflow", "operation": "LogBatch", "action": "latency", "latency": 0.3}
    stack.sandbox.post("/faults", json=[slow]).raise_for_status()
    spec = {"source": "source", "experiment": "qwen", "destination": copy.arn}
    operation = started(stack, f"{cluster}/experiments/sync", spec)

    def written() -> int:
        query = {"service": "sagemaker-mlflow", "operation": "LogBatch", "effects_only": "true"}
        entries = stack.sandbox.get("/ledger", params=query).json()["entries"]
        return sum(each["resource"] == copy.arn for each in entries)

    for batch in (2, 6):
        wait_for(lambda wanted=batch: written() >= wanted)
        stack.kill("worker", "gateway")
        stack.start("worker", "gateway")
    stack.sandbox.delete("/faults").raise_for_status()
    assert finish(stack, operation)["result"]["runs"] == RUNS
    assert contents(copy) == contents(source)
    again = finish(stack, started(stack, f"{cluster}/experiments/sync", spec))
    assert (again["result"]["unchanged"], again["result"]["metrics"]) == (RUNS, 0)
