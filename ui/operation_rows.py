"""Operations in a list: a row each, which leads to the operation's page."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from contracts.operation import Operation, Phase
from ui.links import page_link
from ui.operation_view import finished, phase_badge, share_done, since, subject_of, time_left, title_of, waits_for
from ui.problems import escaped
from ui.times import ago, at, lasting

_WIDTHS = (2.2, 5.0, 3.9, 1.3, 2.4)


def waiting_rows(operations: Sequence[Operation]) -> None:
    """What waits for somebody: each with its question or problem, since when, and a link to where it is answered."""
    for operation in operations:
        with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"waiting-{_key(operation)}"):
            phase_badge(operation.phase)
            with st.container(gap=None):
                st.markdown(f"**{escaped(title_of(operation.kind))}** · {escaped(subject_of(operation))}")
                st.caption(f"{waits_for(operation)} · since {ago(since(operation))}")
            link_to(operation, _VERBS.get(operation.phase, "Look"), ":material/arrow_forward:")


_VERBS = {
    Phase.WAITING_FOR_DECISION: "Decide",
    Phase.WAITING_FOR_APPROVAL: "Look and approve",
    Phase.BLOCKED: "Resolve",
}


def running_rows(operations: Sequence[Operation]) -> None:
    """What goes on: how far each is, and how long it will take."""
    for operation in operations:
        what, progress, left = st.columns((4, 5, 3), vertical_alignment="center")
        with what:
            link_to(operation, f"**{escaped(title_of(operation.kind))}** · {escaped(subject_of(operation))}")
        with progress:
            stages = f"{finished(operation.stages)} of {len(operation.stages)} stages"
            st.progress(share_done(operation), text=f"{stages} · {waits_for(operation)}" if operation.stages else "")
        with left:
            st.caption(time_left(operation) or f"{PHASE_WORDS.get(operation.phase, 'for')} {ago(operation.started_at)}")


PHASE_WORDS = {Phase.QUEUED: "queued, asked", Phase.RUNNING: "began"}


def history_rows(operations: Sequence[Operation]) -> None:
    """A table: phase, what, what came of it, who, when."""
    heads = ("Phase", "Operation", "Detail", "Asked by", "When")
    for column, head in zip(st.columns(_WIDTHS), heads, strict=True):
        column.caption(head)
    for operation in operations:
        phase, what, told, by, when = st.columns(_WIDTHS, vertical_alignment="center")
        with phase:
            phase_badge(operation.phase)
        with what:
            link_to(operation, f"{escaped(title_of(operation.kind))} · **{escaped(subject_of(operation))}**")
        told.caption(_cut(waits_for(operation)))
        by.caption(escaped(operation.started_by))
        when.caption(_when(operation))


def _when(operation: Operation) -> str:
    took = f"  \ntook {lasting(operation.updated_at - operation.started_at)}" if operation.phase.ended else ""
    return f"{at(operation.started_at)}{took}"


def link_to(operation: Operation, label: str, icon: str | None = None) -> None:
    """A link to the operation's page: of just this run where it has ended, as the name may be taken again."""
    page_link("operation", label, icon, id=operation.id, run=operation.run_id if operation.phase.ended else None)


def _cut(text: str, most: int = 180) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip("\\") + "…"


def _key(operation: Operation) -> str:
    return f"{operation.id}-{operation.run_id}".replace("/", "-")
