"""What of a cluster is otherwise than recorded, and what settles it."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from client.sync import GatewayProblem
from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.drift import Difference, DriftReport, Severity, title
from ui.fields import Entered
from ui.problems import escaped, problem_box
from ui.session import gateway
from ui.times import ago, at
from ui.wishes import Wish, faults, plan_and_start

COLORS: dict[Severity, Literal["red", "orange", "gray"]] = {
    Severity.CRITICAL: "red",
    Severity.WARNING: "orange",
    Severity.INFO: "gray",
}
_ADOPT, _RESTORE = "Adopt", "Restore"


def drift_badge(record: ClusterRecord) -> None:
    """How many differences the last check found, beside the states of the cluster's parts."""
    report = record.drift.report if record.drift else None
    if report is None or not report.differences:
        return
    color = COLORS[report.differences[0].severity]
    st.badge(
        f"{_count(report.total)}",
        icon=":material/difference:",
        color=color,
        help=f"Otherwise than recorded; looked {ago(report.checked_at)}. See the tab Drift.",
    )


def drift_tab(record: ClusterRecord, may: bool) -> None:
    """Draw the tab: what the last check found, and what can be done about it."""
    form = f"{record.tag}/drift"
    try:
        report = gateway().call(endpoints.GET_DRIFT, tag=record.tag).report
    except GatewayProblem as error:
        problem_box(error.problem)
        return
    said, clicked = st.columns([4, 1], vertical_alignment="center")
    said.caption(_looked(report))
    if clicked.button("Check now", key=f"{form}/check", icon=":material/radar:", width="stretch"):
        _check(record.tag)
    if report is None:
        return
    _left_out(report)
    if not report.differences:
        st.success("The cluster is as it is recorded.", icon=":material/check_circle:")
        return
    _settle(form, record.tag, _chosen(form, report), may)


def _count(total: int) -> str:
    return f"{total} difference{'' if total == 1 else 's'}"


def _looked(report: DriftReport | None) -> str:
    if report is None:
        return "This cluster was never compared with its record."
    return f"{_count(report.total)}, looked {at(report.checked_at)}, {ago(report.checked_at)}. A schedule looks again."


def _check(tag: str) -> None:
    try:
        with st.spinner("Comparing the cluster with its record…"):
            gateway().call(endpoints.CHECK_DRIFT, tag=tag)
    except GatewayProblem as error:
        problem_box(error.problem)
        return
    st.rerun()


def _left_out(report: DriftReport) -> None:
    for each in report.unread:
        kinds = ", ".join(title(kind) for kind in each.kinds)
        st.warning(f"Could not be read: {kinds}. {escaped(each.detail)}", icon=":material/visibility_off:")
    if report.skipped:
        lines = "\n".join(f"- {escaped(each)}" for each in report.skipped)
        with st.expander(f"{len(report.skipped)} left out: an operation is at work on them", icon=":material/sync:"):
            st.markdown(lines)


def _chosen(form: str, report: DriftReport) -> list[Difference]:
    """The differences as a table, of which rows are chosen."""
    rows = [
        {
            "Severity": each.severity.value,
            "What": each.detail,
            "Since": at(each.since),
            "By": each.by or "",
            "Adopt": "yes" if each.adopt.possible else "no",
            "Restore": "yes" if each.restore.possible else _instead(each),
        }
        for each in report.differences
    ]
    drawn = st.dataframe(
        rows,
        hide_index=True,
        on_select="rerun",
        selection_mode="multi-row",
        key=f"{form}/rows/{report.checked_at.isoformat()}",
        alt="Differences",
    )
    if report.more:
        st.caption(f"{report.more} more are not listed.")
    selected: list[int] = drawn["selection"]["rows"]
    return [report.differences[row] for row in selected if row < len(report.differences)]


def _instead(each: Difference) -> str:
    return f"no: {each.restore.operation}" if each.restore.operation else "no"


def _settle(form: str, tag: str, chosen: list[Difference], may: bool) -> None:
    if not chosen:
        st.caption("Choose rows to adopt what is, or to restore what is recorded.")
        return
    for each in chosen:
        _told(each)
    way = st.segmented_control("What to do", [_ADOPT, _RESTORE], default=_RESTORE, key=f"{form}/way", disabled=not may)
    entered: Entered = {"differences": [each.id for each in chosen]}
    if way == _ADOPT and any(each.weakens for each in chosen):
        accepted = st.checkbox(
            "Accept the hole in the cluster's security", key=f"{form}/weaker", disabled=not may, value=False
        )
        if accepted:
            entered["accept_weaker_security"] = True
    if way is None:
        return
    endpoint = endpoints.ADOPT_DRIFT if way == _ADOPT else endpoints.RESTORE_DRIFT
    wish = Wish(f"{form}/{way.lower()}", endpoint, {"tag": tag}, entered)
    plan_and_start(wish, faults(wish.form), start=f"{way} them", may=may)


def _told(each: Difference) -> None:
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.badge(each.severity.value, color=COLORS[each.severity])
            st.markdown(f"**{escaped(each.detail)}**")
        lines = [f"- Adopt: {escaped(each.adopt.why)}", f"- Restore: {escaped(each.restore.why)}"]
        if each.restore.operation:
            lines[1] += f" Use `{each.restore.operation}`."
        if each.weakens:
            lines.append("- To adopt it accepts a hole in the cluster's security.")
        st.markdown("\n".join(lines))
