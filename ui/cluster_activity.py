"""What runs on a cluster and what waits for it."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterView
from contracts.lease import WHOLE_CLUSTER, Lease
from contracts.operation import Operation
from ui.links import page_link
from ui.operation_view import finished, phase_badge, share_done, subject_of, time_left, title_of, waits_for
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.times import ago

_MOST = 20


def activity(tag: str, view: ClusterView | None = None) -> None:
    """Draw the operations that have not ended, each with how far it is and what it holds of the cluster."""
    operations: list[Operation] = []
    with problems_shown():
        found = gateway().call(endpoints.LIST_CLUSTER_OPERATIONS, tag=tag, page_size=_MOST).operations
        operations = [each for each in found if not each.phase.ended]
    holding = {lease.operation: lease for lease in view.holding} if view is not None else {}
    for each in operations:
        _card(each, holding.get(each.id))
    if not operations:
        st.caption(":material/check: Nothing runs on this cluster, and nothing waits for it.")


def _card(operation: Operation, lease: Lease | None) -> None:
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            about = subject_of(operation).partition(" / ")[2]
            title = f"**{title_of(operation.kind)}**" + (f" · {escaped(about)}" if about else "")
            page_link("operation", title, ":material/manufacturing:", id=operation.id)
            phase_badge(operation.phase)
            st.caption(f"by {escaped(operation.started_by)}, {ago(operation.started_at)}{_held(lease)}")
        if operation.stages:
            left = time_left(operation)
            done = f"{finished(operation.stages)} of {len(operation.stages)} stages"
            st.progress(share_done(operation), text=f"{done} · {left}" if left else done)
        if said := waits_for(operation):
            st.caption(said)


def _held(lease: Lease | None) -> str:
    if lease is None:
        return ""
    parts = "the whole cluster" if WHOLE_CLUSTER in lease.leases else escaped(", ".join(lease.leases))
    return f" · holds {parts}"
