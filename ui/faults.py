"""What the gateway found wrong with a form: each fault at the field that it is about, the others in a box."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from contracts.problem import FieldError, Problem
from ui.problems import escaped, problem_box


class Faults:
    """The faults of what was sent last. A form asks for them field by field, and at its end for the rest."""

    def __init__(self, refused: Problem | None) -> None:
        self._refused = refused
        self._left = list(_of(refused)) if refused is not None else []

    def at(self, *pointers: str) -> None:
        """Show what is wrong with the field, or with anything inside it, below the field. ``pointers``: JSON pointers
        into what was sent."""
        here = [fault for fault in self._left if any(_inside(fault.field, pointer) for pointer in pointers)]
        self._left = [fault for fault in self._left if fault not in here]
        for fault in here:
            _shown(fault)

    def any(self, *pointers: str) -> bool:
        """Whether something is wrong inside one of these, shown or not."""
        faults = _of(self._refused) if self._refused is not None else []
        return any(_inside(fault.field, pointer) for fault in faults for pointer in pointers)

    def rest(self) -> None:
        """Show what no field has shown; where all have, only that something is wrong above."""
        if self._refused is None:
            return
        if self._left or not _of(self._refused):
            problem_box(self._refused)
            return
        count = len(_of(self._refused))
        st.error(
            "It was not accepted: see the field marked above."
            if count == 1
            else f"It was not accepted: see the {count} faults marked above.",
            icon=":material/error:",
        )


def _of(refused: Problem) -> list[FieldError]:
    if refused.errors:
        return refused.errors
    if refused.field is None:
        return []
    return [FieldError(field=refused.field, detail=refused.detail, remedy=refused.remedy, code=refused.code)]


def _inside(field: str, pointer: str) -> bool:
    return field == pointer or field.startswith(f"{pointer}/")


def _shown(fault: FieldError) -> None:
    text = f":red[:material/error: {escaped(fault.detail)}]"
    st.markdown(text + (f" {escaped(fault.remedy)}" if fault.remedy else ""))


def fault_lines(faults: Iterable[FieldError]) -> str:
    """Faults as a Markdown list, each with its field where it has one."""
    lines = []
    for fault in faults:
        field = f"`{fault.field.replace('`', '')}` " if fault.field else ""
        lines.append(f"- {field}{escaped(fault.detail)}" + (f" — {escaped(fault.remedy)}" if fault.remedy else ""))
    return "\n".join(lines)
