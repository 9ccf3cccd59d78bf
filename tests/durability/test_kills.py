"""kill -9 of any part, at every stage boundary and inside stages: the pipeline finishes, and nothing is done twice."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from contracts.drift import DRIFT_STAGE
from tests.local_stack import LocalStack, local_stack

SPEED = 90.0
TURNS = (("worker",), ("gateway",), ("worker",), ("temporal",), ("temporal", "worker", "gateway"))
"""Who is killed next."""
ENDS = ("succeeded", "blocked", "aborted", "failed")
BODY = {"tag": "demo", "instance_groups": [{"instance_type": "ml.g5.8xlarge", "count": 2}]}
OPERATION = "create-cluster/demo"


def created(stack: LocalStack) -> Counter[str]:
    """Effects of a run. Helm's bookkeeping is left out: a release that was killed half-way has one revision more."""
    return Counter({name: count for name, count in stack.effects().items() if "/secrets" not in name})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """What a run does that nobody disturbs."""
    with local_stack(tmp_path_factory.mktemp("undisturbed"), SPEED) as stack:
        stack.gateway.post("/clusters", json=BODY).raise_for_status()
        assert stack.until(OPERATION, lambda o: o["phase"] in ENDS)["phase"] == "succeeded"
        return created(stack)


def test_whatever_is_killed_at_every_stage_boundary_and_inside_stages_each_effect_happens_once(
    tmp_path: Path, undisturbed: Counter[str]
) -> None:
    dice = random.Random(7)
    victims = itertools.cycle(TURNS)
    kills = 0
    inside: dict[str, float] = {}
    """When a stage that runs is disturbed once more, somewhere in its middle."""
    with local_stack(tmp_path, SPEED) as stack:
        stack.gateway.post("/clusters", json=BODY).raise_for_status()
        reached: set[tuple[str, str]] = set()
        while (operation := stack.operation(OPERATION))["phase"] not in ENDS:
            now = {(stage["name"], stage["state"]) for stage in operation["stages"] if stage["state"] != "pending"}
            middle = [name for name, at in inside.items() if at < time.monotonic() and (name, "running") in now]
            if now - reached or middle:
                names = next(victims)
                stack.kill(*names)
                # Nothing is done meanwhile: how many stages are disturbed must not depend on how soon programs start.
                stack.sandbox.post("/clock", json={"paused": True}).raise_for_status()
                stack.start(*names)
                stack.sandbox.post("/clock", json={"paused": False}).raise_for_status()
                kills += 1
                inside |= {name: time.monotonic() + dice.uniform(0.2, 4) for name, _ in now - reached}
                inside |= dict.fromkeys(middle, math.inf)
                reached |= now
            time.sleep(0.1)
        assert operation["phase"] == "succeeded", operation["problem"]
        assert kills >= 6
        # A worker that starts gives every cluster its schedule of drift checks: the last stage may find it there.
        ended = {stage["name"]: stage["state"] for stage in operation["stages"]}
        assert ended.pop(DRIFT_STAGE) in ("done", "unchanged")
        assert set(ended.values()) == {"done"}
        assert created(stack) == undisturbed
