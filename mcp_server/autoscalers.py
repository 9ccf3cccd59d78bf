"""Autoscalers: replicas of Deployments by metrics."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.autoscalers import Autoscaler, AutoscalerDetail, Trigger
from contracts.model import Model
from mcp_server.arguments import Namespace, OneNamespace, PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.extracts import LeftOut, that_fit
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.SCALING)

AutoscalerName = Annotated[SkipValidation[str], Field(description="Name of the autoscaler, as autoscaler_list has it.")]
Seconds = Annotated[SkipValidation[int | None], Field(description="Absent: 30.")]

_NAMED = {"/name": "/autoscaler"}


class AutoscalersFound(Model):
    """Autoscalers of a cluster, others' among them."""

    autoscalers: list[Autoscaler]
    left_out: LeftOut = 0
    read_at: datetime


@tools.tool("List autoscalers", endpoints.LIST_AUTOSCALERS)
async def autoscaler_list(who: Who, cluster: ClusterTag = None, namespace: OneNamespace = None) -> AutoscalersFound:
    """KEDA's autoscalers of Deployments as they are now: target, limits, replicas wanted and there, state.

    Use it to see who decides on the replicas of a deployment. For what each trigger says now use autoscaler_get.
    """
    found = await who.get(endpoints.LIST_AUTOSCALERS, tag=await who.cluster(cluster), namespace=namespace)
    shown, left_out = that_fit(found.autoscalers)
    return AutoscalersFound(autoscalers=shown, left_out=left_out, read_at=found.read_at)


@tools.tool("Get an autoscaler", endpoints.GET_AUTOSCALER)
async def autoscaler_get(
    who: Who, autoscaler: AutoscalerName, cluster: ClusterTag = None, namespace: Namespace = "default"
) -> AutoscalerDetail:
    """One autoscaler: the value of each trigger now, how many replicas it wants, and KEDA's conditions.

    Use it to see why a deployment is scaled as it is, or is not.
    """
    tag = await who.cluster(cluster)
    return await who.get(endpoints.GET_AUTOSCALER, tag=tag, name=autoscaler, namespace=namespace, places=_NAMED)


@tools.tool("Create an autoscaler", endpoints.CREATE_AUTOSCALER)
async def autoscaler_create(
    who: Who,
    target: Annotated[SkipValidation[str], Field(description="The Deployment, e.g. a deployment's name.")],
    triggers: Annotated[
        SkipValidation[list[Trigger]],
        Field(description="By prometheus, router or cpu; the one that wants most replicas counts."),
    ],
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    autoscaler: Annotated[SkipValidation[str | None], Field(description="Its name; absent: as the target.")] = None,
    min_replicas: Annotated[SkipValidation[int | None], Field(description="Absent: 1; 0 lets nothing run.")] = None,
    max_replicas: Annotated[SkipValidation[int | None], Field(description="Absent: 5.")] = None,
    polling_seconds: Seconds = None,
    cooldown_seconds: Annotated[
        SkipValidation[int | None], Field(description="Of quiet before the last replica goes; absent: 300.")
    ] = None,
    scale_up_stabilization_seconds: Annotated[SkipValidation[int | None], Field(description="Absent: 0.")] = None,
    scale_down_stabilization_seconds: Annotated[SkipValidation[int | None], Field(description="Absent: 300.")] = None,
    plan: PlanId = None,
) -> Started:
    """Let metrics decide how many replicas a Deployment has, by KEDA. One that exists is changed to what is asked.

    Use it for load that comes and goes; KEDA must be on (hyperpod_get_advanced_features). plan_make asks each query
    once and tells what it would do now: show that to the user. operation_wait decides completion.
    """
    body = given(
        name=autoscaler,
        target=target,
        namespace=namespace,
        min_replicas=min_replicas,
        max_replicas=max_replicas,
        polling_seconds=polling_seconds,
        cooldown_seconds=cooldown_seconds,
        scale_up_stabilization_seconds=scale_up_stabilization_seconds,
        scale_down_stabilization_seconds=scale_down_stabilization_seconds,
        triggers=triggers,
    )
    tag = await who.cluster(cluster)
    return await who.start(endpoints.CREATE_AUTOSCALER, body, tag=tag, plan=plan, places=_NAMED)


@tools.tool("Delete an autoscaler", endpoints.DELETE_AUTOSCALER)
async def autoscaler_delete(
    who: Who,
    autoscaler: AutoscalerName,
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    plan: PlanId = None,
) -> Started:
    """Delete an autoscaler. The Deployment keeps the replicas that it has then, and is scaled by hand again.

    Use it before inference_scale_deployment or inference_undeploy of its target. operation_wait decides completion.
    """
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": autoscaler, "namespace": namespace}
    return await who.start(endpoints.DELETE_AUTOSCALER, plan=plan, places=_NAMED, **target)
