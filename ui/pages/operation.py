"""One operation: where it is, what it waits for, what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.operation import Operation, Phase, Said, StageState
from ui.answers import abort_button, asked
from ui.decision_form import in_words
from ui.diagnosis import diagnose_link
from ui.kept import kept
from ui.links import page_link, parameter
from ui.operation_view import finished, phase_badge, share_done, subject_of, time_left, title_of
from ui.problems import escaped, problem_box
from ui.results import result_shown
from ui.session import gateway, may_approve, may_change, signed_in
from ui.stages import stage_list, timeline
from ui.times import at, lasting
from ui.training_runs import run_named

_SECONDS = 2.0
"""Between two looks at an operation that runs."""
_DIAGNOSED = (Phase.QUEUED, Phase.RUNNING, Phase.BLOCKED, Phase.FAILED, Phase.ABORTED)
_SAID = {
    "approve": "approved the plan",
    "reject": "rejected the plan",
    "decide": "answered",
    "retry": "had it tried again",
    "skip": "had it skipped",
    "abort": "aborted it",
    "supersede": "asked for something else",
}


def page() -> None:
    """Draw the page of the operation that the address names: ``id``, and ``run`` where one of several is meant."""
    name, run_id = parameter("id"), parameter("run")
    if name is None:
        st.title("No operation is named")
        st.info("The address of an operation's page names it.", icon=":material/link:")
        page_link("operations", "All operations", ":material/history:")
        return
    caller = signed_in()
    may = may_change(caller)
    try:
        operation = kept(f"operation/{name}/{run_id}", 0.0, lambda: _read(name, run_id))
    except GatewayProblem as error:
        st.title("Operation")
        problem_box(error.problem)
        if error.problem.retryable:
            st.button("Try again", icon=":material/refresh:", key="operation/again")
        page_link("operations", "All operations", ":material/history:")
        return
    _head(operation, may)
    asked(operation, may, may_approve(caller))
    if operation.phase is Phase.FAILED and operation.problem is not None:
        problem_box(operation.problem)
    _live(operation, lambda: _read(name, run_id or operation.run_id))
    _said(operation.answers)
    if operation.result:
        with st.container(border=True):
            st.markdown("##### What is there now" if operation.phase is Phase.ABORTED else "##### What came of it")
            titles = {stage.name: stage.title for stage in operation.stages}
            result_shown(operation.kind, operation.result, titles)


def _read(name: str, run_id: str | None) -> Operation:
    return gateway().call(endpoints.GET_OPERATION, id=name, run_id=run_id)


def _head(operation: Operation, may: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.container(width="stretch"):
            st.title(f"{escaped(title_of(operation.kind))} · {escaped(subject_of(operation))}", anchor=False)
        if not operation.phase.ended:
            abort_button(operation, may)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        phase_badge(operation.phase)
        ended = f" · ended {at(operation.updated_at)}" if operation.phase.ended else ""
        st.caption(f"Asked by {escaped(operation.started_by)}, {at(operation.started_at)}{ended}")
        page_link("cluster", operation.cluster, ":material/hub:", cluster=operation.cluster)
        _more(operation)
        if operation.links is not None:
            if operation.links.temporal is not None:
                st.markdown(f"[:material/open_in_new: Temporal]({operation.links.temporal})")
            _document(operation, operation.links.self)
    if operation.detail and operation.phase in (Phase.QUEUED, Phase.RUNNING, Phase.ABORTED):
        st.info(escaped(operation.detail), icon=":material/info:")


def _more(operation: Operation) -> None:
    """Where what it is about is looked at, and why it stands still or has failed."""
    run = run_named(operation)
    if run is not None:
        page_link("training", "The run", ":material/model_training:", cluster=operation.cluster, tab="Runs", run=run)
    if operation.phase in _DIAGNOSED:
        diagnose_link(operation.cluster, "operation", operation.id, label="Diagnose")


def _document(operation: Operation, address: str) -> None:
    """What the gateway answers. Not a link: the gateway asks for a token, which a browser does not send there."""
    with st.popover("JSON", icon=":material/data_object:", type="tertiary"):
        st.markdown(f"`GET {address}`")
        st.json(operation.model_dump(mode="json", exclude_none=True))


def _live(operation: Operation, read: Callable[[], Operation]) -> None:
    """Progress, stages and their timeline; looked at anew while the operation runs. What people answer is drawn by the
    page, which is drawn anew when something else is asked."""
    drawn = _asks(operation)

    fresh = [operation]

    def look() -> None:
        try:
            now = fresh.pop() if fresh else read()
        except GatewayProblem as error:
            st.caption(f":material/cloud_off: Not up to date: {escaped(error.problem.detail)}")
            now = operation
        if _asks(now) != drawn:
            st.rerun()
        _progress(now)
        stage_list(now)
        timeline(now)

    st.fragment(look, run_every=None if operation.phase.ended else _SECONDS, key=f"live/{operation.id}")()


def _asks(operation: Operation) -> tuple[object, ...]:
    """Changes when something else is asked of people, or nothing any more."""
    blocked = tuple((stage.name, stage.attempt) for stage in operation.stages if stage.state is StageState.BLOCKED)
    question = (operation.decision.id, operation.decision.asked_at) if operation.decision is not None else None
    return operation.run_id, operation.phase, question, blocked, len(operation.answers), operation.plan_hash


def _progress(operation: Operation) -> None:
    if not operation.stages:
        return
    done = f"{finished(operation.stages)} of {len(operation.stages)} stages"
    if operation.phase.ended:
        st.caption(f"{done} · took {lasting(operation.updated_at - operation.started_at)}")
        return
    left = time_left(operation)
    st.progress(share_done(operation), text=f"{done} · {left}" if left else done)


def _words(detail: str) -> str:
    """An answer that is JSON as people say it; all else, and what was cut short, as it is."""
    try:
        return in_words(json.loads(detail))
    except ValueError:
        return detail


def _said(answers: list[Said]) -> None:
    if not answers:
        return
    with st.container(border=True):
        st.markdown("##### Who said what")
        lines = []
        for said in answers:
            stage = f" at `{said.stage}`" if said.stage else ""
            detail = f": {escaped(_words(said.detail))}" if said.detail else ""
            lines.append(f"- {at(said.at)} — **{escaped(said.by)}** {_SAID[said.action]}{stage}{detail}")
        st.markdown("\n".join(lines))
