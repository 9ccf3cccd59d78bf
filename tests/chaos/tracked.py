"""Experiments on tracking servers: runs that training reports, and what a server has of them."""

from __future__ import annotations

import time
from typing import Any

import httpx
from botocore.credentials import Credentials
from temporalio.exceptions import ApplicationError

from activities.experiments.copying import SOURCE_RUN, tags_of
from activities.experiments.tracking import Tracking
from sandbox import credentials
from tests.chaos.stories import EXPERIMENT
from tests.chaos.world import World

POINTS = 12
TRIES = 5
Content = dict[str, Any]


def arn_of(region: str, server: str) -> str:
    return f"arn:aws:sagemaker:{region}:{credentials.ACCOUNT}:mlflow-tracking-server/{server}"


def _open(world: World, region: str, server: str) -> Tracking:
    keys = Credentials(credentials.ACCESS_KEY_ID, credentials.SECRET_ACCESS_KEY)
    return Tracking(arn_of(region, server), world.url, lambda: keys)


def report(world: World, region: str, server: str, count: int) -> bool:
    """So many runs more, and one point more of each that is there already and no copy; whether there is such a
    server."""
    try:
        with _open(world, region, server) as tracking:
            found = tracking.experiment_named(EXPERIMENT)
            experiment = (found or tracking.post("experiments/create", name=EXPERIMENT))["experiment_id"]
            there = list(tracking.runs([experiment], max_results=200))
            for run in (each for each in there if SOURCE_RUN not in tags_of(each)):
                point = {"key": "loss", "value": 0.5, "timestamp": POINTS + len(there), "step": POINTS + len(there)}
                tracking.post("runs/log-batch", run_id=run["info"]["run_id"], metrics=[point])
            for number in range(len(there), len(there) + count):
                begun = tracking.post("runs/create", experiment_id=experiment, start_time=1000 + number)
                run_id = begun["run"]["info"]["run_id"]
                points = [{"key": "loss", "value": 1 / (n + 1), "timestamp": n, "step": n} for n in range(POINTS)]
                params = [{"key": "rate", "value": f"{number}e-5"}]
                tracking.post("runs/log-batch", run_id=run_id, metrics=points, params=params)
                tracking.post("runs/update", run_id=run_id, status="FINISHED", end_time=9000 + number)
    except (ApplicationError, httpx.HTTPError):
        return False
    return True


def runs(world: World, region: str, server: str) -> list[tuple[str, Content]] | None:
    """Runs of the experiment, each with the run that it is a copy of (or itself) and what it holds; None: there is no
    such experiment."""
    for attempt in range(TRIES):
        try:
            return _runs(world, region, server)
        except (ApplicationError, httpx.HTTPError):
            if attempt == TRIES - 1:
                raise
            time.sleep(0.2)
    return None


def _runs(world: World, region: str, server: str) -> list[tuple[str, Content]] | None:
    with _open(world, region, server) as tracking:
        found = tracking.experiment_named(EXPERIMENT)
        if found is None:
            return None
        told = []
        for run in tracking.runs([found["experiment_id"]], max_results=200):
            info, data = run["info"], run.get("data", {})
            tags = {each["key"]: each["value"] for each in data.get("tags", ())}
            points = [
                (each["step"], each["timestamp"], each["value"]) for each in tracking.history(info["run_id"], "loss")
            ]
            params = {each["key"]: each["value"] for each in data.get("params", ())}
            content = {"status": info.get("status"), "end": info.get("end_time"), "params": params}
            told.append((tags.get(SOURCE_RUN, info["run_id"]), {**content, "loss": sorted(points)}))
        return told


def copied(source: list[tuple[str, Content]], copies: list[tuple[str, Content]]) -> list[str]:
    """Each run of the source is in the copy once, and as it is."""
    faults = []
    for run, content in source:
        found = [each for of, each in copies if of == run]
        if len(found) != 1:
            faults.append(f"run {run} was copied {len(found)} times")
        elif found[0] != content:
            faults.append(f"the copy of run {run} is {found[0]}, the run is {content}")
    return faults
