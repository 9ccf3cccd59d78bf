"""How tools are declared: each names the routes that it calls, and what it may do follows from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import Field, ValidationError

from client.aio import GatewayProblem
from contracts.endpoints import Endpoint
from contracts.problem import Problem, field_errors, invalid
from mcp_server.problems import failure, wrong_argument
from mcp_server.toolsets import Toolset

Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])


@dataclass(frozen=True)
class Definition:
    """A tool: its function's name is the tool's, its docstring the description."""

    function: Callable[..., Awaitable[Any]]
    title: str
    toolset: Toolset
    endpoints: tuple[Endpoint[Any], ...]
    destroys: bool
    idempotent: bool
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of arguments: those of the original's tools."""

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def reads(self) -> bool:
        """It changes nothing: every route that it calls only reads."""
        return all(endpoint.reads for endpoint in self.endpoints)

    def tool(self) -> GatewayTool:
        """The tool as the SDK has it."""
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
        made.aliases.update(self.aliases)
        made.parameters["additionalProperties"] = False
        return made


class GatewayTool(Tool):
    """A tool whose failures are problems."""

    aliases: dict[str, str] = Field(default_factory=dict, exclude=True)

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """As the SDK's; what the gateway refused, and arguments that do not fit, are results with a problem."""
        try:
            return await super().run(self._canonical(arguments), context, convert_result)
        except GatewayProblem as error:
            return failure(error.problem, self.name)
        except ToolError as error:
            found = _problem(error)
            if found is None:
                raise
            return failure(found, self.name)

    def _canonical(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments under their present names. Raises GatewayProblem for one that the tool does not have, and for
        one that is given twice with different values."""
        known = self.parameters.get("properties", {})
        given: dict[str, Any] = {}
        for name, value in arguments.items():
            present = self.aliases.get(name, name)
            if present not in known:
                takes = ", ".join(known) or "none"
                raise GatewayProblem(
                    wrong_argument(name, f"{self.name} has no argument {name!r}", f"It takes {takes}.")
                )
            if present in given and given[present] != value:
                raise GatewayProblem(
                    wrong_argument(name, f"{name} and {present} are the same and differ", f"Send {present} alone.")
                )
            given[present] = value
        return given


def _problem(error: ToolError) -> Problem | None:
    match error.__cause__:
        case GatewayProblem() as refused:
            return refused.problem
        case ValidationError() as unfit:
            return invalid(field_errors(unfit))
        case _:
            return None


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
        aliases: Mapping[str, str] | None = None,
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
