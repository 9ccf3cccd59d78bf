"""From what was entered to an operation: its plan first, then the start that is held to that plan."""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from contracts.endpoints import Endpoint
from contracts.operation import Operation
from contracts.plans import Plan
from contracts.problem import Problem
from ui import confirm
from ui.actions import act, plan
from ui.faults import Faults
from ui.links import go_to_operation
from ui.plan_view import plan_shown


def opened(operation: Operation) -> None:
    """Go on at the page of what was started."""
    go_to_operation(operation.id, operation.run_id)


@dataclass(frozen=True)
class Wish:
    """What somebody has entered. ``form`` names where; ``body`` holds only what was entered there."""

    form: str
    endpoint: Endpoint[Operation]
    parameters: Mapping[str, Any]
    body: Mapping[str, Any] | None = None
    then: Callable[[Operation], None] = field(default=opened, compare=False)
    """What is done once it was started."""
    hidden: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Members of the body that are sent and never kept, not even to know the plan again."""

    def planned(self) -> Plan | None:
        """The plan; None where it was refused, which :func:`faults` tells."""
        return plan(self.endpoint, self._sent, refused=self._refuse, **self.parameters)

    def start(self, shown: Plan | None = None) -> None:
        """Start just what ``shown`` says; without a plan, what was entered. A refusal is kept for :func:`faults`."""
        plan_id = shown.plan if shown is not None else None
        forget(self.form)
        operation = act(self.form, self.endpoint, self._sent, refused=self._refuse, plan=plan_id, **self.parameters)
        if operation is None:
            return
        confirm.close(self.form)
        self.then(operation)

    @property
    def shown(self) -> Plan | None:
        """The plan that was made of just this."""
        entered, made = st.session_state.get(self._plan_key, (None, None))
        return made if entered == self._text else None

    def look(self) -> None:
        """Make the plan, and keep it."""
        forget(self.form)
        made = self.planned()
        if made is not None:
            st.session_state[self._plan_key] = (self._text, made)

    @property
    def outdated(self) -> bool:
        """Whether a plan was shown, and something else was entered since."""
        return self._plan_key in st.session_state and self.shown is None

    @property
    def _plan_key(self) -> str:
        return f"plan/{self.form}"

    @property
    def _text(self) -> str:
        entered = [self.endpoint.name, self.body, dict(self.parameters), *self._traces()]
        return json.dumps(entered, sort_keys=True, default=str)

    @property
    def _sent(self) -> Mapping[str, Any] | None:
        return {**(self.body or {}), **self.hidden} if self.hidden else self.body

    def _traces(self) -> list[str]:
        """What tells hidden members from others of this session, and is of no use elsewhere."""
        if not self.hidden:
            return []
        salt: bytes = st.session_state.setdefault("wish/salt", secrets.token_bytes(32))
        return [hmac.new(salt, text.encode(), "sha256").hexdigest() for text in self.hidden.values()]

    def _refuse(self, problem: Problem) -> None:
        st.session_state[f"refused/{self.form}"] = problem


def faults(form: str) -> Faults:
    """What was wrong with what ``form`` sent last."""
    return Faults(st.session_state.get(f"refused/{form}"))


def forget(form: str) -> None:
    """Neither plan nor refusal of ``form`` is shown any more."""
    for kept in (f"plan/{form}", f"refused/{form}"):
        st.session_state.pop(kept, None)


def plan_and_start(wish: Wish, found: Faults, *, start: str, may: bool) -> None:
    """Below a form: a button for its plan, the plan, and a button that starts it. ``may``: the person may change
    things."""
    found.rest()
    if st.button("Show the plan", key=f"{wish.form}/plan", icon=":material/preview:", disabled=not may):
        with st.spinner("Making the plan…"):
            wish.look()
        st.rerun()
    if wish.outdated:
        st.caption("Something was changed since the plan was made: show it anew.")
    shown = wish.shown
    if shown is None:
        return
    with st.container(border=True):
        plan_shown(shown)
        if st.button(
            start,
            key=f"{wish.form}/start",
            type="primary",
            icon=":material/play_arrow:",
            disabled=not shown.valid or not may,
        ):
            wish.start(shown)
            st.rerun()


def confirm_and_start(
    wish: Wish, *, title: str, name: str, verb: str, may: bool, icon: str = ":material/delete:"
) -> None:
    """A button that asks once more, with the plan, for what cannot be undone; ``name`` must be typed then."""
    if st.button(f"{verb}…", key=f"{wish.form}/ask", icon=icon, disabled=not may):
        forget(wish.form)
        confirm.ask(wish.form)

    def carried_out(shown: Plan) -> None:
        wish.start(shown)
        faults(wish.form).rest()

    def planned() -> Plan | None:
        made = wish.planned()
        if made is None:
            faults(wish.form).rest()
        return made

    confirm.confirmation(wish.form, title=title, name=name, verb=verb, planned=planned, carried_out=carried_out)
