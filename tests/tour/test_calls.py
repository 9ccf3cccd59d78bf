"""What the tour calls of AWS: the generated policies are in force on it, and they are enough and not too much.

``INSTANTSTART_SAVE_CALLS=1`` keeps what was seen, for the tables of ``docs/iam.md`` (``make iam`` afterwards).
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from contracts.catalogue import KINDS
from sandbox.aws.authorization import facts
from scripts.iam import kinds, policies, source
from scripts.iam.grants import CREATE_DELETE
from scripts.iam.kinds import Observed
from tests.local_stack import LocalStack
from tests.tour.drive import Tour

CREATION = "create-cluster/refused"
UNWANTED = {"tag": "refused", "instance_groups": [{"instance_type": "ml.g5.8xlarge", "count": 1}]}
STANDING = ("succeeded", "aborted", "failed", "blocked")
MANY = 120
"""Fewer calls than that would not be the tour."""


@pytest.fixture(scope="module")
def seen(toured_stack: LocalStack, tour: Tour) -> Observed:
    """Actions by kind of operation."""
    assert tour.operations
    found = kinds.summed(toured_stack.sandbox.get("/calls").json()["calls"])
    if os.environ.get("INSTANTSTART_SAVE_CALLS"):
        kinds.save(found)
    return found


def test_the_policies_are_in_force_and_refuse_nothing(toured_stack: LocalStack, tour: Tour) -> None:
    answer = toured_stack.sandbox.get("/policies").json()
    assert answer["policies"] == sorted(policies.documents())
    assert answer["refused"] == []


def test_reading_the_source_misses_no_call(seen: Observed) -> None:
    called = {facts.action_of(operation) for operation in source.called()}
    met = {action for actions in seen.values() for action in actions}

    assert len(met) > MANY
    assert sorted(met - called) == []


def test_what_is_allowed_is_called_on_the_tour_or_on_rare_paths_that_the_source_shows(seen: Observed) -> None:
    """Each action that the tour does not need has a module that calls it, and stands in the page with it."""
    met = {each for actions in seen.values() for a in actions for each in (a, *facts.beside(a))}
    rare = {action: modules for action, modules in policies.needed().items() if action not in met}

    assert [action for action, modules in rare.items() if not modules] == []
    assert len(rare) < len(met) / 4, rare


def test_no_kind_needs_more_than_the_page_says(seen: Observed) -> None:
    known = kinds.observed()
    for kind in (*KINDS, kinds.LOOK_UPS):
        more = set(kinds.policies_of(seen.get(kind, ()))) - set(kinds.policies_of_kind(known, kind))
        assert not more, f"{kind} needs {more}: record its calls (INSTANTSTART_SAVE_CALLS=1) and run `make iam`"


def test_without_the_policy_a_creation_waits_and_names_the_action_and_with_it_goes_on(
    toured_stack: LocalStack, tour: Tour
) -> None:
    whole = policies.documents()
    toured_stack.sandbox.put("/policies", json={n: d for n, d in whole.items() if CREATE_DELETE not in n})
    toured_stack.gateway.post("/clusters", json=UNWANTED).raise_for_status()
    blocked = toured_stack.until(CREATION, lambda o: o["phase"] in STANDING)

    assert blocked["phase"] == "blocked"
    assert blocked["problem"]["code"] == "denied"
    assert "not authorized to perform: ec2:CreateVpc" in blocked["problem"]["detail"]
    assert "docs/iam.md" in blocked["problem"]["remedy"]

    toured_stack.sandbox.put("/policies", json=whole)
    toured_stack.until(CREATION, lambda found: _goes_on(toured_stack, found))
    toured_stack.gateway.post(f"/operations/{CREATION}/abort", json={"reason": "seen enough"}).raise_for_status()
    toured_stack.until(CREATION, lambda o: o["phase"] in STANDING)
    assert toured_stack.sandbox.get("/policies").json()["refused"] == []


def _goes_on(stack: LocalStack, creation: dict[str, Any]) -> bool:
    """Retry what is blocked, one stage or several side by side, until the network is there."""
    states = {stage["name"]: stage for stage in creation["stages"]}
    for name, stage in states.items():
        if stage["state"] == "blocked":
            body = {"stage": name, "attempt": stage["attempt"]}
            answer = stack.gateway.post(f"/operations/{CREATION}/retry", json=body)
            assert answer.is_success or answer.status_code == 409, answer.text
    return states["network"]["state"] == "done"


def test_every_kind_that_calls_aws_is_told_by_its_user_agent(seen: Observed) -> None:
    """Else its calls would be counted among look-ups."""
    assert {"create-cluster", "delete-cluster", "update-features", "run-training", "sync-experiments"} <= set(seen)
