"""Fields of a form, drawn from what the contracts say of a model's members. Nothing is judged here: what was entered
goes to the gateway as it is, and what was left empty is not sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import streamlit as st
from pydantic import BaseModel

from contracts.docstrings import field_docstrings
from ui.faults import Faults

Entered = dict[str, Any]
"""Members of a body: one where something was entered, none where not."""


@dataclass(frozen=True)
class Fields:
    """Draws members of ``model``, which stands at ``pointer`` in what is sent. Widgets are called ``key`` and the
    member's name."""

    model: type[BaseModel]
    key: str
    faults: Faults
    pointer: str = ""
    disabled: bool = False

    def text(self, name: str, label: str, placeholder: str | None = None) -> Entered:
        """One line of text."""
        entered = st.text_input(
            label, **self._common(name), placeholder=self._default(name) if placeholder is None else placeholder
        )
        return self._entered(name, entered.strip() if entered else None)

    def area(self, name: str, label: str, placeholder: str = "", height: int = 110) -> Entered:
        """Text of several lines, byte for byte."""
        entered = st.text_area(label, **self._common(name), placeholder=placeholder, height=height)
        return self._entered(name, entered if entered and entered.strip() else None)

    def decimal(self, name: str, label: str, placeholder: str | None = None) -> Entered:
        """A number that need not be whole."""
        shown = self._default(name) if placeholder is None else placeholder
        return self._entered(
            name, st.number_input(label, value=None, step=0.5, placeholder=shown, **self._common(name))
        )

    def number(self, name: str, label: str, placeholder: str | None = None) -> Entered:
        """A whole number."""
        shown = self._default(name) if placeholder is None else placeholder
        entered = st.number_input(label, value=None, step=1, placeholder=shown, **self._common(name))
        return self._entered(name, None if entered is None else int(entered))

    def choice(
        self,
        name: str,
        label: str,
        options: Sequence[str] | None = None,
        *,
        described: Callable[[str], str] = str,
        placeholder: str | None = None,
    ) -> Entered:
        """One of ``options``, which were looked up, or another text; without them, one of those that the contract
        names."""
        entered = st.selectbox(
            label,
            list(self._literals(name) if options is None else options),
            index=None,
            format_func=described,
            placeholder=self._described_default(name, described) if placeholder is None else placeholder,
            accept_new_options=options is not None,
            **self._common(name),
        )
        return self._entered(name, entered)

    def choices(
        self,
        name: str,
        label: str,
        options: Sequence[str] | None = None,
        *,
        described: Callable[[str], str] = str,
        placeholder: str | None = None,
    ) -> Entered:
        """Any of ``options``, and other texts; without them, those that the contract names."""
        entered = st.multiselect(
            label,
            list(self._literals(name) if options is None else options),
            format_func=described,
            placeholder=placeholder or "none",
            accept_new_options=options is not None,
            **self._common(name),
        )
        return self._entered(name, entered or None)

    def switch(self, name: str, label: str) -> Entered:
        """On or off; sent where it is not as it would be anyway."""
        default = bool(self.model.model_fields[name].default)
        entered = st.toggle(label, value=default, **self._common(name))
        return self._entered(name, entered if entered != default else None)

    def chooses(self, name: str) -> bool:
        """Whether the contract names more than one text for the member."""
        return len(self._literals(name)) > 1

    def within(self, name: str, model: type[BaseModel]) -> Fields:
        """Fields of the member ``name``, which is a ``model``."""
        return Fields(model, f"{self.key}/{name}", self.faults, f"{self.pointer}/{name}", self.disabled)

    def _common(self, name: str) -> dict[str, Any]:
        said = field_docstrings(self.model).get(name, "").replace("``", "`")
        return {"key": f"{self.key}/{name}", "help": said or None, "disabled": self.disabled}

    def _default(self, name: str) -> str:
        default = self.model.model_fields[name].get_default(call_default_factory=False)
        return str(default) if isinstance(default, str | int | float) else "as it is best"

    def _described_default(self, name: str, described: Callable[[str], str]) -> str:
        default = self._default(name)
        return described(default) if default in self._literals(name) else default

    def _literals(self, name: str) -> list[str]:
        return _texts(self.model.model_fields[name].annotation)

    def _entered(self, name: str, value: Any) -> Entered:
        self.faults.at(f"{self.pointer}/{name}")
        return {} if value is None or value == "" else {name: value}


def _texts(annotation: Any) -> list[str]:
    """The texts of a Literal, wherever in the annotation it stands."""
    if isinstance(annotation, str):
        return [annotation]
    return [text for part in get_args(annotation) for text in _texts(part)]
