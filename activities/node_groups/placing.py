"""The activity that finds out where a node group's nodes go."""

from __future__ import annotations

from temporalio import activity

from activities.aws import AwsClients
from activities.node_groups.placement import place, require
from contracts.node_groups import PLACE_NODE_GROUP, NodePlacement, PlaceNodeGroup


class PlacementActivities:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=PLACE_NODE_GROUP.name)
    def place_node_group(self, request: PlaceNodeGroup) -> NodePlacement:
        """Zones and addresses of the group's nodes. Reads only. Raises INVALID or CAPACITY with the field at fault."""
        placing = require(place(self._aws, request.scope.region, request.spec, request.network))
        first = placing.facts[request.spec.instance_types[0]]
        return NodePlacement(
            zones=placing.zones, addresses=placing.addresses, accelerator_resource=first.accelerator_resource
        )
