"""Taking over a cluster that others made. Its plan says what it lacks before anything is done."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.imports import ImportClusterSpec
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.session import may_change, signed_in
from ui.wishes import Wish, faults, plan_and_start

FORM = "import"


def page() -> None:
    """Draw the page."""
    st.title("Import a cluster", anchor=False)
    may = may_change(signed_in())
    st.caption(
        "An EKS cluster that others made, with or without HyperPod, or one whose record was lost, is read into a "
        "record. Nothing is changed on it but what is switched on below. The plan shows what it lacks."
    )
    if not may:
        st.info("Your token only reads. You can look at the form, but not send it.", icon=":material/visibility:")
    found = faults(FORM)
    wish = Wish(FORM, endpoints.IMPORT_CLUSTER, {}, _entered(found, disabled=not may))
    plan_and_start(wish, found, start="Import it", may=may)


def _entered(found: Faults, *, disabled: bool) -> Entered:
    fields = Fields(ImportClusterSpec, FORM, found, disabled=disabled)
    left, right = st.columns(2)
    with left:
        entered: Entered = {"tag": "", **fields.text("tag", "Tag", placeholder="what it is called here")}
        entered |= fields.text("region", "Region", placeholder="the deployment's default")
    with right:
        entered |= fields.text("eks_cluster", "EKS cluster", placeholder="the one that the tag names")
        entered |= fields.text("hyperpod_cluster", "HyperPod cluster", placeholder="the one on the EKS cluster")
    entered |= fields.switch("grant_access", "Give this platform access to the Kubernetes API")
    return entered | fields.switch("adopt", "Adopt both clusters, so that they can be deleted from here")
