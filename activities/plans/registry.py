"""Which planner plans which kind of operation."""

from __future__ import annotations

from activities.plans import (
    creation,
    features,
    imports,
    instance_groups,
    node_groups,
    node_pools,
    nodes,
    software,
    teardown,
)
from activities.plans.world import Planner, World


def planners(world: World) -> dict[str, Planner]:
    """The planner of every kind, by the kind's name. Each capability's module gives those of its kinds."""
    return {
        **nodes.planners(world),
        **software.planners(world),
        **creation.planners(world),
        **features.planners(world),
        **imports.planners(world),
        **instance_groups.planners(world),
        **node_groups.planners(world),
        **node_pools.planners(world),
        **teardown.planners(world),
    }
