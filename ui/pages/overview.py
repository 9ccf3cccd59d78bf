"""What there is, what runs, what waits for somebody, what went wrong."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from ui.problems import problems_shown
from ui.session import gateway


def page() -> None:
    """Draw the page."""
    st.title("Overview")
    with problems_shown():
        found = gateway().call(endpoints.LIST_CLUSTERS, page_size=50)
        st.dataframe([each.model_dump(mode="json") for each in found.clusters])
