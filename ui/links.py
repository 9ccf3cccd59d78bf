"""Links between pages. The address of a page holds all of its state, so that it can be sent to somebody else."""

from __future__ import annotations

from html import escape
from typing import NoReturn
from urllib.parse import quote, urlencode, urlsplit

import streamlit as st
from streamlit.navigation.page import StreamlitPage


def operation_url(operation: str, run_id: str | None = None) -> str:
    """The page of an operation."""
    return "/operation?" + urlencode({"id": operation, **({"run": run_id} if run_id else {})})


def cluster_url(tag: str, page: str = "cluster") -> str:
    """A page of a cluster: ``cluster``, ``capacity``, ``features`` or ``nodes``."""
    return f"/{page}?" + urlencode({"cluster": tag})


def operation_link(operation: str) -> None:
    """A link to the page of an operation."""
    st.markdown(f"[:material/open_in_new: `{operation}`]({operation_url(operation)})")


def sign_in_url() -> str:
    """Where one signs in, and comes back to the page that is shown."""
    return f"/signin?next={quote(here(), safe='')}"


def parameter(name: str) -> str | None:
    """A parameter of the page's address."""
    return st.query_params.get(name) or None


def page_named(url_path: str) -> StreamlitPage:
    """The page with this path, as the navigation has it."""
    # The pages themselves link to each other through here.
    from ui.pages import navigation

    pages = (page for group in navigation().values() for page in group)
    return next(page for page in pages if page._url_path == url_path)


def page_link(url_path: str, label: str, icon: str | None = None, **query: str | None) -> None:
    """A link to another page, which opens in the same session. ``label``: Markdown."""
    st.page_link(page_named(url_path), label=label, icon=icon, query_params=_given(query))


def go_to(url_path: str, **query: str | None) -> NoReturn:
    """Go on at another page."""
    st.switch_page(page_named(url_path), query_params=_given(query))


def go_to_operation(operation: str, run_id: str | None = None) -> NoReturn:
    """Go on at the page of an operation."""
    go_to("operation", id=operation, run=run_id)


def plain_link(label: str, url: str) -> None:
    """A link to what is no page of Streamlit's, in the same tab: Streamlit's own links open another one."""
    st.markdown(f'<a href="{escape(url)}" target="_self">{escape(label)}</a>', unsafe_allow_html=True)


def here() -> str:
    """The address of the page that is shown, without the host."""
    query = urlencode(st.query_params.to_dict())
    return (urlsplit(st.context.url or "/").path or "/") + (f"?{query}" if query else "")


def _given(query: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in query.items() if value is not None}
