"""The stages of an operation: as a picture over time, and as a list."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import altair as alt
import streamlit as st

from contracts.operation import Operation, Stage, StageState
from ui.problems import escaped
from ui.times import at, lasting

_STATES: dict[StageState, tuple[str, str, str]] = {
    StageState.PENDING: (":gray[:material/radio_button_unchecked:]", "to come", "#b8c4c4"),
    StageState.RUNNING: (":blue[:material/progress_activity:]", "running", "#2563eb"),
    StageState.WAITING: (":orange[:material/help:]", "waits for a decision", "#ea8a0c"),
    StageState.BLOCKED: (":red[:material/block:]", "blocked", "#c62828"),
    StageState.DONE: (":green[:material/check_circle:]", "done", "#0f9d77"),
    StageState.SKIPPED: (":gray[:material/redo:]", "skipped", "#8a9a9a"),
    StageState.UNCHANGED: (":green[:material/equal:]", "nothing to do", "#7cc4ae"),
}
"""Mark, name and colour of a bar."""
_UNITS = ((7200, 3600, "hours"), (180, 60, "minutes"), (0, 1, "seconds"))
_ROW = 26


def name_of(state: StageState) -> str:
    """The state in words."""
    return _STATES[state][1]


def stage_list(operation: Operation) -> None:
    """Every stage with its state, what goes on or came of it, how long it took and at which attempt."""
    now = _now(operation)
    lines = ["| | Stage | | Took |", "|-|:-|:-|-:|"]
    for stage in operation.stages:
        mark = _STATES[stage.state][0]
        title = (
            f"**{escaped(stage.title)}**" if stage.state is not StageState.PENDING else f":gray[{escaped(stage.title)}]"
        )
        again = f" :gray[attempt {stage.attempt}]" if stage.attempt > 1 else ""
        told = escaped(" ".join((stage.detail or "").split()))
        lines.append(f"| {mark} | {title}{again} | {told} | {_took(stage, now)} |")
    st.markdown("\n".join(lines))


def _now(operation: Operation) -> datetime:
    """Until when stages that have not finished have taken; the operation's end where it has ended."""
    return operation.updated_at if operation.phase.ended else datetime.now(UTC)


def _took(stage: Stage, now: datetime) -> str:
    if stage.started_at is None:
        return ""
    return lasting(_end(stage, now) - stage.started_at).replace(" ", "\u00a0")


def _end(stage: Stage, now: datetime) -> datetime:
    """When its bar ends: a stage that blocks has ended its attempt."""
    return stage.finished_at or now


def timeline(operation: Operation) -> None:
    """Bars from begin to end of each stage that has begun; those side by side ran at the same time."""
    begun = [stage for stage in operation.stages if stage.started_at is not None]
    if not begun:
        return
    now = _now(operation)
    first = min(stage.started_at for stage in begun if stage.started_at is not None)
    whole = max(_end(stage, now) for stage in begun) - first
    _, seconds, unit = next(each for each in _UNITS if whole.total_seconds() >= each[0])
    rows = [_bar(stage, first, now, seconds) for stage in begun]
    states = [state for state in StageState if state in {stage.state for stage in begun}]
    color = alt.Color(
        "state:N",
        scale=alt.Scale(domain=[_STATES[s][1] for s in states], range=[_STATES[s][2] for s in states]),
        legend=alt.Legend(orient="top", title=None, symbolType="square"),
    )
    chart = (
        alt.Chart({"values": rows})
        .mark_bar(cornerRadius=3, height=_ROW * 0.55)
        .encode(
            x=alt.X("begin:Q", title=f"{unit} since it began", axis=alt.Axis(grid=True, tickCount=6)),
            x2="end:Q",
            y=alt.Y(
                "stage:N",
                sort=[stage.title for stage in operation.stages],
                scale=alt.Scale(domain=[stage.title for stage in operation.stages]),
                title=None,
                axis=alt.Axis(labelLimit=190, labelOverlap=False, ticks=False, domain=False),
            ),
            color=color,
            tooltip=[
                alt.Tooltip("stage:N", title="Stage"),
                alt.Tooltip("state:N", title="State"),
                alt.Tooltip("took:N", title="Took"),
                alt.Tooltip("from:N", title="From"),
                alt.Tooltip("until:N", title="Until"),
            ],
        )
        .properties(height=_ROW * len(operation.stages) + 110)
    )
    st.altair_chart(chart, key="timeline")


def _bar(stage: Stage, first: datetime, now: datetime, unit: int) -> dict[str, Any]:
    begin = stage.started_at or now
    end = max(_end(stage, now), begin)
    # A stage that took no time at all is seen too.
    length = max((end - begin) / timedelta(seconds=unit), 0.3 / unit)
    start = (begin - first) / timedelta(seconds=unit)
    return {
        "stage": stage.title,
        "state": _STATES[stage.state][1],
        "begin": start,
        "end": start + length,
        "took": lasting(end - begin),
        "from": at(begin),
        "until": at(end) if stage.finished_at is not None else "now",
    }
