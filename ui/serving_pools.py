"""Model pools: pods that are loaded already, which service has how many of them, and how they are handed out."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.model_pools import ModelPoolDetail, ModelPoolList, ModelPoolSpec, ModelPoolView, PoolPodView
from ui.kept import kept
from ui.problems import problems_shown
from ui.serving_assignments import assignments_form
from ui.serving_deploy import server_form
from ui.serving_parts import chosen_one, deletion, full_name, named, scaling, table
from ui.session import gateway
from ui.times import ago
from ui.wishes import Wish, faults, plan_and_start

_EVERY = "5s"
_SECONDS = 3.0
_ASSIGN, _SCALE, _DELETE = "Hand out pods", "Scale", "Delete"


def pools_of(tag: str) -> ModelPoolList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"model-pools/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_MODEL_POOLS, tag=tag))


def pools_tab(record: ClusterRecord, may: bool) -> None:
    """Table, the pods of one pool, what can be done to it, and a form for another."""
    _live(record.tag)
    with problems_shown():
        found = {full_name(each): each for each in pools_of(record.tag).model_pools}
        chosen, action = chosen_one("pool", found, [_ASSIGN, _SCALE, _DELETE])
        if chosen is not None:
            _pods(record.tag, found[chosen])
            with st.container(border=True):
                _one(record.tag, found[chosen], action, may)
        with st.expander("Create a model pool", icon=":material/add:", expanded=not found):
            _create(record.tag, may)


@st.fragment(run_every=_EVERY)
def _live(tag: str) -> None:
    with problems_shown():
        found = pools_of(tag)
        rows = [_row(each, found.read_at) for each in found.model_pools]
        table(rows, "model pools", "There is no pool of model servers.")


def _row(pool: ModelPoolView, read_at: datetime) -> dict[str, Any]:
    handed_out = ", ".join(f"{each.service} {each.ready} of {each.wanted}" for each in pool.assignments)
    return {
        "Pool": full_name(pool),
        "State": pool.state.value,
        "Ready": f"{pool.ready} of {pool.replicas}",
        "Handed out": handed_out or "to nobody",
        "Free": pool.unassigned,
        "Leaving": pool.leaving,
        "What goes on": pool.detail,
        "Model": pool.model or "",
        "GPUs each": pool.gpu_count,
        "Looked after": pool.keeper.state.value if pool.keeper is not None else "by nobody: hand out pods",
        "Since": ago(pool.created_at, read_at),
    }


@st.fragment(run_every=_EVERY)
def _pods(tag: str, pool: ModelPoolView) -> None:
    """Its pods, by whom they serve."""
    with problems_shown():
        detail: ModelPoolDetail = gateway().call(endpoints.GET_MODEL_POOL, **named(tag, pool))
        table([_pod_row(each) for each in detail.pods], "pods", "It has no pods.")


def _pod_row(pod: PoolPodView) -> dict[str, Any]:
    return {
        "Serves": pod.business,
        "Pod": pod.name,
        "Ready": "ready" if pod.ready else pod.reason or pod.phase,
        "Node": pod.node or "none yet",
    }


def _one(tag: str, pool: ModelPoolView, action: str, may: bool) -> None:
    if action == _ASSIGN:
        assignments_form(tag, pool, may)
    elif action == _SCALE:
        handed_out = sum(each.wanted for each in pool.assignments)
        says = f"Ready: {pool.ready}. Wanted: {pool.replicas}. Handed out: {handed_out}; those are kept."
        scaling(tag, pool, endpoints.SCALE_MODEL_POOL, label="Pods", replicas=pool.replicas, says=says, may=may)
    else:
        says = "Its services go first, then its pods. The model's files stay."
        deletion(tag, pool, endpoints.DELETE_MODEL_POOL, what="pool", says=says, may=may)


def _create(tag: str, may: bool) -> None:
    form = f"{tag}/create-model-pool"
    found = faults(form)
    body = server_form(form, tag, found, may, ModelPoolSpec)
    wish = Wish(form, endpoints.CREATE_MODEL_POOL, {"tag": tag}, body)
    plan_and_start(wish, found, start="Create the pool", may=may)
