"""Managed features of a cluster: what is really on, and switches that send only what was touched."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.features import Features
from contracts.operation import Operation
from ui.cluster_picker import chosen_cluster
from ui.faults import Faults
from ui.feature_cards import feature_cards
from ui.feature_progress import progress, running_updates
from ui.fields import Entered
from ui.kept import drop, kept
from ui.problems import problems_shown
from ui.session import gateway, may_change, signed_in
from ui.wishes import Wish, faults, plan_and_start

_KEPT_SECONDS = 30.0


def page() -> None:
    """Draw the page."""
    st.title("Features", anchor=False)
    caller = signed_in()
    tag = chosen_cluster(caller)
    may = may_change(caller)
    with problems_shown():
        progress(tag, running_updates(tag))
        features = _features(tag)
        _form(tag, features, may)


def _features(tag: str) -> Features:
    """As AWS and Kubernetes have them, read some seconds ago at most. Raises GatewayProblem."""
    name = f"{tag}/features"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            "Read from AWS and Kubernetes. Touch what should change: nothing else is sent, and nothing else is changed."
        )
        anew = st.button("Read anew", key=f"{name}/read", icon=":material/refresh:", type="tertiary")
    if anew or st.session_state.pop(f"{name}/anew", False):
        drop(name)
    with st.spinner("Reading what is there…"):
        return kept(name, _KEPT_SECONDS, lambda: gateway().call(endpoints.LIST_FEATURES, tag=tag))


def _form(tag: str, features: Features, may: bool) -> None:
    form = f"{tag}/features"
    found = faults(form)
    # What comes of the switches is told above them: there are more of them than a window shows.
    above = st.container()
    touched = feature_cards(form, features.features, found, disabled=not may)
    with above:
        if touched:
            _wish(form, tag, touched, found, may)
        else:
            found.rest()
            st.caption("Nothing was touched." if may else "You may look, and switch nothing.")


def _wish(form: str, tag: str, touched: Entered, found: Faults, may: bool) -> None:
    along = st.checkbox("Switch on, too, what they need", key=f"{form}/prerequisites", disabled=not may)
    body = touched | ({"enable_prerequisites": True} if along else {})

    def started(_: Operation) -> None:
        st.session_state[f"{form}/anew"] = True

    wish = Wish(form, endpoints.UPDATE_FEATURES, {"tag": tag}, body, then=started)
    plan_and_start(wish, found, start=f"Switch {len(touched)} feature{'s' if len(touched) > 1 else ''}", may=may)
