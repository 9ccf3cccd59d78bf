"""The plan of a cluster's deletion: everything that goes, in order, what stays, and what stands in the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

from activities.aws import AwsClients
from activities.fsx_storage.file_systems import as_file_system, owned_file_systems
from activities.plans.parts import group_capacity
from activities.plans.world import Planner, World
from activities.teardown.clusters import EKS_CLUSTER, NODE_GROUP
from activities.teardown.egress import NAT
from activities.teardown.lookup import find_clusters
from activities.teardown.survey import Surveyor
from contracts.catalogue import DELETE_CLUSTER
from contracts.fsx_storage import price_item
from contracts.network import Scope
from contracts.plans import Action, CapacityChange, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.teardown import DeleteClusterSpec, Inventory, Known, Leftover, Part, Resource, Teardown

PAID = {EKS_CLUSTER: "eks-cluster", NAT: "nat-gateway"}
"""What is paid by the hour beside nodes, by its kind."""


def planners(world: World) -> dict[str, Planner]:
    surveyor = Surveyor(world.aws, world.kubernetes)
    return {DELETE_CLUSTER.name: lambda request: _delete(world.aws, surveyor, request)}


def _delete(aws: AwsClients, surveyor: Surveyor, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteClusterSpec.model_validate(request.spec)
    scope = Scope(cluster=record.tag, region=record.region, created_by=record.created_by, request_id="-")
    asked = Teardown(scope=scope, known=Known.of(record), spec=spec)
    found = surveyor.survey(asked)
    deleted = [
        PlannedChange(action=Action.DELETE, kind=each.kind, name=each.name or each.id, detail=each.detail)
        for each in found.resources
    ]
    kept = [PlannedChange(action=Action.KEEP, kind=each.kind, name=each.id, detail=each.why) for each in found.kept]
    return PlanDraft(
        changes=[*deleted, *kept],
        capacity=[*_hyperpod_nodes(aws, asked, found), *_node_groups(aws, asked, found)],
        hourly=_hourly(aws, asked, found.resources),
        warnings=found.warnings,
        blockers=[_blocker(each) for each in found.leftovers],
        facts=_facts(found.resources),
    )


def _blocker(leftover: Leftover) -> FieldError:
    return FieldError(
        field="/level",
        detail=f"{leftover.kind} {leftover.id} stands in the way: {leftover.detail}",
        remedy=leftover.remedy,
        code=ProblemCode.FOREIGN,
    )


def _facts(resources: list[Resource]) -> dict[str, Any]:
    """Which clusters and data go: what somebody who agreed must be asked about again."""
    return {
        part.value: sorted(each.id for each in resources if each.part is part)
        for part in (
            Part.WORKLOADS,
            Part.HYPERPOD,
            Part.NODE_GROUPS,
            Part.CONTROL_PLANE,
            Part.FILE_SYSTEMS,
            Part.VPC,
            Part.BUCKET,
        )
    }


def _hourly(aws: AwsClients, asked: Teardown, resources: list[Resource]) -> dict[str, int]:
    """What else is not paid for any more."""
    gone = Counter(PAID[each.kind] for each in resources if each.kind in PAID)
    going = {each.id for each in resources if each.part is Part.FILE_SYSTEMS}
    for described in owned_file_systems(aws, asked.scope.region, asked.scope.cluster) if going else ():
        if described["FileSystemId"] in going:
            each = as_file_system(described, asked.scope.cluster, changed=False)
            gone[price_item(each.deployment_type, each.throughput)] += each.capacity_gib
    return {name: -count for name, count in gone.items()}


def _hyperpod_nodes(aws: AwsClients, asked: Teardown, found: Inventory) -> list[CapacityChange]:
    going = {each.id for each in found.resources if each.part is Part.HYPERPOD}
    return [
        change
        for cluster in (find_clusters(aws, asked).hyperpod if going else ())
        if cluster["ClusterArn"] in going
        for group in cluster.get("InstanceGroups", [])
        for change in group_capacity(group, -group.get("CurrentCount", 0))
    ]


def _node_groups(aws: AwsClients, asked: Teardown, found: Inventory) -> list[CapacityChange]:
    given_back = []
    eks = aws.read.eks(asked.scope.region)
    for each in found.resources:
        if each.kind != NODE_GROUP:
            continue
        cluster, _, name = each.id.partition("/")
        group = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
        count = group.get("scalingConfig", {}).get("desiredSize", 0)
        if count and group.get("instanceTypes"):
            capacity = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}.get(
                group.get("capacityType", ""), "on-demand"
            )
            given_back.append(CapacityChange(instance_type=group["instanceTypes"][0], count=-count, capacity=capacity))
    return given_back
