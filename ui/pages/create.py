"""A new cluster: a tag is enough, everything else has a default that can be looked at and changed."""

from __future__ import annotations

from datetime import datetime
from string import ascii_lowercase

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterSpec
from contracts.eks import DEFAULT_KUBERNETES_VERSION
from ui.choices import options
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.plan_view import plan_shown
from ui.problems import problems_shown
from ui.session import gateway, may_change, signed_in
from ui.spec_fields import groups_fields, hyperpod_fields, network_fields
from ui.storage_fields import storage_fields
from ui.times import zone
from ui.wishes import Wish, faults

FORM = "create"


def page() -> None:
    """Draw the page."""
    st.title("Create a cluster", anchor=False)
    may = may_change(signed_in())
    if not may:
        st.info("Your token only reads. You can look at the form, but not send it.", icon=":material/visibility:")
    found = faults(FORM)
    wish = Wish(FORM, endpoints.CREATE_CLUSTER, {}, _entered(found, disabled=not may))
    found.rest()
    with st.container(horizontal=True):
        check = st.button("Check", key="create/check", icon=":material/fact_check:", disabled=not may)
        create = st.button(
            "Create", key="create/start", type="primary", icon=":material/rocket_launch:", disabled=not may
        )
    if check:
        with st.spinner("Making the plan…"):
            wish.look()
        st.rerun()
    if create:
        wish.start(wish.shown)
        st.rerun()
    _plan(wish)


def _plan(wish: Wish) -> None:
    if wish.outdated:
        st.caption(":material/info: Something was changed since the plan was made. Check again to see it anew.")
    shown = wish.shown
    if shown is not None:
        with st.container(border=True):
            st.subheader("What would be made")
            plan_shown(shown)


def _entered(found: Faults, *, disabled: bool) -> Entered:
    """The body, with what was entered and nothing else."""
    top = Fields(ClusterSpec, FORM, found, disabled=disabled)
    if "create/tag" not in st.session_state:
        st.session_state["create/tag"] = _free_tag()
    entered: Entered = {"tag": "", **top.text("tag", "Tag", placeholder="e.g. hypd-1130a")}
    st.caption(
        "Network, EKS control plane, dependencies, HyperPod nodes and storage are made. The operation asks for what "
        "only you can decide, and can be left alone meanwhile."
    )
    opened = found.any("/region", "/kubernetes_version", "/network", "/hyperpod", "/instance_groups", "/storage")
    with st.expander("Advanced", icon=":material/tune:", expanded=opened):
        region, version = st.columns(2)
        with region:
            entered |= top.text("region", "Region", placeholder="the deployment's default")
        known = options(entered.get("region"))
        with version:
            entered |= top.choice(
                "kubernetes_version",
                "Kubernetes",
                known.kubernetes_versions,
                placeholder=DEFAULT_KUBERNETES_VERSION,
            )
        st.markdown("#### Network")
        parts: dict[str, Entered | list[Entered]] = {
            "network": network_fields(f"{FORM}/network", found, "/network", disabled=disabled)
        }
        st.markdown("#### Nodes")
        parts["hyperpod"] = hyperpod_fields(f"{FORM}/hyperpod", found, "/hyperpod", disabled=disabled)
        parts["instance_groups"] = groups_fields(FORM, known, found, disabled=disabled)
        st.markdown("#### Storage")
        parts["storage"] = storage_fields(f"{FORM}/storage", found, "/storage", disabled=disabled)
    return entered | {name: part for name, part in parts.items() if part}


def _free_tag() -> str:
    """A tag that no cluster has: the day and a letter."""
    day = datetime.now(zone()).strftime("hypd-%m%d")
    taken: set[str] = set()
    with problems_shown():
        taken = {each.tag for each in gateway().call(endpoints.LIST_CLUSTERS, search=day, page_size=50).clusters}
    letters = [*ascii_lowercase, *(first + second for first in ascii_lowercase for second in ascii_lowercase)]
    return next(tag for letter in letters if (tag := f"{day}{letter}") not in taken)
