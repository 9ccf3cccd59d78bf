"""Objects that are entered as JSON."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from ui.problems import escaped


def json_area(
    label: str, begin: dict[str, Any], key: str, *, height: int = 160, disabled: bool = False, about: str | None = None
) -> dict[str, Any] | None:
    """The object that was entered, beginning with ``begin``; None where it is none, which is said below the field."""
    text = st.text_area(label, value=json.dumps(begin, indent=2), key=key, height=height, disabled=disabled, help=about)
    try:
        found = json.loads(text or "")
    except ValueError as error:
        st.caption(f":red[:material/error: This is no JSON: {escaped(str(error))}]")
        return None
    if not isinstance(found, dict):
        st.caption(":red[:material/error: This is no object, in braces.]")
        return None
    return found
