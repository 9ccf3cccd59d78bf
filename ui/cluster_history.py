"""What was done to a cluster."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterView
from contracts.operation import Phase
from contracts.words import number_of
from ui.links import operation_url
from ui.operation_view import PHASES, title_of
from ui.problems import problems_shown
from ui.session import gateway
from ui.times import at, lasting

_PAGE = 20


def history_tab(view: ClusterView) -> None:
    """Draw the tab: operations that have ended, the newest first."""
    if not view.history:
        st.info("Nothing that was done to this cluster has ended yet.", icon=":material/history:")
        return
    _table(
        [
            {
                "Operation": operation_url(each.operation, each.run_id),
                "What": _what(each.kind, each.operation),
                "End": _end(each.phase),
                "Detail": each.detail or "",
                "Asked by": each.by,
                "Began": at(each.started_at),
                "Took": lasting(each.finished_at - each.started_at),
            }
            for each in view.history
        ]
    )


def past_operations(tag: str) -> None:
    """Operations of a cluster that has no record (any more)."""
    with problems_shown():
        found = gateway().call(endpoints.LIST_CLUSTER_OPERATIONS, tag=tag, page_size=_PAGE).operations
        if not found:
            return
        st.markdown("**What was done under this tag**")
        _table(
            [
                {
                    "Operation": operation_url(each.id, each.run_id),
                    "What": _what(each.kind, each.id),
                    "End": _end(each.phase),
                    "Asked by": each.started_by,
                    "Began": at(each.started_at),
                }
                for each in found
            ]
        )


def _what(kind: str, operation: str) -> str:
    """What it did, and to which part of the cluster where its ID names one."""
    _, _, part = operation.split("/", 1)[-1].partition("/")
    return f"{title_of(kind)} · {part}" if part else title_of(kind)


def _end(phase: Phase) -> str:
    return PHASES[phase][0]


def _table(rows: list[dict[str, Any]]) -> None:
    st.dataframe(
        rows,
        hide_index=True,
        height="content" if len(rows) <= 14 else 520,
        column_config={"Operation": st.column_config.LinkColumn(display_text=":material/open_in_new:", width=80)},
        alt=number_of(len(rows), "operation"),
    )
