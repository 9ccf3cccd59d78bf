"""How long operations took, and how long one that runs will still take."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from contracts.durations import Durations, durations_of, remaining
from contracts.operation import Operation, Phase, Stage, StageState

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("network", "egress", "control_plane", "access", "capacity", "hyperpod")
SECONDS = st.integers(0, 7200)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def stage(name: str, begin: float | None = None, end: float | None = None, **more: Any) -> Stage:
    state = StageState.DONE if end is not None else StageState.RUNNING if begin is not None else StageState.PENDING
    times = {"started_at": None if begin is None else at(begin), "finished_at": None if end is None else at(end)}
    return Stage.model_validate({"name": name, "title": name, "state": state, **times, **more})


def operation(*stages: Stage, phase: Phase = Phase.SUCCEEDED, kind: str = "create-cluster") -> Operation:
    return Operation(
        id=f"{kind}/demo",
        kind=kind,
        cluster="demo",
        phase=phase,
        stages=list(stages),
        plan_hash="",
        started_by="test",
        started_at=BEGAN,
        updated_at=BEGAN,
    )


def running(*stages: Stage) -> Operation:
    return operation(*stages, phase=Phase.RUNNING)


SIDE_BY_SIDE = operation(
    stage("network", 0, 30), stage("egress", 30, 150), stage("control_plane", 30, 630), stage("access", 630, 690)
)
"""Egress beside the control plane; 690 seconds in all."""


@st.composite
def pasts(draw: st.DrawFn) -> list[Operation]:
    """Operations with any stages at any times."""

    def one() -> Operation:
        spans = [(name, sorted((draw(SECONDS), draw(SECONDS)))) for name in NAMES if draw(st.booleans())]
        return operation(*(stage(name, begin, end) for name, (begin, end) in spans))

    return [one() for _ in range(draw(st.integers(1, 6)))]


@st.composite
def presents(draw: st.DrawFn) -> Operation:
    """An operation in which each stage is pending, running, blocked, waiting or finished."""
    stages = []
    for name in NAMES:
        state = draw(st.sampled_from(StageState))
        begin = None if state is StageState.PENDING else draw(SECONDS)
        end = begin if begin is not None and state.finished else None
        stages.append(stage(name, begin, end, state=state))
    return running(*stages)


def test_offsets_are_of_work_and_leave_out_people_queues_and_failed_attempts() -> None:
    past = operation(
        stage("network", 1000, 1030), stage("capacity", 1030, 9000), stage("hyperpod", 20000, 20600, attempt=3)
    )
    found = durations_of("create-cluster", [past])
    assert (found.samples, found.total_median_seconds) == (1, 630)
    places = [(each.stage, each.begins_seconds, each.ends_seconds) for each in found.stages]
    assert places == [("network", 0, 30), ("hyperpod", 30, 630)]


def test_stages_side_by_side_count_once_and_medians_are_of_each_stage() -> None:
    slower = operation(stage("network", 0, 90), stage("egress", 90, 190), stage("control_plane", 90, 890))
    found = durations_of("create-cluster", [SIDE_BY_SIDE, slower])
    by_name = {each.stage: each for each in found.stages}
    network = by_name["network"]
    assert (network.median_seconds, network.longest_seconds, network.samples) == (60, 90, 2)
    assert by_name["access"].samples == 1
    assert found.total_median_seconds == (690 + 890) / 2


def test_only_what_succeeded_of_the_kind_is_a_sample_and_skipped_stages_are_none() -> None:
    others = [
        operation(stage("network", 0, 1), phase=Phase.FAILED),
        operation(stage("network", 0, 1), kind="delete-cluster"),
        operation(stage("network", 0, 1, state=StageState.SKIPPED)),
        operation(),
    ]
    found = durations_of("create-cluster", others)
    assert found == Durations(kind="create-cluster")
    assert remaining(running(stage("network", 0)), found, at(1)) is None


def test_what_ran_side_by_side_will_do_so_again() -> None:
    past = durations_of("create-cluster", [SIDE_BY_SIDE])
    names = ("network", "egress", "control_plane", "access")
    untouched = running(*(stage(name) for name in names))
    assert remaining(untouched, past, at(0)) == timedelta(seconds=690)
    assert remaining(running(), past, at(0)) == timedelta(seconds=690)
    together = running(stage("network", 0, 30), stage("egress", 30), stage("control_plane", 30), stage("access"))
    assert remaining(together, past, at(130)) == timedelta(seconds=560)
    # An overdue neighbour delays nobody as long as the longest stage goes on.
    assert remaining(together, past, at(330)) == timedelta(seconds=360)


def test_what_stands_still_begins_anew_and_what_has_ended_takes_no_time() -> None:
    past = durations_of("create-cluster", [SIDE_BY_SIDE])
    blocked = running(stage("control_plane", 30, state=StageState.BLOCKED), stage("access"))
    assert remaining(blocked, past, at(5000)) == timedelta(seconds=660)
    assert remaining(SIDE_BY_SIDE, past, at(5000)) == timedelta(0)
    assert remaining(running(stage("network", 0)), durations_of("delete-cluster", [SIDE_BY_SIDE]), at(1)) is None


@given(pasts(), presents(), SECONDS)
def test_what_remains_is_never_negative_nor_more_than_all_stages_one_after_the_other(
    past: list[Operation], present: Operation, now: int
) -> None:
    known = durations_of("create-cluster", past)
    found = remaining(present, known, at(now))
    assert (found is None) == (known.samples == 0)
    if found is not None:
        assert timedelta(0) <= found <= timedelta(seconds=sum(each.median_seconds for each in known.stages))


@given(pasts(), presents(), SECONDS, SECONDS, st.permutations(NAMES))
def test_what_remains_shrinks_as_time_passes_and_stages_finish_down_to_nothing(
    past: list[Operation], present: Operation, now: int, later: int, order: list[str]
) -> None:
    known = durations_of("create-cluster", [*past, SIDE_BY_SIDE])
    before = remaining(present, known, at(now))
    assert before is not None
    now += later
    for name in [None, *order]:
        stages = [
            each.model_copy(update={"state": StageState.DONE, "finished_at": at(now)}) if each.name == name else each
            for each in present.stages
        ]
        present = present.model_copy(update={"stages": stages})
        after = remaining(present, known, at(now))
        assert after is not None
        assert after <= before
        before = after
    assert before == timedelta(0)


@given(pasts())
def test_offsets_stay_within_the_whole_and_keep_the_order_of_what_followed(past: list[Operation]) -> None:
    for each in past:
        found = durations_of("create-cluster", [each])
        spans = {stage.name: stage for stage in each.stages}
        for one in found.stages:
            assert 0 <= one.begins_seconds <= one.ends_seconds <= (found.total_median_seconds or 0)
            for other in found.stages:
                ended, begun = spans[one.stage].finished_at, spans[other.stage].started_at
                assert ended is not None
                assert begun is not None
                assert (ended > begun) or one.ends_seconds <= other.begins_seconds
