"""One cluster: its state, what runs on it, its parts, jobs and history; looking after it and deleting it."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.access import Caller
from contracts.cluster import ClusterView
from contracts.problem import ProblemCode
from ui.cluster_activity import activity
from ui.cluster_care import care_tab, missing
from ui.cluster_drift import drift_tab
from ui.cluster_header import header, numbers
from ui.cluster_history import history_tab, past_operations
from ui.cluster_jobs import jobs_tab
from ui.cluster_parts import access_tab, control_plane_part, dependencies_part, hyperpod_part, network_part
from ui.cluster_picker import chosen_cluster, view_of
from ui.cluster_teardown import teardown_tab
from ui.diagnosis import diagnose_link
from ui.links import page_link
from ui.problems import escaped, problem_box
from ui.session import gateway, may_change, signed_in

_EVERY = "5s"


def page() -> None:
    """Draw the page. The address names the cluster and the tab."""
    caller = signed_in()
    tag = chosen_cluster(caller)
    try:
        view = view_of(tag)
    except GatewayProblem as error:
        if error.problem.code is not ProblemCode.NOT_FOUND:
            problem_box(error.problem)
            st.button("Try again", icon=":material/refresh:", key="cluster/again")
            return
        _absent(tag, error)
        return
    header(view.record)
    _tabs(view, caller)


def _tabs(view: ClusterView, caller: Caller) -> None:
    may = may_change(caller)
    drawn: dict[str, Callable[[], None]] = {
        "Overview": lambda: _overview(view),
        "Jobs": lambda: jobs_tab(view.record),
        "History": lambda: history_tab(view),
        "IDs": lambda: access_tab(view.record),
        "Drift": lambda: drift_tab(view.record, may),
        "Care": lambda: care_tab(view.record, may),
        "Delete": lambda: teardown_tab(view, may),
    }
    for tab, draw in zip(st.tabs(list(drawn), key="tab", bind="query-params"), drawn.values(), strict=True):
        if tab.open:
            with tab:
                draw()


def _absent(tag: str, error: GatewayProblem) -> None:
    """Nothing is recorded under the tag: something may be making it, or may have deleted it."""
    st.title(escaped(tag), anchor=False)
    if error.problem.operation is not None:
        st.info("This cluster is being made.", icon=":material/construction:")
        _making(tag)
        return
    st.info(f"There is no cluster {escaped(tag)}.", icon=":material/search_off:")
    with st.container(horizontal=True):
        page_link("create", "Create a cluster", ":material/add_circle:")
        page_link("import", "Import one that exists", ":material/download:")
    past_operations(tag)


@st.fragment(run_every=_EVERY)
def _making(tag: str) -> None:
    activity(tag)
    try:
        gateway().call(endpoints.GET_CLUSTER, tag=tag)
    except GatewayProblem:
        return
    st.rerun()


def _overview(view: ClusterView) -> None:
    _live(view.record.tag, _moment(view), [view])
    diagnose_link(view.record.tag, "cluster", label="Diagnose the cluster")
    lacking = missing(view.record)
    if lacking and not view.holding:
        st.caption(f":material/info: Not there: {', '.join(lacking)}. What can be made now is under Care.")
    left, right = st.columns(2, gap="medium")
    with left:
        hyperpod_part(view.record)
        control_plane_part(view.record)
    with right:
        dependencies_part(view.record)
    network_part(view.record)


@st.fragment(run_every=_EVERY)
def _live(tag: str, drawn: object, fresh: list[ClusterView]) -> None:
    """What changes while one looks. The whole page is drawn anew when the record has changed. ``fresh``: what the page
    has just read, for the first look."""
    try:
        view = fresh.pop() if fresh else gateway().call(endpoints.GET_CLUSTER, tag=tag)
    except GatewayProblem as error:
        if error.problem.code is ProblemCode.NOT_FOUND:
            st.rerun()
        problem_box(error.problem)
        return
    if _moment(view) != drawn:
        st.rerun()
    numbers(view.record)
    activity(tag, view)


def _moment(view: ClusterView) -> object:
    """Changes with everything that is drawn of the record."""
    held = [(lease.operation, lease.run_id) for lease in (*view.holding, *view.queued)]
    drift = view.record.drift.report.checked_at if view.record.drift else None
    return view.record.updated_at, held, len(view.history), drift
