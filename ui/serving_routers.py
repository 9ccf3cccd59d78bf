"""SGLang routers: whom each sends requests to, and what it sees of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.routers import RouterDetail, RouterList, RouterSpec, RouterTarget, RouterView
from ui.fields import Entered, Fields
from ui.kept import kept
from ui.marks import pairs_field
from ui.pod_table import pods_table
from ui.problems import escaped, problems_shown
from ui.serving_deployments import deployments_of
from ui.serving_fields import reach_fields
from ui.serving_parts import chosen_one, deletion, full_name, named, table
from ui.serving_pools import pools_of
from ui.session import gateway
from ui.times import ago
from ui.wishes import Wish, faults, plan_and_start

_EVERY = "5s"
_SECONDS = 3.0
_LOOK, _DELETE = "What it sees", "Delete"
_DEPLOYMENT, _POOL, _LABELS = "A deployment", "A service of a pool", "Labels"


def routers_of(tag: str) -> RouterList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"routers/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_ROUTERS, tag=tag))


def routers_tab(record: ClusterRecord, may: bool) -> None:
    """Table, what one sees, and a form for another."""
    _live(record.tag)
    with problems_shown():
        found = {full_name(each): each for each in routers_of(record.tag).routers}
        chosen, action = chosen_one("router", found, [_LOOK, _DELETE])
        if chosen is not None:
            with st.container(border=True):
                if action == _LOOK:
                    _seen(record.tag, found[chosen])
                else:
                    deletion(
                        record.tag,
                        found[chosen],
                        endpoints.DELETE_ROUTER,
                        what="router",
                        says="Its Services and pods go. The model servers stay, and answer by their own Services.",
                        may=may,
                    )
        with st.expander("Create a router", icon=":material/add:", expanded=not found):
            _create(record.tag, may)


@st.fragment(run_every=_EVERY)
def _live(tag: str) -> None:
    with problems_shown():
        found = routers_of(tag)
        rows = [_row(each, found.read_at) for each in found.routers]
        table(rows, "routers", "No router is before model servers here.")


def _row(router: RouterView, read_at: datetime) -> dict[str, Any]:
    return {
        "Router": full_name(router),
        "State": router.state.value,
        "Ready": f"{router.ready} of {router.replicas}",
        "Before": router.target,
        "Ready servers": router.targets,
        "Policy": router.policy or "",
        "What goes on": f"{router.reason}: {router.detail}" if router.reason else router.detail,
        "Service": ", ".join(each.name for each in router.services) or "none",
        "Address": ", ".join(each.address for each in router.services if each.address) or "in the cluster",
        "Since": ago(router.created_at, read_at),
    }


@st.fragment(run_every=_EVERY)
def _seen(tag: str, router: RouterView) -> None:
    with problems_shown():
        detail: RouterDetail = gateway().call(endpoints.GET_ROUTER, **named(tag, router))
        healths = {True: "healthy", False: "not healthy", None: "not said"}
        table(
            [{"Server": each.pod or each.url, "Health": healths[each.healthy]} for each in detail.workers],
            "model servers",
            "It lists no model server.",
        )
        with st.container(horizontal=True):
            for name, value in sorted(detail.metrics.items()):
                st.metric(escaped(name.replace("_", " ")), f"{value:g}", border=True)
        pods_table(detail.pods)


def _create(tag: str, may: bool) -> None:
    form = f"{tag}/create-router"
    found = faults(form)
    fields = Fields(RouterSpec, form, found, disabled=not may)
    name, policy = st.columns(2)
    with name:
        body = fields.text("name", "Name", "e.g. chat-router")
    with policy:
        body |= fields.choice("policy", "It chooses by")
    body["target"] = _target(fields.within("target", RouterTarget), tag)
    body |= reach_fields(fields)
    with st.expander("More choices", icon=":material/tune:"):
        body |= _more(fields)
    found.at("/target")
    plan_and_start(Wish(form, endpoints.CREATE_ROUTER, {"tag": tag}, body), found, start="Create it", may=may)


def _target(target: Fields, tag: str) -> Entered:
    kind = st.segmented_control(
        "It is before",
        [_DEPLOYMENT, _POOL, _LABELS],
        default=_DEPLOYMENT,
        required=True,
        key=f"{target.key}/kind",
        disabled=target.disabled,
    )
    if kind == _DEPLOYMENT:
        names = sorted({each.name for each in deployments_of(tag).deployments})
        return target.choice("deployment", "Deployment", names, placeholder="choose")
    if kind == _LABELS:
        return pairs_field(target, "selector", "Labels of its pods", "app=qwen")
    pools = pools_of(tag).model_pools
    pool, service = st.columns(2)
    with pool:
        entered = target.choice("pool", "Pool", sorted({each.name for each in pools}), placeholder="choose")
    services = {part.service for each in pools if each.name == entered.get("pool") for part in each.assignments}
    with service:
        return entered | target.choice("service", "Service", sorted(services), placeholder="choose")


def _more(fields: Fields) -> Entered:
    left, middle, right = st.columns(3)
    with left:
        entered = fields.text("namespace", "Namespace")
        entered |= fields.text("image", "Image", "SGLang's, of a pinned version")
        entered |= fields.number("replicas", "Replicas")
        entered |= fields.number("worker_port", "Port of the servers", "as they say")
    with middle:
        entered |= fields.decimal("cache_threshold", "Share that must be known")
        entered |= fields.number("balance_abs_threshold", "Load decides from this difference")
        entered |= fields.decimal("balance_rel_threshold", "and so many times as many")
        entered |= fields.number("metrics_port", "Port of its metrics")
    with right:
        entered |= fields.number("eviction_interval_seconds", "Memory is cut back every so many seconds")
        entered |= fields.number("max_tree_size", "Nodes of its memory at most")
        entered |= fields.decimal("cpu", "CPUs")
        entered |= fields.decimal("memory_gib", "Memory, GiB")
    return entered
