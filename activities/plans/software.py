"""The plan of a software update: which groups it would change, in which order, and what lives there."""

from __future__ import annotations

from activities.instance_groups.look import FAILED_REMEDY
from activities.nodes.pods import as_pod, is_daemon, live_pods, node_of
from activities.nodes.sight import by_instance, members, nodes_of, required
from activities.plans.nodes import weight
from activities.plans.parts import control_plane_of, hyperpod_of
from activities.plans.world import Planner, World
from activities.software import GOING, asked_groups, needed, software_of
from contracts.catalogue import UPDATE_SOFTWARE
from contracts.eks import ControlPlane
from contracts.node_views import PodOnNode
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.software import GroupSoftware, RollingUpdate, UpdateSoftwareSpec
from contracts.words import number_of, some

SHOWN = 6


def planners(world: World) -> dict[str, Planner]:
    return {UPDATE_SOFTWARE.name: lambda request: _plan(world, request)}


def _plan(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, UpdateSoftwareSpec.model_validate(request.spec)
    plane, hyperpod = control_plane_of(record), hyperpod_of(record)
    found = required(world.aws, record.region, hyperpod.name)
    listed = members(world.aws, record.region, found)
    groups = software_of(found, listed)
    chosen = asked_groups(spec, groups)
    todo = [each for each in groups if each.group in chosen and needed(spec, each)]
    where = {
        each["InstanceId"]: each["InstanceGroupName"]
        for each in listed
        if each.get("InstanceId") and each.get("InstanceGroupName") in {group.group for group in todo}
    }
    living = _living(world, record.region, plane, where)
    return PlanDraft(
        changes=[
            _change(spec, each, each in todo, living.get(each.group, [])) for each in groups if each.group in chosen
        ],
        checks=[
            Check(
                name="HyperPod cluster InService",
                passed=found["ClusterStatus"] == "InService",
                detail=f"{hyperpod.name} is {found['ClusterStatus']}",
            )
        ],
        warnings=_warnings(spec, todo, living),
        blockers=_blockers(spec, found["ClusterName"], found["ClusterStatus"], groups, todo),
        facts={
            "cluster_status": found["ClusterStatus"],
            "groups": {each.group: [each.current_image, each.current_version, each.nodes] for each in todo},
        },
    )


def _living(world: World, region: str, plane: ControlPlane, where: dict[str, str]) -> dict[str, list[PodOnNode]]:
    """Pods of each group, those of daemons left out. ``where``: the group of each instance."""
    if not where:
        return {}
    living: dict[str, list[PodOnNode]] = {}
    with world.kubernetes.connect(region, plane.name) as api:
        nodes = by_instance(nodes_of(api))
        names = {node["metadata"]["name"]: where[instance] for instance, node in nodes.items() if instance in where}
        for pod in live_pods(api, list(names)):
            if not is_daemon(pod):
                living.setdefault(names[node_of(pod) or ""], []).append(as_pod(pod))
    return living


def _change(spec: UpdateSoftwareSpec, group: GroupSoftware, needs: bool, pods: list[PodOnNode]) -> PlannedChange:
    current = group.current_image if group.custom else group.current_version
    if not needs:
        return PlannedChange(
            action=Action.NOTHING, kind="instance group", name=group.group, detail=f"is on {current} already"
        )
    wanted = _wanted(spec)
    shown = [f"{pod.namespace}/{pod.name} ({pod.owner_kind} {pod.owner})" for pod in sorted(pods, key=weight)]
    fate = f"{number_of(len(shown), 'pod')} ended: {some(shown, SHOWN)}" if shown else "no pods but daemons"
    return PlannedChange(
        action=Action.CHANGE,
        kind="instance group",
        name=group.group,
        detail=f"{number_of(group.nodes, 'node')} {_pace(spec.rolling)}, their root volumes are made anew; {fate}",
        before=current,
        after=wanted,
    )


def _wanted(spec: UpdateSoftwareSpec) -> str:
    if spec.image_id and spec.image_id != "default":
        return spec.image_id
    return spec.release_version or "the newest release"


def _pace(rolling: RollingUpdate | None) -> str:
    if rolling is None:
        return "all at once"
    size = rolling.maximum_batch
    unit = " %" if size.type == "CAPACITY_PERCENTAGE" else ""
    return f"{size.value}{unit} at a time, {rolling.wait_seconds} s apart"


def _warnings(spec: UpdateSoftwareSpec, todo: list[GroupSoftware], living: dict[str, list[PodOnNode]]) -> list[str]:
    if not todo:
        return ["Every group is on the asked software already: nothing is done"]
    found = [
        "Root volumes are made anew: what is on them is lost. The update's pace does not look at pods or disruption "
        "budgets"
    ]
    if spec.rolling is None and any(living.values()):
        groups = ", ".join(sorted(group for group, pods in living.items() if pods))
        found.append(f"All nodes of {groups} go at once; rolling.maximum_batch keeps some of them working")
    if spec.rolling is None:
        return found
    if not spec.rolling.rollback_alarms:
        found.append("Without rollback_alarms only nodes that do not start take the update back")
    return found


def _blockers(
    spec: UpdateSoftwareSpec, name: str, status: str, groups: list[GroupSoftware], todo: list[GroupSoftware]
) -> list[FieldError]:
    known = [each.group for each in groups]
    found = [
        FieldError(
            field=f"/groups/{position}",
            detail=f"HyperPod cluster {name} has no instance group {group}",
            remedy=f"It has {', '.join(known) or 'none'}.",
            code=ProblemCode.NOT_FOUND,
        )
        for position, group in enumerate(spec.groups)
        if group not in known
    ]
    custom = [each.group for each in groups if each.custom and (not spec.groups or each.group in spec.groups)]
    if custom and spec.image_id is None:
        found.append(
            FieldError(
                field="/image_id",
                detail=f"{', '.join(custom)} use an AMI of the account's own: say which image they get",
                remedy="Give image_id (ami-… or default), or name other groups.",
            )
        )
    if status == "Failed":
        found.append(
            FieldError(
                field="",
                detail=f"HyperPod cluster {name} is Failed and cannot be updated any more",
                remedy=f"Save what is on its nodes. {FAILED_REMEDY}",
                code=ProblemCode.NOT_READY,
            )
        )
    elif status != "InService" and todo:
        going = [f"{each.group} {each.update_status}" for each in groups if each.update_status in GOING]
        found.append(
            FieldError(
                field="",
                detail=f"HyperPod cluster {name} is {status}" + (f" ({', '.join(going)})" if going else ""),
                remedy="Wait for what goes on in the cluster, then ask again.",
                code=ProblemCode.BUSY,
            )
        )
    return found
