"""Deleting a cluster, or parts of it."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterView
from contracts.teardown import DeleteClusterSpec, Level
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.problems import escaped
from ui.wishes import Wish, confirm_and_start, faults

_LEVELS: dict[str, tuple[str, str]] = {
    Level.HYPERPOD.value: ("HyperPod", "The HyperPod cluster with its nodes. EKS and the network stay."),
    Level.EKS.value: ("HyperPod and EKS", "The EKS cluster too, with everything on it and the roles it used."),
    Level.NETWORK.value: ("Everything", "The network too: nothing is left but what is kept on purpose."),
}


def teardown_tab(view: ClusterView, may: bool) -> None:
    """Draw the tab: what to delete, then its plan and the tag to type."""
    tag = view.record.tag
    form = f"{tag}/delete"
    found = faults(form)
    st.caption(
        "What goes is looked for in the account, not in the record; what is not this platform's stays, or blocks with "
        "its name. The next step shows what goes, in order, and asks for the tag."
    )
    entered = _entered(form, view, found, disabled=not may)
    found.rest()
    confirm_and_start(
        Wish(form, endpoints.DELETE_CLUSTER, {"tag": tag}, entered),
        title=f"Delete {tag}",
        name=tag,
        verb="Delete the cluster",
        may=may,
    )


def _entered(form: str, view: ClusterView, found: Faults, *, disabled: bool) -> Entered:
    levels = list(_LEVELS)
    level = st.radio(
        "What goes",
        levels,
        index=levels.index(Level.NETWORK.value),
        format_func=lambda each: _LEVELS[each][0],
        captions=[said for _, said in _LEVELS.values()],
        key=f"{form}/level",
        disabled=disabled,
    )
    found.at("/level")
    fields = Fields(DeleteClusterSpec, form, found, disabled=disabled)
    entered: Entered = {"level": level}
    entered |= fields.switch("delete_bucket", "Delete the bucket with everything in it")
    entered |= fields.switch("delete_dedicated_subnets", "Delete dedicated compute subnets")
    entered |= fields.switch("abort_running", "Abort operations that hold the cluster, instead of waiting for them")
    holding = ", ".join(escaped(lease.operation) for lease in view.holding)
    if holding:
        st.caption(f":material/lock: Now held by {holding}.")
    return entered | fields.choices("keep", "What must stay", [], placeholder="IDs, ARNs or names; Enter after each")
