"""The end of a deletion as tables: what was deleted, what was kept and why, what is still there."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st
from pydantic import JsonValue, ValidationError

from contracts.teardown import Level, Part, Report, Resource
from ui.problems import escaped

_LEVELS = {
    Level.HYPERPOD: "The HyperPod cluster was deleted; the EKS cluster and the network were to stay.",
    Level.EKS: "The HyperPod and EKS clusters were deleted; the network was to stay.",
    Level.NETWORK: "The cluster was deleted as a whole, its network too.",
}


def report_of(result: Mapping[str, JsonValue]) -> Report | None:
    """The report that a deletion ended with; None where it was ended early and has none."""
    try:
        return Report.model_validate(result)
    except ValidationError:
        return None


def report_shown(report: Report) -> None:
    """Draw the report."""
    with st.container(horizontal=True):
        st.badge(f"{len(report.deleted)} deleted", icon=":material/delete:", color="green")
        st.badge(f"{len(report.kept)} kept on purpose", icon=":material/lock:", color="blue")
        left = len(report.remaining) + len(report.leftovers)
        st.badge(f"{left} still there", icon=":material/search:", color="red" if left else "gray")
    st.write(_LEVELS[report.level])
    for each in report.leftovers:
        st.error(
            f"**{escaped(each.kind)} {escaped(each.id)}** {escaped(each.detail)} {escaped(each.remedy)}",
            icon=":material/error:",
        )
    if report.remaining:
        st.markdown("**Still there**")
        _resources(report.remaining)
    if report.kept:
        st.markdown("**Kept on purpose**")
        st.dataframe(
            [{"What": each.kind, "ID": each.id, "Why": each.why} for each in report.kept],
            hide_index=True,
            height="content",
            alt="What was kept on purpose",
        )
    if report.deleted:
        st.markdown("**Deleted**, in this order")
        _resources(report.deleted)
    elif not report.remaining:
        st.caption("There was nothing to delete.")


def _resources(resources: list[Resource]) -> None:
    st.dataframe(
        [
            {
                "#": number,
                "Part": _title(each.part),
                "What": each.kind,
                "Name": each.name,
                "ID": each.id,
                "State": each.detail or "",
            }
            for number, each in enumerate(resources, 1)
        ],
        hide_index=True,
        height="content" if len(resources) <= 15 else 500,
        column_config={"#": st.column_config.NumberColumn(width=40)},
        alt=f"{len(resources)} resources",
    )


def _title(part: Part) -> str:
    return part.value.replace("-", " ").replace("vpc", "VPC").replace("hyperpod", "HyperPod")
