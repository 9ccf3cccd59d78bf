"""Runs beside each other: metrics over the same steps, and the parameters in which they differ."""

from __future__ import annotations

from typing import Any

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.experiment_runs import RunComparison
from ui.experiment_charts import comparison_shown, run_names
from ui.experiment_runs import chosen_server
from ui.kept import kept
from ui.links import page_link
from ui.problems import problems_shown
from ui.serving_parts import table
from ui.session import gateway
from ui.times import at

_SECONDS = 30.0


def compare_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab. The address names the runs, with commas between them."""
    with problems_shown():
        with st.container(horizontal=True, vertical_alignment="bottom"):
            server = chosen_server(record.tag)
            if server is None:
                return
            text = st.text_input(
                "IDs of the runs", key="runs", bind="query-params", placeholder="with commas between them", width=480
            )
            metrics = st.text_input(
                "Only the metrics", key="metrics", bind="query-params", placeholder="those in common", width=240
            )
        ids = _parts(text)
        if not ids:
            st.info("Choose several runs in the table, and compare them.", icon=":material/stacked_line_chart:")
            page_link("history", "Runs", ":material/table_rows:", cluster=record.tag, tab="Runs", server=server)
            return
        with st.spinner("Reading the runs…"):
            found = _compared(record.tag, server, ids, _parts(metrics))
        _drawn(found)


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _compared(tag: str, server: str, ids: list[str], metrics: list[str]) -> RunComparison:
    return kept(
        f"comparison/{tag}/{server}/{ids}/{metrics}",
        _SECONDS,
        lambda: gateway().call(
            endpoints.COMPARE_RUNS, tag=tag, tracking_server=server, run=ids, metric=metrics or None
        ),
    )


def _drawn(found: RunComparison) -> None:
    comparison_shown(found.metrics, found.runs)
    names = run_names(found.runs)
    st.markdown("#### Where they differ")
    rows: list[dict[str, Any]] = [
        {"Parameter": name, **{names[run.run_id]: value or "" for run, value in zip(found.runs, values, strict=True)}}
        for name, values in sorted(found.differing.items())
    ]
    table(rows, "parameters", "Their parameters are the same.")
    st.caption(f"Read {at(found.read_at)}.")
