"""The queries of alerts and dashboard, and what they ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml

from cli.stack.folder import ROOT

FOLDER = ROOT / "deploy" / "observability"
DASHBOARD = FOLDER / "grafana" / "dashboards" / "instantstart.json"
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds itself."""
UP = {"up": {frozenset[str]()}}


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def rules() -> dict[str, str]:
    groups = read(FOLDER / "alerts.yml")["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def queries() -> dict[str, str]:
    asked = {
        f"{panel['title']}/{target['refId']}": target["expr"].replace("$__rate_interval", "5m")
        for panel in panels()
        for target in panel.get("targets", [])
    }
    return {**rules(), **asked}


def parts(expression: Any) -> Iterator[Any]:
    """An expression and all that it is made of."""
    yield expression
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        inner = getattr(expression, name, None)
        if inner is not None:
            yield from parts(inner)
    for inner in getattr(expression, "args", None) or ():
        yield from parts(inner)


def asked(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics, each with the labels that it is asked for: in its braces, and in what it is grouped by."""
    parsed = promql_parser.parse(expression)
    for part in parts(parsed):
        if isinstance(part, promql_parser.VectorSelector):
            yield part.name, {matcher.name for matcher in part.matchers.matchers}
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            for inner in parts(part.expr):
                if isinstance(inner, promql_parser.VectorSelector):
                    yield inner.name, set(part.modifier.labels)
