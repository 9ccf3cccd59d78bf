"""What there is, what runs, what waits for somebody, what went wrong."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import streamlit as st

from contracts import endpoints
from contracts.answers import ClusterPage, ClusterUsage
from contracts.cluster import ClusterSummary
from contracts.operation import Operation, Phase
from contracts.problem import Problem
from ui.kept import kept
from ui.links import page_link
from ui.operation_rows import history_rows, running_rows, waiting_rows
from ui.problems import escaped, problems_shown
from ui.session import gateway
from ui.usage import Accelerators, Reading, usages

_OPERATIONS_SECONDS = 4.0
_CLUSTERS_SECONDS = 6.0
_MOST = 200
_SHOWN = 20
_ON_A_PAGE = 10
_READING = "reading…"
_WIDTHS = (2.6, 1.6, 1.8, 2.2, 1.6, 1.9, 1.0, 1.0, 1.3)
_COLORS = {"used": "#0f766e", "free": "#9fd8c8", "not ready": "#c3cccc", "pending": "#ea8a0c"}

Usage = ClusterUsage | Problem | None


def page() -> None:
    """Draw the page."""
    st.title("Overview", anchor=False)
    with problems_shown():
        if not _clusters().clusters and not _operations("any", page_size=1):
            _nothing_yet()
            return
        st.fragment(_work, run_every=_OPERATIONS_SECONDS, key="overview/work")()
        _cluster_search()


def _clusters() -> ClusterPage:
    return kept("overview/clusters", 2.0, lambda: gateway().call(endpoints.LIST_CLUSTERS, page_size=_MOST))


def _operations(name: str, **filters: object) -> list[Operation]:
    """A short list of operations, the newest first."""
    read = lambda: gateway().call(endpoints.LIST_OPERATIONS, **filters).operations  # noqa: E731
    return kept(f"overview/operations/{name}", 1.0, read)


def _nothing_yet() -> None:
    st.markdown("#### Nothing is managed here yet")
    st.write("Begin with one of these. Each shows what it would do before it does anything.")
    new, existing = st.columns(2)
    with new, st.container(border=True, height="stretch"):
        st.markdown("**:material/add_circle: Create a cluster**")
        st.write("Network, EKS, HyperPod nodes and storage, from nothing but a name. Takes about half an hour.")
        page_link("create", "Create a cluster", ":material/arrow_forward:")
    with existing, st.container(border=True, height="stretch"):
        st.markdown("**:material/download: Import a cluster**")
        st.write("Take over an EKS cluster that exists, with or without HyperPod. Nothing of it is changed.")
        page_link("import", "Import a cluster", ":material/arrow_forward:")


def _work() -> None:
    with problems_shown():
        waiting = _operations("waiting", needs_attention=True, page_size=_SHOWN)
        running = _operations("running", phase=[Phase.RUNNING, Phase.QUEUED], page_size=_SHOWN)
        failed = _operations("failed", phase=[Phase.FAILED, Phase.ABORTED], page_size=5)
        _numbers(waiting, running)
        if waiting:
            st.markdown("#### Waits for somebody")
            waiting_rows(waiting)
        if running:
            st.markdown("#### Goes on")
            running_rows(running)
        if failed:
            with st.expander(f"Ended before they were done ({len(failed)})", icon=":material/error:"):
                history_rows(failed)


def _numbers(waiting: Sequence[Operation], running: Sequence[Operation]) -> None:
    page = _clusters()
    known = _known(page.clusters)
    waits, goes, clusters, devices, used, free, pending = st.columns(7)
    waits.metric("Waits for somebody", _many(waiting))
    goes.metric("Goes on", _many(running))
    clusters.metric("Clusters", f"{len(page.clusters)}{'+' if page.next_page_token else ''}")
    devices.metric("Accelerators", sum(each.accelerators for each in page.clusters), help="As last verified.")
    said = f"Of the {len(known)} clusters that were asked: those on the page of the list below."
    unknown = _READING if not known and _under_way(page.clusters) else "–"
    used.metric("Used", sum(each.used for each in known) if known else unknown, help=said)
    free.metric("Free", sum(each.free for each in known) if known else unknown, help=said)
    pending.metric("Pending", sum(each.pending for each in known) if known else unknown, help=said)


def _many(operations: Sequence[Operation]) -> str:
    return f"{len(operations)}{'+' if len(operations) == _SHOWN else ''}"


def _known(clusters: Sequence[ClusterSummary]) -> list[Accelerators]:
    readings = st.session_state.get("usage", {})
    answers = [readings[each.tag].answer for each in clusters if each.tag in readings]
    return [Accelerators.of(answer.summary) for answer in answers if isinstance(answer, ClusterUsage)]


def _under_way(clusters: Sequence[ClusterSummary]) -> bool:
    """Whether an answer may still come: those on the first page of the list are asked."""
    readings = st.session_state.get("usage", {})
    return any(readings.get(each.tag, Reading()).answer is None for each in clusters[:_ON_A_PAGE])


def _cluster_search() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.markdown("#### Clusters", width="stretch")
        search = st.text_input(
            "Search",
            placeholder="Part of a tag or region",
            icon=":material/search:",
            label_visibility="collapsed",
            key="search",
            bind="query-params",
            width=280,
        )
    st.fragment(_cluster_table, run_every=_CLUSTERS_SECONDS, key="overview/clusters")(search.strip())


def _cluster_table(search: str) -> None:
    with problems_shown():
        found = [each for each in _found(search) if each is not None]
        if not found:
            st.info(f"No cluster has “{escaped(search)}” in its tag or region.", icon=":material/search_off:")
            return
        pages = -(-len(found) // _ON_A_PAGE)
        number = st.session_state.get("overview/page", 1) if pages > 1 else 1
        shown = found[(min(number, pages) - 1) * _ON_A_PAGE :][:_ON_A_PAGE]
        answers = usages(each.tag for each in shown)
        _rows(shown, answers)
        if pages > 1:
            st.pagination(pages, key="overview/page")
        _picture(shown, answers)


def _found(search: str) -> list[ClusterSummary]:
    """The clusters that are searched for. A page of a search may hold fewer than it could, and name the next one."""
    if not search:
        return _clusters().clusters
    found: list[ClusterSummary] = []
    token = None
    while len(found) < _MOST:
        page = gateway().call(endpoints.LIST_CLUSTERS, search=search, page_size=_MOST, page_token=token)
        found += page.clusters
        if (token := page.next_page_token) is None:
            break
    return found


def _rows(clusters: Sequence[ClusterSummary], answers: dict[str, Usage]) -> None:
    heads = ("Cluster", "Region", "EKS", "HyperPod", "Nodes ready", "Accelerators", "Used", "Free", "Pending")
    for column, head in zip(st.columns(_WIDTHS), heads, strict=True):
        column.caption(head)
    for each in clusters:
        cells = st.columns(_WIDTHS, vertical_alignment="center")
        with cells[0]:
            page_link("cluster", f"**{escaped(each.tag)}**", cluster=each.tag)
        cells[1].caption(each.region)
        with cells[2]:
            _state(each.eks_status)
        with cells[3]:
            _state(each.hyperpod_status)
        _usage_cells(each, answers.get(each.tag), cells[4:])


def _usage_cells(cluster: ClusterSummary, answer: Usage, cells: Sequence[st.delta_generator.DeltaGenerator]) -> None:
    if isinstance(answer, ClusterUsage):
        devices = Accelerators.of(answer.summary)
        numbers = (f"{answer.summary.ready} / {answer.summary.nodes}", devices.total, devices.used, devices.free)
        for cell, number in zip(cells, (*numbers, devices.pending), strict=True):
            cell.markdown(str(number))
        return
    cells[0].markdown(f"{cluster.nodes_ready} / {cluster.nodes}", help="As last verified.")
    cells[1].markdown(str(cluster.accelerators), help="As last verified.")
    why = "It was asked and has not answered yet." if answer is None else escaped(answer.detail)
    for cell in cells[2:]:
        cell.markdown(f":gray[{_READING}]" if answer is None else "–", help=why)


def _state(status: str | None) -> None:
    if status is None:
        st.caption("–")
        return
    good = status in ("ACTIVE", "InService")
    bad = status.upper() in ("FAILED", "ROLLBACKFAILED")
    st.badge(status, color="green" if good else "red" if bad else "orange")


def _picture(clusters: Sequence[ClusterSummary], answers: dict[str, Usage]) -> None:
    """Accelerators by cluster and state; nothing where there are none."""
    bars = []
    for each in clusters:
        answer = answers.get(each.tag)
        if not isinstance(answer, ClusterUsage):
            continue
        devices = Accelerators.of(answer.summary)
        counts = {
            "used": devices.used,
            "free": devices.free,
            "not ready": max(devices.total - devices.used - devices.free, 0),
            "pending": devices.pending,
        }
        bars += [
            {"cluster": each.tag, "state": state, "order": order, "accelerators": count}
            for order, (state, count) in enumerate(counts.items())
            if count
        ]
    if not bars:
        return
    st.markdown("#### Accelerators")
    tags = list(dict.fromkeys(str(bar["cluster"]) for bar in bars))
    chart = (
        alt.Chart({"values": bars})
        .mark_bar(height=18, cornerRadius=2)
        .encode(
            y=alt.Y("cluster:N", sort=tags, title=None, axis=alt.Axis(labelLimit=220, ticks=False, domain=False)),
            x=alt.X("accelerators:Q", stack="zero", title=None, axis=alt.Axis(tickMinStep=1, format="d")),
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=list(_COLORS), range=list(_COLORS.values())),
                legend=alt.Legend(orient="top", title=None),
            ),
            order=alt.Order("order:Q"),
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("cluster", "state", "accelerators")],
        )
        .properties(height=30 * len(tags) + 100)
    )
    st.altair_chart(chart, key="overview/picture")
