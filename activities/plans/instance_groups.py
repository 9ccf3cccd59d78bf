"""Plans of instance groups: added, scaled, changed and deleted."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.drain import movable_pods
from activities.errors import problem_of
from activities.hyperpod.cluster import describe
from activities.hyperpod.groups import (
    Specification,
    difference,
    group_of,
    groups_of,
    placement,
    specification,
    unchanged,
)
from activities.hyperpod.observe import LABEL_GROUP
from activities.hyperpod.translator import types_of
from activities.instance_groups.choice import SYSTEM_NAMESPACES, candidates
from activities.instance_groups.groups import KARPENTER_GROUP, LAST_GROUP, changed_members
from activities.instance_groups.look import FAILED_REMEDY, template_for
from activities.instance_groups.references import node_classes_of
from activities.network.compute import ComputeSubnetActivities, group_of_subnet
from activities.network.lookup import subnets_of
from activities.network.vpc import as_subnet
from activities.nodes.sight import labels_of, nodes_of
from activities.options import hyperpod_types
from activities.plans.parts import control_plane_of, group_capacity, hyperpod_of
from activities.plans.world import Planner, World
from contracts.availability import addresses_of, offer_errors, over_plan, plans_to_come, zone_of
from contracts.capacity import InstanceGroupSpec, TrainingPlan, threads_per_core
from contracts.catalogue import (
    ADD_INSTANCE_GROUP,
    DELETE_INSTANCE_GROUP,
    SCALE_INSTANCE_GROUP,
    UPDATE_INSTANCE_GROUP,
)
from contracts.cluster import ClusterRecord
from contracts.hyperpod import PlacedGroup
from contracts.instance_groups import (
    AddGroup,
    DeleteInstanceGroupSpec,
    ScaleInstanceGroupSpec,
    UpdateInstanceGroupSpec,
)
from contracts.network import EnsureComputeSubnet, NetworkSpec, Scope
from contracts.options import Options
from contracts.plans import Action, CapacityChange, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of, some

SHOWN = 10
TRANSITION = "{name} is {status} now; the change waits until it takes one"


def planners(world: World) -> dict[str, Planner]:
    plans = GroupPlans(world)
    return {
        ADD_INSTANCE_GROUP.name: plans.add,
        SCALE_INSTANCE_GROUP.name: plans.scale,
        UPDATE_INSTANCE_GROUP.name: plans.update,
        DELETE_INSTANCE_GROUP.name: plans.delete,
    }


class GroupPlans:
    def __init__(self, world: World) -> None:
        self._world = world
        self._subnets = ComputeSubnetActivities(world.aws, world.settings)

    def add(self, request: MakePlan) -> PlanDraft:
        spec, record = InstanceGroupSpec.model_validate(request.spec), request.record
        draft, found = self._begin(record)
        if found is None:
            return draft
        if record.network is None:
            detail = f"The record of {record.tag} has no network"
            blocker = _error("", detail, "Detect the cluster anew (redetect-cluster).", ProblemCode.NOT_FOUND)
            return _with(draft, blockers=[*draft.blockers, blocker])
        options = self._options(record, spec)
        errors = offer_errors(spec, options, "", set(hyperpod_types(self._world.aws, record.region)))
        current = group_of(found, spec.name)
        held = {}
        if current is not None and current.get("TrainingPlanArn"):
            held = {(spec.name, current["TrainingPlanArn"]): current.get("CurrentCount", 0)}
        errors += _from_group(over_plan([spec], options, "/groups", held))
        if spec.capacity.kind == "spot" and found.get("NodeProvisioningMode") != "Continuous":
            name = found["ClusterName"]
            detail = f"Spot needs Continuous provisioning; {name} was made with Classic"
            errors.append(_error("/capacity", detail, "Ask for on-demand capacity or a training plan."))
        zone = zone_of(spec, options)
        if errors or zone is None:
            return _with(draft, blockers=[*draft.blockers, *errors])
        subnet, faults = self._subnet(record, spec, options, zone)
        warnings = [*draft.warnings, *plans_to_come([spec], options), *_add_warnings(spec)]
        if not faults and current is not None:
            faults = self._in_the_way(record, found, current, spec, options, subnet)
            if not faults and current.get("CurrentCount", 0):
                warnings.append(f"{spec.name} exists and has nodes: only its count is brought to what is asked")
        present = current.get("TargetCount", 0) if current is not None else 0
        own = spec.subnet_placement == "dedicated"
        place = subnet["SubnetId"] if subnet else "a new subnet"
        changes = [
            PlannedChange(
                action=Action.NOTHING if subnet else Action.CREATE,
                kind="dedicated compute subnet" if own else "compute subnet",
                name=subnet["SubnetId"] if subnet else f"in {zone}",
                detail=f"with room for {number_of(addresses_of(spec, options), 'address', 'addresses')}",
            ),
            PlannedChange(
                action=Action.CREATE if current is None else Action.CHANGE if present != spec.count else Action.NOTHING,
                kind="instance group",
                name=spec.name,
                detail=f"{spec.count} × {' or '.join(spec.instance_types)} {spec.capacity.kind} in {zone}, {place}",
                before=None if current is None else {"target": present},
                after={"target": spec.count},
            ),
        ]
        capacity = CapacityChange(
            instance_type=spec.instance_type,
            count=spec.count - present,
            capacity=spec.capacity.kind,
            volume_gib=spec.volume_gib,
            availability_zone=zone,
            subnet_id=subnet["SubnetId"] if subnet else None,
            pointer="/count",
        )
        return _with(
            draft,
            changes=changes,
            capacity=[capacity] if capacity.count else [],
            warnings=warnings,
            blockers=[*draft.blockers, *faults],
            facts={**draft.facts, "group_target": present if current is not None else None},
        )

    def scale(self, request: MakePlan) -> PlanDraft:
        spec, record = ScaleInstanceGroupSpec.model_validate(request.spec), request.record
        draft, found, group = self._group(record, spec.group)
        if found is None or group is None:
            return draft
        target, blockers, warnings = group.get("TargetCount", 0), list(draft.blockers), list(draft.warnings)
        if spec.count < (group.get("MinCount") or 0):
            detail = f"{spec.group} works only with {group['MinCount']} instances (min_count)"
            remedy = "Ask for at least that, or lower min_count first (update-instance-group)."
            blockers.append(_error("/count", detail, remedy))
        if spec.count > target and group.get("TrainingPlanArn"):
            blockers += self._plan_left(record, spec, group)
        change = PlannedChange(
            action=Action.NOTHING if spec.count == target else Action.CHANGE,
            kind="instance group",
            name=spec.group,
            detail=f"{target} → {spec.count} × {' or '.join(types_of(group))}; {group.get('CurrentCount', 0)} there",
            before={"target": target},
            after={"target": spec.count},
        )
        changes = [change]
        with self._world.kubernetes.connect(record.region, _eks(record)) as api:
            if classes := node_classes_of(api, spec.group):
                warnings.append(f"Karpenter scales {spec.group} too (HyperpodNodeClass {', '.join(classes)})")
            if spec.count < target:
                gone, lost = self._losses(record, found, group, api, target - spec.count)
                changes += gone
                warnings += lost
        return _with(
            draft,
            changes=changes,
            capacity=group_capacity(group, spec.count - target, "/count"),
            warnings=warnings,
            blockers=blockers,
        )

    def update(self, request: MakePlan) -> PlanDraft:
        spec, record = UpdateInstanceGroupSpec.model_validate(request.spec), request.record
        draft, found, group = self._group(record, spec.group)
        if found is None or group is None:
            return draft
        blockers, warnings = list(draft.blockers), list(draft.warnings)
        target = group.get("TargetCount", 0)
        if spec.min_count is not None and spec.min_count > target:
            detail = f"min_count {spec.min_count} is more than the target of {spec.group}, {target}"
            blockers.append(_error("/min_count", detail, "Ask for fewer, or scale the group first."))
        same = unchanged(self._world.aws, record.region, group)
        changed = changed_members(same, spec)
        changes = [
            PlannedChange(
                action=Action.CHANGE,
                kind="instance group",
                name=spec.group,
                detail=name,
                before=same.get(name),
                after=new,
            )
            for name, new in changed.items()
        ] or [PlannedChange(action=Action.NOTHING, kind="instance group", name=spec.group, detail="is as asked")]
        if "InstanceStorageConfigs" in changed:
            warnings.append("The volume is that of instances that come later; those that run keep theirs")
        if any(taint.effect == "NoExecute" for taint in spec.taints or []) and "KubernetesConfig" in changed:
            warnings.append("A taint NoExecute ends the pods on the nodes that do not tolerate it")
        return _with(draft, changes=changes, warnings=warnings, blockers=blockers)

    def delete(self, request: MakePlan) -> PlanDraft:
        spec, record = DeleteInstanceGroupSpec.model_validate(request.spec), request.record
        draft, found, group = self._group(record, spec.group)
        if found is None or group is None:
            return draft
        blockers, warnings = list(draft.blockers), list(draft.warnings)
        if len(groups_of(found)) == 1:
            detail, remedy = f"{spec.group} is the last instance group", LAST_GROUP.format(cluster=found["ClusterName"])
            blockers.append(_error("/group", detail, remedy, ProblemCode.CONFLICT))
        current, target = group.get("CurrentCount", 0), group.get("TargetCount", 0)
        with self._world.kubernetes.connect(record.region, _eks(record)) as api:
            if classes := node_classes_of(api, spec.group):
                detail = f"HyperpodNodeClass {', '.join(classes)} names the group {spec.group}"
                blockers.append(_error("/group", detail, KARPENTER_GROUP, ProblemCode.CONFLICT))
            pods = _pods_of_group(api, spec.group)
        if pods:
            how = "evicted" if spec.drain else "ended with them"
            warnings.append(f"{number_of(len(pods), 'pod')} on its nodes {how}: {some(pods, SHOWN)}")
        changes = [
            PlannedChange(
                action=Action.DELETE, kind="instance group", name=spec.group, detail=number_of(current, "instance")
            ),
            *self._kept_subnets(record, spec.group),
        ]
        return _with(
            draft,
            changes=changes,
            capacity=group_capacity(group, -max(current, target), ""),
            warnings=warnings,
            blockers=blockers,
        )

    def _begin(self, record: ClusterRecord) -> tuple[PlanDraft, Specification | None]:
        """What holds for every kind: the cluster is there and takes changes, now or soon."""
        control_plane_of(record)
        name = hyperpod_of(record).name
        found = describe(self._world.aws, record.region, name)
        if found is None:
            detail = f"There is no HyperPod cluster {name} any more"
            remedy = "Make it anew (create-hyperpod)."
            return PlanDraft(blockers=[_error("", detail, remedy, ProblemCode.NOT_FOUND)]), None
        status = found["ClusterStatus"]
        draft = PlanDraft(
            checks=[
                Check(name="HyperPod cluster InService", passed=status == "InService", detail=f"{name} is {status}")
            ],
            facts={"hyperpod_cluster": name, "cluster_status": status},
        )
        if status in ("Failed", "Deleting"):
            detail = f"HyperPod cluster {name} is {status}: {found.get('FailureMessage') or 'no reason given'}"
            blocker = _error("", detail, FAILED_REMEDY, ProblemCode.NOT_READY)
            return _with(draft, blockers=[blocker]), None
        if status != "InService":
            draft = _with(draft, warnings=[TRANSITION.format(name=name, status=status)])
        return draft, found

    def _group(self, record: ClusterRecord, name: str) -> tuple[PlanDraft, Specification | None, Specification | None]:
        draft, found = self._begin(record)
        if found is None:
            return draft, None, None
        group = group_of(found, name)
        if group is None:
            names = ", ".join(each["InstanceGroupName"] for each in groups_of(found)) or "none"
            detail = f"{found['ClusterName']} has no instance group {name}; it has {names}"
            blocker = _error("/group", detail, "Name one of these.", ProblemCode.NOT_FOUND)
            return _with(draft, blockers=[blocker]), None, None
        facts = {**draft.facts, "group_target": group.get("TargetCount", 0)}
        if group.get("Status") == "Deleting":
            blocker = _error("/group", f"{name} is being deleted", "Wait until it is gone.", ProblemCode.CONFLICT)
            return _with(draft, blockers=[blocker], facts=facts), None, None
        return _with(draft, facts=facts), found, group

    def _options(self, record: ClusterRecord, spec: InstanceGroupSpec) -> Options:
        """What is offered; read anew where the plan that is named is not among what was kept from a moment ago."""
        types = sorted(spec.instance_types)
        options = self._world.lookup.options(record.region, types)
        if isinstance(spec.capacity, TrainingPlan) and options.training_plan(spec.capacity.training_plan) is None:
            self._world.lookup.forget()
            options = self._world.lookup.options(record.region, types)
        return options

    def _subnet(
        self, record: ClusterRecord, spec: InstanceGroupSpec, options: Options, zone: str
    ) -> tuple[Any | None, list[FieldError]]:
        """The subnet that the group would get; None where one would be made, or none can be had."""
        network = record.network
        if network is None or record.hyperpod is None:
            return None, []
        wanted = EnsureComputeSubnet(
            scope=_scope(record),
            vpc_id=network.vpc_id,
            zone=zone,
            prefix=NetworkSpec().compute_subnet_prefix,
            addresses=addresses_of(spec, options),
            nat_gateways=network.nat_gateways,
            subnet_id=spec.subnet_id,
            group=spec.name,
            hyperpod_cluster=record.hyperpod.name,
            dedicated=spec.subnet_placement == "dedicated",
        )
        try:
            return self._subnets.would_use(wanted), []
        except ApplicationError as error:
            found = problem_of(error)
            if found is None:
                raise
            # What a cluster's spec calls by its network is the group's count here.
            field = found.field if found.field in ("/subnet_id", "/subnet_placement") else "/count"
            return None, [_error(field or "/count", found.detail, found.remedy or "", found.code)]

    def _in_the_way(
        self,
        record: ClusterRecord,
        found: Specification,
        current: Specification,
        spec: InstanceGroupSpec,
        options: Options,
        subnet: Any | None,
    ) -> list[FieldError]:
        """Why a group of the name keeps a new one from being made. One that is alike is brought to the asked count."""
        if current.get("Status") == "Deleting" or not current.get("CurrentCount", 0):
            return []
        if subnet is None:
            shown = "it is in another subnet"
        else:
            plan = spec.capacity.training_plan if isinstance(spec.capacity, TrainingPlan) else None
            option = options.training_plan(plan) if plan else None
            placed = PlacedGroup(
                spec=spec,
                subnet=as_subnet(subnet, changed=False),
                threads_per_core=spec.threads_per_core or threads_per_core(spec.instance_type),
                training_plan_arn=option.arn if option else None,
            )
            request = AddGroup(scope=_scope(record), hyperpod_cluster=found["ClusterName"], group=placed)
            shown = difference(placement(specification(template_for(request, found), placed)), placement(current))
        if not shown:
            return []
        detail = (
            f"Instance group {spec.name} exists, has {number_of(current['CurrentCount'], 'node')}, and differs: {shown}"
        )
        return [_error("/name", detail, "Ask for what exists, or choose another name.", ProblemCode.CONFLICT)]

    def _plan_left(self, record: ClusterRecord, spec: ScaleInstanceGroupSpec, group: Specification) -> list[FieldError]:
        options = self._world.lookup.options(record.region, types_of(group))
        plan = options.training_plan(group["TrainingPlanArn"])
        more = spec.count - group.get("CurrentCount", 0)
        if plan is None or more <= plan.available:
            return []
        detail = f"Training plan {plan.name} has {plan.available} of {plan.total} instances left; {more} more are asked"
        return [_error("/count", detail, "Ask for fewer.", ProblemCode.CAPACITY)]

    def _losses(
        self, record: ClusterRecord, found: Specification, group: Specification, api: client.ApiClient, count: int
    ) -> tuple[list[PlannedChange], list[str]]:
        """The nodes that go, and whom that hits."""
        if found.get("NodeProvisioningMode") != "Continuous":
            return [], [f"HyperPod itself chooses {number_of(count, 'node')} to go; their pods end with them"]
        name = group["InstanceGroupName"]
        chosen = candidates(self._world.aws, record.region, found["ClusterName"], name, api)[:count]
        changes = [
            PlannedChange(action=Action.DELETE, kind="node", name=each.identifier, detail=_said(each.user_pods))
            for each in chosen
        ]
        busy = {f"hyperpod-{each.identifier}" for each in chosen if each.user_pods}
        pods = [pod for node in sorted(busy) for pod in _user_pods(api).get(node, [])]
        warnings = (
            [f"{number_of(len(pods), 'pod')} ended with {number_of(count, 'node')}: {some(pods, SHOWN)}"]
            if pods
            else []
        )
        return changes, warnings

    def _kept_subnets(self, record: ClusterRecord, group: str) -> list[PlannedChange]:
        if record.network is None:
            return []
        subnets = subnets_of(self._world.aws.read.ec2(record.region), record.network.vpc_id)
        return [
            PlannedChange(
                action=Action.KEEP,
                kind="dedicated compute subnet",
                name=subnet["SubnetId"],
                detail="for a later group of the same name",
            )
            for subnet in subnets
            if group_of_subnet(subnet, record.tag) == group
        ]


def _add_warnings(spec: InstanceGroupSpec) -> list[str]:
    warnings = []
    if spec.capacity.kind == "spot":
        warnings.append("Spot instances may be taken back with two minutes' notice")
    if spec.deep_health_checks:
        warnings.append("Deep health checks run on every new node first: an hour or more, and no update of the cluster")
    if spec.min_count:
        warnings.append(
            f"Without {number_of(spec.min_count, 'instance')} within three hours HyperPod takes the group back to none"
        )
    return warnings


def _user_pods(api: client.ApiClient) -> dict[str, list[str]]:
    """``namespace/name`` of the pods of users, by node."""
    found = defaultdict(list)
    for pod in movable_pods(api):
        if pod.metadata.namespace not in SYSTEM_NAMESPACES:
            found[pod.spec.node_name].append(f"{pod.metadata.namespace}/{pod.metadata.name}")
    return found


def _pods_of_group(api: client.ApiClient, group: str) -> list[str]:
    nodes = [node["metadata"]["name"] for node in nodes_of(api) if labels_of(node).get(LABEL_GROUP) == group]
    pods = _user_pods(api) if nodes else {}
    return [pod for node in nodes for pod in pods.get(node, [])]


def _said(pods: int) -> str:
    return f"{number_of(pods, 'pod')} of users" if pods else "idle"


def _eks(record: ClusterRecord) -> str:
    return record.control_plane.name if record.control_plane else ""


def _scope(record: ClusterRecord) -> Scope:
    """A plan makes nothing, so nobody is named as its maker."""
    return Scope(cluster=record.tag, region=record.region, created_by="", request_id="")


def _from_group(errors: list[FieldError]) -> list[FieldError]:
    return [error.model_copy(update={"field": error.field.removeprefix("/groups/0")}) for error in errors]


def _error(field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> FieldError:
    return FieldError(field=field, detail=detail, remedy=remedy, code=code)


def _with(draft: PlanDraft, **changes: Any) -> PlanDraft:
    return draft.model_copy(update=changes)
