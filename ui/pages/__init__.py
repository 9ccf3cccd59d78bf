"""The pages of the console: one module each, with a function ``page`` that draws it."""

from __future__ import annotations

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from ui.pages import (
    access,
    capacity,
    cluster,
    create,
    diagnosis,
    features,
    history,
    import_cluster,
    nodes,
    operation,
    operations,
    overview,
    pod,
    serving,
    storage,
    training,
)


def navigation() -> dict[str, list[StreamlitPage]]:
    """The pages by the heading that they stand under. ``url_path`` is part of the links that people keep."""
    return {
        "": [
            st.Page(overview.page, title="Overview", url_path="overview", icon=":material/dashboard:", default=True),
            st.Page(operations.page, title="Operations", url_path="operations", icon=":material/history:"),
            st.Page(operation.page, title="Operation", url_path="operation", visibility="hidden"),
        ],
        "Cluster": [
            st.Page(cluster.page, title="Cluster", url_path="cluster", icon=":material/hub:"),
            st.Page(capacity.page, title="Capacity", url_path="capacity", icon=":material/memory:"),
            st.Page(features.page, title="Features", url_path="features", icon=":material/toggle_on:"),
            st.Page(nodes.page, title="Nodes", url_path="nodes", icon=":material/dns:"),
            st.Page(diagnosis.page, title="Diagnosis", url_path="diagnosis", icon=":material/troubleshoot:"),
            st.Page(pod.page, title="Log of a pod", url_path="pod", visibility="hidden"),
        ],
        "Models": [
            st.Page(storage.page, title="Storage and models", url_path="storage", icon=":material/database:"),
            st.Page(training.page, title="Training", url_path="training", icon=":material/model_training:"),
            st.Page(history.page, title="Experiments", url_path="history", icon=":material/monitoring:"),
            st.Page(serving.page, title="Serving", url_path="serving", icon=":material/rocket_launch:"),
        ],
        "New": [
            st.Page(create.page, title="Create a cluster", url_path="create", icon=":material/add_circle:"),
            st.Page(import_cluster.page, title="Import a cluster", url_path="import", icon=":material/download:"),
        ],
        "Gateway": [
            st.Page(access.page, title="Access", url_path="access", icon=":material/admin_panel_settings:"),
        ],
    }
