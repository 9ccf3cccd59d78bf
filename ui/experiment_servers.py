"""Tracking servers of managed MLflow: which there are, who reports to one, a new one, and the end of one."""

from __future__ import annotations

from typing import Any

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.tracking_servers import (
    ServerKind,
    ServerState,
    TrackingServerDetail,
    TrackingServerList,
    TrackingServerSpec,
    TrackingServerView,
)
from ui.fields import Fields
from ui.kept import kept
from ui.problems import escaped, problem_box, problems_shown
from ui.serving_parts import chosen_one, table
from ui.session import gateway
from ui.times import at
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start

_EVERY = "10s"
_SECONDS = 8.0
_LOOK, _DELETE = "Look at it", "Delete"


def servers_of(tag: str) -> TrackingServerList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"tracking-servers/{tag}", _SECONDS, lambda: gateway().call(endpoints.LIST_TRACKING_SERVERS, tag=tag))


def server_names(tag: str) -> list[str]:
    """For forms that refer to one; a problem is shown, and any can still be entered."""
    with problems_shown():
        return [reference_of(each) for each in servers_of(tag).servers if each.state is not ServerState.DELETING]
    return []


def reference_of(server: TrackingServerView) -> str:
    """What it is asked for by: apps have no name of their own."""
    return server.arn if server.kind is ServerKind.APP else server.name


def servers_tab(record: ClusterRecord, may: bool) -> None:
    """Table, one of them, and a form for another."""
    _live(record.tag)
    with problems_shown():
        found = {reference_of(each): each for each in servers_of(record.tag).servers}
        chosen, action = chosen_one("server", found, [_LOOK, _DELETE])
        if chosen is not None:
            with st.container(border=True):
                if action == _LOOK:
                    _look(record.tag, chosen, may)
                else:
                    _delete(record.tag, found[chosen], may)
        with st.expander("Create a tracking server", icon=":material/add:", expanded=not found):
            _create(record.tag, may)


@st.fragment(run_every=_EVERY)
def _live(tag: str) -> None:
    with problems_shown():
        found = servers_of(tag)
        for each in found.unreadable:
            st.caption(f":material/visibility_off: Not read: {escaped(each)}")
        table([_row(each, tag) for each in found.servers], "tracking servers", "No tracking server is in this region.")


def _row(server: TrackingServerView, tag: str) -> dict[str, Any]:
    owner = "this cluster" if server.cluster == tag else f"cluster {server.cluster}" if server.cluster else "others"
    return {
        "Server": server.name,
        "State": server.state.value,
        "SageMaker says": server.detail or server.status,
        "What": "MLflow app" if server.kind is ServerKind.APP else "tracking server",
        "Made for": owner,
        "MLflow": server.mlflow_version or "",
        "Made": at(server.created_at) if server.created_at is not None else "",
    }


def _look(tag: str, name: str, may: bool) -> None:
    with st.spinner("Reading the server…"):
        detail: TrackingServerDetail = gateway().call(endpoints.GET_TRACKING_SERVER, tag=tag, name=name)
    server = detail.server
    st.markdown(f"**{escaped(server.name)}** — {server.state.value}" + _said(server.detail))
    st.code(server.arn, language=None)
    kept_at = f"Artifacts are kept at `{server.artifacts}`." if server.artifacts else ""
    sized = f"Size {server.size}." if server.size else ""
    st.caption(" ".join(filter(None, (sized, kept_at))) or "Where it keeps artifacts is not told.")
    _opened(tag, name, may and server.state is ServerState.READY)
    st.markdown("**Who of this cluster reports to it**")
    table(
        [
            {"Namespace": each.namespace, "Service account": each.service_account, "Role": each.role_arn}
            for each in detail.connections
        ],
        "connections",
        "Nobody yet. A run that names it is connected by itself; others under Connections.",
    )


def _said(detail: str | None) -> str:
    return f": {escaped(detail)}" if detail else ""


def _opened(tag: str, name: str, may: bool) -> None:
    """A link into MLflow's own pages: asked for when it is wanted, drawn once, and kept nowhere."""
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Get a link into MLflow", key=f"{tag}/{name}/link", icon=":material/key:", disabled=not may):
            try:
                link = gateway().call(endpoints.OPEN_TRACKING_SERVER, tag=tag, name=name)
            except GatewayProblem as error:
                problem_box(error.problem)
                return
            st.link_button("Open MLflow", link.url, icon=":material/open_in_new:", type="primary")
            minutes = link.expires_in_seconds // 60
            st.caption(f"It works once, for {minutes} minutes, and lets in whoever has it.")


def _delete(tag: str, server: TrackingServerView, may: bool) -> None:
    if server.kind is ServerKind.APP:
        st.caption("MLflow apps are used here, and neither made nor deleted.")
        return
    st.caption("All its experiments and runs are lost. Its artifacts stay in the cluster's bucket.")
    form = f"{tag}/{server.name}/delete-tracking-server"
    confirm_and_start(
        Wish(form, endpoints.DELETE_TRACKING_SERVER, {"tag": tag, "name": server.name}),
        title=f"Delete tracking server {escaped(server.name)}",
        name=server.name,
        verb="Delete the tracking server",
        may=may,
    )


def _create(tag: str, may: bool) -> None:
    form = f"{tag}/create-tracking-server"
    found = faults(form)
    fields = Fields(TrackingServerSpec, form, found, disabled=not may)
    st.caption("It takes up to 25 minutes, and is paid for while it is there.")
    name, size, version = st.columns([2, 1, 1])
    with name:
        body = fields.text("name", "Name", "e.g. research")
    with size:
        body |= fields.choice("size", "Size", ["Small", "Medium", "Large"])
    with version:
        body |= fields.text("mlflow_version", "MLflow", "what SageMaker takes")
    with st.expander("More choices", icon=":material/tune:"):
        body |= fields.text("maintenance_window", "Weekly maintenance, UTC", "SageMaker's choice, e.g. Tue:03:30")
        body |= fields.switch("register_models", "Register models with SageMaker's Model Registry, too")
    wish = Wish(form, endpoints.CREATE_TRACKING_SERVER, {"tag": tag}, body)
    plan_and_start(wish, found, start="Create it", may=may)
