"""Tracking servers, and what is reported to them, for tests."""

from __future__ import annotations

from typing import Any

from activities.experiments.copying import batches
from activities.experiments.tracking import Tracking
from contracts.experiments import (
    RunFacts,
)
from contracts.tracking_servers import (
    ENSURE_SERVER_ROLE,
    ENSURE_TRACKING_SERVER,
    WAIT_FOR_TRACKING_SERVER,
    EnsureTrackingServer,
    TrackingServerRequest,
    TrackingServerSpec,
    WaitForTrackingServer,
)
from tests.activities.world import World


def wanted(world: World, name: str | None = None, **spec: Any) -> TrackingServerRequest:
    return TrackingServerRequest(
        scope=world.scope,
        spec=TrackingServerSpec(name=name or f"{world.scope.cluster}-mlflow", **spec),
        account=world.caller.account,
        bucket=world.bucket.name,
    )


def made(world: World, name: str | None = None) -> str:
    """The ARN of a tracking server that answers."""
    request = wanted(world, name)
    role = world.run(ENSURE_SERVER_ROLE, request)
    world.run(ENSURE_TRACKING_SERVER, EnsureTrackingServer(request=request, role_arn=role.arn), attempts=200)
    ready = world.run(WAIT_FOR_TRACKING_SERVER, WaitForTrackingServer(scope=world.scope, name=request.spec.name))
    return ready.arn


def fill(tracking: Tracking, experiment: str, runs: int, points: int = 30) -> list[str]:
    """Runs with a falling loss, each with another learning rate."""
    identifier = tracking.post("experiments/create", name=experiment)["experiment_id"]
    facts = RunFacts(cluster="c", namespace="default", training="t", instance_type="ml.g5.8xlarge", nodes=2)
    made = []
    for number in range(runs):
        tags = [{"key": key, "value": value} for key, value in facts.tags.items()]
        run = tracking.post(
            "runs/create", experiment_id=identifier, start_time=1000 + number, run_name=f"run-{number}", tags=tags
        )["run"]["info"]["run_id"]
        losses: list[dict[str, Any]] = [
            {"key": "loss", "value": 10.0 / (step + 1 + number), "timestamp": 2000 + step, "step": step}
            for step in range(points)
        ]
        odd = {"key": "odd", "value": "NaN", "timestamp": 2000, "step": 0}
        params = [{"key": "lr", "value": f"0.{number + 1}"}, {"key": "model", "value": "qwen"}]
        for batch in batches([*losses, odd], 1000):
            tracking.post("runs/log-batch", run_id=run, metrics=batch)
        tracking.post("runs/log-batch", run_id=run, params=params)
        tracking.post("runs/update", run_id=run, status="FINISHED", end_time=9000)
        made.append(run)
    return made
