"""Questions to the person behind an agent, through the protocol's elicitation where the client has it.

Forms of the protocol are flat: text, numbers, yes or no, and choices of text (2026-07-28, client/elicitation).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp_types import ClientCapabilities
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field, JsonValue, create_model

from client.aio import GatewayProblem
from contracts.access import Role
from contracts.decision import COMBINATIONS, Decision
from contracts.model import Model
from contracts.problem import ProblemCode, problem
from mcp_server.asker import Asker, Who


@dataclass(frozen=True)
class Called:
    """The tool that is being called, and the arguments that it was called with."""

    title: str
    arguments: Mapping[str, Any]
    on_a_cluster: bool
    """It takes a cluster, and the caller's default where none is named."""


CALLED: ContextVar[Called] = ContextVar("called")

_PLAIN: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}


def has_forms(capabilities: ClientCapabilities | None) -> bool:
    """Whether a client with these capabilities shows forms to its user."""
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def can_ask(context: Context[Any, Any]) -> bool:
    """Whether the caller's client shows forms to its user, and can be reached with one."""
    in_rounds = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    return has_forms(context.client_capabilities) and (in_rounds or context.session.can_send_request)


class Filled(BaseModel):
    """A form as it came back."""

    asked_in: ClassVar[Form]

    def answer(self) -> dict[str, JsonValue]:
        """What was filled in, as the decision takes it."""
        return self.asked_in.answer(self)


class Form:
    """A decision as a form: what can be chosen as choices, what else is plain as fields; the rest is as the default
    has it."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self._default: dict[str, JsonValue] = dict(decision.default) if isinstance(decision.default, dict) else {}
        self._choices: dict[str, dict[str, JsonValue]] = {}
        required = set(decision.answer_schema.get("required") or ())
        rules: dict[str, Any] = decision.answer_schema.get("properties") or {}
        fields: dict[str, Any] = {}
        for name, rule in rules.items():
            preset = self._default.get(name)
            about = rule.get("description") or rule.get("title") or name
            if name != COMBINATIONS and decision.options.get(name):
                choices = self._choices[name] = {_label(value): value for value in decision.options[name]}
                kind: Any = Literal[tuple(choices)]
                chosen: JsonValue = _label(preset) if preset in choices.values() else None
            elif rule.get("type") in _PLAIN and (name in required or preset is not None):
                kind, chosen = _PLAIN[rule["type"]], preset
            else:
                continue
            needed = chosen is None and name in required
            shown = Field(... if needed else chosen, title=name, description=about)
            fields[name] = (kind if needed or chosen is not None else kind | None, shown)
        self.model: type[Filled] = create_model("Answer", __base__=Filled, **fields)
        self.model.asked_in = self

    def answer(self, filled: BaseModel) -> dict[str, JsonValue]:
        """What was filled in, as the decision takes it."""
        given = {
            name: self._choices[name][value] if name in self._choices else value
            for name, value in filled.model_dump().items()
            if value is not None
        }
        return {**self._default, **given}


def _label(value: JsonValue) -> str:
    """How a value is offered: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


async def asks_a_person(who: Asker) -> bool:
    """Whether a form reaches somebody whose word counts: the client shows forms, and who calls is no agent. What an
    agent may not choose by itself, a person says elsewhere."""
    return can_ask(who.context) and (await who.caller()).role is not Role.AGENT


class Confirmation(Model):
    """Whether to go on."""

    confirm: Annotated[bool, Field(title="Go on?", description="Yes: do it.")]


async def _confirmed(who: Who) -> Confirmation | Elicit[Confirmation]:
    """Ask the person behind a person's own agent before something is destroyed.

    Who calls with the role agent is not asked: there, a person approves the exact plan. A client without forms asks by
    itself: the tool's annotation says that it destroys.
    """
    if not await asks_a_person(who):
        return Confirmation(confirm=True)
    called = CALLED.get()
    named = {name: value for name, value in called.arguments.items() if value is not None}
    if called.on_a_cluster:
        named["cluster"] = await who.cluster(named.get("cluster"))
    shown = ", ".join(f"{name}: {_label(value)}" for name, value in sorted(named.items()))
    lost = "What it deletes, replaces or overwrites does not come back."
    return Elicit(f"{called.title}{f' ({shown})' if shown else ''}? {lost}", Confirmation)


async def _sure(said: Annotated[ElicitationResult[Confirmation], Resolve(_confirmed)]) -> Confirmation:
    """Raises GatewayProblem where the person said no, or nothing."""
    if isinstance(said, AcceptedElicitation) and said.data.confirm:
        return said.data
    raise GatewayProblem(
        problem(
            ProblemCode.DENIED,
            "the user was asked whether to go on, and did not say yes: nothing has been done",
            remedy="Ask the user what they want instead. Do not call it again unasked.",
        )
    )


Sure = Annotated[Confirmation, Resolve(_sure)]
"""A parameter of every tool that destroys: the call ends without effect where the person says no."""
