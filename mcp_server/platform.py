"""The platform itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.answers import Readiness
from contracts.durations import Durations
from mcp_server.asker import Who
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.STAGES)


@tools.tool("Durations of operations", endpoints.GET_DURATIONS)
async def operation_get_durations(
    who: Who, kind: Annotated[SkipValidation[str], Field(description="A kind of operation, e.g. create-cluster.")]
) -> Durations:
    """How long the last operations of a kind that succeeded have taken, stage by stage, without what people took to
    answer.

    Use it to tell the user how long something will take. Not to follow an operation (operation_wait).
    """
    return await who.get(endpoints.GET_DURATIONS, kind=kind)


@tools.tool("Readiness of the platform", endpoints.GET_READINESS)
async def platform_get_readiness(who: Who) -> Readiness:
    """Whether operations can be started and would make progress: Temporal answers, and workers ask for all work.

    Use it where operations stay queued or several tools answer `unavailable`.
    """
    return await who.get(endpoints.GET_READINESS)
