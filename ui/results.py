"""What operations end with, for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st
from pydantic import JsonValue

from contracts import catalogue
from contracts.left_behind import HEADINGS, remains_lines, remains_of
from ui.problems import escaped
from ui.teardown_report import report_of, report_shown

Result = Mapping[str, JsonValue]

ANSWER = "answer"
_ANSWERED = {
    "verified": ("How it was seen to work", ""),
    "model": ("Model", ""),
    "latency_ms": ("It answered within", " ms"),
    "sample": ("It began with", ""),
}
"""Members of an answer, in words and with their unit."""


def result_shown(kind: str, result: Result, titles: Mapping[str, str] | None = None) -> None:
    """Draw what an operation of a kind has ended with. ``titles``: of its stages, by name."""
    remains = remains_of(result, titles or {})
    if remains is None:
        RENDERERS.get(kind, anything)(result)
        return
    heading, *said = remains_lines(remains)
    st.markdown("\n".join([f"**{escaped(heading)}**", "", *(_listed(line) for line in said)]))
    _others(result, *HEADINGS, "unknown")


def _listed(line: str) -> str:
    return f"- {escaped(line.strip())}" if line.startswith(" ") else f"\n**{escaped(line)}**\n"


def anything(result: Result) -> None:
    """Draw any result: single values as lines, lists of things as tables."""
    if not result:
        st.caption("Nothing to report.")
    single = {name: value for name, value in result.items() if not isinstance(value, list | dict)}
    if single:
        st.markdown("\n".join(f"- {escaped(_label(name))}: **{_word(value)}**" for name, value in single.items()))
    for name, value in result.items():
        if name == ANSWER and isinstance(value, dict):
            _answer(value)
        elif isinstance(value, dict):
            _table(_label(name), [{"Name": key, "Value": _cell(each)} for key, each in value.items()])
        elif isinstance(value, list) and value and not any(isinstance(each, dict) for each in value):
            st.markdown(f"**{escaped(_label(name))}**: {', '.join(map(_word, value))}")
        elif isinstance(value, list):
            _table(_label(name), _rows(value))


def _answer(answer: Result) -> None:
    """What a model server said when it was asked whether it works. (``contracts.deployments.Answered``)"""
    lines = [
        f"- {words}: **{_word(answer[name])}**{unit}"
        for name, (words, unit) in _ANSWERED.items()
        if answer.get(name) is not None
    ]
    st.markdown("\n".join(["**Its answer**", "", *lines]))


def _cluster(result: Result) -> None:
    """A cluster that was created, or looked at as a whole."""
    with st.container(horizontal=True):
        _fact(result, "eks_cluster", "EKS cluster")
        _fact(result, "kubernetes_version", "Kubernetes")
        _fact(result, "hyperpod_cluster", "HyperPod cluster")
        _fact(result, "hyperpod_status", "HyperPod")
    _table("Nodes", _rows(result.get("nodes")))
    _table("Storage", _rows(result.get("storage")))
    _others(result, "eks_cluster", "kubernetes_version", "hyperpod_cluster", "hyperpod_status", "nodes", "storage")


def _detected(result: Result) -> None:
    """A cluster that was imported or detected anew."""
    with st.container(horizontal=True):
        _fact(result, "eks_cluster", "EKS cluster")
        _fact(result, "hyperpod_cluster", "HyperPod cluster", "none")
        _fact(result, "origin", "Origin")
        _fact(result, "nodes", "Nodes")
    if "changed" in result:
        changed = result["changed"]
        if isinstance(changed, list) and changed:
            _table("What was otherwise than the record said", _rows(changed))
        else:
            st.success("The record was right: nothing had changed.", icon=":material/check_circle:")
    gaps = result.get("gaps")
    if isinstance(gaps, list) and gaps:
        lines = [
            f"- **{escaped(str(gap.get('what', '')))}** {escaped(str(gap.get('detail', '')))}"
            + (f" — {escaped(str(gap['remedy']))}" if gap.get("remedy") else "")
            for gap in gaps
            if isinstance(gap, dict)
        ]
        st.warning("**What it lacks**\n\n" + "\n".join(lines), icon=":material/rule:")
    else:
        st.caption("Nothing is missing that clusters made here have.")
    features = result.get("features")
    if isinstance(features, dict):
        _table("Features", [{"Feature": name, "State": _cell(state)} for name, state in features.items()])
    shown = ("eks_cluster", "hyperpod_cluster", "origin", "nodes", "changed", "gaps", "features")
    _others(result, *shown)


def _deleted(result: Result) -> None:
    report = report_of(result)
    if report is None:
        anything(result)
    else:
        report_shown(report)


RENDERERS: dict[str, Callable[[Result], None]] = {
    catalogue.CREATE_CLUSTER.name: _cluster,
    catalogue.VERIFY_CLUSTER.name: _cluster,
    catalogue.IMPORT_CLUSTER.name: _detected,
    catalogue.REDETECT_CLUSTER.name: _detected,
    catalogue.DELETE_CLUSTER.name: _deleted,
}
"""By kind of operation; the others are drawn by :func:`anything`."""


def _others(result: Result, *shown: str) -> None:
    """What else the result holds, e.g. of an operation that was ended early."""
    others = {name: value for name, value in result.items() if name not in shown and value not in (None, [], {})}
    if others:
        anything(others)


def _fact(result: Result, name: str, label: str, absent: str = "—") -> None:
    if name in result:
        value = result[name]
        st.metric(label, absent if value is None else str(value), width="content")


def _table(title: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        st.markdown(f"**{escaped(title)}** ({len(rows)})")
        st.dataframe(rows, hide_index=True, height="content" if len(rows) <= 15 else 500, alt=title)


def _rows(values: JsonValue) -> list[dict[str, Any]]:
    found = values if isinstance(values, list) else []
    return [
        {_label(name): _cell(value) for name, value in each.items()} if isinstance(each, dict) else {"": _cell(each)}
        for each in found
    ]


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _word(value: JsonValue) -> str:
    return "—" if value is None else escaped(str(_cell(value)))


def _cell(value: JsonValue) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
