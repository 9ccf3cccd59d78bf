"""What every page says of an operation: what it does, where it is, what it waits for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.catalogue import KINDS
from contracts.durations import Durations, remaining
from contracts.operation import Operation, Phase, Stage, StageState
from ui.kept import kept
from ui.problems import escaped
from ui.session import gateway
from ui.times import at, lasting

Color = Literal["green", "orange", "red", "blue", "gray"]

PHASES: dict[Phase, tuple[str, str, Color]] = {
    Phase.QUEUED: ("Queued", ":material/hourglass_empty:", "gray"),
    Phase.RUNNING: ("Running", ":material/play_circle:", "blue"),
    Phase.WAITING_FOR_DECISION: ("Needs a decision", ":material/help:", "orange"),
    Phase.WAITING_FOR_APPROVAL: ("Needs an approval", ":material/approval:", "orange"),
    Phase.BLOCKED: ("Blocked", ":material/block:", "red"),
    Phase.SUCCEEDED: ("Succeeded", ":material/check_circle:", "green"),
    Phase.ABORTED: ("Aborted", ":material/cancel:", "gray"),
    Phase.FAILED: ("Failed", ":material/error:", "red"),
}
"""Name, icon and colour."""

_DURATIONS_SECONDS = 60.0


def title_of(kind: str) -> str:
    """What operations of the kind do, e.g. ``Create a cluster``."""
    known = KINDS.get(kind)
    return known.title if known is not None else kind.replace("-", " ").capitalize()


def subject_of(operation: Operation) -> str:
    """What it is about: the cluster, and the part of it where one is named, e.g. ``demo / workers``."""
    return operation.id.partition("/")[2].replace("/", " / ")


def phase_badge(phase: Phase) -> None:
    """The phase in its colour."""
    name, icon, color = PHASES[phase]
    st.badge(name, icon=icon, color=color)


def waits_for(operation: Operation) -> str:
    """In one line of Markdown: the question, what must be approved, or the problem; else what goes on."""
    if operation.decision is not None:
        return escaped(operation.decision.question)
    if operation.problem is not None:
        return escaped(_line(operation.problem.detail))
    if operation.detail:
        return escaped(_line(operation.detail))
    current = [stage for stage in operation.stages if stage.state is StageState.RUNNING]
    return escaped(
        "; ".join(_line(f"{stage.title}: {stage.detail}" if stage.detail else stage.title) for stage in current)
    )


def since(operation: Operation) -> datetime:
    """Since when it waits or runs; when it ended."""
    if operation.decision is not None:
        return operation.decision.asked_at
    blocked = [stage.finished_at for stage in operation.stages if stage.state is StageState.BLOCKED]
    moments = [moment for moment in blocked if moment is not None]
    if moments:
        return min(moments)
    return operation.updated_at if operation.phase.ended else operation.started_at


def finished(stages: list[Stage]) -> int:
    """How many stages are behind it."""
    return sum(stage.state.finished for stage in stages)


def share_done(operation: Operation) -> float:
    """From 0 to 1, by the number of stages."""
    return finished(operation.stages) / len(operation.stages) if operation.stages else 0.0


def durations(kind: str) -> Durations | None:
    """How long operations of the kind have taken; None where that cannot be told."""
    try:
        return kept(f"durations/{kind}", _DURATIONS_SECONDS, lambda: gateway().call(endpoints.GET_DURATIONS, kind=kind))
    except GatewayProblem:
        return None


def time_left(operation: Operation) -> str | None:
    """How long it will still take, by what its kind has taken so far; None where nothing is known."""
    history = durations(operation.kind)
    now = datetime.now(UTC)
    left = remaining(operation, history, now) if history is not None else None
    if left is None or history is None or operation.phase.ended:
        return None
    if operation.phase is not Phase.RUNNING:
        return f"about {lasting(left)} of work left" if left.total_seconds() >= 1 else None
    if left.total_seconds() < 1:
        return "should end any moment"
    return f"about {lasting(left)} left, until {at(now + left)}"


def _line(text: str) -> str:
    return " ".join(text.split())
