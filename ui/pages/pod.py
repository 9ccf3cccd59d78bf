"""The log of one pod; the address names it."""

from __future__ import annotations

import streamlit as st

from ui.cluster_picker import chosen_cluster
from ui.links import page_link, parameter
from ui.logs import log_of_pod, log_shown
from ui.problems import escaped
from ui.session import signed_in


def page() -> None:
    """Draw the page: ``cluster``, ``namespace`` (``default``), ``pod``, and ``container`` where another than the main
    one is meant."""
    caller = signed_in()
    namespace, pod = parameter("namespace") or "default", parameter("pod")
    if pod is None:
        st.title("No pod is named")
        st.info("The address of a log's page names its pod.", icon=":material/link:")
        page_link("nodes", "Nodes and their pods", ":material/dns:")
        return
    st.title(f"{escaped(namespace)}/{escaped(pod)}", anchor=False)
    tag = chosen_cluster(caller)
    with st.container(horizontal=True):
        page_link(
            "diagnosis",
            "Diagnose it",
            ":material/troubleshoot:",
            cluster=tag,
            kind="pod",
            name=pod,
            namespace=namespace,
        )
    log_shown(log_of_pod(tag, namespace, pod, parameter("container")))
