"""Schedules are pure: a seed gives one, always the same, and what it says is well formed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.catalogue import KINDS
from tests.chaos import calls, misfortunes, wishes
from tests.chaos.beside import CHANGES
from tests.chaos.generate import generate
from tests.chaos.schedule import (
    Answer,
    Beside,
    Event,
    Fault,
    Freeze,
    Kill,
    Misfortune,
    Moment,
    Runs,
    Schedule,
    Seen,
    Terminate,
    Thaw,
    Wish,
    has_come,
)

seeds = st.integers(min_value=0, max_value=10**6)


@given(seeds)
def test_a_seed_gives_the_same_schedule_again(seed: int) -> None:
    assert generate(seed) == generate(seed)
    assert str(generate(seed)) == str(generate(seed))


def test_the_schedule_of_a_seed_is_the_same_on_every_machine() -> None:
    assert hashlib.sha256(str(generate(1)).encode()).hexdigest()[:16] == FIRST_SEED


def test_seeds_differ() -> None:
    assert len({str(generate(seed)).partition("\n")[2] for seed in range(50)}) == 50


@given(seeds)
def test_events_wait_for_wishes_of_their_schedule_that_come_before_them(seed: int) -> None:
    schedule = generate(seed)
    numbers = [event.number for event in schedule.events]
    assert numbers == sorted(set(numbers))
    changed: set[str] = set()
    for part in (schedule.life, schedule.teardown):
        names = {event.action.name for event in part if isinstance(event.action, Wish)}
        for event in part:
            assert set(event.at.after) <= names
            if isinstance(event.action, Answer | Terminate):
                assert event.action.wish in names
            if isinstance(event.action, Wish):
                assert set(event.action.settles) <= changed
            if isinstance(event.action, Beside):
                changed.add(event.action.name)
    assert {wish.operation for wish in schedule.wishes} <= set(KINDS)
    json.dumps(schedule.document())


@given(seeds)
def test_every_event_has_its_moment_when_all_operations_have_ended(seed: int) -> None:
    schedule = generate(seed)
    seen = {wish.name: Seen("succeeded") for wish in schedule.wishes}
    assert all(has_come(event.at, seen) for event in schedule.events)


@given(seeds)
def test_every_cluster_is_created_first_and_deleted_in_the_end(seed: int) -> None:
    schedule = generate(seed)
    for tag in {wish.cluster for wish in schedule.wishes} - {wishes.IMPORTED}:
        operations = [wish.operation for wish in schedule.wishes if wish.cluster == tag]
        assert (operations[0], operations[-1]) == ("create-cluster", "delete-cluster")
        assert Counter(operations)["delete-cluster"] == 1


def test_five_hundred_seeds_have_every_operation_of_the_menu_and_every_class_of_misfortune() -> None:
    schedules = [generate(seed) for seed in range(500)]
    events = [event.action for schedule in schedules for event in schedule.events]
    asked = {action.operation for action in events if isinstance(action, Wish)}
    assert asked >= MENU
    misfortune = {action.what for action in events if isinstance(action, Fault | Misfortune)}
    assert misfortune >= CLASSES
    assert any(isinstance(action, Terminate) for action in events)
    assert any(isinstance(action, Freeze) for action in events)
    assert any(isinstance(action, Runs) for action in events)
    assert {action.what for action in events if isinstance(action, Beside)} == set(CHANGES)
    answers = {action.action for action in events if isinstance(action, Answer)}
    assert answers == {"decide", "retry", "approve", "abort"}
    killed = {action.services for action in events if isinstance(action, Kill)}
    assert killed == set(misfortunes.VICTIMS)
    wished = [action for action in events if isinstance(action, Wish)]
    assert {wish.by for wish in wished} == {"admin", "agent"}
    for trait in ("rival", "interrupted", "keyed"):
        assert {bool(getattr(wish, trait)) for wish in wished} == {True, False}, trait
    assert any(action.other is not None for action in events if isinstance(action, Answer))


@given(seeds)
def test_every_worker_that_is_frozen_is_thawed_later(seed: int) -> None:
    schedule = generate(seed)
    for part in (schedule.life, schedule.teardown):
        actions = [event.action for event in part]
        assert actions.count(Freeze()) == actions.count(Thaw())
        assert all(isinstance(actions[i + 1], Thaw) for i, action in enumerate(actions) if isinstance(action, Freeze))


def test_rules_name_calls_that_operations_of_the_schedule_make() -> None:
    """Of AWS, where a rule names one call; throttling and the like name services."""
    for schedule in (generate(seed) for seed in range(200)):
        made = {call for wish in schedule.wishes for call in calls.changing(wish.operation)}
        for event in schedule.events:
            if isinstance(event.action, Fault) and event.action.rule["api"] == "aws":
                named = (event.action.rule["service"], event.action.rule["operation"])
                assert named[1] == ".*" or named in made, event


def test_calls_are_told_by_the_names_that_faults_know() -> None:
    assert ("s3", "PutBucketEncryption") in calls.changing("create-cluster")
    assert ("sagemaker", "BatchAddClusterNodes") in calls.changing("scale-instance-group")
    assert not [name for _, name in calls.changing("delete-cluster") if name.startswith(calls.READING)]
    assert calls.changing("verify-access") == ()
    assert "sagemaker" in calls.services("create-cluster")
    assert calls.objects("delete-router") == ("DELETE .*",) * 3


FIRST_SEED = "d7e331d9e8256624"
"""Another one where menus, the drawing or the calls that were observed change: seeds that have failed before are other
schedules then."""
MENU = {
    "create-cluster",
    "import-cluster",
    "add-instance-group",
    "scale-instance-group",
    "update-instance-group",
    "delete-instance-group",
    "reboot-nodes",
    "replace-nodes",
    "delete-nodes",
    "update-features",
    "create-storage",
    "create-fsx-storage",
    "delete-storage",
    "create-deployment",
    "scale-deployment",
    "update-deployment",
    "delete-deployment",
    "create-model-pool",
    "scale-model-pool",
    "assign-model-pool",
    "delete-model-pool",
    "run-training",
    "create-ray-cluster",
    "create-node-group",
    "scale-node-group",
    "delete-node-group",
    "store-credential",
    "download-model",
    "create-tracking-server",
    "delete-tracking-server",
    "connect-experiments",
    "disconnect-experiments",
    "sync-experiments",
    "adopt-drift",
    "restore-drift",
    "create-router",
    "delete-router",
    "create-autoscaler",
    "delete-autoscaler",
    "create-endpoint",
    "update-endpoint",
    "delete-endpoint",
    "create-node-pool",
    "delete-node-pool",
    "delete-ray-cluster",
    "delete-credential",
    "stop-training",
    "suspend-training",
    "resume-training",
    "verify-access",
    "verify-cluster",
    "install-dependencies",
    "redetect-cluster",
    "update-software",
    "delete-cluster",
}
CLASSES = {
    "lost response",
    "lost request",
    "500 after the effect",
    "throttling",
    "internal error",
    "latency",
    "denial",
    "eventual consistency",
    "409 of Kubernetes",
    "429 of Kubernetes",
    "503 of Kubernetes",
    "lost response of Kubernetes",
    "slow webhook",
    "watches dropped",
    "versions expired",
    "clock jump",
    "capacity shortage",
    "broken add-on",
    "failing lifecycle script",
    "sick node",
    "failing pod",
}


def _schedule() -> Schedule:
    asked = {name: Wish(name, "c0", "create-cluster", "POST", "/clusters") for name in ("a", "b")}
    life = (
        Event(1, Moment(), asked["a"]),
        Event(2, Moment(("a",), "quiet"), Answer("a", "decide")),
        Event(3, Moment(("a",), "settled"), asked["b"]),
        Event(4, Moment(("a", "b"), "stages", 2), Kill(("worker",))),
    )
    return Schedule(0, 100.0, life, ())


def test_leaving_a_wish_out_leaves_out_what_is_about_it_and_nothing_waits_for_it() -> None:
    left = _schedule().without([1])
    assert [(event.number, event.at.after) for event in left.life] == [(3, ()), (4, ("b",))]
    assert _schedule().without([4]).life == _schedule().life[:3]


@pytest.mark.parametrize(
    ("moment", "seen", "come"),
    [
        (Moment(), None, True),
        (Moment(("a",)), None, False),
        (Moment(("a",)), Seen("running"), True),
        (Moment(("a",), "quiet"), Seen("running"), False),
        (Moment(("a",), "quiet"), Seen("waiting_for_decision"), True),
        (Moment(("a",), "settled"), Seen("waiting_for_decision"), False),
        (Moment(("a",), "settled"), Seen("blocked"), True),
        (Moment(("a",), "blocked"), Seen("queued"), False),
        (Moment(("a",), "stages", 3), Seen("running", stages=2), False),
        (Moment(("a",), "stages", 3), Seen("running", stages=3), True),
        (Moment(("a",), "effects", 3), Seen("running", effects=2), False),
        (Moment(("a",), "effects", 3), Seen("running", effects=4), True),
        (Moment(("a",), "effects", 3), Seen("succeeded"), True),
    ],
)
def test_a_moment_comes_by_what_is_seen_of_its_operations(moment: Moment, seen: Seen | None, come: bool) -> None:
    assert has_come(moment, {} if seen is None else {"a": seen}) is come


def test_what_is_said_of_an_event_tells_all_of_it() -> None:
    [wish] = [event for event in generate(3).life if event.number == 1]
    assert isinstance(wish.action, Wish)
    assert wish.action.path in str(wish)
    shown = replace(wish, action=replace(wish.action, crowd=4, keyed=False, interrupted=True, by="agent"))
    for word in ("4 at once", "without key", "the gateway killed meanwhile", "by agent"):
        assert word in str(shown)


def test_the_plan_of_a_cluster_never_uses_more_gpus_than_its_first_group_has() -> None:
    for seed in range(200):
        for schedule in (generate(seed),):
            plan = wishes.Plan("c0", "us-west-2", {wishes.FIRST: 2})
            assert plan.gpus_left == 2
            servers = [wish for wish in schedule.wishes if wish.operation == "create-deployment"]
            for tag in {wish.cluster for wish in servers}:
                assert len([wish for wish in servers if wish.cluster == tag]) <= 10
