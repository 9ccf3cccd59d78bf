"""A training run's document, from a preset or from a run that was, as what its form says.

What the form has no field for is given back: it is shown, and sent, as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import streamlit as st
import yaml

from contracts.recipes import RECIPES
from contracts.recipes.torchtitan import toml_text
from contracts.training import TrainingSpec
from contracts.training_parts import TrainingMount
from ui.marks import labels_text
from ui.mounts import mounts_text
from ui.recipe_fields import SOURCES, recipe_key

Document = dict[str, Any]
_As = Callable[[Any], Any]


def _lines(value: list[str]) -> str:
    return "\n".join(value)


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else yaml.safe_dump(value, sort_keys=False, allow_unicode=True)


def _toml(value: Any) -> str:
    return value if isinstance(value, str) else toml_text(value)


def _decimal(value: float) -> float:
    return float(value)


def _mounts(value: list[Document]) -> str:
    return mounts_text(TrainingMount.model_validate(each) for each in value)


def _same(value: Any) -> Any:
    return value


_FIELDS: dict[tuple[str, ...], _As] = {
    **{
        (name,): _same
        for name in (
            *("name", "namespace", "submission", "nodes", "gpus_per_node", "efa_per_node", "image", "credential"),
            *("checkpoint_path", "spares", "tiered_checkpointing", "checkpointless", "shm_gib", "local_cache"),
            "keep_logs",
        )
    },
    ("deadline_hours",): _decimal,
    **{(name,): labels_text for name in ("env", "secret_env", "labels")},
    **{
        ("recovery", name): _same
        for name in ("job_retries", "in_place_restarts", "full_restarts", "window_seconds", "clean_pods")
    },
    **{("elastic", name): _same for name in ("min_nodes", "max_nodes", "step")},
    **{("queue", name): _same for name in ("queue", "priority")},
    **{("experiment", name): _same for name in ("tracking_server", "tracking_uri", "experiment", "run_name")},
    **{("resources", name): _decimal for name in ("cpu", "memory_gib")},
    **{("ray", name): _same for name in ("ray_version", "head", "linger_seconds")},
    **{("ray", name): _decimal for name in ("head_cpu", "head_memory_gib")},
    **{("sagemaker", name): _same for name in ("fast_file", "spot", "volume_gib", "keep_alive_minutes")},
    ("sagemaker", "max_wait_hours"): _decimal,
    ("sagemaker", "inputs"): _lines,
}
_RULE = (*("name", "pattern", "start_within_seconds", "every_seconds", "operator", "metric_threshold", "data_points"),)
_RECIPE_LINES = ("arguments",)
_RECIPE_CONFIGS = ("config", "overrides")


def of_spec(spec: TrainingSpec) -> Document:
    """What a run was made from, without what holds anyway."""
    found = _given(spec.model_dump(mode="json", exclude_defaults=True))
    found["recipe"] = {"kind": spec.recipe.kind, **found.get("recipe", {})}
    return found


def fill(form: str, document: Mapping[str, Any]) -> Document:
    """Let the fields of a form that nobody has touched yet say what the document says; what is left of it."""
    rest = _given(deepcopy(dict(document)))
    values: Document = {}
    for path, shown in _FIELDS.items():
        if (value := _taken(rest, path)) is not None:
            values["/".join(path)] = shown(value)
    if types := _taken(rest, ("instance_types",)):
        values["instance_types"] = types[0]
    if (storage := _taken(rest, ("storage",))) is not None:
        values |= {"storage": _mounts(storage), "no-storage": not storage}
    values |= _rules(rest)
    for name, value in values.items():
        st.session_state.setdefault(f"{form}/{name}", value)
    for name, value in _recipe(form, rest).items():
        st.session_state.setdefault(name, value)
    return rest


def _rules(rest: Document) -> Document:
    rules = rest.get("log_monitoring") or []
    # A rule that says more than the form has fields for stays as it is, with all the others.
    if any(set(rule) - set(_RULE) for rule in rules):
        return {}
    rest.pop("log_monitoring", None)
    values: Document = {"rule-count": len(rules)} if rules else {}
    for number, rule in enumerate(rules):
        values |= {f"rule/{number}/{name}": value for name, value in rule.items()}
    return values


def _recipe(form: str, rest: Document) -> Document:
    recipe = rest.pop("recipe", None) or {}
    kind = recipe.pop("kind", None)
    if kind not in RECIPES:
        return {}
    key = recipe_key(form, kind)
    values: Document = {f"{form}/kind": kind}
    for member, source in SOURCES.get(kind, {}).items():
        if recipe.get(member):
            values[f"{key}/source"] = source
    for name, value in recipe.items():
        if name in _RECIPE_LINES:
            value = _lines(value)
        elif name in _RECIPE_CONFIGS:
            value = _toml(value) if (kind, name) == ("torchtitan", "config") else _yaml(value)
        values[f"{key}/{name}"] = value
    return values


def _taken(document: Document, path: tuple[str, ...]) -> Any:
    """The value at a path, taken out of the document; None where there is none."""
    head, rest = path[0], path[1:]
    if not rest:
        return document.pop(head, None)
    inner = document.get(head)
    if not isinstance(inner, dict):
        return None
    found = _taken(inner, rest)
    if not inner:
        document.pop(head)
    return found


def _given(document: Document) -> Document:
    """Without members that are null: they stand for what holds anyway."""
    return {
        name: _given(value) if isinstance(value, dict) and name not in ("config", "overrides", "env") else value
        for name, value in document.items()
        if value is not None
    }
