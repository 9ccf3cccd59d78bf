"""A diagnosis: why something is blocked, has failed, or does not run. It reads, and proposes; it starts nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.diagnostics import IN_NAMESPACES
from ui.cluster_picker import chosen_cluster
from ui.diagnosis import diagnosis_shown
from ui.kept import drop, kept
from ui.links import parameter
from ui.problems import problem_box
from ui.session import gateway, may_change, signed_in

_SECONDS = 300.0
_WAIT = 75.0
_KINDS = {
    "cluster": "The cluster",
    "operation": "An operation",
    "training-run": "A training run",
    "node": "A node",
    "deployment": "A deployment",
    "pod": "A pod",
}
_HOURS = {"1": "1 hour", "6": "6 hours", "24": "24 hours", "72": "3 days", "168": "7 days", "336": "14 days"}
_NAMES = {
    "operation": "Its ID, e.g. create-cluster/demo",
    "training-run": "Its name",
    "node": "Its instance or Kubernetes name",
    "deployment": "Its name",
    "pod": "Its name",
}


def page() -> None:
    """Draw the page. The address says what is diagnosed: ``kind``, ``name``, ``namespace`` and ``hours``."""
    st.title("Diagnosis", anchor=False)
    caller = signed_in()
    tag = chosen_cluster(caller)
    body = _asked()
    if body is None:
        st.info("Say what is to be diagnosed.", icon=":material/troubleshoot:")
        return
    name = f"diagnosis/{tag}/{sorted(body['subject'].items())}/{body['since_hours']}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Look again", key="diagnosis/again", icon=":material/refresh:", on_click=drop, args=(name,))
        st.caption("It reads AWS, Kubernetes, logs and our own stages. Nothing is changed.")
    try:
        with st.spinner("Reading the evidence…"):
            found = kept(name, _SECONDS, lambda: gateway().call(endpoints.DIAGNOSE, body, tag=tag, timeout=_WAIT))
    except GatewayProblem as error:
        problem_box(error.problem)
        return
    diagnosis_shown(tag, found, may_change(caller))


def _asked() -> dict[str, Any] | None:
    """The request as it was entered; None where a name is missing."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = _chosen("kind", "What", list(_KINDS), "cluster", lambda each: _KINDS[each], 170)
        name = namespace = None
        if kind != "cluster":
            name = st.text_input("Which", key="name", bind="query-params", placeholder=_NAMES[kind], width=380).strip()
        if kind in IN_NAMESPACES:
            namespace = st.text_input(
                "Namespace", key="namespace", bind="query-params", placeholder="default", width=170
            ).strip()
        hours = _chosen("hours", "Look back", list(_HOURS), "24", lambda each: _HOURS[each], 130)
    if kind != "cluster" and not name:
        return None
    subject = {"kind": kind, "name": name or "", **({"namespace": namespace} if namespace else {})}
    return {"subject": subject, "since_hours": float(hours)}


def _chosen(
    name: str, label: str, options: list[str], default: str, described: Callable[[str], str], width: int
) -> str:
    """One of the options, which the address holds as the gateway calls them; a bound widget would put labels there."""
    key, named = f"diagnosis/{name}", parameter(name)
    if named in options or key not in st.session_state:
        st.session_state[key] = named if named in options else default

    def keep() -> None:
        st.query_params[name] = st.session_state[key]

    return st.selectbox(label, options, format_func=described, key=key, on_change=keep, width=width)
