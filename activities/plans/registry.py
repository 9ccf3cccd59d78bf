"""Which planner plans which kind of operation."""

from __future__ import annotations

from activities.plans import (
    autoscalers,
    creation,
    credentials,
    deployments,
    drift,
    experiments,
    features,
    fsx_storage,
    imports,
    instance_groups,
    managed_endpoints,
    model_pools,
    models,
    node_groups,
    node_pools,
    nodes,
    ray_clusters,
    routers,
    software,
    storage,
    teardown,
    training,
)
from activities.plans.world import Planner, World


def planners(world: World) -> dict[str, Planner]:
    """The planner of every kind, by the kind's name. Each capability's module gives those of its kinds."""
    return {
        **nodes.planners(world),
        **software.planners(world),
        **creation.planners(world),
        **credentials.planners(world),
        **deployments.planners(world),
        **drift.planners(world),
        **experiments.planners(world),
        **features.planners(world),
        **fsx_storage.planners(world),
        **imports.planners(world),
        **instance_groups.planners(world),
        **model_pools.planners(world),
        **models.planners(world),
        **routers.planners(world),
        **ray_clusters.planners(world),
        **node_groups.planners(world),
        **node_pools.planners(world),
        **managed_endpoints.planners(world),
        **autoscalers.planners(world),
        **storage.planners(world),
        **teardown.planners(world),
        **training.planners(world),
    }
