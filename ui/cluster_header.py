"""The head of a cluster's page: its state at a glance."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.answers import ClusterUsage
from contracts.cluster import ClusterRecord
from ui.cluster_drift import drift_badge
from ui.kept import kept
from ui.problems import escaped
from ui.session import gateway
from ui.times import ago, at

Color = Literal["red", "orange", "green", "gray", "blue"]

_GOOD = frozenset({"ACTIVE", "InService", "Bound", "ready"})
_BAD = ("fail", "delet", "lost", "degraded", "rollback")
_USAGE_SECONDS = 15.0


def color_of(status: str) -> Color:
    """A colour for what EKS, SageMaker or Kubernetes call a state."""
    if status in _GOOD:
        return "green"
    return "red" if any(word in status.lower() for word in _BAD) else "orange"


def status_badge(status: str | None, label: str = "") -> None:
    """A part's state, after the part's name where nothing else says which; a part that is not there is grey."""
    before = f"{label}: " if label else ""
    if status is None:
        st.badge(f"{before}not there", icon=":material/remove:", color="gray")
        return
    color = color_of(status)
    icon = {"green": ":material/check:", "red": ":material/error:"}.get(color, ":material/pending:")
    st.badge(f"{before}{escaped(status)}", icon=icon, color=color)


def header(record: ClusterRecord) -> None:
    """The cluster's name, the states of its parts, and when they were last verified."""
    st.title(escaped(record.tag), anchor=False)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        status_badge(record.control_plane.status if record.control_plane else None, "EKS")
        status_badge(record.hyperpod.status if record.hyperpod else None, "HyperPod")
        st.badge(record.region, icon=":material/public:", color="gray")
        if record.origin == "imported":
            st.badge("Imported", icon=":material/download:", color="violet", help="Others made it.")
        if record.kubernetes_version:
            st.badge(f"Kubernetes {record.kubernetes_version}", icon=":material/deployed_code:", color="gray")
        drift_badge(record)
        st.caption(
            f"Last verified {at(record.updated_at)}, {ago(record.updated_at)} · "
            f"{'imported' if record.origin == 'imported' else 'created'} {at(record.created_at)} "
            f"by {escaped(record.created_by)}"
        )


def numbers(record: ClusterRecord) -> None:
    """Nodes and accelerators: what there is, what is used and what is waited for."""
    groups = record.hyperpod.groups if record.hyperpod else []
    cells = st.columns(5)
    cells[0].metric("Nodes ready", f"{record.nodes_ready} of {record.node_total}", border=True)
    cells[1].metric("Instance groups", len(groups), border=True)
    cells[2].metric("Accelerators", record.accelerator_total, border=True)
    used, waiting = (cell.empty() for cell in cells[3:])
    usage = _usage(record)
    accelerators = [each for each in usage.summary.resources if "efa" not in each.name] if usage is not None else []
    in_use = sum(each.used for each in accelerators)
    asked = sum(each.pending for each in accelerators)
    used.metric("In use", "—" if usage is None else in_use, border=True, help="Accelerators that pods have taken.")
    waiting.metric(
        "Waited for",
        "—" if usage is None else asked,
        border=True,
        help="Accelerators that pods ask for and no node has taken on.",
    )


def _usage(record: ClusterRecord) -> ClusterUsage | None:
    """None where there is nothing to ask, or nobody answers: the page is drawn all the same."""
    if record.control_plane is None or record.hyperpod is None:
        return None

    def read() -> ClusterUsage | None:
        try:
            return gateway().call(endpoints.GET_USAGE, tag=record.tag)
        except GatewayProblem:
            return None

    return kept(f"usage/{record.tag}", _USAGE_SECONDS, read)
