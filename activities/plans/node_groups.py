"""Plans of EKS node groups."""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities.aws import is_ours, tag_map
from activities.drain import movable_pods
from activities.errors import is_absent
from activities.node_groups.observe import (
    CAPACITY,
    LABEL_GROUP,
    as_node_group,
    describe,
    describe_all,
    issues_of,
    list_nodes,
)
from activities.node_groups.placement import image, place
from activities.node_groups.roles import PURPOSE
from activities.node_groups.shape import UNBORN, describable, described, scaling_config
from activities.plans.world import Planner, World
from contracts.catalogue import CREATE_NODE_GROUP, DELETE_NODE_GROUP, SCALE_NODE_GROUP
from contracts.cluster import ClusterRecord
from contracts.names import ClusterNames
from contracts.network import Network
from contracts.node_groups import DeleteNodeGroupSpec, NodeGroupSpec, ScaleNodeGroupSpec
from contracts.plans import Action, CapacityChange, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of, some

SHOWN_PODS = 10
FOREIGN = "it was made by others, not by InstantStart"


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_NODE_GROUP.name: lambda request: _create(world, request),
        SCALE_NODE_GROUP.name: lambda request: _scale(world, request),
        DELETE_NODE_GROUP.name: lambda request: _delete(world, request),
    }


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, NodeGroupSpec.model_validate(request.spec)
    draft = PlanDraft(checks=_checks(record, network=True))
    if any(not check.passed for check in draft.checks) or record.control_plane is None or record.network is None:
        return draft.model_copy(update={"blockers": _blockers(draft.checks)})
    found = describe(world.aws, record.region, record.control_plane.name, spec.name)
    facts: dict[str, Any] = {"node_group": None if found is None else {"status": found["status"]}}
    placing = place(world.aws, record.region, spec, record.network)
    if placing.errors:
        return draft.model_copy(update={"blockers": placing.errors, "facts": facts})
    if found is not None and (blocker := _in_the_way(record, spec, found)):
        return draft.model_copy(update={"blockers": [blocker], "facts": facts})
    names = ClusterNames(record.tag)
    subnets = ", ".join(spec.subnet_ids) or f"compute subnets of {', '.join(placing.zones)}"
    kinds = [placing.facts[name] for name in spec.instance_types]
    scaling = scaling_config(spec.scaling, found)
    detail = (
        f"{spec.scaling.desired} × {' or '.join(spec.instance_types)} {spec.capacity} in {subnets}, "
        f"{scaling['minSize']} to {scaling['maxSize']} nodes, image {image(kinds)}"
    )
    exists = found is not None and found["status"] not in UNBORN
    changes = [
        PlannedChange(action=Action.CREATE, kind="IAM role", name=names.role(PURPOSE, record.region)),
        PlannedChange(action=Action.CREATE, kind="launch template", name=names.launch_template(spec.name)),
        PlannedChange(
            action=Action.NOTHING if exists else Action.CREATE, kind="node group", name=spec.name, detail=detail
        ),
    ]
    present = found.get("scalingConfig", {}).get("desiredSize", 0) if found is not None and exists else 0
    capacity = CapacityChange(
        instance_type=spec.instance_types[0],
        count=spec.scaling.desired - present,
        capacity=spec.capacity,
        volume_gib=spec.volume_gib,
        availability_zone=placing.zones[0],
        subnet_id=spec.subnet_ids[0] if spec.subnet_ids else _compute_subnet(record.network, placing.zones[0]),
        pointer="/scaling/desired",
    )
    warnings = []
    if spec.capacity == "spot" and len(spec.instance_types) == 1:
        warnings.append("spot with a single instance type is reclaimed, and runs short, more often than with several")
    return draft.model_copy(update={"changes": changes, "capacity": [capacity], "warnings": warnings, "facts": facts})


def _compute_subnet(network: Network, zone: str) -> str | None:
    """The one that the zone has already."""
    return next((subnet.subnet_id for subnet in network.compute_subnets if subnet.zone == zone), None)


def _in_the_way(record: ClusterRecord, spec: NodeGroupSpec, found: Any) -> FieldError | None:
    """Why a group of the name keeps a new one from being made."""
    if not is_ours(found.get("tags", {}), record.tag):
        return FieldError(
            field="/name",
            detail=f"node group {spec.name} exists, and {FOREIGN}",
            remedy="Choose another name; that one can be scaled or deleted by its name.",
            code=ProblemCode.FOREIGN,
        )
    if found["status"] in (*UNBORN, "DELETING", "DELETE_FAILED"):
        return None
    asked = {**describable(spec), "capacity": spec.capacity}
    exists = {**described(found), "capacity": CAPACITY.get(found.get("capacityType", ""), "")}
    if spec.capacity == "capacity-block":
        exists["instance types"] = asked["instance types"]
    differing = [f"{key} is {exists[key]}, asked was {asked[key]}" for key in asked if asked[key] != exists[key]]
    if not differing:
        return None
    return FieldError(
        field="/name",
        detail=f"node group {spec.name} exists and differs: {'; '.join(differing)}",
        remedy="Ask for what exists, choose another name, or delete it first.",
        code=ProblemCode.CONFLICT,
    )


def _scale(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, ScaleNodeGroupSpec.model_validate(request.spec)
    draft = PlanDraft(checks=_checks(record))
    found = _named(world, record, spec.node_group)
    if found is None:
        return draft.model_copy(update={"blockers": _unknown(draft.checks, spec.node_group)})
    before: Any = dict(found.get("scalingConfig", {}))
    after = scaling_config(spec, found)
    present = before.get("desiredSize", 0)
    action = Action.NOTHING if before == after else Action.CHANGE
    detail = f"{present} → {spec.desired} nodes; {after['minSize']} to {after['maxSize']} allowed"
    change = PlannedChange(
        action=action, kind="node group", name=spec.node_group, detail=detail, before=before, after=after
    )
    types = as_node_group(found, record.tag).instance_types
    capacity = CapacityChange(
        instance_type=types[0] if types else "",
        count=spec.desired - present,
        capacity=CAPACITY.get(found.get("capacityType", ""), "on-demand"),
        subnet_id=found["subnets"][0] if found.get("subnets") else None,
        pointer="/desired",
    )
    warnings = _foreign(record, found)
    if spec.desired < present:
        warnings.append(
            f"{number_of(present - spec.desired, 'node')} to go, as EC2 Auto Scaling chooses; their pods are evicted"
        )
        warnings += _pods(world, record, spec.node_group)
    if issues := issues_of(found):
        warnings.append(f"EKS says of the group: {issues}")
    blockers = []
    if found["status"] in ("CREATE_FAILED", "DELETING", "DELETE_FAILED"):
        detail = f"node group {spec.node_group} is {found['status']}"
        blockers.append(_error("/node_group", detail, "Delete it, and create it anew.", ProblemCode.NOT_READY))
    return draft.model_copy(
        update={
            "changes": [change],
            "capacity": [capacity] if types and capacity.count else [],
            "warnings": warnings,
            "blockers": blockers,
            "facts": {"scaling": before},
        }
    )


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteNodeGroupSpec.model_validate(request.spec)
    draft = PlanDraft(checks=_checks(record))
    found = _named(world, record, spec.node_group)
    names = ClusterNames(record.tag)
    template = names.launch_template(spec.node_group)
    if record.control_plane is None or (found is None and not _has_template(world, record, template)):
        return draft.model_copy(update={"blockers": _unknown(draft.checks, spec.node_group)})
    if found is None:
        gone = PlannedChange(
            action=Action.NOTHING, kind="node group", name=spec.node_group, detail="it is gone already"
        )
        left = PlannedChange(action=Action.DELETE, kind="launch template", name=template)
        return draft.model_copy(update={"changes": [gone, left]})
    desired = found.get("scalingConfig", {}).get("desiredSize", 0)
    changes = [
        PlannedChange(action=Action.DELETE, kind="node group", name=spec.node_group, detail=number_of(desired, "node"))
    ]
    if _has_template(world, record, template):
        changes.append(PlannedChange(action=Action.DELETE, kind="launch template", name=template))
    role = names.role(PURPOSE, record.region)
    groups = describe_all(world.aws, record.region, record.control_plane.name)
    others = [
        group["nodegroupName"]
        for group in groups
        if group["nodegroupName"] != spec.node_group and group.get("nodeRole", "").endswith(f"/{role}")
    ]
    if found.get("nodeRole", "").endswith(f"/{role}"):
        changes.append(
            PlannedChange(
                action=Action.KEEP if others else Action.DELETE,
                kind="IAM role",
                name=role,
                detail=f"{', '.join(others)} has it" if others else None,
            )
        )
    types = as_node_group(found, record.tag).instance_types
    capacity = []
    if types and desired:
        kind = CAPACITY.get(found.get("capacityType", ""), "on-demand")
        capacity = [CapacityChange(instance_type=types[0], count=-desired, capacity=kind)]
    warnings = [*_foreign(record, found), *_pods(world, record, spec.node_group)]
    return draft.model_copy(
        update={"changes": changes, "capacity": capacity, "warnings": warnings, "facts": {"desired": desired}}
    )


def _named(world: World, record: ClusterRecord, name: str) -> Any | None:
    if record.control_plane is None:
        return None
    return describe(world.aws, record.region, record.control_plane.name, name)


def _has_template(world: World, record: ClusterRecord, name: str) -> bool:
    try:
        found = world.aws.read.ec2(record.region).describe_launch_templates(LaunchTemplateNames=[name])
    except Exception as error:
        if is_absent(error, "InvalidLaunchTemplateName.NotFoundException"):
            return False
        raise
    return any(is_ours(tag_map(each.get("Tags")), record.tag) for each in found["LaunchTemplates"])


def _pods(world: World, record: ClusterRecord, group: str) -> list[str]:
    """What runs on the group's nodes and would be evicted."""
    if record.control_plane is None:
        return []
    with world.kubernetes.connect(record.region, record.control_plane.name) as api:
        return evicted(api, [node.metadata.name for node in list_nodes(api, f"{LABEL_GROUP}={group}")])


def evicted(api: client.ApiClient, nodes: list[str]) -> list[str]:
    """A warning that names the pods on these nodes; none where nothing runs there but daemons."""
    pods = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in movable_pods(api) if pod.spec.node_name in nodes]
    if not pods:
        return []
    return [f"what runs on its nodes is evicted: {some(pods, SHOWN_PODS)}"]


def _foreign(record: ClusterRecord, found: Any) -> list[str]:
    if is_ours(found.get("tags", {}), record.tag):
        return []
    return [f"node group {found['nodegroupName']} is not ours: {FOREIGN}"]


def _checks(record: ClusterRecord, network: bool = False) -> list[Check]:
    checks = [
        Check(
            name="control plane",
            passed=record.control_plane is not None,
            detail=record.control_plane.name if record.control_plane else "the cluster has none",
            remedy="Create it first (create-control-plane).",
        )
    ]
    if network:
        checks.append(
            Check(
                name="network",
                passed=record.network is not None,
                detail=record.network.vpc_id if record.network else "the cluster's network is not known",
                remedy="Create it first (create-control-plane), or detect the cluster anew.",
            )
        )
    return checks


def _blockers(checks: list[Check]) -> list[FieldError]:
    return [
        _error("", f"{check.name}: {check.detail}", check.remedy or "", ProblemCode.NOT_FOUND)
        for check in checks
        if not check.passed
    ]


def _unknown(checks: list[Check], name: str) -> list[FieldError]:
    return _blockers(checks) or [
        _error("/node_group", f"there is no node group {name}", "List the node groups.", ProblemCode.NOT_FOUND)
    ]


def _error(field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> FieldError:
    return FieldError(field=field, detail=detail, remedy=remedy, code=code)
