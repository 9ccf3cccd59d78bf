"""What others changed past the platform, and copied experiments: a check speaks only where something is not well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.chaos import invariants, settling, standing, tracked
from tests.chaos.beside import CHANGES, Changed, own_labels
from tests.chaos.done import Done
from tests.chaos.schedule import Beside
from tests.chaos.settling import Stands
from tests.chaos.test_invariants import ALL, HELD, RECORD, VPC, done
from tests.chaos.world import Group

COUNT = Changed(Beside("b", "c0", "count", "workers", 1), 2, 1, 2, at="5", sure=True)
MADE = Changed(Beside("b2", "c0", "group", "b1", 1), None, 1, None, at="5", sure=True)
TARGET = {"differences": ["instance-group/workers/target~0a1b2c3d"]}
EXTRA = {"differences": ["instance-group/b1~0a1b2c3d"]}
RESTORED = done("restore-drift", finished="6", spec=TARGET)
ADOPTED = done("adopt-drift", finished="6", spec=TARGET)
ELSEWHERE = done("scale-instance-group", finished="7", spec={"group": "g1", "count": 3})


@pytest.mark.parametrize(
    ("operations", "now", "recorded"),
    [([RESTORED], 2, 2), ([ADOPTED], 1, 1), ([ELSEWHERE], 1, 2), ([], 1, 2), ([ADOPTED, ELSEWHERE], 1, 1)],
)
def test_what_was_restored_is_as_recorded_what_was_adopted_is_recorded_and_what_was_left_stays_a_difference(
    operations: list[Done], now: int, recorded: int
) -> None:
    assert settling.settled([Stands(COUNT, now, recorded)], operations) == []
    assert settling.settled([Stands(COUNT, 7, recorded)], operations)
    assert settling.settled([Stands(COUNT, now, 7)], operations)


def test_a_difference_that_an_operation_on_another_group_has_swallowed_is_found() -> None:
    [fault] = settling.settled([Stands(COUNT, 1, 1)], [ELSEWHERE])
    assert "was left, and recorded is 1" in fault


@pytest.mark.parametrize(
    "other",
    [
        replace(RESTORED, phase="aborted"),
        done("scale-instance-group", finished="7", spec={"group": "workers", "count": 4}),
        done("redetect-cluster", finished="7"),
        done("delete-nodes", finished="7", node_of="workers"),
    ],
)
def test_what_somebody_else_was_at_or_nobody_carried_through_is_left_out(other: Done) -> None:
    assert settling.settled([Stands(COUNT, 4, 4)], [other]) == []


def test_only_the_last_change_of_a_thing_counts() -> None:
    again = replace(COUNT, before=1, after=3, at="8")
    assert settling.settled([Stands(COUNT, 3, 2), Stands(again, 3, 2)], [RESTORED]) == []
    grown = Changed(Beside("b4", "c0", "count", "b1", 3), 1, 3, 1, at="7", sure=True)
    adopted = done("adopt-drift", finished="6", spec=EXTRA)
    assert settling.settled([Stands(MADE, 3, 1), Stands(grown, 3, 1)], [adopted]) == []


def test_what_others_changed_is_what_stands_until_it_is_restored() -> None:
    def standing_after(operations: list[Done], count: int) -> list[str]:
        held = replace(HELD, groups={"workers": Group(count, HELD.groups["workers"].labels)})
        return standing.as_asked([*ALL, *operations, *settling.effects([COUNT], operations)], {"c0": held})

    assert standing_after([], 1) == []
    assert standing_after([ADOPTED], 1) == []
    assert standing_after([RESTORED], 2) == []
    assert standing_after([RESTORED], 1)
    assert standing_after([], 2)
    assert standing_after([replace(RESTORED, phase="aborted")], 1) == []


def test_a_group_that_others_made_is_in_no_record_before_somebody_adopts_it() -> None:
    held = {"c0": replace(HELD, groups={**HELD.groups, "b1": Group(1)})}
    made = settling.unrecorded([MADE], [])
    assert invariants.there([VPC], {"c0": RECORD}, held, [], made) == []
    adopted = done("adopt-drift", finished="6", spec=EXTRA)
    made = settling.unrecorded([MADE], [adopted])
    assert invariants.there([VPC], {"c0": RECORD}, held, [], made)
    groups = {"groups": [{"name": "workers"}, {"name": "b1"}]}
    assert invariants.there([VPC], {"c0": {**RECORD, "hyperpod": groups}}, held, [], made) == []


def test_a_difference_is_told_apart_from_those_of_things_whose_names_begin_alike() -> None:
    assert MADE.named_by("instance-group/b1~0a1b2c3d")
    assert not MADE.named_by("instance-group/b12~0a1b2c3d")
    assert not MADE.named_by("instance-group/b1/target~0a1b2c3d")
    assert not COUNT.named_by("instance-group/workers/labels~0a1b2c3d")
    bucket = replace(COUNT, event=Beside("b3", "c0", "bucket", "c0"))
    assert bucket.named_by("bucket/sagemaker-c0-123456789012-us-west-2/public_access~0a1b2c3d")
    assert not bucket.named_by("bucket/sagemaker-c01-123456789012-us-west-2/public_access~0a1b2c3d")


def test_what_the_record_says_is_read_of_the_very_thing() -> None:
    group = {"name": "workers", "target": 2, "labels": {"a": "b", "sagemaker.amazonaws.com/x": "y"}}
    known = {"deployment/default/chat1": {"image": "one"}, "deployment/default/chat12": {"image": "two"}}
    record: dict[str, Any] = {
        "hyperpod": {"groups": [group]},
        "dependencies": [{"name": "coredns"}],
        "drift": {"known": {**known, "bucket/sagemaker-c0-1-us-west-2": {"public_access": "open"}}},
    }
    said = {what: CHANGES[what].recorded for what in CHANGES}
    assert (said["count"](record, "workers"), said["labels"](record, "workers")) == (2, {"a": "b"})
    assert (said["component"](record, "coredns"), said["component"](record, "vpc-cni")) == ("there", "gone")
    assert (said["image"](record, "chat1"), said["image"](record, "chat")) == ("one", None)
    assert said["bucket"](record, "c0") == "open"
    assert said["count"]({}, "workers") is None
    assert own_labels(None) == {}


def test_copies_are_like_their_sources_and_each_is_there_once() -> None:
    one = ("r1", {"status": "FINISHED", "loss": [(0, 0, 1.0)]})
    assert tracked.copied([one], [one, ("r9", {})]) == []
    assert "copied 0 times" in tracked.copied([one], [])[0]
    assert "copied 2 times" in tracked.copied([one], [one, one])[0]
    assert "the copy of run r1 is" in tracked.copied([one], [("r1", {"status": "FINISHED", "loss": []})])[0]
