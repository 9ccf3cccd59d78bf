"""Labels, taints and other pairs as text: one on each line, written as kubectl writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import streamlit as st

from contracts.capacity import Taint
from contracts.node_views import NodeTaint
from ui.fields import Entered, Fields


def labels_field(fields: Fields, label: str = "Labels", value: Mapping[str, str] | None = None) -> Entered:
    """``labels`` of the model, where they are not ``value`` any more."""
    before = dict(value or {})
    entered = _pairs(fields, "labels", label, labels_text(before), "team=research")
    return {} if entered == before else {"labels": entered}


def pairs_field(fields: Fields, name: str, label: str, example: str) -> Entered:
    """A member that maps names to texts, where there are any."""
    entered = _pairs(fields, name, label, "", example)
    return {name: entered} if entered else {}


def lines_field(fields: Fields, name: str, label: str, example: str) -> Entered:
    """A member that is a list of texts, one on each line, where there are any."""
    entered = _lines(fields, name, label, "", example)
    return {name: entered} if entered else {}


def taints_field(fields: Fields, label: str = "Taints", value: Iterable[Taint] = ()) -> Entered:
    """``taints`` of the model, where they are not ``value`` any more."""
    before = list(value)
    example = "dedicated=training:NoSchedule"
    entered = [_taint(line) for line in _lines(fields, "taints", label, taints_text(before), example)]
    return {} if entered == [each.model_dump() for each in before] else {"taints": entered}


def labels_text(labels: Mapping[str, str]) -> str:
    """One label a line."""
    return "\n".join(f"{name}={value}" for name, value in sorted(labels.items()))


def taints_text(taints: Iterable[Taint | NodeTaint]) -> str:
    """One taint a line."""
    return "\n".join(f"{each.key}{'=' if each.value else ''}{each.value}:{each.effect}" for each in taints)


def _pairs(fields: Fields, name: str, label: str, value: str, example: str) -> dict[str, str]:
    return dict(_label(line) for line in _lines(fields, name, label, value, example))


def _label(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return name.strip(), value.strip()


def _taint(line: str) -> dict[str, Any]:
    pair, _, effect = line.rpartition(":") if ":" in line else (line, "", "")
    name, _, value = pair.partition("=")
    return {"key": name.strip(), "value": value.strip(), "effect": effect.strip()}


def _lines(fields: Fields, name: str, label: str, value: str, example: str) -> list[str]:
    text = st.text_area(
        label,
        value,
        key=f"{fields.key}/{name}",
        placeholder=f"{example}\none on each line",
        height=90,
        disabled=fields.disabled,
    )
    fields.faults.at(f"{fields.pointer}/{name}")
    return [line.strip() for line in (text or "").splitlines() if line.strip()]
