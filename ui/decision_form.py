"""The form of a decision, made from the schema of its answer and from what can be chosen now.

Nothing is judged here: the gateway refuses what does not fit, and the fault is shown at its field.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import streamlit as st

from contracts.decision import COMBINATIONS, Decision
from ui.faults import Faults
from ui.problems import escaped

Schema = dict[str, Any]
Answer = dict[str, Any]

_FEW = 8
"""So many options are shown at once; more are searched."""
_WIDE = 1.7
"""Of a field whose values are chosen, beside one that is typed."""
_OTHER = "something else…"
_UNSET = object()


def in_words(value: Any) -> str:
    """A value on one line: ``fewer, count 3``; ``spot``; ``instance type ml.g5.8xlarge, count 1``."""
    if isinstance(value, dict):
        kind = value.get("kind")
        parts = [str(kind)] if kind is not None else []
        parts += [f"{_label(k)} {in_words(v)}" for k, v in value.items() if k != "kind" and v is not None]
        return ", ".join(parts)
    if isinstance(value, list):
        return ", ".join(map(in_words, value))
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class DecisionForm:
    """Draws the fields; ``key`` names the widgets, ``faults`` what was wrong with the last answer."""

    decision: Decision
    key: str
    faults: Faults
    disabled: bool = False

    def answer(self) -> Answer:
        """Draw the form; what is entered now."""
        schema = self.decision.answer_schema
        properties: dict[str, Schema] = schema.get("properties") or {}
        options = {name: values for name, values in self.decision.options.items() if name != COMBINATIONS}
        if not properties and not options:
            return self._document()
        for name in options:
            if name not in properties:
                st.caption(f"{escaped(_label(name))}: {escaped('; '.join(in_words(each) for each in options[name]))}")
        answer: Answer = {}
        names = [
            *(name for name in properties if name in options),
            *(name for name in properties if name not in options),
        ]
        plain = [name for name in names if self._narrow(properties[name], name)]
        if plain:
            widths = [_WIDE if name in options else 1.0 for name in plain]
            for column, name in zip(st.columns(widths + [1.0] * (2 - len(plain))), plain, strict=False):
                with column:
                    self._field_into(answer, name, properties[name])
        for name in names:
            if name not in plain:
                self._field_into(answer, name, properties[name])
        return answer

    def _narrow(self, schema: Schema, name: str) -> bool:
        """Whether the field needs no more than a third of the width."""
        values = self.decision.options.get(name)
        if values is not None:
            return not any(isinstance(value, dict) for value in values)
        return self._resolved(schema).get("type") in ("integer", "number", "string", "boolean")

    def _field_into(self, answer: Answer, name: str, schema: Schema) -> None:
        values = self.decision.options.get(name)
        default = self.decision.default.get(name) if isinstance(self.decision.default, dict) else None
        path = f"/{name}"
        if values is not None:
            value = self._choice(name, schema, self._fitting(name, values, answer), default)
        else:
            given = default if default is not None else schema.get("default")
            value = self._entered(path, _label(name), schema, given, self._required(name))
        if value is not _UNSET:
            answer[name] = value
        self.faults.at(f"/answer{path}")

    def _required(self, name: str) -> bool:
        return name in (self.decision.answer_schema.get("required") or ())

    def _fitting(self, name: str, values: list[Any], answer: Answer) -> list[Any]:
        """The values that go together with what is chosen above, where the decision says what does."""
        told = [each for each in self._combinations() if name in each]
        given = {other: value for other, value in answer.items() if any(other in each for each in told)}
        possible = [each[name] for each in told if all(each.get(k) == v for k, v in given.items())]
        return [value for value in values if value in possible] if told and given else values

    def _combinations(self) -> list[dict[str, Any]]:
        return [each for each in self.decision.options.get(COMBINATIONS, []) if isinstance(each, dict)]

    def _choice(self, name: str, schema: Schema, values: list[Any], default: Any) -> Any:
        """One of the values that were looked up. Of alternatives that have fields of their own, others can be made."""
        whole = any(isinstance(value, dict) for value in values)
        offered = [*values, _OTHER] if whole and self._variants(schema) else values
        preset = values.index(default) if default in values else (0 if len(values) == 1 else None)
        place = f"{self.key}/{name}/{_digest(values)}"

        def described(position: int) -> str:
            value = offered[position]
            if value is _OTHER:
                return str(_OTHER)
            mark = " (default)" if default is not None and value == default else ""
            worded = f"{in_words(value)}{mark}{self._together(name, value)}"
            return escaped(worded) if whole else worded

        common: dict[str, Any] = {"format_func": described, "key": place, "disabled": self.disabled}
        positions = range(len(offered))
        if whole and len(offered) <= _FEW:
            said = ["" if each is _OTHER else escaped(self._told(schema, each)) for each in offered]
            at = st.radio(_label(name).capitalize(), positions, index=preset, captions=said, **common)
        else:
            at = st.selectbox(
                _label(name).capitalize(), positions, index=preset, placeholder=self._nothing(name), **common
            )
        if at is None:
            return _UNSET
        return self._variant(f"/{name}", schema, None) if offered[at] is _OTHER else offered[at]

    def _nothing(self, name: str) -> str:
        return "Choose" if self._required(name) else "Not said"

    def _together(self, name: str, value: Any) -> str:
        """What goes together with the value, where a later field depends on it."""
        order = [key for key in self.decision.answer_schema.get("properties", {}) if key in self.decision.options]
        later = order[order.index(name) + 1 :] if name in order else []
        together = [
            in_words(each[other])
            for each in self._combinations()
            if each.get(name) == value
            for other in later
            if other in each
        ]
        return f" · {', '.join(together)}" if together else ""

    def _told(self, schema: Schema, value: Any) -> str:
        """What the schema says of the alternative that the value is one of."""
        if not isinstance(value, dict):
            return ""
        found = self._variants(schema).get(str(value.get("kind")), {})
        return " ".join(str(found.get("description") or "").split())

    def _entered(self, path: str, label: str, schema: Schema, default: Any, required: bool) -> Any:
        """A value of any schema."""
        found = self._resolved(schema)
        key = f"{self.key}{path}"
        help = " ".join(str(found.get("description") or schema.get("description") or "").split()) or None
        common: dict[str, Any] = {"key": key, "help": help, "disabled": self.disabled}
        label = label.capitalize()
        if "const" in found:
            return found["const"]
        if values := found.get("enum"):
            preset = values.index(default) if default in values else None
            chosen = st.selectbox(label, values, index=preset, placeholder="Choose", **common)
            return _UNSET if chosen is None else chosen
        if self._variants(found):
            return self._variant(path, found, default)
        match found.get("type"):
            case "boolean":
                return st.toggle(label, value=bool(default), **common)
            case "integer":
                number = st.number_input(label, value=default, step=1, **common)
                return _UNSET if number is None else int(number)
            case "number":
                number = st.number_input(label, value=default, **common)
                return _UNSET if number is None else number
            case "string":
                text = st.text_input(label, value=default or "", **common)
                return text if text or required else _UNSET
            case "object" if found.get("properties"):
                return self._object(path, label, found, default if isinstance(default, dict) else {})
        return self._json(label, key, default)

    def _object(self, path: str, label: str, schema: Schema, default: dict[str, Any]) -> Answer:
        required = schema.get("required") or ()
        answer: Answer = {}
        with st.container(border=True):
            st.caption(label)
            for name, member in schema["properties"].items():
                given = default.get(name, member.get("default"))
                value = self._entered(f"{path}/{name}", _label(name), member, given, name in required)
                if value is not _UNSET:
                    answer[name] = value
                self.faults.at(f"/answer{path}/{name}")
        return answer

    def _variant(self, path: str, schema: Schema, default: Any) -> Any:
        """One of several alternatives, and its own fields."""
        variants = self._variants(schema)
        preset = list(variants).index(default["kind"]) if isinstance(default, dict) else None
        kind = st.selectbox(
            "Which",
            list(variants),
            index=preset,
            placeholder="Choose",
            key=f"{self.key}{path}/kind",
            disabled=self.disabled,
        )
        if kind is None:
            return _UNSET
        found = variants[kind]
        answer: Answer = {"kind": kind}
        required = found.get("required") or ()
        for name, member in found.get("properties", {}).items():
            if name == "kind":
                continue
            given = default.get(name) if isinstance(default, dict) else member.get("default")
            value = self._entered(f"{path}/{name}", _label(name), member, given, name in required)
            if value is not _UNSET:
                answer[name] = value
        return answer

    def _json(self, label: str, key: str, default: Any) -> Any:
        text = st.text_area(
            f"{label} (JSON)",
            value="" if default is None else json.dumps(default, indent=2),
            key=key,
            disabled=self.disabled,
        )
        return _read(text)

    def _document(self) -> Answer:
        """The whole answer as JSON, where the schema says nothing of its fields."""
        found = self._json("Answer", f"{self.key}/answer", self.decision.default or {})
        self.faults.at("/answer")
        return found if isinstance(found, dict) else {}

    def _variants(self, schema: Schema) -> dict[str, Schema]:
        """The alternatives of a discriminated union by their kind; none where it is something else."""
        found = self._resolved(schema)
        several = [self._resolved(each) for each in found.get("oneOf") or []]
        kinds = [each.get("properties", {}).get("kind", {}).get("const") for each in several]
        return {} if not kinds or None in kinds else dict(zip(map(str, kinds), several, strict=True))

    def _resolved(self, schema: Schema) -> Schema:
        """Without references, and without the null that says that the field may be left out."""
        if reference := schema.get("$ref"):
            name = str(reference).rpartition("/")[2]
            return self._resolved(self.decision.answer_schema.get("$defs", {}).get(name, {}))
        several = [each for each in schema.get("anyOf") or [] if each.get("type") != "null"]
        return self._resolved(several[0]) if len(several) == 1 else schema


def _label(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


def _digest(values: list[Any]) -> str:
    """Of the options: others are a field of their own, which begins with its default."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def _read(text: str) -> Any:
    if not text.strip():
        return _UNSET
    try:
        return json.loads(text)
    except ValueError as error:
        st.caption(f":red[:material/error: This is no JSON: {escaped(str(error))}]")
        return _UNSET
