"""Command lines of model servers, as the gateway reads them."""

from __future__ import annotations

from typing import Any

from client.aio import GatewayProblem
from contracts import endpoints
from contracts.command_report import ParsedCommand
from contracts.commands import Severity
from contracts.names import deployment_name
from mcp_server.arguments import given
from mcp_server.asker import Asker
from mcp_server.problems import wrong_argument


async def parsed(who: Asker, tag: str, **members: Any) -> ParsedCommand:
    """What the command is read as. Raises GatewayProblem, also where it is no command that can be started."""
    found = await who.get(endpoints.PARSE_COMMAND, given(**members), tag=tag)
    wrong = next((each for each in found.findings if each.severity is Severity.ERROR), None)
    if wrong is not None:
        name = "command" if wrong.field.startswith("/command") else wrong.field.strip("/")
        raise GatewayProblem(wrong_argument(name, wrong.message, wrong.remedy or "Correct it."))
    return found


async def name_of(who: Asker, tag: str, named: str | None, **members: Any) -> str | None:
    """What a server is called: as it is ``named``, else after its model; None where the command names no model."""
    if named is not None:
        return named
    model = (await parsed(who, tag, **members)).command.model
    return deployment_name(model) if model else None
