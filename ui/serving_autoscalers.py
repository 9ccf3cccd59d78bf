"""Autoscalers: how many replicas Deployments have by metrics, and what the metrics say now."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import streamlit as st
from pydantic import BaseModel

from contracts import endpoints
from contracts.autoscalers import (
    Autoscaler,
    AutoscalerDetail,
    AutoscalerList,
    AutoscalerSpec,
    CpuTrigger,
    PrometheusTrigger,
    RouterMetric,
    RouterTrigger,
    TriggerView,
)
from contracts.cluster import ClusterRecord
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.kept import kept
from ui.problems import escaped, problems_shown
from ui.serving_deployments import deployments_of
from ui.serving_parts import chosen_one, deletion, full_name, named, table
from ui.session import gateway
from ui.times import ago
from ui.wishes import Wish, faults, plan_and_start

_EVERY = "10s"
_SECONDS = 5.0
_LOOK, _DELETE = "What it sees now", "Delete"
_KINDS = {"prometheus": "A query of Prometheus", "router": "How busy a router is", "cpu": "Use of CPUs"}


def autoscalers_of(tag: str) -> AutoscalerList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"autoscalers/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_AUTOSCALERS, tag=tag))


def autoscalers_tab(record: ClusterRecord, may: bool) -> None:
    """Table, what one sees, and a form for another."""
    _live(record.tag)
    with problems_shown():
        found = {full_name(each): each for each in autoscalers_of(record.tag).autoscalers}
        chosen, action = chosen_one("autoscaler", found, [_LOOK, _DELETE])
        if chosen is not None:
            with st.container(border=True):
                if action == _LOOK:
                    _now(record.tag, found[chosen])
                else:
                    deletion(
                        record.tag,
                        found[chosen],
                        endpoints.DELETE_AUTOSCALER,
                        what="autoscaler",
                        says="The Deployment keeps the replicas that it has then, and is scaled by hand again.",
                        may=may,
                    )
        with st.expander("Create or change an autoscaler", icon=":material/add:", expanded=not found):
            _create(record.tag, may)


@st.fragment(run_every=_EVERY)
def _live(tag: str) -> None:
    with problems_shown():
        found = autoscalers_of(tag)
        rows = [_row(each, found.read_at) for each in found.autoscalers]
        table(rows, "autoscalers", "No Deployment is scaled by metrics.")


def _row(scaler: Autoscaler, read_at: datetime) -> dict[str, Any]:
    return {
        "Autoscaler": full_name(scaler),
        "Deployment": scaler.target,
        "State": scaler.state.value,
        "What goes on": scaler.detail or scaler.reason or "",
        "Replicas": "none" if scaler.replicas is None else str(scaler.replicas),
        "Wanted": "" if scaler.desired_replicas is None else str(scaler.desired_replicas),
        "Limits": f"{scaler.min_replicas} to {scaler.max_replicas}",
        "By": ", ".join(scaler.triggers),
        "Scaled": ago(scaler.last_scaled_at, read_at) if scaler.last_scaled_at else "",
        "Made by": "this platform" if scaler.managed else "others",
    }


@st.fragment(run_every=_EVERY)
def _now(tag: str, scaler: Autoscaler) -> None:
    with problems_shown():
        detail: AutoscalerDetail = gateway().call(endpoints.GET_AUTOSCALER, **named(tag, scaler))
        table([_trigger_row(each) for each in detail.triggers], "triggers", "It has no triggers.")
        for condition in detail.conditions:
            st.caption(escaped(condition))


def _trigger_row(trigger: TriggerView) -> dict[str, Any]:
    return {
        "Trigger": trigger.type,
        "Now": trigger.problem or ("" if trigger.value is None else f"{trigger.value:g}"),
        "One replica takes": "" if trigger.threshold is None else f"{trigger.threshold:g}",
        "Wants replicas": "" if trigger.wants is None else str(trigger.wants),
        "Query": trigger.query or "",
        "Asked at": trigger.server or "",
    }


def _create(tag: str, may: bool) -> None:
    form = f"{tag}/create-autoscaler"
    found = faults(form)
    fields = Fields(AutoscalerSpec, form, found, disabled=not may)
    targets = sorted({each.name for each in deployments_of(tag).deployments})
    target, least, most = st.columns([2, 1, 1])
    with target:
        body = fields.choice("target", "Deployment", targets, placeholder="choose")
    with least:
        body |= fields.number("min_replicas", "At least")
    with most:
        body |= fields.number("max_replicas", "At most")
    kinds = st.segmented_control(
        "By",
        list(_KINDS),
        selection_mode="multi",
        default=["prometheus"],
        format_func=lambda kind: _KINDS[kind],
        key=f"{form}/kinds",
        disabled=not may,
    )
    body["triggers"] = [
        {"type": kind} | _DRAWN[kind](_of_trigger(kind, form, found, position, may))
        for position, kind in enumerate(kinds)
    ]
    with st.expander("More choices", icon=":material/tune:"):
        body |= _more(fields)
    found.at("/triggers")
    wish = Wish(form, endpoints.CREATE_AUTOSCALER, {"tag": tag}, body)
    plan_and_start(wish, found, start="Let it scale", may=may)


_MODELS: dict[str, type[BaseModel]] = {"prometheus": PrometheusTrigger, "router": RouterTrigger, "cpu": CpuTrigger}


def _of_trigger(kind: str, form: str, found: Faults, position: int, may: bool) -> Fields:
    return Fields(_MODELS[kind], f"{form}/{kind}", found, f"/triggers/{position}", disabled=not may)


def _query(trigger: Fields) -> Entered:
    entered = trigger.text(
        "query", "Query that gives one number", 'sum(vllm:num_requests_waiting{namespace="default"})'
    )
    entered |= _server(trigger)
    left, right = st.columns(2)
    with left:
        entered |= trigger.decimal("threshold", "What one replica takes", "a number")
    with right:
        entered |= trigger.decimal("activation", "The first one is started above")
    return entered | trigger.switch("per_replica", "It is what one replica takes, not all together")


def _router(trigger: Fields) -> Entered:
    router, metric, threshold = st.columns(3)
    with router:
        entered = trigger.text("router", "Router", "its name")
    with metric:
        entered |= trigger.choice("metric", "Counted", [each.value for each in RouterMetric])
    with threshold:
        entered |= trigger.decimal("threshold", "What one replica takes of it")
    return entered | _server(trigger)


def _cpu(trigger: Fields) -> Entered:
    return trigger.number("utilization", "Percent of what pods request", "e.g. 70")


_DRAWN = {"prometheus": _query, "router": _router, "cpu": _cpu}


def _server(trigger: Fields) -> Entered:
    address, workspace = st.columns(2)
    with address:
        entered = trigger.text("server_address", "Asked at", "http://prometheus-server.prometheus.svc:80")
    with workspace:
        entered |= trigger.text("workspace_id", "or in the workspace", "ws-12345678")
    return entered


def _more(fields: Fields) -> Entered:
    left, right = st.columns(2)
    with left:
        entered = fields.text("name", "Its own name", "the Deployment's")
        entered |= fields.text("namespace", "Namespace")
        entered |= fields.number("polling_seconds", "Asked every so many seconds")
    with right:
        entered |= fields.number("cooldown_seconds", "Seconds before the last one goes")
        entered |= fields.number("scale_up_stabilization_seconds", "Seconds before more come")
        entered |= fields.number("scale_down_stabilization_seconds", "Seconds before some go")
    return entered
