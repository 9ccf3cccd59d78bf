"""A gateway that runs, as the console and the tools reach it."""

from __future__ import annotations

from tests.ui.conftest import _running, console

__all__ = ["_running", "console"]
