"""The pages: one module each, with a function ``page`` that draws it."""

from __future__ import annotations

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from ui.pages import overview


def navigation() -> dict[str, list[StreamlitPage]]:
    """The pages by the heading that they stand under. ``url_path`` is part of the links that people keep."""
    return {
        "": [
            st.Page(overview.page, title="Overview", url_path="overview", icon=":material/dashboard:", default=True),
        ],
    }
