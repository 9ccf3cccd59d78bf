"""Plans of reboots, replacements and deletions of nodes: who works there now, and what is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from activities.hyperpod.groups import capacity_of, groups_of
from activities.instance_groups.look import FAILED_REMEDY
from activities.instance_types import describe_types
from activities.nodes.back import lacking
from activities.nodes.pods import TRAINING, as_pod, is_daemon, live_pods, node_of
from activities.nodes.sight import (
    Raw,
    Sight,
    by_instance,
    find_member,
    is_ready,
    labels_of,
    members,
    message_of,
    nodes_of,
    required,
    status_of,
)
from activities.nodes.view import LABEL_NODE_GROUP, LABEL_NODE_POOL
from activities.plans.parts import control_plane_of, hyperpod_of
from activities.plans.world import Planner, World
from contracts.catalogue import DELETE_NODES, REBOOT_NODES, REPLACE_NODES
from contracts.node_views import PodOnNode
from contracts.nodes import DELETE_BATCH, NodesSpec
from contracts.plans import Action, CapacityChange, Check, MakePlan, PlanDraft, PlannedChange
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of, some

SHOWN_PODS = 6
GOING_STATUSES = ("SystemUpdating", "ShuttingDown", "DetachInProgress", "AttachInProgress")


def planners(world: World) -> dict[str, Planner]:
    def planner(verb: str) -> Planner:
        return lambda request: NodePlan(world, request, verb).draft()

    return {
        REBOOT_NODES.name: planner("reboot"),
        REPLACE_NODES.name: planner("replace"),
        DELETE_NODES.name: planner("delete"),
    }


@dataclass
class Chosen:
    """A node that was asked for, with everything that lives on it."""

    asked: str
    position: int
    member: Raw
    node: Raw | None
    pods: list[PodOnNode] = field(default_factory=list)

    @property
    def name(self) -> str:
        if self.node is not None:
            return str(self.node["metadata"]["name"])
        return str(self.member.get("InstanceId") or self.member.get("NodeLogicalId"))

    @property
    def group(self) -> str:
        return str(self.member.get("InstanceGroupName") or "")

    @property
    def node_pool(self) -> str | None:
        return labels_of(self.node).get(LABEL_NODE_POOL) if self.node is not None else None


class NodePlan:
    def __init__(self, world: World, request: MakePlan, verb: str) -> None:
        self._world, self._request, self._verb = world, request, verb
        self._spec = NodesSpec.model_validate(request.spec)
        self._blockers: list[FieldError] = []
        self._warnings: list[str] = []

    def draft(self) -> PlanDraft:
        """Changes in order, with the pods of each node; blockers where the API or good sense would refuse."""
        record = self._request.record
        plane, hyperpod = control_plane_of(record), hyperpod_of(record)
        region, aws = record.region, self._world.aws
        found = required(aws, region, hyperpod.name)
        with self._world.kubernetes.connect(region, plane.name) as api:
            everywhere = nodes_of(api)
            sight = Sight(found, members(aws, region, found), by_instance(everywhere))
            chosen = self._choose(sight, everywhere)
            names = [each.name for each in chosen if each.node is not None]
            living: dict[str, list[PodOnNode]] = {}
            for pod in live_pods(api, names):
                if not is_daemon(pod):
                    living.setdefault(node_of(pod) or "", []).append(as_pod(pod))
        for each in chosen:
            each.pods = living.get(each.name, [])
        checks = self._check_cluster(sight)
        self._check_nodes(chosen)
        targets = {group["InstanceGroupName"]: group.get("TargetCount", 0) for group in groups_of(found)}
        touched = Counter(each.group for each in chosen)
        changes = [self._change(each) for each in chosen]
        capacity: list[CapacityChange] = []
        if self._verb == "delete":
            self._check_minimums(sight, chosen, touched)
            changes += [_smaller(name, targets.get(name, 0), number) for name, number in sorted(touched.items())]
            capacity = _given_back(sight, chosen)
        self._warn(sight, chosen)
        facts: dict[str, Any] = {
            "cluster_status": found["ClusterStatus"],
            "targets": {name: targets.get(name, 0) for name in sorted(touched)},
            "instances": {each.asked: each.member.get("InstanceId") for each in chosen},
        }
        return PlanDraft(
            changes=changes,
            capacity=capacity,
            checks=checks,
            warnings=self._warnings,
            blockers=self._blockers,
            facts=facts,
        )

    def _choose(self, sight: Sight, everywhere: list[Raw]) -> list[Chosen]:
        found: dict[int, Chosen] = {}
        for position, asked in enumerate(self._spec.nodes):
            member = find_member(sight, asked)
            if member is None:
                self._unknown(position, asked, everywhere)
            elif id(member) in found:
                self._warnings.append(f"{asked} and {found[id(member)].asked} are the same node")
            else:
                found[id(member)] = Chosen(asked, position, member, sight.node(member))
        return list(found.values())

    def _unknown(self, position: int, asked: str, everywhere: list[Raw]) -> None:
        node = next((each for each in everywhere if asked == each["metadata"]["name"]), None)
        labels = labels_of(node) if node is not None else {}
        detail, remedy = f"HyperPod has no node {asked} here", "GET …/nodes lists the nodes that there are."
        if group := labels.get(LABEL_NODE_GROUP):
            detail = f"{asked} is a node of the EKS node group {group}, not of HyperPod"
            remedy = "Scale or delete the node group; EC2 replaces its nodes."
        elif pool := labels.get(LABEL_NODE_POOL):
            detail = f"{asked} is a node of Karpenter's node pool {pool}, not of HyperPod"
            remedy = "Delete its NodeClaim: Karpenter ends it, and starts another where pods need one."
        self._block(f"/nodes/{position}", detail, remedy, ProblemCode.NOT_FOUND)

    def _check_cluster(self, sight: Sight) -> list[Check]:
        """What the API asks of the cluster. A Failed one can only be deleted."""
        name, status = sight.cluster["ClusterName"], sight.cluster["ClusterStatus"]
        if status in ("Failed", "Deleting"):
            self._block(
                "",
                f"HyperPod cluster {name} is {status}: nothing can be done to its nodes any more",
                f"Save what is on its nodes. {FAILED_REMEDY}",
                ProblemCode.NOT_READY,
            )
        elif status != "InService" and self._verb == "replace":
            self._block(
                "",
                f"HyperPod cluster {name} is {status}; nodes are replaced only while it is InService",
                "Wait for what goes on in the cluster, then ask again.",
                ProblemCode.BUSY,
            )
        elif status != "InService":
            self._warnings.append(f"HyperPod cluster {name} is {status}: the request waits until it is InService")
        passed = status == "InService"
        return [Check(name="HyperPod cluster InService", passed=passed, detail=f"{name} is {status}")]

    def _check_nodes(self, chosen: list[Chosen]) -> None:
        for each in chosen:
            where = f"/nodes/{each.position}"
            if self._verb == "reboot" and not each.member.get("InstanceId"):
                self._block(where, f"{each.asked} has no instance yet", "Nothing runs there that could be rebooted.")
            if self._verb == "delete" and each.node_pool:
                self._block(
                    where,
                    f"{each.name} belongs to node pool {each.node_pool}: Karpenter would start another for its pods",
                    "Lower the node pool's limit, or delete the node pool; Karpenter ends idle nodes by itself.",
                )
            elif self._verb == "replace" and each.node_pool:
                self._warnings.append(
                    f"{each.name} belongs to node pool {each.node_pool}: Karpenter may end the new node if it is idle"
                )

    def _check_minimums(self, sight: Sight, chosen: list[Chosen], touched: Counter[str]) -> None:
        for group in groups_of(sight.cluster):
            number = touched[group["InstanceGroupName"]]
            minimum, target = group.get("MinCount") or 0, group.get("TargetCount", 0)
            if number and target - number < minimum:
                first = next(each.position for each in chosen if each.group == group["InstanceGroupName"])
                self._block(
                    f"/nodes/{first}",
                    f"Instance group {group['InstanceGroupName']} would have {target - number} nodes, and must have "
                    f"{minimum} (min_count)",
                    "Delete fewer nodes, or lower the group's min_count first (update-instance-group).",
                )
        if sum(touched.values()) > DELETE_BATCH:
            self._warnings.append(
                f"More than {DELETE_BATCH} nodes: they go in batches; AWS asks to contact Support for so many"
            )

    def _change(self, each: Chosen) -> PlannedChange:
        instance = each.member.get("InstanceId")
        after = {"reboot": instance, "replace": "another instance", "delete": None}[self._verb]
        return PlannedChange(
            action=Action.DELETE if self._verb == "delete" else Action.CHANGE,
            kind="node",
            name=each.name,
            detail=f"{self._effect(each)}; {self._fate(each)}",
            before=instance,
            after=after,
        )

    def _effect(self, each: Chosen) -> str:
        """What becomes of the machine."""
        status, message = status_of(each.member), message_of(each.member)
        now = f"{each.group}, {status}" + (f": {message}" if message else "")
        match self._verb:
            case "reboot":
                return f"{now}; rebooted, its instance, name and volumes stay"
            case "replace":
                return f"{now}; replaced, its instance, name, addresses and all volumes are lost, local NVMe too"
        return f"{now}; deleted, its instance and all volumes are lost"

    def _fate(self, each: Chosen) -> str:
        """What becomes of the pods, those that lose most first."""
        if not each.pods:
            return "no pods but daemons"
        shown = [f"{pod.namespace}/{pod.name} ({pod.owner_kind} {pod.owner})" for pod in sorted(each.pods, key=weight)]
        how = "moved first, within their disruption budgets" if self._spec.drain else "ended"
        return f"{number_of(len(each.pods), 'pod')} {how}: {some(shown, SHOWN_PODS)}"

    def _warn(self, sight: Sight, chosen: list[Chosen]) -> None:
        now = datetime.now(UTC)
        jobs: dict[tuple[str, str, str], list[PodOnNode]] = {}
        for pod in (pod for each in chosen for pod in each.pods):
            if pod.owner_kind in TRAINING and pod.phase == "Running":
                jobs.setdefault((pod.owner_kind, pod.namespace, pod.owner), []).append(pod)
        for (kind, namespace, owner), pods in sorted(jobs.items()):
            ages = [now - pod.checkpoint_at for pod in pods if pod.checkpoint_at]
            age = f"its last checkpoint is {_minutes(min(ages))} old" if ages else "no annotation tells of a checkpoint"
            self._warnings.append(
                f"{kind} {namespace}/{owner} works on {len(pods)} of these nodes: it loses what it has computed "
                f"since its last checkpoint ({age})"
            )
        alone = [f"{pod.namespace}/{pod.name}" for each in chosen for pod in each.pods if pod.owner_kind == "Pod"]
        if alone:
            self._warnings.append(f"Pods that nothing makes anew: {', '.join(sorted(alone)[:SHOWN_PODS])}")
        under_way = [each.name for each in chosen if status_of(each.member) in GOING_STATUSES]
        if under_way:
            self._warnings.append(f"Something goes on already with {', '.join(under_way[:SHOWN_PODS])}")
        if self._verb == "replace":
            types = {str(each.member.get("InstanceType") or "").removeprefix("ml.") for each in chosen} - {""}
            facts = describe_types(self._world.aws, self._request.record.region, types)
            well = [each.name for each in chosen if _well(each, facts)]
            if well:
                self._warnings.append(
                    f"{len(well)} of {len(chosen)} nodes work, as far as can be seen ({', '.join(well[:3])}): "
                    "investigate first, then reboot; replace what a reboot does not mend"
                )

    def _block(self, where: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> None:
        self._blockers.append(FieldError(field=where, detail=detail, remedy=remedy, code=code))


def _well(each: Chosen, facts: dict[str, Any]) -> bool:
    if each.node is None or status_of(each.member) != "Running" or not is_ready(each.node):
        return False
    return not lacking(each.node, facts.get(str(each.member.get("InstanceType") or "").removeprefix("ml.")))


def _smaller(group: str, target: int, number: int) -> PlannedChange:
    return PlannedChange(
        action=Action.CHANGE,
        kind="instance group",
        name=group,
        detail=f"target {target} → {target - number}",
        before={"target": target},
        after={"target": target - number},
    )


def _given_back(sight: Sight, chosen: list[Chosen]) -> list[CapacityChange]:
    groups = {group["InstanceGroupName"]: group for group in groups_of(sight.cluster)}
    numbers = Counter((each.group, str(each.member.get("InstanceType") or "")) for each in chosen)
    return [
        CapacityChange(
            instance_type=instance_type,
            count=-number,
            capacity=capacity_of(groups.get(group, {})),
            volume_gib=_volume(groups.get(group, {})),
            pointer="/nodes",
        )
        for (group, instance_type), number in sorted(numbers.items())
        if instance_type
    ]


def _volume(group: Raw) -> int:
    volumes = [each.get("EbsVolumeConfig") or {} for each in group.get("InstanceStorageConfigs") or ()]
    return sum(each.get("VolumeSizeInGB") or 0 for each in volumes)


def weight(pod: PodOnNode) -> tuple[int, str, str]:
    """Those that lose most come first."""
    return -pod.accelerators, pod.namespace, pod.name


def _minutes(age: Any) -> str:
    minutes = max(0, int(age.total_seconds() // 60))
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
