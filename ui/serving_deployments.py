"""Model servers that the platform runs: how they are, and what can be done to one."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.deployments import DeploymentDetail, DeploymentList, DeploymentView
from ui.diagnosis import diagnose_link
from ui.kept import kept
from ui.links import page_link
from ui.logs import pod_log_links
from ui.pod_table import pods_table
from ui.problems import escaped, problems_shown
from ui.serving_deploy import update_form
from ui.serving_parts import chosen_one, conditions_table, deletion, full_name, named, scaling, table
from ui.serving_services import service_row
from ui.session import gateway
from ui.times import ago

REFRESH = "5s"
_KEPT_SECONDS = 3.0
_LOOK, _SCALE, _UPDATE, _DELETE = "Look at it", "Scale", "Update", "Undeploy"


def deployments_of(tag: str) -> DeploymentList:
    """As they were some seconds ago at most. Raises GatewayProblem."""
    return kept(f"deployments/{tag}", _KEPT_SECONDS, lambda: gateway().call(endpoints.LIST_DEPLOYMENTS, tag=tag))


def deployments_tab(record: ClusterRecord, may: bool) -> None:
    """Table, and what can be done to one of them."""
    _live(record.tag)
    with problems_shown():
        found = {full_name(each): each for each in deployments_of(record.tag).deployments}
        chosen, action = chosen_one("deployment", found, [_LOOK, _SCALE, _UPDATE, _DELETE])
        if chosen is not None:
            with st.container(border=True):
                _one(record.tag, found[chosen], action, may)


@st.fragment(run_every=REFRESH)
def _live(tag: str) -> None:
    with problems_shown():
        found = deployments_of(tag)
        table([_row(each, found.read_at) for each in found.deployments], "model servers", "No model server runs here.")
        if not found.deployments:
            page_link("serving", "Serve a model", ":material/rocket_launch:", cluster=tag, tab="Deploy")


def _row(view: DeploymentView, read_at: datetime) -> dict[str, Any]:
    return {
        "Deployment": full_name(view),
        "State": view.state.value,
        "Ready": f"{view.ready} of {view.replicas}",
        "What goes on": f"{view.reason}: {view.detail}" if view.reason else view.detail,
        "Model": view.model or "",
        "Engine": view.engine,
        "GPUs each": view.gpu_count,
        "Service": ", ".join(each.name for each in view.services) or "none",
        "Address": ", ".join(each.address for each in view.services if each.address) or "in the cluster",
        "Scaled by": view.autoscaled_by or "hand",
        "Since": ago(view.created_at, read_at),
    }


def _one(tag: str, view: DeploymentView, action: str, may: bool) -> None:
    if action == _SCALE:
        says = f"Ready: {view.ready}. Wanted: {view.replicas}. With 0 nothing runs, and it stays as it is otherwise."
        scaling(tag, view, endpoints.SCALE_DEPLOYMENT, label="Replicas", replicas=view.replicas, says=says, may=may)
    elif action == _DELETE:
        says = "Its Services go first, then its pods. The model's files stay."
        deletion(tag, view, endpoints.DELETE_DEPLOYMENT, what="deployment", says=says, may=may)
    else:
        detail = gateway().call(endpoints.GET_DEPLOYMENT, **named(tag, view))
        if action == _LOOK:
            _look(tag, detail)
        elif detail.spec is None:
            st.caption("What it was made from is not known any more: deploy it anew under another name.")
        else:
            update_form(tag, detail.spec, may)


def _look(tag: str, detail: DeploymentDetail) -> None:
    view = detail.deployment
    st.markdown(f"**{escaped(full_name(view))}** — {view.state.value}: {escaped(view.detail)}")
    if detail.spec is not None:
        st.code(detail.spec.command or " ".join(detail.spec.argv or []), language=None, wrap_lines=True)
    pods_table(detail.pods)
    pod_log_links(tag, [(view.namespace, pod.name) for pod in detail.pods], f"{tag}/deployments/{full_name(view)}")
    diagnose_link(tag, "deployment", view.name, view.namespace, label="Diagnose the deployment")
    conditions_table(detail.conditions)
    if view.services:
        table([service_row(each) for each in view.services], "Services", "No Service leads to it.")
