"""How tools are declared: each names the routes that it calls, and what it may do follows from them."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from client.aio import GatewayProblem
from contracts import measures
from contracts.endpoints import Endpoint
from contracts.problem import Problem, ProblemCode, field_errors, invalid, problem
from mcp_server.asking import CALLED, Called
from mcp_server.problems import failure, wrong_argument
from mcp_server.schemas import without
from mcp_server.started import Started
from mcp_server.toolsets import Toolset
from telemetry import metrics

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])


Alias = str | Callable[[Any], dict[str, Any]]
"""What an argument of the original's tools is here: an argument's other name, or the arguments that its value means."""


def as_is(argument: str) -> Callable[[Any], dict[str, Any]]:
    """The same value under its present name. The original's tools took an empty text for nothing."""
    return lambda value: {} if value == "" else {argument: value}


@dataclass(frozen=True)
class Definition:
    """A tool: its function's name is the tool's, its docstring the description."""

    function: Callable[..., Awaitable[Any]]
    title: str
    toolset: Toolset
    endpoints: tuple[Endpoint[Any], ...]
    destroys: bool
    idempotent: bool
    aliases: Mapping[str, Alias] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def reads(self) -> bool:
        """It changes nothing: every route that it calls only reads."""
        return all(endpoint.reads for endpoint in self.endpoints)

    @property
    def starts(self) -> bool:
        """It starts an operation and answers which."""
        return get_type_hints(self.function).get("return") is Started

    def tool(self) -> GatewayTool:
        """The tool as the SDK has it: the same for every server, since working out its schemas takes a while."""
        return self._made

    @cached_property
    def _made(self) -> GatewayTool:
        made: Tool = GatewayTool.from_function(
            self.function,
            name=self.name,
            title=self.title,
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=self.reads,
                destructive_hint=self.destroys,
                idempotent_hint=self.idempotent,
                open_world_hint=True,
            ),
            structured_output=True,
        )
        assert isinstance(made, GatewayTool)
        made.aliases.update({name: named if callable(named) else as_is(named) for name, named in self.aliases.items()})
        made.parameters = {**without(made.parameters, ("title",)), "additionalProperties": False}
        # Names say what an answer holds; its descriptions are longer than most answers.
        made.fn_metadata.output_schema = without(made.fn_metadata.output_schema, ("title", "description"))
        return made


class GatewayTool(Tool):
    """A tool whose failures are problems."""

    aliases: dict[str, Callable[[Any], dict[str, Any]]] = Field(default_factory=dict, exclude=True)

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """As the SDK's; what the gateway refused, and arguments that do not fit, are results with a problem."""
        began, outcome = time.perf_counter(), "cancelled"
        try:
            result, outcome = await self._run(arguments, context, convert_result)
            return result
        finally:
            metrics.count(measures.TOOL_CALLS, tool=self.name, result=outcome)
            metrics.observe(measures.TOOL_SECONDS, time.perf_counter() - began, tool=self.name)

    async def _run(
        self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool
    ) -> tuple[Any, str]:
        """The result, and ``ok`` or the code of its problem."""
        try:
            given = self._canonical(arguments)
            CALLED.set(Called(self.title or self.name, given, "cluster" in self.parameters.get("properties", {})))
            return _compact(await super().run(given, context, convert_result)), "ok"
        except GatewayProblem as error:
            return failure(error.problem, self.name), error.problem.code.value
        except ToolError as error:
            found = _problem(error)
            return failure(found, self.name), found.code.value

    def _canonical(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under their present names. Raises GatewayProblem for one that the tool does not have, and for
        one that is given twice with different values."""
        given: dict[str, Any] = {}
        for name, value in arguments.items():
            meant = self.aliases[name](value) if name in self.aliases else self._own(name, value)
            for present, said in meant.items():
                if present in given and given[present] != said:
                    raise GatewayProblem(
                        wrong_argument(name, f"{name} differs from another word on {present}", f"Send {present} alone.")
                    )
                given[present] = said
        return given

    def _own(self, name: str, value: Any) -> dict[str, Any]:
        known = self.parameters.get("properties", {})
        if name not in known:
            takes = ", ".join(known) or "none"
            raise GatewayProblem(wrong_argument(name, f"{self.name} has no argument {name!r}", f"It takes {takes}."))
        return {name: value}


def _compact(result: Any) -> Any:
    """The result with its text as short as JSON can be: agents pay for every blank."""
    if isinstance(result, CallToolResult) and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
        return result.model_copy(update={"content": [TextContent(type="text", text=text)]})
    return result


def _problem(error: ToolError) -> Problem:
    match error.__cause__:
        case GatewayProblem() as refused:
            return refused.problem
        case ValidationError() as unfit:
            return invalid(field_errors(unfit))
        case cause if isinstance(error, UnexpectedToolError):
            logger.error("a tool failed", exc_info=cause)
            return problem(
                ProblemCode.INTERNAL,
                "the tool failed",
                remedy="It is a fault of this platform: tell the user. See whether it has started something before you "
                "call it again.",
            )
        case _:
            return problem(ProblemCode.DENIED, f"not done: {error}", remedy="Ask the user what they want instead.")


class Toolbox:
    """Collects the tools of one capability."""

    def __init__(self, toolset: Toolset) -> None:
        self.toolset = toolset
        self.definitions: list[Definition] = []

    def tool(
        self,
        title: str,
        *endpoints: Endpoint[Any],
        destroys: bool = False,
        idempotent: bool = True,
        aliases: Mapping[str, Alias] | None = None,
        toolset: Toolset | None = None,
    ) -> Callable[[Function], Function]:
        """Declare a tool that calls ``endpoints`` and nothing else.

        ``destroys``: it deletes, replaces or overwrites what exists. ``idempotent``: calling it again with the same
        arguments has no further effect, as with everything that an operation's ID makes one.
        """

        def declare(function: Function) -> Function:
            self.definitions.append(
                Definition(function, title, toolset or self.toolset, endpoints, destroys, idempotent, aliases or {})
            )
            return function

        return declare
