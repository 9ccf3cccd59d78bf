"""The two checks that workflows and the gateway ask for."""

from __future__ import annotations

from temporalio import activity

from activities.aws import AwsClients
from activities.options import Lookup
from activities.preflight.groups import group_errors
from activities.preflight.names import name_errors
from activities.preflight.network import network_errors
from contracts.options import CHECK_CLUSTER, CHECK_GROUPS, CheckCluster, CheckGroups, Findings


class PreflightActivities:
    def __init__(self, aws: AwsClients, lookup: Lookup) -> None:
        self._aws, self._lookup = aws, lookup

    @activity.defn(name=CHECK_CLUSTER.name)
    def check_cluster(self, request: CheckCluster) -> Findings:
        """What stands in the way of a cluster, each fault with the JSON pointer of its field in the spec and a
        remedy."""
        spec, region = request.spec, request.region
        groups = CheckGroups(
            region=region,
            groups=spec.instance_groups,
            cluster=spec.tag,
            compute_subnet_prefix=spec.network.compute_subnet_prefix,
        )
        return Findings(
            errors=[
                *name_errors(self._aws, region, spec),
                *network_errors(self._aws, region, spec),
                *(group_errors(self._aws, self._lookup, groups) if spec.instance_groups else ()),
            ]
        )

    @activity.defn(name=CHECK_GROUPS.name)
    def check_groups(self, request: CheckGroups) -> Findings:
        """What stands in the way of instance groups; ``pointer`` says where they stand in what the caller sent."""
        return Findings(errors=group_errors(self._aws, self._lookup, request) if request.groups else [])
