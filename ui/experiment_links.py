"""Who may report to a tracking server, whether it can be reached, and copies of experiments elsewhere."""

from __future__ import annotations

from typing import Any

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.experiments import (
    ConnectExperimentsSpec,
    ConnectionTest,
    ConnectionTestRequest,
    DisconnectExperimentsSpec,
    SyncExperimentsSpec,
)
from ui.experiment_servers import server_names
from ui.faults import Faults
from ui.fields import Fields
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start

_WAIT = 60.0
_STEPS = {
    "server": "The server is there",
    "status": "It runs",
    "address": "Its address is known",
    "http": "It answers",
    "signature": "It takes our signature",
    "permission": "We may read it",
    "identity": "Pods may report to it",
}


def connections_tab(record: ClusterRecord, may: bool) -> None:
    """A test, and letting pods report or not."""
    with problems_shown():
        names = server_names(record.tag)
        st.markdown("#### Test the connection")
        _test(record.tag, names)
        st.markdown("#### Let pods report")
        st.caption("A training run that names a tracking server is connected by itself. This is for other pods.")
        _connect(record.tag, names, may)
        with st.expander("Let them report no more", icon=":material/link_off:"):
            _disconnect(record.tag, names, may)


def _test(tag: str, names: list[str]) -> None:
    """It changes nothing, so everybody may."""
    form = f"{tag}/test-experiments"
    fields = Fields(ConnectionTestRequest, form, Faults(st.session_state.get(f"{form}/refused")))
    server, namespace, account = st.columns(3)
    with server:
        body = fields.choice("tracking_server", "Tracking server", names, placeholder="choose")
    with namespace:
        body |= fields.text("namespace", "Of pods in the namespace", "the platform's own way only")
    with account:
        body |= fields.text("service_account", "Service account")
    fields.faults.rest()
    if st.button("Test it", key=f"{form}/sent", icon=":material/network_check:", disabled=not body):
        st.session_state.pop(f"{form}/refused", None)
        st.session_state.pop(f"{form}/found", None)
        try:
            with st.spinner("Going the way step by step…"):
                tested = gateway().call(endpoints.TEST_EXPERIMENTS, body, tag=tag, timeout=_WAIT)
            st.session_state[f"{form}/found"] = tested
        except GatewayProblem as error:
            st.session_state[f"{form}/refused"] = error.problem
        st.rerun()
    found = st.session_state.get(f"{form}/found")
    if found is not None:
        _tested(found)


def _tested(found: ConnectionTest) -> None:
    lines = []
    for step in found.steps:
        mark = ":green[:material/check_circle:]" if step.passed else ":red[:material/error:]"
        took = f" :gray[{step.milliseconds} ms]" if step.milliseconds is not None else ""
        remedy = f"  \n  **What to do:** {escaped(step.remedy)}" if step.remedy and not step.passed else ""
        lines.append(f"- {mark} **{_STEPS[step.name]}** — {escaped(step.detail)}{took}{remedy}")
    with st.container(border=True):
        told = "can be reached" if found.passed else "cannot be reached as asked"
        st.markdown(f"**{escaped(found.tracking_server)}** {told}.")
        st.markdown("\n".join(lines))


def _connect(tag: str, names: list[str], may: bool) -> None:
    form = f"{tag}/connect-experiments"
    found = faults(form)
    fields = Fields(ConnectExperimentsSpec, form, found, disabled=not may)
    server, namespace, account = st.columns(3)
    with server:
        body = fields.choice("tracking_server", "Tracking server", names, placeholder="choose")
    with namespace:
        body |= fields.text("namespace", "Namespace")
    with account:
        body |= fields.text("service_account", "Service account")
    wish = Wish(form, endpoints.CONNECT_EXPERIMENTS, {"tag": tag}, body)
    plan_and_start(wish, found, start="Let them report", may=may)


def _disconnect(tag: str, names: list[str], may: bool) -> None:
    form = f"{tag}/disconnect-experiments"
    found = faults(form)
    fields = Fields(DisconnectExperimentsSpec, form, found, disabled=not may)
    namespace, account, server = st.columns(3)
    with namespace:
        given = fields.text("namespace", "Namespace")
    with account:
        given |= fields.text("service_account", "Service account")
    with server:
        given |= fields.choice("tracking_server", "Only from", names, placeholder="all")
    found.rest()
    st.caption("With the last tracking server go the service account, its association and its role.")
    parameters: dict[str, Any] = {"tag": tag, "namespace": "default", **given}
    confirm_and_start(
        Wish(form, endpoints.DISCONNECT_EXPERIMENTS, parameters),
        title="Let pods report no more",
        name=parameters["namespace"],
        verb="Disconnect the namespace",
        may=may,
        icon=":material/link_off:",
    )


def sync_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab."""
    form = f"{record.tag}/sync-experiments"
    found = faults(form)
    fields = Fields(SyncExperimentsSpec, form, found, disabled=not may)
    st.caption(
        "Runs go to another tracking server, also of another account, with metrics, parameters and tags. What was "
        "copied before is brought up to date, and nothing is deleted there."
    )
    with problems_shown():
        left, right = st.columns(2)
        with left:
            body = fields.choice("source", "From the tracking server", server_names(record.tag), placeholder="choose")
            body |= fields.text("experiment", "Experiment", "its name")
        with right:
            body |= fields.text("destination", "To the tracking server", "arn:aws:sagemaker:…:mlflow-tracking-server/…")
            body |= fields.text("destination_experiment", "Experiment there", "of the same name")
        with st.expander("Another account", icon=":material/badge:"):
            body |= fields.text("role_arn", "Role that is taken to write there", "arn:aws:iam::…:role/…")
            body |= fields.text("external_id", "External ID that the role asks for", "none")
        wish = Wish(form, endpoints.SYNC_EXPERIMENTS, {"tag": record.tag}, body)
        plan_and_start(wish, found, start="Copy it", may=may)
