"""What is wrong with a thing, for people: probable causes with their evidence, what to do next, and one timeline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import altair as alt
import streamlit as st

from contracts import catalogue
from contracts.catalogue import KINDS
from contracts.diagnostics import Cause, Diagnosis, NextStep, Severity, SourceRead, TimelineEntry
from contracts.endpoints import ENDPOINTS
from contracts.operation import Operation
from ui.links import page_link
from ui.node_actions import REBOOT, REPLACE, node_form
from ui.operation_view import title_of
from ui.problems import escaped
from ui.times import at
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start

_MARKS: dict[Severity, str] = {
    "info": ":gray[:material/info:]",
    "warning": ":orange[:material/warning:]",
    "error": ":red[:material/error:]",
}
_COLORS: dict[Severity, str] = {"info": "#8a9a9a", "warning": "#ea8a0c", "error": "#c62828"}
_LEVELS = {
    "investigate": ("Somebody must look", ":material/search:"),
    "correct": ("Change what was asked", ":material/edit:"),
    "wait": ("Wait", ":material/hourglass_empty:"),
    "reboot": ("Reboot", ":material/restart_alt:"),
    "replace": ("Replace", ":material/swap_horiz:"),
    "support": ("Ask AWS Support", ":material/support_agent:"),
}
_SOURCES = {
    "hyperpod-event": "HyperPod events",
    "cluster": "Cluster",
    "instance": "Instances",
    "addon": "Add-ons",
    "network": "Network",
    "quota": "Quotas",
    "identity": "Identity",
    "node": "Nodes",
    "kubernetes-event": "Kubernetes events",
    "job": "Jobs",
    "queue": "Queues",
    "storage": "Storage",
    "pod": "Pods",
    "log": "Logs",
    "stage": "Our stages",
}
_NODE_ACTIONS = {catalogue.REBOOT_NODES.name: REBOOT, catalogue.REPLACE_NODES.name: REPLACE}


def diagnose_link(
    tag: str, kind: str, name: str = "", namespace: str | None = None, label: str = "Diagnose it"
) -> None:
    """A link that diagnoses something; it reads only."""
    page_link(
        "diagnosis",
        label,
        ":material/troubleshoot:",
        cluster=tag,
        kind=kind,
        name=name or None,
        namespace=namespace,
    )


def diagnosis_shown(tag: str, found: Diagnosis, may: bool) -> None:
    """Draw all of a diagnosis."""
    unread = [each for each in found.read if not each.ok]
    if found.note is not None:
        st.info(escaped(found.note), icon=":material/check_circle:")
    elif not found.causes:
        st.info(
            "Nothing that is known explains it: no cause is claimed. The timeline is what was found.",
            icon=":material/help:",
        )
    for number, cause in enumerate(found.causes):
        _cause(tag, number, cause, found, may)
    if unread:
        lines = "\n".join(f"- {escaped(each.what)}: {escaped(each.problem or 'no reason is known')}" for each in unread)
        st.warning(f"**Not read; this rests on the others**\n\n{lines}", icon=":material/visibility_off:")
    _timeline(found)
    _read(found.read, found.read_at)


def _cause(tag: str, number: int, cause: Cause, found: Diagnosis, may: bool) -> None:
    first = number == 0
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"##### {escaped(cause.title)}")
            st.badge(
                f"{round(cause.confidence * 100)} % sure",
                icon=":material/verified:" if cause.confidence >= 0.7 else ":material/help:",
                color="green" if cause.confidence >= 0.7 else "orange" if cause.confidence >= 0.4 else "gray",
            )
        st.markdown(escaped(cause.explanation))
        if cause.explained_by is not None:
            other = next((each.title for each in found.causes if each.rule == cause.explained_by), cause.explained_by)
            st.caption(f"It looks like a consequence of: {escaped(other)}")
        st.markdown(f"**What to do:** {escaped(cause.fix)}")
        with st.expander(f"Evidence ({len(cause.evidence) + cause.more_evidence})", expanded=first):
            st.markdown("\n".join(f"- {_line(entry)}" for entry in cause.evidence) or "None is shown.")
            if cause.more_evidence:
                st.caption(f"And {cause.more_evidence} more lines.")
        _source(cause)
        if cause.next_step is not None:
            _next(tag, cause.next_step, f"{tag}/diagnosis/{cause.rule}", may)


def _line(entry: TimelineEntry) -> str:
    when = at(entry.at) if entry.at is not None else "now"
    often = f" · {entry.count} times" if entry.count > 1 else ""
    said = f"{_SOURCES.get(entry.source, entry.source)}, {escaped(entry.subject)}{often}"
    return f"{_MARKS[entry.severity]} {when} — {escaped(entry.text)}  \n  :gray[{said}]"


def _source(cause: Cause) -> None:
    if cause.source.startswith("https://"):
        st.caption(f"Rule `{cause.rule}`, after [{escaped(cause.source)}]({_address(cause.source)})")
    else:
        st.caption(f"Rule `{cause.rule}`, after {escaped(cause.source)}")


def _address(url: str) -> str:
    return url.replace("(", "%28").replace(")", "%29").replace(" ", "%20")


def _next(tag: str, step: NextStep, form: str, may: bool) -> None:
    name, icon = _LEVELS[step.level]
    st.markdown(f"{icon} **Next: {name}.** {escaped(step.why)}")
    kind = step.operation
    if kind is None or step.spec is None:
        return
    nodes = step.spec.get("nodes")
    if kind in _NODE_ACTIONS and isinstance(nodes, list):
        names = [str(node) for node in nodes]
        with st.expander(f"{title_of(kind)}: {', '.join(names)}", icon=icon):
            node_form(tag, names, _NODE_ACTIONS[kind], may, form)
        return
    wish = proposed(tag, kind, step.spec, form)
    if wish is None:
        return
    with st.expander(title_of(kind), icon=icon):
        if kind in KINDS and KINDS[kind].destroys:
            faults(form).rest()
            subject = str(step.spec.get("name") or tag)
            confirm_and_start(wish, title=title_of(kind), name=subject, verb=title_of(kind), may=may, icon=icon)
        else:
            plan_and_start(wish, faults(form), start=title_of(kind), may=may)


def proposed(tag: str, kind: str, spec: dict[str, Any], form: str) -> Wish | None:
    """The start of an operation that was proposed; None where it has no route of its own."""
    endpoint = ENDPOINTS.get(kind.replace("-", "_"))
    if endpoint is None or not endpoint.starts or endpoint.answer is not Operation:
        return None
    given, parameters = dict(spec), {"tag": tag}
    for name in endpoint.placeholders:
        if name in parameters:
            continue
        if name not in given:
            return None
        parameters[name] = given.pop(name)
    if "name" in endpoint.placeholders and "namespace" in given:
        parameters["namespace"] = given.pop("namespace")
    return Wish(form, endpoint, parameters, given or None)


def _timeline(found: Diagnosis) -> None:
    st.markdown("#### Timeline")
    if not found.timeline:
        st.caption("Nothing was found in the time that was looked at.")
        return
    _picture(found.timeline)
    severities = list(dict.fromkeys(entry.severity for entry in found.timeline))
    chosen = st.pills(
        "Only", [each for each in _MARKS if each in severities], selection_mode="multi", key="diagnosis/severities"
    )
    rows = [entry for entry in found.timeline if not chosen or entry.severity in chosen]
    st.dataframe(
        [_row(entry) for entry in rows],
        hide_index=True,
        height="content" if len(rows) <= 10 else 460,
        column_config={"What was seen": st.column_config.TextColumn(width="large")},
        alt=f"{len(rows)} entries in order of time",
    )
    if found.more_entries:
        st.caption(f"{found.more_entries} older entries that no cause rests on are left out.")


def _row(entry: TimelineEntry) -> dict[str, Any]:
    return {
        "When": at(entry.at) if entry.at is not None else "now",
        "Severity": entry.severity,
        "What was seen": entry.text,
        "Of": entry.subject,
        "Read from": _SOURCES.get(entry.source, entry.source),
        "Times": entry.count,
    }


def _picture(timeline: Sequence[TimelineEntry]) -> None:
    """A mark for each entry that has a time, a row for each source."""
    timed = [
        {
            "at": entry.at.isoformat(),
            "source": _SOURCES.get(entry.source, entry.source),
            "severity": entry.severity,
            "subject": entry.subject,
            "text": entry.text[:200],
        }
        for entry in timeline
        if entry.at is not None
    ]
    if len(timed) < 2:
        return
    rows = list(dict.fromkeys(each["source"] for each in timed))
    severities: list[Severity] = ["info", "warning", "error"]
    chart = (
        alt.Chart({"values": timed})
        .mark_circle(size=80, opacity=0.75)
        .encode(
            x=alt.X("at:T", title=None, axis=alt.Axis(format="%-d %b %H:%M", labelOverlap=True, tickCount=6)),
            y=alt.Y(
                "source:N", title=None, scale=alt.Scale(domain=rows), axis=alt.Axis(labelLimit=180, labelOverlap=False)
            ),
            color=alt.Color(
                "severity:N",
                scale=alt.Scale(domain=severities, range=[_COLORS[each] for each in severities]),
                legend=alt.Legend(orient="top", title=None),
            ),
            tooltip=["at:T", "subject:N", "text:N"],
        )
        .properties(height=28 * len(rows) + 90)
    )
    st.altair_chart(chart, width="stretch")


def _read(read: Sequence[SourceRead], read_at: datetime) -> None:
    with st.expander("What was read", icon=":material/rule:"):
        st.dataframe(
            [
                {
                    "Source": _SOURCES.get(each.source, each.source),
                    "What": each.what,
                    "Read": "yes" if each.ok else f"no: {each.problem or 'no reason is known'}",
                    "Entries": each.entries,
                }
                for each in read
            ],
            hide_index=True,
            height="content" if len(read) <= 15 else 480,
            alt="Sources that were asked",
        )
        st.caption(f"Read {at(read_at)}.")
