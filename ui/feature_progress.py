"""Operations that switch features just now, stage by stage."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.catalogue import UPDATE_FEATURES
from contracts.operation import Operation, Phase
from ui.links import page_link
from ui.problems import escaped, problem_box, problems_shown
from ui.session import gateway
from ui.stages import stage_list
from ui.times import at

REFRESH = "3s"


def running_updates(tag: str) -> list[Operation]:
    """Updates of the cluster's features that have not ended. Raises GatewayProblem."""
    found = gateway().call(endpoints.LIST_CLUSTER_OPERATIONS, tag=tag, page_size=20).operations
    return [each for each in found if each.kind == UPDATE_FEATURES.name and not each.phase.ended]


def progress(tag: str, seen: list[Operation]) -> None:
    """Draw what runs, anew every few seconds; the whole page once something has ended."""
    if seen:
        _live(tag, {each.id for each in seen})


@st.fragment(run_every=REFRESH)
def _live(tag: str, before: set[str]) -> None:
    with problems_shown():
        now = running_updates(tag)
        if {each.id for each in now} != before:
            # What has ended has changed the features.
            st.session_state[f"{tag}/features/anew"] = True
            st.rerun()
        for operation in now:
            with st.container(border=True):
                _operation(operation)


def _operation(operation: Operation) -> None:
    title = operation.id.rpartition("/")[2].replace("+", ", ").replace("_", " ")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**Switching {escaped(title)}** — {operation.phase.replace('_', ' ')}", width="content")
        st.caption(f"by {escaped(operation.started_by)}, {at(operation.started_at)}", width="content")
        page_link("operation", "Open", ":material/open_in_new:", id=operation.id)
    if operation.detail and operation.phase is not Phase.RUNNING:
        st.markdown(escaped(operation.detail))
    stage_list(operation)
    if operation.problem is not None:
        problem_box(operation.problem)
