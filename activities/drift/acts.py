"""What only a restoration does: everything else it does by the activities of other operations."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.aws import AwsClients
from activities.errors import fail
from activities.hyperpod.cluster import describe
from activities.network.compute import ComputeSubnetActivities
from activities.network.lookup import subnets_of
from activities.settings import Settings
from contracts.drift import (
    RESTORE_WAYS_OUT,
    SET_NODE_RECOVERY,
    NodeRecovery,
    NodeRecoverySet,
    WaysOut,
    WaysOutRestored,
)
from contracts.network import EnsureComputeSubnet
from contracts.problem import ProblemCode


class DriftActs:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._subnets = aws, ComputeSubnetActivities(aws, settings)

    @activity.defn(name=SET_NODE_RECOVERY.name)
    def set_node_recovery(self, request: NodeRecovery) -> NodeRecoverySet:
        """HyperPod's node recovery as asked; nothing else changes. Raises NOT_FOUND where there is no cluster."""
        name, region = request.hyperpod_cluster, request.scope.region
        found = describe(self._aws, region, name)
        if found is None:
            fail(ProblemCode.NOT_FOUND, f"There is no HyperPod cluster {name}", "Create it (create-hyperpod).")
        if found.get("NodeRecovery") == request.node_recovery:
            return NodeRecoverySet(hyperpod_cluster=name, changed=False)
        asked: Any = {"NodeRecovery": request.node_recovery}
        self._aws.act.sagemaker(region).update_cluster(ClusterName=name, **asked)
        return NodeRecoverySet(hyperpod_cluster=name)

    @activity.defn(name=RESTORE_WAYS_OUT.name)
    def restore_ways_out(self, request: WaysOut) -> WaysOutRestored:
        """Give the recorded compute subnets what they lack of route table, route to a NAT gateway and S3 endpoint.

        Raises CONFLICT where a route leads to another living gateway.
        """
        network, scope = request.network, request.scope
        there = {each["SubnetId"]: each for each in subnets_of(self._aws.read.ec2(scope.region), network.vpc_id)}
        changed = False
        done = []
        for subnet in network.compute_subnets:
            if (found := there.get(subnet.subnet_id)) is None:
                continue
            wanted = EnsureComputeSubnet(
                scope=scope,
                vpc_id=network.vpc_id,
                zone=subnet.zone,
                addresses=0,
                nat_gateways=network.nat_gateways,
                s3_endpoint_id=network.s3_endpoint_id,
            )
            changed |= self._subnets.completed(wanted, found, changed=False).changed
            done.append(subnet.subnet_id)
        return WaysOutRestored(subnets=done, changed=changed)
