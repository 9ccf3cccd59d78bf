"""MLflow's search language: clauses joined by AND, and orders.

https://mlflow.org/docs/latest/ml/search/search-runs
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sandbox.mlflow.errors import invalid
from sandbox.mlflow.store import Experiment, Run

ENTITIES = ["metric", "parameter", "tag", "attribute", "dataset"]
_ALIASES = {
    **dict.fromkeys(("metric", "metrics"), "metric"),
    **dict.fromkeys(("parameter", "parameters", "param", "params"), "parameter"),
    **dict.fromkeys(("tag", "tags"), "tag"),
    **dict.fromkeys(("attribute", "attributes", "attr", "run"), "attribute"),
    **dict.fromkeys(("dataset", "datasets"), "dataset"),
}
NUMBERS = ("start_time", "end_time")
TEXTS = ("run_id", "artifact_uri", "status", "run_name", "user_id")
_RUN_KEYS = {"created": "start_time", "Created": "start_time", "run name": "run_name", "Run name": "run_name"}
_EXPERIMENT_KEYS = ("name", "creation_time", "last_update_time", "experiment_id")

_TOKENS = re.compile(
    r"""\s*(?:
    (?P<list>\(\s*(?:'[^']*'|"[^"]*")(?:\s*,\s*(?:'[^']*'|"[^"]*"))*\s*\))
    |(?P<text>'[^']*'|"[^"]*")
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<compare>!=|>=|<=|=|>|<|NOT\s+IN\b|NOT\s+LIKE\b|ILIKE\b|LIKE\b|IN\b)
    |(?P<and>AND\b)
    |(?P<name>[A-Za-z_][\w]*(?:\.(?:`[^`]*`|"[^"]*"|[\w./-]+))?)
    )""",
    re.VERBOSE | re.IGNORECASE,
)

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    "<": operator.lt,
    "LIKE": lambda held, asked: _like(held, asked, 0),
    "ILIKE": lambda held, asked: _like(held, asked, re.IGNORECASE),
    "IN": lambda held, asked: held in asked,
    "NOT IN": lambda held, asked: held not in asked,
}
_NUMERIC = (">", ">=", "!=", "=", "<", "<=")
_TEXTUAL = ("!=", "=", "LIKE", "ILIKE")


@dataclass(frozen=True)
class Clause:
    entity: str
    key: str
    comparator: str
    value: Any

    def holds(self, held: Any) -> bool:
        """A run that does not have what is asked for never fits."""
        return held is not None and _COMPARE[self.comparator](held, self.value)


def _like(held: str, pattern: str, flags: int) -> bool:
    expression = "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.fullmatch(expression, held, flags | re.DOTALL) is not None


def run_clauses(text: str) -> list[Clause]:
    """The clauses of a filter on runs. Raises MlflowError for what MLflow refuses."""
    return [_run_clause(*each) for each in _triples(text)]


def experiment_clauses(text: str) -> list[Clause]:
    found = []
    for name, comparator, kind, value in _triples(text):
        entity, _, key = name.partition(".")
        if not key:
            entity, key = "attribute", name
        entity = _ALIASES.get(entity, entity)
        if entity == "attribute" and key not in _EXPERIMENT_KEYS:
            raise invalid(f"Invalid attribute key '{key}' specified. Valid keys are '{set(_EXPERIMENT_KEYS)}'")
        found.append(Clause(entity, _unquoted(key), comparator, float(value) if kind == "number" else _text(value)))
    return found


def _triples(text: str) -> list[tuple[str, str, str, str]]:
    """Name, comparator, and kind and text of the value of each clause."""
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKENS.match(text, position)
        if match is None:
            raise invalid(f"Invalid clause(s) in filter string: '{text[position:].strip()}'")
        kind = match.lastgroup or ""
        tokens.append((kind, match[kind]))
        position = match.end()
    clauses: list[tuple[str, str, str, str]] = []
    while tokens:
        if len(tokens) < 3 or tokens[0][0] != "name" or tokens[1][0] != "compare":
            raise invalid(f"Invalid clause(s) in filter string: {', '.join(repr(each[1]) for each in tokens[:3])}")
        (_, name), (_, comparator), (kind, value) = tokens[:3]
        clauses.append((name, " ".join(comparator.upper().split()), kind, value))
        tokens = tokens[3:]
        if tokens:
            if tokens[0][0] != "and" or len(tokens) == 1:
                raise invalid(f"Invalid clause(s) in filter string: {tokens[0][1]!r}")
            tokens = tokens[1:]
    return clauses


def _run_clause(name: str, comparator: str, kind: str, value: str) -> Clause:
    entity, key = _identifier(name)
    if entity == "metric" or (entity == "attribute" and key in NUMBERS):
        if kind != "number":
            what = "metric" if entity == "metric" else f"numeric attribute: {key}"
            raise invalid(f"Expected numeric value type for {what}. Found {value}")
        _allowed(comparator, _NUMERIC)
        return Clause(entity, key, comparator, float(value))
    if entity == "attribute" and kind == "list":
        if key != "run_id":
            raise invalid("Only the 'run_id' attribute supports comparison with a list of quoted string values.")
        return Clause(entity, key, comparator, tuple(re.findall(r"""['"]([^'"]*)['"]""", value)))
    if kind != "text":
        what = f"{entity} (e.g. 'my-value')" if entity != "attribute" else "attributes"
        raise invalid(f"Expected a quoted string value for {what}. Got value {value}")
    _allowed(comparator, _TEXTUAL)
    return Clause(entity, key, comparator, _text(value))


def _allowed(comparator: str, known: tuple[str, ...]) -> None:
    if comparator not in known:
        raise invalid(f"Invalid comparator '{comparator}' not one of '{set(known)}'")


def _identifier(name: str) -> tuple[str, str]:
    entity, _, key = name.partition(".")
    if not key:
        entity, key = "attribute", name
    kind = _ALIASES.get(entity)
    if kind is None:
        raise invalid(f"Invalid entity type '{entity}'. Valid values are {ENTITIES}")
    key = _unquoted(key)
    if kind == "attribute":
        key = _RUN_KEYS.get(key, key)
        if key not in (*NUMBERS, *TEXTS):
            raise invalid(f"Invalid attribute key '{key}' specified. Valid keys are '{[*NUMBERS, *TEXTS]}'")
    return kind, key


def _unquoted(key: str) -> str:
    return key[1:-1] if len(key) > 1 and key[0] == key[-1] and key[0] in "`\"'" else key


def _text(value: str) -> str:
    return value[1:-1]


def held_by(run: Run, entity: str, key: str) -> Any:
    """What a run has of what a clause or an order names; None where it has nothing."""
    match entity:
        case "metric":
            latest = run.last.get(key)
            return None if latest is None or latest[3] else latest[2]
        case "parameter":
            return run.params.get(key)
        case "tag":
            return run.tags.get(key)
        case "attribute":
            return {
                "start_time": run.started,
                "end_time": run.ended,
                "run_id": run.id,
                "artifact_uri": run.artifacts,
                "status": run.status,
                "run_name": run.name,
                "user_id": run.user,
            }[key]
    return None


def experiment_has(experiment: Experiment, entity: str, key: str) -> Any:
    if entity == "tag":
        return experiment.tags.get(key)
    return {
        "name": experiment.name,
        "creation_time": experiment.created,
        "last_update_time": experiment.changed,
        "experiment_id": int(experiment.id),
    }.get(key)


_ORDER = re.compile(r"(?P<name>.+?)(?:\s+(?P<way>ASC|DESC))?", re.IGNORECASE)


def ordered_runs(runs: list[Run], orders: list[str]) -> list[Run]:
    """By each order in turn, then the newest first, then by id; what has nothing to order by comes last."""
    keys = [_order(each, _run_key) for each in orders]
    found = sorted(runs, key=lambda run: run.id)
    found.sort(key=lambda run: run.started if run.started is not None else -1, reverse=True)
    for (entity, key), descending in reversed(keys):
        found = _ordered(found, lambda run, e=entity, k=key: held_by(run, e, k), descending)  # type: ignore[misc]
    return found


def ordered_experiments(experiments: list[Experiment], orders: list[str]) -> list[Experiment]:
    keys = [_order(each, _experiment_key) for each in orders]
    found = sorted(experiments, key=lambda each: int(each.id))
    if not keys:
        found.sort(key=lambda each: each.changed, reverse=True)
    for (entity, key), descending in reversed(keys):
        found = _ordered(found, lambda each, e=entity, k=key: experiment_has(each, e, k), descending)  # type: ignore[misc]
    return found


def _ordered(items: list[Any], held: Callable[[Any], Any], descending: bool) -> list[Any]:
    having = [each for each in items if held(each) is not None]
    having.sort(key=held, reverse=descending)
    return [*having, *(each for each in items if held(each) is None)]


def _order(text: str, key_of: Callable[[str, str], tuple[str, str]]) -> tuple[tuple[str, str], bool]:
    match = _ORDER.fullmatch(text.strip())
    if match is None or " " in re.sub(r"`[^`]*`", "", match["name"]):
        raise invalid(f"Invalid ordering key in order_by clause '{text}'.")
    return key_of(match["name"], text), (match["way"] or "ASC").upper() == "DESC"


def _run_key(name: str, text: str) -> tuple[str, str]:
    return _identifier(name)


def _experiment_key(name: str, text: str) -> tuple[str, str]:
    if name not in _EXPERIMENT_KEYS:
        raise invalid(f"Invalid order_by entity '{name}' in clause '{text}'")
    return "attribute", name
