"""The console's script: navigation, and the page that the address names."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ui import session
from ui.links import plain_link
from ui.pages import navigation

# Of its own: an icon by name is fetched from elsewhere, and the console works without the internet.
ICON = str(Path(__file__).parent.parent / "icon.svg")
STYLE = Path(__file__).parent / "style.css"
SIDEBAR_PIXELS = 220

st.set_page_config(page_title="InstantStart", page_icon=ICON, layout="wide", initial_sidebar_state=SIDEBAR_PIXELS)
st.html(STYLE)

caller = session.signed_in()
chosen = st.navigation(navigation(), position="sidebar", expanded=True)
with st.sidebar:
    st.caption(f"{caller.name} · {caller.role}")
    plain_link("Sign out", "/signout")
chosen.run()
