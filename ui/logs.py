"""Logs of pods and of training runs: live, in pages, and as a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from contracts import endpoints
from contracts.log_lines import Level
from contracts.logs import LogPage
from ui.links import page_link, plain_link
from ui.log_routes import DOWNLOAD, LIVE
from ui.paging import page_buttons, page_token
from ui.problems import escaped, problems_shown
from ui.session import gateway

_LINES = 500
"""Of a page."""
_TAIL = 300
"""Lines that a live log begins with."""
_HEIGHT = 520
_LIVE, _PAGES = "Live", "From its beginning"
_ANY = "Any"


@dataclass(frozen=True)
class Log:
    """Whose log. ``where`` are parameters of the gateway's routes; with a ``name`` it is a training run's."""

    tag: str
    where: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Of its widgets."""
        return "log/" + "/".join([self.tag, *(str(value) for value in self.where.values())])

    @property
    def of_run(self) -> bool:
        return "name" in self.where

    def address(self, path: str, wanted: dict[str, Any]) -> str:
        return f"{path}?{urlencode({'tag': self.tag, **self.where, **wanted})}"

    def page(self, wanted: dict[str, Any], cursor: str | None) -> LogPage:
        """Raises GatewayProblem."""
        route = endpoints.READ_TRAINING_LOG if self.of_run else endpoints.READ_POD_LOG
        return gateway().call(route, tag=self.tag, **self.where, **wanted, limit=_LINES, cursor=cursor, timeout=60.0)


def log_of_pod(tag: str, namespace: str, pod: str, container: str | None = None) -> Log:
    """Of one container of a pod; its main one where none is named."""
    return Log(tag, {"namespace": namespace, "pod": pod, **({"container": container} if container else {})})


def log_shown(log: Log, ranks: int = 0) -> None:
    """Draw the log. ``ranks``: how many pods a run has; each can be looked at alone."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        how = st.segmented_control(
            "Show", [_LIVE, _PAGES], default=_LIVE, required=True, key=f"{log.key}/how", label_visibility="collapsed"
        )
        wanted = _wanted(log, ranks)
        plain_link("Download", log.address(DOWNLOAD, {name: wanted[name] for name in wanted}))
        plain_link("Open alone", log.address(LIVE, {**wanted, "tail": _TAIL}))
    if how == _LIVE:
        st.iframe(log.address(LIVE, {**wanted, "tail": _TAIL}), height=_HEIGHT, alt="The log while it is written")
    else:
        with problems_shown():
            _page(log, wanted)


def _wanted(log: Log, ranks: int) -> dict[str, Any]:
    """What was chosen, as parameters."""
    found: dict[str, Any] = {}
    if ranks > 1:
        choices = [_ANY, *(str(rank) for rank in range(ranks))]
        rank = st.selectbox("Rank", choices, key=f"{log.key}/rank", width=110)
        found |= {"rank": int(rank)} if rank and rank != _ANY else {}
    level = st.selectbox(
        "At least", [_ANY, *(each.value for each in Level)], key=f"{log.key}/level", width=130, help="As lines say."
    )
    found |= {"level": level} if level and level != _ANY else {}
    search = st.text_input("Search", key=f"{log.key}/search", placeholder="text in a line", width=200)
    if search and search.strip():
        found["search"] = search.strip()
        if st.toggle("Regular expression", key=f"{log.key}/regex"):
            found["regex"] = "true"
    return found


def _page(log: Log, wanted: dict[str, Any]) -> None:
    key = f"{log.key}/page/{sorted(wanted.items())}"
    with st.spinner("Reading the log…"):
        page = log.page(wanted, page_token(key))
    for gap in page.gaps:
        st.caption(f":material/warning: Lines of {escaped(gap.pod)} are missing: {escaped(gap.why)}")
    if page.lines:
        merged = len({(line.pod, line.container) for line in page.lines}) > 1
        st.code(
            "\n".join(_text(line.at, line.rank, line.pod, line.text, merged) for line in page.lines),
            language=None,
            height=_HEIGHT,
        )
    elif page.end:
        st.info(_nothing(page, wanted), icon=":material/search_off:")
    else:
        st.caption("No line of this part of the log is like that; there is more behind it.")
    page_buttons(f"{log.key}/pages", key, None if page.end else page.cursor)


def _text(at: str, rank: int | None, pod: str, text: str, merged: bool) -> str:
    who = f"{pod if rank is None else f'[{rank}]'} " if merged else ""
    return f"{at[11:23]} {who}{text}"


def _nothing(page: LogPage, wanted: dict[str, Any]) -> str:
    if wanted:
        return "No line is like that."
    return "Nothing was printed, or nothing of it was kept." if page.streams else "There are no pods, and no kept log."


def pod_log_links(tag: str, pods: Sequence[tuple[str, str]], key: str) -> None:
    """A link to the log of one of the pods. ``pods``: namespace and name of each; those in trouble first."""
    if not pods:
        return
    names = {f"{namespace}/{name}": (namespace, name) for namespace, name in pods}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("Log of the pod", list(names), key=f"{key}/pod-log", width=420)
        if chosen is not None:
            namespace, name = names[chosen]
            page_link("pod", "Read its log", ":material/subject:", cluster=tag, namespace=namespace, pod=name)
            page_link(
                "diagnosis",
                "Diagnose it",
                ":material/troubleshoot:",
                cluster=tag,
                kind="pod",
                name=name,
                namespace=namespace,
            )
