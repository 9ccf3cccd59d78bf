"""How the accelerators of several clusters are used. All are asked side by side, and none is waited for."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import streamlit as st

from client.sync import Gateway, GatewayProblem
from contracts import endpoints
from contracts.answers import ClusterUsage
from contracts.node_views import NodesSummary
from contracts.problem import Problem
from ui.session import gateway

_NETWORK = ("vpc.amazonaws.com/",)
"""Resources of nodes that are no accelerators."""
_AT_ONCE = 8
_FRESH_SECONDS = 15.0
_PATIENCE_SECONDS = 0.4
"""What the first look waits for answers that come at once."""


@dataclass
class Reading:
    """The last answer of a cluster, and the one under way. Both None: it was not asked yet."""

    answer: ClusterUsage | Problem | None = None
    under_way: Future[ClusterUsage] | None = None
    asked_at: float = 0.0

    def settle(self) -> None:
        """Take what has come meanwhile."""
        if self.under_way is None or not self.under_way.done():
            return
        try:
            self.answer = self.under_way.result()
        except GatewayProblem as error:
            self.answer = error.problem
        self.under_way = None

    def is_due(self) -> bool:
        return self.under_way is None and (self.answer is None or time.monotonic() - self.asked_at > _FRESH_SECONDS)


@dataclass(frozen=True)
class Accelerators:
    """Of all nodes of a cluster, in whole devices. ``free``: nodes offer it and no pod has it."""

    total: int
    used: int
    free: int
    pending: int

    @classmethod
    def of(cls, summary: NodesSummary) -> Accelerators:
        devices = [each for each in summary.resources if not each.name.startswith(_NETWORK)]
        used = sum(each.used for each in devices)
        return cls(
            total=sum(each.capacity for each in devices),
            used=used,
            free=max(sum(each.allocatable for each in devices) - used, 0),
            pending=sum(each.pending for each in devices),
        )


@st.cache_resource(show_spinner=False)
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="usage")


def usages(tags: Iterable[str]) -> dict[str, ClusterUsage | Problem | None]:
    """What is known of the clusters now; None where no answer has come yet. Look again in a moment."""
    readings: dict[str, Reading] = st.session_state.setdefault("usage", {})
    asked = gateway()
    wanted = {tag: readings.setdefault(tag, Reading()) for tag in tags}
    for tag, reading in wanted.items():
        reading.settle()
        if reading.is_due():
            reading.under_way = _threads().submit(_read, asked, tag)
            reading.asked_at = time.monotonic()
    wait([each.under_way for each in wanted.values() if each.under_way and each.answer is None], _PATIENCE_SECONDS)
    for reading in wanted.values():
        reading.settle()
    return {tag: reading.answer for tag, reading in wanted.items()}


def _read(asked: Gateway, tag: str) -> ClusterUsage:
    return asked.call(endpoints.GET_USAGE, tag=tag)
