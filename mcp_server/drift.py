"""Drift: what of a cluster is otherwise than recorded, and what settles it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.drift import DriftAnswer
from mcp_server.arguments import PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DRIFT)

Differences = Annotated[
    SkipValidation[list[str]],
    Field(description="IDs of differences, as drift_get or drift_check answers them."),
]


@tools.tool("Drift of a cluster", endpoints.GET_DRIFT)
async def drift_get(who: Who, cluster: ClusterTag = None) -> DriftAnswer:
    """What the last check found to be otherwise than recorded: each difference with its severity, since when, and
    whether it can be adopted or restored.

    Use it first. To look now, use drift_check. What neither can settle names the operation to use.
    """
    return await who.get(endpoints.GET_DRIFT, tag=await who.cluster(cluster))


@tools.tool("Check for drift", endpoints.CHECK_DRIFT)
async def drift_check(who: Who, cluster: ClusterTag = None) -> DriftAnswer:
    """Compare a cluster with its record now. Done when it answers; it takes some seconds and changes nothing.

    Not needed after every operation: a schedule checks by itself (drift_get).
    """
    return await who.get(endpoints.CHECK_DRIFT, tag=await who.cluster(cluster))


@tools.tool("Adopt drift", endpoints.ADOPT_DRIFT)
async def drift_adopt(
    who: Who,
    differences: Differences,
    cluster: ClusterTag = None,
    accept_weaker_security: Annotated[
        SkipValidation[bool | None],
        Field(description="true: adopt those, too, that are a hole in security; a person must approve."),
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Record what is now: the differences are no drift any more. Nothing in the cluster changes.

    Use it for changes that somebody made on purpose: ask the user. A difference that has changed since is refused.
    operation_wait decides completion.
    """
    body = given(differences=differences, accept_weaker_security=accept_weaker_security)
    return await who.start(endpoints.ADOPT_DRIFT, body, tag=await who.cluster(cluster), plan=plan)


@tools.tool("Restore what has drifted", endpoints.RESTORE_DRIFT, destroys=True)
async def drift_restore(
    who: Who, sure: Sure, differences: Differences, cluster: ClusterTag = None, plan: PlanId = None
) -> Started:
    """Bring back what is recorded. No workload is deleted and no node taken away, but what somebody has changed is
    overwritten, and a person must approve: show the user the plan (plan_make) first.

    A difference that has changed since is refused. operation_wait decides completion.
    """
    body = given(differences=differences)
    return await who.start(endpoints.RESTORE_DRIFT, body, tag=await who.cluster(cluster), plan=plan)
