"""Metrics over steps as pictures: of one run, and of several beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import streamlit as st

from contracts.experiment_runs import ComparedMetric, MetricHistory, RunView, Value

_HEIGHT = 240


def histories_shown(histories: Sequence[MetricHistory]) -> None:
    """A picture for each metric that has more than one value, the others as numbers."""
    lines = [each for each in histories if len(_numbers(each)) > 1]
    single = [each for each in histories if each not in lines and each.points]
    if not histories:
        st.caption("It has reported no metric.")
    if single:
        with st.container(horizontal=True):
            for each in single:
                st.metric(each.metric, _text(each.points[-1].value), border=True, width="content")
    for row in range(0, len(lines), 2):
        for column, history in zip(st.columns(2), lines[row : row + 2], strict=False):
            with column:
                chart = _line(_numbers(history), history.metric)
                st.altair_chart(chart, width="stretch")
                if history.recorded > len(history.points):
                    st.caption(f"{len(history.points)} of {history.recorded} points.")


def comparison_shown(metrics: Sequence[ComparedMetric], runs: Sequence[RunView]) -> None:
    """A picture for each metric, in which every run is a line."""
    names = run_names(runs)
    drawn: list[tuple[ComparedMetric, list[dict[str, Any]]]] = []
    for metric in metrics:
        values = [
            {"step": step, "value": value, "run": names[run]}
            for run, found in metric.values.items()
            if run in names
            for step, value in zip(metric.steps, found, strict=True)
            if isinstance(value, float | int)
        ]
        if values:
            drawn.append((metric, values))
    if not drawn:
        st.info("These runs have no metric in common that is a number.", icon=":material/show_chart:")
    for row in range(0, len(drawn), 2):
        for column, (metric, values) in zip(st.columns(2), drawn[row : row + 2], strict=False):
            with column:
                chart = _line(values, metric.metric, list(names.values()))
                # The names of the runs stand below the picture, and are part of its height.
                height = _HEIGHT + 100 + 22 * (-(-len(names) // 2))
                st.altair_chart(chart.properties(height=height), width="stretch")
                if metric.sampled:
                    st.caption("There are more steps than are shown.")


def run_names(runs: Sequence[RunView]) -> dict[str, str]:
    """What runs are called in a picture: their names, and where two are called the same their IDs as well."""
    given = [run.name or run.run_id[:8] for run in runs]
    return {
        run.run_id: name if given.count(name) == 1 else f"{name} ({run.run_id[:6]})"
        for run, name in zip(runs, given, strict=True)
    }


def _numbers(history: MetricHistory) -> list[dict[str, Any]]:
    return [
        {"step": point.step, "value": point.value, "run": history.metric}
        for point in history.points
        if isinstance(point.value, float | int)
    ]


def _line(values: list[dict[str, Any]], title: str, runs: list[str] | None = None) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart({"values": values})
        .mark_line(point=len(values) < 60)
        .encode(
            x=alt.X("step:Q", title="step"),
            y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False)),
            tooltip=["run:N", "step:Q", alt.Tooltip("value:Q", format=".6g")],
        )
        .properties(height=_HEIGHT, title=title)
    )
    if runs is None:
        return chart
    scale = alt.Scale(domain=runs, scheme="tableau10" if len(runs) <= 10 else "tableau20")
    legend = alt.Legend(orient="bottom", title=None, columns=2, labelLimit=200)
    coloured: alt.Chart = chart.encode(color=alt.Color("run:N", scale=scale, legend=legend))
    return coloured


def _text(value: Value) -> str:
    return f"{value:.6g}" if isinstance(value, float | int) else value
