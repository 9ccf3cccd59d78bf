"""Managed features of a cluster, managed Karpenter among them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import Field, SkipValidation

from contracts import catalogue, endpoints
from contracts.feature_catalogue import DEFINITIONS
from contracts.features import Feature, Features, FeatureStatus, Observability, TieredCheckpointing, Toggle
from contracts.model import Model
from contracts.node_pools import NodePool
from mcp_server.arguments import PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.operations import Followed, followed, newest_if_any
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.DEFAULT)


class KarpenterStatus(Model):
    """Managed Karpenter of a cluster as it is now."""

    feature: FeatureStatus
    node_pools: list[NodePool]
    """What it scales; empty: nothing yet."""
    installation: Followed | None = None
    """The last operation that switched just this; null: none is known."""


def _tiered(wanted: Any) -> dict[str, Any]:
    """The original's ``{enabled, configMode, percentage}``: the percentage counted in mode ``custom`` only."""
    if not isinstance(wanted, dict):
        return {"tiered_checkpointing": wanted}
    known = {"enabled", "configMode", "percentage"}
    meant = {name: value for name, value in wanted.items() if name not in known}
    meant |= given(enabled=wanted.get("enabled"))
    if wanted.get("configMode") == "custom" or "configMode" not in wanted:
        meant |= given(memory_percentage=wanted.get("percentage"))
    return {"tiered_checkpointing": meant}


def _about(feature: Feature) -> Any:
    needs = ", ".join(DEFINITIONS[feature].needs)
    title = DEFINITIONS[feature].title
    return Field(description=f"{title}; needs {needs}." if needs else f"{title}.")


@tools.tool("Read managed features", endpoints.LIST_FEATURES)
async def hyperpod_get_advanced_features(who: Who, cluster: ClusterTag = None) -> Features:
    """Which managed features of a cluster are on, read from AWS and Kubernetes now: training and inference operator,
    tiered checkpointing, managed Karpenter (autoscaling), KubeRay, observability and others.

    Use it before switching any, and after. degraded says what is missing; foreign means that others installed it.
    """
    return await who.get(endpoints.LIST_FEATURES, tag=await who.cluster(cluster))


@tools.tool(
    "Switch managed features",
    endpoints.UPDATE_FEATURES,
    destroys=True,
    aliases={
        "tieredStorage": _tiered,
        "trainingOperator": "training_operator",
        "inferenceOperator": "inference_operator",
    },
)
async def hyperpod_update_advanced_features(
    who: Who,
    sure: Sure,
    cluster: ClusterTag = None,
    training_operator: Annotated[SkipValidation[Toggle | None], _about(Feature.TRAINING_OPERATOR)] = None,
    inference_operator: Annotated[SkipValidation[Toggle | None], _about(Feature.INFERENCE_OPERATOR)] = None,
    tiered_checkpointing: Annotated[
        SkipValidation[TieredCheckpointing | None], _about(Feature.TIERED_CHECKPOINTING)
    ] = None,
    autoscaling: Annotated[SkipValidation[Toggle | None], _about(Feature.AUTOSCALING)] = None,
    kuberay: Annotated[SkipValidation[Toggle | None], _about(Feature.KUBERAY)] = None,
    container_insights: Annotated[SkipValidation[Toggle | None], _about(Feature.CONTAINER_INSIGHTS)] = None,
    fsx_csi: Annotated[SkipValidation[Toggle | None], _about(Feature.FSX_CSI)] = None,
    observability: Annotated[SkipValidation[Observability | None], _about(Feature.OBSERVABILITY)] = None,
    load_balancer_controller: Annotated[SkipValidation[Toggle | None], _about(Feature.LOAD_BALANCER_CONTROLLER)] = None,
    task_governance: Annotated[SkipValidation[Toggle | None], _about(Feature.TASK_GOVERNANCE)] = None,
    metrics_server: Annotated[SkipValidation[Toggle | None], _about(Feature.METRICS_SERVER)] = None,
    keda: Annotated[SkipValidation[Toggle | None], _about(Feature.KEDA)] = None,
    enable_prerequisites: Annotated[
        SkipValidation[bool | None], Field(description="true: switch on, too, what the named ones need.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Switch managed features on or off, several at once, each with all that belongs to it (roles, add-ons, settings).

    Name only what should change: the rest is not touched, and what is as asked already is left alone. Switching off
    removes what was made for it. Look first with hyperpod_get_advanced_features. operation_wait decides completion.
    """
    body = given(
        training_operator=training_operator,
        inference_operator=inference_operator,
        tiered_checkpointing=tiered_checkpointing,
        autoscaling=autoscaling,
        kuberay=kuberay,
        container_insights=container_insights,
        fsx_csi=fsx_csi,
        observability=observability,
        load_balancer_controller=load_balancer_controller,
        task_governance=task_governance,
        metrics_server=metrics_server,
        keda=keda,
        enable_prerequisites=enable_prerequisites,
    )
    return await who.start(endpoints.UPDATE_FEATURES, body, tag=await who.cluster(cluster), plan=plan)


@tools.tool("Install managed Karpenter", endpoints.UPDATE_FEATURES, toolset=Toolset.NODE_POOLS)
async def karpenter_install(who: Who, cluster: ClusterTag = None, plan: PlanId = None) -> Started:
    """Switch on HyperPod's managed Karpenter, the feature `autoscaling`: node pools can then scale instance groups.

    Use it when the user wants nodes to come and go with pods; afterwards make a node pool (node_pool_create). To switch
    it off use hyperpod_update_advanced_features. karpenter_get_status decides completion.
    """
    return await who.start(
        endpoints.UPDATE_FEATURES,
        {Feature.AUTOSCALING.value: {"enabled": True}},
        tag=await who.cluster(cluster),
        plan=plan,
        status_tool="karpenter_get_status",
    )


@tools.tool(
    "Status of managed Karpenter",
    endpoints.LIST_FEATURES,
    endpoints.LIST_NODE_POOLS,
    endpoints.GET_OPERATION,
    toolset=Toolset.NODE_POOLS,
)
async def karpenter_get_status(who: Who, cluster: ClusterTag = None) -> KarpenterStatus:
    """Whether managed Karpenter works, which node pools it scales, and how its installation stands. Decides completion
    of karpenter_install: done when `feature.state` is on, or failed when `installation` has ended without success.
    """
    tag = await who.cluster(cluster)
    features, pools, switching = await asyncio.gather(
        who.get(endpoints.LIST_FEATURES, tag=tag),
        who.get(endpoints.LIST_NODE_POOLS, tag=tag),
        newest_if_any(who, tag, catalogue.UPDATE_FEATURES, target=Feature.AUTOSCALING.value),
    )
    return KarpenterStatus(
        feature=features.of(Feature.AUTOSCALING),
        node_pools=pools.node_pools,
        installation=followed(switching) if switching is not None else None,
    )
