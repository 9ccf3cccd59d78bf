"""The two checks that workflows and the gateway ask for."""

from __future__ import annotations

from temporalio import activity

from activities.aws import AwsClients
from activities.options import Lookup
from activities.preflight.groups import group_errors
from activities.preflight.names import name_errors
from activities.preflight.network import network_errors
from contracts.cluster import ClusterSpec
from contracts.options import CHECK_CLUSTER, CHECK_GROUPS, CheckCluster, CheckGroups, Findings
from contracts.problem import FieldError


class PreflightActivities:
    def __init__(self, aws: AwsClients, lookup: Lookup) -> None:
        self._aws, self._lookup = aws, lookup

    @activity.defn(name=CHECK_CLUSTER.name)
    def check_cluster(self, request: CheckCluster) -> Findings:
        """What stands in the way of a cluster, each fault with the JSON pointer of its field in the spec and a
        remedy."""
        return Findings(errors=cluster_errors(self._aws, self._lookup, request.region, request.spec))

    @activity.defn(name=CHECK_GROUPS.name)
    def check_groups(self, request: CheckGroups) -> Findings:
        """What stands in the way of instance groups; ``pointer`` says where they stand in what the caller sent."""
        return Findings(errors=group_errors(self._aws, self._lookup, request) if request.groups else [])


def cluster_errors(aws: AwsClients, lookup: Lookup, region: str, spec: ClusterSpec) -> list[FieldError]:
    """What stands in the way of a new cluster: its names, its network, its instance groups."""
    groups = CheckGroups(
        region=region,
        groups=spec.instance_groups,
        cluster=spec.tag,
        compute_subnet_prefix=spec.network.compute_subnet_prefix,
    )
    return [
        *name_errors(aws, region, spec),
        *network_errors(aws, region, spec),
        *(group_errors(aws, lookup, groups) if spec.instance_groups else ()),
    ]
