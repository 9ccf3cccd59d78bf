"""The console as an ASGI application."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from ui import log_routes, signin
from ui.own_pages import OwnPages

SCRIPT = Path(__file__).parent / "script" / "main.py"
"""In a folder of its own: Streamlit takes ``pages`` beside a script for scripts, and runs them as such."""


def create_app() -> st.App:
    """The console. One for each process, as Streamlit keeps its configuration by process."""
    return st.App(SCRIPT, routes=[*signin.ROUTES, *log_routes.ROUTES], middleware=[Middleware(OwnPages)])
