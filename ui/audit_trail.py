"""The audit trail: who changed, decided or was denied what."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.access import AuditEntry
from ui.links import operation_url
from ui.problems import problems_shown
from ui.session import gateway
from ui.times import at

_ON_A_PAGE = 100
_BEFORE = "audit/pages-before"
"""Tokens of the pages that led to the one that is shown."""


def trail_shown() -> None:
    """Draw a page of the trail, the newest entries first."""
    before: list[str] = st.session_state.setdefault(_BEFORE, [])
    with problems_shown():
        found = gateway().call(endpoints.LIST_AUDIT, page_size=_ON_A_PAGE, page_token=before[-1] if before else None)
        wanted = st.text_input("Only entries with", key="audit/with", placeholder="a name, path, operation or status")
        entries = [each for each in found.entries if wanted.strip().lower() in _text(each)]
        if entries:
            _table(entries)
        else:
            st.info("No entry of this page is like that." if found.entries else "Nothing was changed yet.")
        with st.container(horizontal=True, vertical_alignment="center"):
            if st.button("Newer", key="audit/newer", icon=":material/chevron_left:", disabled=not before):
                before.pop()
                st.rerun()
            if st.button(
                "Older", key="audit/older", icon=":material/chevron_right:", disabled=found.next_page_token is None
            ):
                before.append(found.next_page_token or "")
                st.rerun()
            st.caption(f"{len(entries)} of {len(found.entries)} entries of page {len(before) + 1}")


def _table(entries: list[AuditEntry]) -> None:
    st.dataframe(
        [
            {
                "When": at(each.at),
                "Who": each.by,
                "Role": each.role or "",
                "Did": f"{each.method} {each.path}",
                "Status": each.status,
                "Detail": each.detail or "",
                "Operation": operation_url(each.operation) if each.operation else "",
                "Request": each.request_id,
            }
            for each in entries
        ],
        hide_index=True,
        height=420,
        column_config={"Operation": st.column_config.LinkColumn(display_text=r"id=(.*)")},
        alt="The audit trail",
    )


def _text(entry: AuditEntry) -> str:
    parts = (entry.by, entry.role, entry.method, entry.path, entry.status, entry.detail, entry.operation)
    return " ".join(str(part) for part in (*parts, entry.request_id) if part is not None).lower()
