"""Plans: what an operation would do, before anybody starts it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.catalogue import KINDS
from contracts.plans import Plan
from mcp_server.arguments import Region, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)


@tools.tool("Plan an operation", endpoints.MAKE_PLAN)
async def plan_make(
    who: Who,
    kind: Annotated[SkipValidation[str], Field(description=f"What to plan: one of {', '.join(KINDS)}.")],
    cluster: ClusterTag = None,
    spec: Annotated[
        SkipValidation[dict[str, Any] | None],
        Field(
            description='What the kind is asked with, its target among it, e.g. {"group": "workers", "count": 4} for '
            "scale-instance-group. A wrong one is refused with the fields that it has."
        ),
    ] = None,
    region: Region = None,
) -> Plan:
    """What an operation would make, change and delete, in order, with cost, quotas, and what stands in its way.

    Nothing is changed. Use it before anything that costs or deletes, and show the user the plan; then start exactly
    that by sending its `plan` with the tool that starts it. A plan holds for 30 minutes and while the facts hold.
    """
    named = spec.get("tag") if cluster is None and isinstance(spec, dict) else cluster
    body = given(kind=kind, cluster=await who.cluster(named), region=region, spec=spec)
    return await who.get(endpoints.MAKE_PLAN, body)
