"""A Prometheus that scrapes every simulated server of a cluster, and answers instant queries about them.

https://prometheus.io/docs/prometheus/latest/querying/api/ . It understands ``metric{matchers}``, ``rate(…[window])`` of
one and an aggregation around either; every other query gives no value. A script may say what queries give. Series are
kept from one query to the next, so that a rate is there from the second one on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from .objects import dig
from .programs.exchange import Answer, Request, as_json, as_text
from .queries import Queries, QueryError

if TYPE_CHECKING:
    from .cluster import Cluster

PATH = "/api/v1/query"
KEPT_SECONDS = 3600.0

Labels = tuple[tuple[str, str], ...]

_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")
_SIMPLE = re.compile(
    r"(?:(?P<aggregate>sum|avg|max|min|count)\()?(?:(?P<change>rate|irate|increase)\()?(?P<name>[a-zA-Z_:][\w:]*)"
    r"(?:\{(?P<matchers>[^{}]*)\})?(?:\[(?P<window>\d+)(?P<unit>[smh])\])?\)*"
)
_MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*')
_UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class _Query:
    name: str
    matchers: tuple[tuple[str, str, str], ...] = ()
    aggregate: str | None = None
    change: str | None = None
    window: float = 0.0

    def takes(self, labels: Labels) -> bool:
        given = dict(labels)
        return all(_matches(operator, given.get(label, ""), value) for label, operator, value in self.matchers)


AGGREGATES: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "count": len,
    "avg": lambda values: sum(values) / len(values),
}


class Prometheus:
    """Of one cluster. Callers hold the store's lock."""

    def __init__(self, cluster: Cluster, queries: Queries) -> None:
        self._cluster, self._queries = cluster, queries
        self._series: dict[tuple[str, Labels], list[tuple[float, float]]] = {}

    def respond(self, request: Request) -> Answer:
        """What its HTTP API answers."""
        parts = urlsplit(request.path)
        if parts.path in ("/-/healthy", "/-/ready"):
            return as_text("Prometheus Server is Healthy.\n")
        if not parts.path.endswith(PATH):
            return as_text("404 page not found\n", status=404)
        given = parse_qs(parts.query) or parse_qs(request.body.decode(errors="replace"))
        query = (given.get("query") or [""])[0]
        try:
            result = self.query(query)
        except QueryError as error:
            return as_json({"status": "error", "errorType": "bad_data", "error": str(error)}, status=400)
        return as_json({"status": "success", "data": result})

    def query(self, text: str) -> dict[str, Any]:
        """``data`` of the answer. Raises :class:`QueryError`."""
        now = self._cluster.now()
        if (scripted := self._queries.find(text)) is not None:
            several = len(scripted) > 1
            found: list[tuple[Labels, float]] = [
                (((("series", str(n)),) if several else ()), v) for n, v in enumerate(scripted)
            ]
            return _vector(found, now)
        compact = _compact(text)
        if _NUMBER.fullmatch(compact):
            return {"resultType": "scalar", "result": [now, compact]}
        self._scrape(now)
        asked = _read(compact)
        return _vector(self._evaluate(asked, now) if asked is not None else [], now)

    def _scrape(self, now: float) -> None:
        pods = self._cluster.store.objects(self._cluster.registry.type("pods"))
        for (namespace, name), pod in list(pods.items()):
            if dig(pod, "status.phase") != "Running":
                continue
            where = (("namespace", namespace), ("pod", name))
            for sample in self._cluster.serving.scrape(pod):
                held = self._series.setdefault((sample.name, (*sample.labels, *where)), [])
                if not held or held[-1][0] < now:
                    held.append((now, sample.value))
                while held[0][0] < now - KEPT_SECONDS:
                    held.pop(0)

    def _evaluate(self, asked: _Query, now: float) -> list[tuple[Labels, float]]:
        found: list[tuple[Labels, float]] = []
        for (name, labels), points in self._series.items():
            if name != asked.name or not asked.takes(labels) or points[-1][0] < now:
                continue
            if asked.change is None:
                found.append((labels, points[-1][1]))
            elif (change := _change(points, now - asked.window)) is not None:
                scale = asked.window if asked.change == "increase" else 1.0
                found.append((labels, change * scale))
        if asked.aggregate is None or not found:
            return found
        values = [value for _, value in found]
        return [((), AGGREGATES[asked.aggregate](values))]


def _compact(text: str) -> str:
    """A query without its white space. Raises :class:`QueryError` in Prometheus' manner."""
    if not text.strip():
        raise QueryError('invalid parameter "query": unknown position: parse error: no expression found in input')
    for opening, closing, kind in (("(", ")", "parenthesis"), ("{", "}", "brace"), ("[", "]", "bracket")):
        if text.count(opening) > text.count(closing):
            raise QueryError(f'invalid parameter "query": 1:{len(text) + 1}: parse error: unclosed left {kind}')
        if text.count(opening) < text.count(closing):
            where = text.rindex(closing) + 1
            raise QueryError(f'invalid parameter "query": 1:{where}: parse error: unexpected right {kind} "{closing}"')
    return re.sub(r"\s+(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", "", text)


def _read(text: str) -> _Query | None:
    """A query of the kinds that are understood; None for others."""
    found = _SIMPLE.fullmatch(text)
    if found is None:
        return None
    matchers = tuple(_MATCHER.findall(found["matchers"] or ""))
    window = float(found["window"]) * _UNITS[found["unit"]] if found["window"] else 0.0
    if (found["change"] is None) is not (window == 0.0):
        return None
    return _Query(found["name"], matchers, found["aggregate"], found["change"], window)


def _matches(operator: str, value: str, wanted: str) -> bool:
    if operator.endswith("~"):
        return (re.fullmatch(wanted, value) is not None) is (operator == "=~")
    return (value == wanted) is (operator == "=")


def _change(points: list[tuple[float, float]], since: float) -> float | None:
    """By how much a counter grows in a second; None without two points. Nobody scrapes between two queries: where only
    one falls into the window, the counter has grown evenly since the one before."""
    inside = [point for point in points if point[0] >= since]
    if len(inside) < 2:
        inside = points[-2:]
    if len(inside) < 2:
        return None
    grown = sum(max(after - before, 0.0) for (_, before), (_, after) in pairwise(inside))
    return grown / (inside[-1][0] - inside[0][0])


def _vector(found: list[tuple[Labels, float]], now: float) -> dict[str, Any]:
    result = [{"metric": dict(labels), "value": [round(now, 3), f"{value:.10g}"]} for labels, value in found]
    return {"resultType": "vector", "result": result}
