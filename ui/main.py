"""The console's script: navigation, and the page that the address names."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.pages import navigation

st.set_page_config(page_title="InstantStart", page_icon=":material/hub:", layout="wide")

caller = session.signed_in()
chosen = st.navigation(navigation(), position="sidebar")
with st.sidebar:
    st.caption(f"{caller.name} · {caller.role}")
    st.link_button("Sign out", "/signout", icon=":material/logout:")
chosen.run()
