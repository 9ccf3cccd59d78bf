"""Plans of node pools.

The rules come from the SageMaker Developer Guide (HyperPod on EKS, autoscaling: prerequisites, NodeClass, NodePool).
"""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities.drain import movable_pods
from activities.hyperpod.groups import Specification
from activities.hyperpod.observe import LABEL_GROUP
from activities.node_groups.observe import list_nodes
from activities.node_pools import groups, objects
from activities.node_pools.groups import PoolGroups
from activities.node_pools.objects import LABEL_POOL, NODE_CLASS, NODE_POOL, Object
from activities.node_pools.pools import kept
from activities.plans.node_groups import evicted
from activities.plans.world import Planner, World
from contracts.catalogue import CREATE_NODE_POOL, DELETE_NODE_POOL
from contracts.cluster import ClusterRecord
from contracts.node_pools import DeleteNodePoolSpec, NodePoolSpec
from contracts.plans import Action, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def planners(world: World) -> dict[str, Planner]:
    return {
        CREATE_NODE_POOL.name: lambda request: _create(world, request),
        DELETE_NODE_POOL.name: lambda request: _delete(world, request),
    }


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, NodePoolSpec.model_validate(request.spec)
    if record.control_plane is None or record.hyperpod is None:
        return PlanDraft(blockers=[_error("", "the cluster has no HyperPod nodes", "Create them first.", absent=True)])
    found = groups.look(world.aws, world.lookup, record.region, record.hyperpod.name, spec.instance_groups)
    if found is None:
        detail = f"there is no HyperPod cluster {record.hyperpod.name}"
        return PlanDraft(blockers=[_error("", detail, "Create it first (create-hyperpod).", absent=True)])
    checks = prerequisites(found.cluster)
    blockers = [_error("", check.detail or check.name, check.remedy or "") for check in checks if not check.passed]
    with world.kubernetes.connect(record.region, record.control_plane.name) as api:
        classes = {each["metadata"]["name"]: each for each in objects.list_all(api, NODE_CLASS)}
        pool = objects.get(api, NODE_POOL, spec.name)
        warnings, running = _running(api, spec, found, classes)
    blockers += _foreign_names(record, spec, pool, classes)
    blockers += _unfit_groups(spec, found)
    blockers += _taken_groups(spec, classes)
    blockers += _several_zones(world, record, spec, found)
    blockers += _small_limit(spec, found)
    if not spec.accept_scale_down:
        blockers += running
    limits = groups.limits(found, spec)
    if not limits:
        warnings.append("Service Quotas does not tell how many instances the account may have: the pool has no limit")
    idle = f"{spec.consolidation} after {spec.consolidate_after}"
    detail = f"{', '.join(spec.instance_groups)}; at most {_say(limits)}; {idle}"
    action = Action.CREATE if pool is None else Action.CHANGE
    before = objects.groups_of(classes.get(spec.name))
    changes = [
        PlannedChange(
            action=Action.CREATE if spec.name not in classes else Action.CHANGE,
            kind="HyperpodNodeClass",
            name=spec.name,
            detail=", ".join(spec.instance_groups),
            before=before or None,
            after=list(spec.instance_groups) if before else None,
        ),
        PlannedChange(action=action, kind="NodePool", name=spec.name, detail=detail),
    ]
    added = [name for name in found.groups if name not in before]
    facts: dict[str, Any] = {"targets": {name: found.groups[name].get("TargetCount", 0) for name in added}}
    return PlanDraft(changes=changes, checks=checks, warnings=warnings, blockers=blockers, facts=facts)


def _delete(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, DeleteNodePoolSpec.model_validate(request.spec)
    if record.control_plane is None:
        return PlanDraft(blockers=[_error("", "the cluster has no control plane", "There is nothing to delete.")])
    with world.kubernetes.connect(record.region, record.control_plane.name) as api:
        pool = objects.get(api, NODE_POOL, spec.node_pool)
        if pool is None:
            return _leftover(api, record, spec.node_pool)
        nodes = [node.metadata.name for node in list_nodes(api, f"{LABEL_POOL}={spec.node_pool}")]
        warnings = [*evicted(api, nodes), *_held(api, nodes)]
        node_class = objects.get(api, NODE_CLASS, objects.class_of(pool) or "")
        changes = [
            PlannedChange(
                action=Action.DELETE,
                kind="NodePool",
                name=spec.node_pool,
                detail=f"with {number_of(len(nodes), 'node')}",
            )
        ]
        if node_class is not None:
            why = _kept(api, node_class, pool, record)
            changes.append(
                PlannedChange(
                    action=Action.KEEP if why else Action.DELETE,
                    kind="HyperpodNodeClass",
                    name=node_class["metadata"]["name"],
                    detail=why,
                )
            )
    if not objects.is_ours(pool, record.tag):
        warnings.insert(0, f"node pool {spec.node_pool} was made by others, not by InstantStart")
    return PlanDraft(changes=changes, warnings=warnings, facts={"nodes": len(nodes)})


def _held(api: client.ApiClient, nodes: list[str]) -> list[str]:
    """Pods that must not be disrupted: they keep their nodes, and the pool's deletion waits for their end.

    (Karpenter: disruption, pod-level controls)
    """
    held = [
        f"{pod.metadata.namespace}/{pod.metadata.name}"
        for pod in movable_pods(api)
        if pod.spec.node_name in nodes and (pod.metadata.annotations or {}).get(DO_NOT_DISRUPT) == "true"
    ]
    return [f"these must not be disrupted, and keep their nodes until they end: {', '.join(held)}"] if held else []


def _leftover(api: client.ApiClient, record: ClusterRecord, name: str) -> PlanDraft:
    """Of a pool that is not there: the class that an earlier deletion has left, if there is one."""
    node_class = objects.get(api, NODE_CLASS, name)
    if node_class is None or kept(api, node_class, record.tag) is not None:
        detail = f"there is no node pool {name}"
        return PlanDraft(blockers=[_error("/node_pool", detail, "List the node pools.", absent=True)])
    return PlanDraft(
        changes=[
            PlannedChange(action=Action.NOTHING, kind="NodePool", name=name, detail="it is gone already"),
            PlannedChange(action=Action.DELETE, kind="HyperpodNodeClass", name=name),
        ]
    )


def prerequisites(cluster: Specification) -> list[Check]:
    """What managed Karpenter needs of the HyperPod cluster."""
    scaling = cluster.get("AutoScaling") or {}
    mode, status = scaling.get("Mode"), scaling.get("Status")
    working = mode == "Enable" and status == "InService"
    shown = f"{status}: {scaling['FailureMessage']}" if scaling.get("FailureMessage") else status
    return [
        Check(
            name="provisioning",
            passed=cluster.get("NodeProvisioningMode") == "Continuous",
            detail=f"the cluster's provisioning is {cluster.get('NodeProvisioningMode') or 'Classic'}",
            remedy="Autoscaling needs Continuous provisioning.",
        ),
        Check(
            name="node recovery",
            passed=cluster.get("NodeRecovery") == "Automatic",
            detail=f"the cluster's node recovery is {cluster.get('NodeRecovery') or 'None'}",
            remedy="Set node recovery to Automatic.",
        ),
        Check(
            name="autoscaling",
            passed=working,
            detail=f"autoscaling is {shown if mode == 'Enable' else 'off'}",
            remedy="Switch the feature autoscaling on, and wait until it is in service.",
        ),
    ]


def _foreign_names(
    record: ClusterRecord, spec: NodePoolSpec, pool: Object | None, classes: dict[str, Object]
) -> list[FieldError]:
    """Others' objects of the name. A pool of ours is changed to what is asked now."""
    return [
        FieldError(
            field="/name",
            detail=f"a {kind} {spec.name} exists that InstantStart has not made",
            remedy="Choose another name, or delete that one.",
            code=ProblemCode.FOREIGN,
        )
        for kind, there in (("NodePool", pool), ("HyperpodNodeClass", classes.get(spec.name)))
        if there is not None and not objects.is_ours(there, record.tag)
    ]


def _unfit_groups(spec: NodePoolSpec, found: PoolGroups) -> list[FieldError]:
    """Groups that are not there, or that Karpenter cannot scale."""
    errors = []
    for position, name in enumerate(spec.instance_groups):
        at, group = f"/instance_groups/{position}", found.groups.get(name)
        if group is None:
            errors.append(_error(at, f"there is no instance group {name}", "Add it first, with 0 nodes.", absent=True))
        elif group.get("TrainingPlanArn"):
            errors.append(_error(at, f"{name} is of a training plan, which Karpenter cannot scale", "Leave it out."))
        elif group.get("OnStartDeepHealthChecks"):
            detail = f"{name} has deep health checks, which keep pods waiting for more than an hour"
            errors.append(_error(at, detail, "Take them off the group (update-instance-group), or leave it out."))
        elif group.get("Status") == "Deleting":
            errors.append(_error(at, f"{name} is being deleted", "Leave it out."))
    return errors


def _taken_groups(spec: NodePoolSpec, classes: dict[str, Object]) -> list[FieldError]:
    takers = {group: name for name, each in classes.items() if name != spec.name for group in objects.groups_of(each)}
    return [
        _error(
            f"/instance_groups/{position}",
            f"{name} belongs to HyperpodNodeClass {takers[name]} already",
            "Leave it out, or delete the node pool that scales it.",
            code=ProblemCode.CONFLICT,
        )
        for position, name in enumerate(spec.instance_groups)
        if name in takers
    ]


def _several_zones(world: World, record: ClusterRecord, spec: NodePoolSpec, found: PoolGroups) -> list[FieldError]:
    """EFA does not cross zones, and a group's own subnets must be of one zone."""
    subnets = {name: _subnets(found.cluster, group) for name, group in found.groups.items()}
    every = sorted({subnet for each in subnets.values() for subnet in each})
    if not every:
        return []
    described = world.aws.read.ec2(record.region).describe_subnets(Filters=[{"Name": "subnet-id", "Values": every}])[
        "Subnets"
    ]
    zone_of = {subnet["SubnetId"]: subnet["AvailabilityZone"] for subnet in described}
    zones = {name: sorted({zone_of[each] for each in ids if each in zone_of}) for name, ids in subnets.items()}
    errors = []
    efa: dict[str, str] = {}
    for position, name in enumerate(spec.instance_groups):
        at, group = f"/instance_groups/{position}", found.groups.get(name)
        if group is None:
            continue
        if len(zones[name]) > 1:
            detail = f"{name} has subnets in {' and '.join(zones[name])}; Karpenter needs one zone for each group"
            errors.append(_error(at, detail, "Leave it out; a group's subnets cannot be changed."))
        elif zones[name] and _has_efa(group, found):
            efa[name] = zones[name][0]
    if len(set(efa.values())) > 1:
        shown = ", ".join(f"{name} in {zone}" for name, zone in efa.items())
        detail = f"types with EFA are in several zones ({shown}), and EFA does not cross zones"
        errors.append(_error("/instance_groups", detail, "Make a node pool for each zone."))
    return errors


def _small_limit(spec: NodePoolSpec, found: PoolGroups) -> list[FieldError]:
    """Limits that no node fits into."""
    sizes = groups.node_size(found)
    accelerators = {name: size for name, size in sizes.items() if name != "cpu"}
    if spec.gpu_limit is not None and not accelerators and found.facts:
        return [_error("/gpu_limit", "the groups' types have no accelerators", "Leave gpu_limit out.")]
    too_small = [
        f"{name}: {limit} (a node has {sizes[name]})"
        for name, limit in groups.limits(found, spec).items()
        if int(limit) < sizes.get(name, 0)
    ]
    if not too_small:
        return []
    if spec.gpu_limit is not None:
        detail = f"the limit has no room for one node: {'; '.join(too_small)}"
        return [_error("/gpu_limit", detail, f"Give at least {min(accelerators.values())}.")]
    return [
        _error(
            "/instance_groups",
            f"the account's quota has no room for one node: {'; '.join(too_small)}",
            "Ask Service Quotas (SageMaker) for more of 'ml.… for cluster usage', or choose other groups.",
            code=ProblemCode.QUOTA,
        )
    ]


def _running(
    api: client.ApiClient, spec: NodePoolSpec, found: PoolGroups, classes: dict[str, Object]
) -> tuple[list[str], list[FieldError]]:
    """Instances that run now in groups that are new to the pool, and what runs on them: Karpenter ends what it has not
    made. (Create a NodeClass: you must start with 0 nodes)"""
    known = objects.groups_of(classes.get(spec.name))
    warnings, errors = [], []
    for position, name in enumerate(spec.instance_groups):
        group = found.groups.get(name)
        if group is None or name in known:
            continue
        count = max(group.get("CurrentCount", 0), group.get("TargetCount", 0))
        if count:
            has = number_of(count, "instance")
            detail = f"{name} has {has} now; Karpenter scales it down to 0, and up again as pods need"
            nodes = [node.metadata.name for node in list_nodes(api, f"{LABEL_GROUP}={name}")]
            warnings += [detail, *evicted(api, nodes)]
            errors.append(
                _error(
                    f"/instance_groups/{position}",
                    detail,
                    "Send accept_scale_down true if that is wanted, or scale the group to 0 first.",
                    code=ProblemCode.CONFLICT,
                )
            )
    return (warnings if spec.accept_scale_down else []), errors


def _kept(api: client.ApiClient, node_class: Object, pool: Object, record: ClusterRecord) -> str | None:
    """Why the class stays when the pool goes."""
    name = pool["metadata"]["name"]
    why = kept(api, node_class, record.tag)
    return None if why == f"node pool {name} uses it" else why


def _subnets(cluster: Specification, group: Specification) -> list[str]:
    own = (group.get("OverrideVpcConfig") or {}).get("Subnets")
    return list(own or (cluster.get("VpcConfig") or {}).get("Subnets", []))


def _has_efa(group: Specification, found: PoolGroups) -> bool:
    facts = [found.facts.get(name.removeprefix("ml.")) for name in groups.types_of(group)]
    return any(fact is not None and fact.efa_interfaces for fact in facts)


def _say(limits: dict[str, str]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in limits.items()) or "what the account may have"


def _error(
    field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID, *, absent: bool = False
) -> FieldError:
    return FieldError(field=field, detail=detail, remedy=remedy, code=ProblemCode.NOT_FOUND if absent else code)
