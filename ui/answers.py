"""What people answer to an operation: decisions, approvals, retries, skips, aborts.

Whoever may not answer sees the same and can click nothing.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.answers import OperationSpec
from contracts.decision import Decision
from contracts.endpoints import Endpoint
from contracts.operation import Operation, Phase, Stage, StageState
from contracts.plans import Plan
from contracts.problem import Problem
from contracts.requests import (
    AbortRequest,
    ApproveRequest,
    DecideRequest,
    RejectRequest,
    RetryRequest,
    SkipRequest,
)
from ui.actions import Body, act
from ui.decision_form import DecisionForm, in_words
from ui.json_area import json_area
from ui.kept import kept
from ui.plan_view import plan_shown
from ui.problems import escaped, problem_box, problems_shown
from ui.session import gateway
from ui.times import ago, at
from ui.wishes import faults, forget

_PLAN_SECONDS = 600.0


def asked(operation: Operation, may: bool, may_approve: bool) -> None:
    """Everything that the operation waits for somebody to say, each in a box of its own."""
    if operation.phase is Phase.WAITING_FOR_APPROVAL:
        _approval(operation, may_approve)
    if operation.decision is not None:
        _decision(operation, operation.decision, may)
    for stage in operation.stages:
        if stage.state is StageState.BLOCKED:
            _blocked(operation, stage, may)


def abort_button(operation: Operation, may: bool) -> None:
    """Ends the operation, after a second click and with a reason."""
    with st.popover("Abort…", icon=":material/cancel:", disabled=not may):
        st.markdown("End this operation. What was made so far stays, and is named in the result.")
        form = _form("abort", operation)
        reason = st.text_input("Reason", key=f"{form}/reason", placeholder="Others will read it")
        if st.button("Abort the operation", key=f"{form}/sure", type="primary", icon=":material/cancel:"):
            _answer(form, endpoints.ABORT_OPERATION, AbortRequest(reason=reason), operation, "It is being aborted.")
        _refusal(form)


def _decision(operation: Operation, decision: Decision, may: bool) -> None:
    form = _form(f"decide/{decision.id}/{decision.asked_at.timestamp()}", operation)
    with st.container(border=True):
        st.markdown(f"##### :orange[:material/help:] {escaped(decision.question)}")
        until = f" · the default is taken {at(decision.default_at)}" if decision.default_at is not None else ""
        st.caption(f"Asked {ago(decision.asked_at)}, at {at(decision.asked_at)}{until}")
        found = faults(form)
        answer = DecisionForm(decision, form, found, disabled=not may).answer()
        found.rest()
        with st.container(horizontal=True, vertical_alignment="center"):
            sent = st.button(
                "Send this answer",
                key=f"{form}/send",
                type="primary",
                icon=":material/send:",
                disabled=not may or not answer,
            )
            st.caption(f"You answer: **{escaped(in_words(answer))}**" if answer else "Nothing is chosen yet.")
        if sent:
            body = DecideRequest(decision=decision.id, answer=answer)
            _answer(form, endpoints.DECIDE_OPERATION, body, operation, "Answered.")


def _blocked(operation: Operation, stage: Stage, may: bool) -> None:
    form = _form(f"resolve/{stage.name}/{stage.attempt}", operation)
    with st.container(border=True):
        st.markdown(f"##### :red[:material/block:] {escaped(stage.title)} is blocked")
        when = f"{ago(stage.finished_at)}, at {at(stage.finished_at)}" if stage.finished_at is not None else ""
        st.caption(f"Attempt {stage.attempt} failed {when}. Finished stages are not done again.")
        if stage.problem is not None:
            problem_box(stage.problem)
        entered = st.container()
        with st.container(horizontal=True, vertical_alignment="center"):
            buttons = st.container(horizontal=True, width="content")
            correct = st.toggle("Correct the input first", key=f"{form}/correct", disabled=not may)
        with entered:
            corrections = _corrections(operation, stage, form) if correct else None
        with buttons:
            if st.button(
                "Retry with this correction" if correct else "Retry",
                key=f"{form}/retry",
                type="primary",
                icon=":material/refresh:",
                disabled=not may or (correct and corrections is None),
            ):
                given: dict[str, Any] = {} if corrections is None else {"corrections": corrections}
                retry = RetryRequest(stage=stage.name, attempt=stage.attempt, **given)
                _answer(form, endpoints.RETRY_OPERATION, retry, operation, f"{stage.title} is tried again.")
            if stage.skippable and st.button(
                "Skip this stage", key=f"{form}/skip", icon=":material/redo:", disabled=not may
            ):
                skip = SkipRequest(stage=stage.name, attempt=stage.attempt)
                _answer(form, endpoints.SKIP_STAGE, skip, operation, f"{stage.title} is left out.")
        _refusal(form)


def _corrections(operation: Operation, stage: Stage, form: str) -> dict[str, Any] | None:
    """The merge patch that was entered; None where it is none."""
    begin = {}
    with problems_shown():
        begin = patch_at(_spec(operation).spec, stage.problem)
    return json_area(
        "Change in the specification",
        begin,
        f"{form}/corrections",
        about="A JSON merge patch: only what changes; null takes the default. In lists, an item with a name means the "
        "one of that name.",
    )


def patch_at(spec: dict[str, Any], problem: Problem | None) -> dict[str, Any]:
    """A merge patch of ``spec`` that names what the problem is about, with its present value; empty where the problem
    names nothing that is there."""
    if problem is None or not problem.field:
        return {}
    steps = [step.replace("~1", "/").replace("~0", "~") for step in problem.field.strip("/").split("/")]
    return _patch(spec, steps) or {}


def _patch(value: Any, steps: list[str]) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict) and step in value:
        inner = value[step] if not rest else _patch(value[step], rest)
        return None if inner is None and rest else {step: inner}
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        item = value[int(step)]
        inner = _patch(item, rest)
        named = {"name": item["name"]} if isinstance(item, dict) and "name" in item else {}
        return [{**named, **inner}] if isinstance(inner, dict) else None
    return None


def _approval(operation: Operation, may: bool) -> None:
    form = _form(f"approve/{operation.plan_hash}", operation)
    with st.container(border=True):
        st.markdown(f"##### :orange[:material/approval:] {escaped(operation.started_by)} asks for your approval")
        st.caption(f"Asked {ago(operation.started_at)}. Nothing was touched yet. Plan `{operation.plan_hash}`")
        plan = _plan(operation)
        same = plan is not None and plan.plan_hash == operation.plan_hash
        if plan is not None and not same:
            st.error("What is asked for has changed meanwhile: reload the page.", icon=":material/sync_problem:")
        reason = st.text_input("Reason", key=f"{form}/reason", placeholder="Others will read it", disabled=not may)
        with st.container(horizontal=True):
            if st.button(
                "Approve this plan",
                key=f"{form}/approve",
                type="primary",
                icon=":material/check:",
                disabled=not may or not same,
            ):
                body = ApproveRequest(plan_hash=operation.plan_hash, reason=reason)
                _answer(form, endpoints.APPROVE_OPERATION, body, operation, "Approved: it begins.")
            if st.button("Reject", key=f"{form}/reject", icon=":material/close:", disabled=not may):
                _answer(form, endpoints.REJECT_OPERATION, RejectRequest(reason=reason), operation, "Rejected.")
        _refusal(form)


def _plan(operation: Operation) -> Plan | None:
    """What would be done, as it is today; drawn. None where it cannot be told, which is shown."""
    with problems_shown():
        made = kept(
            f"plan/{operation.id}/{operation.plan_hash}",
            _PLAN_SECONDS,
            lambda: gateway().call(endpoints.MAKE_PLAN, _spec(operation).model_dump(mode="json")),
        )
        plan_shown(made)
        return made
    return None


def _spec(operation: Operation) -> OperationSpec:
    return gateway().call(endpoints.GET_OPERATION_SPEC, id=operation.id, run_id=operation.run_id)


def _form(name: str, operation: Operation) -> str:
    return f"{name}/{operation.id}/{operation.run_id}"


def _answer(form: str, endpoint: Endpoint[Operation], body: Body, operation: Operation, said: str) -> None:
    """Send it and draw the page anew, with what was wrong if it was refused. What was entered stays then."""
    forget(form)

    def keep(problem: Problem) -> None:
        st.session_state[f"refused/{form}"] = problem
        if problem.status == 409:
            # Somebody else has answered meanwhile: the form that would show it is gone.
            st.toast(f"Not accepted: {escaped(problem.detail)}", icon=":material/error:", duration="long")

    if act(form, endpoint, body, refused=keep, id=operation.id) is not None:
        st.toast(said, icon=":material/check:")
    st.rerun()


def _refusal(form: str) -> None:
    """What was wrong with the last answer, where no field shows it."""
    refused = st.session_state.get(f"refused/{form}")
    if refused is not None:
        problem_box(refused)
