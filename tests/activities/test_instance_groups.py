"""Instance groups of one cluster of the sandbox: added, scaled, changed, drained, deleted, and planned."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts import catalogue
from contracts.cluster import ClusterRecord
from contracts.dependencies import ENSURE_ADDON, ENSURE_RELEASE, EnsureAddon, EnsureRelease
from contracts.drain import CORDON_NODES, DRAIN_NODES, UNCORDON_NODES, CordonNodes, DrainNodes
from contracts.hyperpod import (
    ENSURE_HYPERPOD,
    WAIT_FOR_GROUPS_GONE,
    WAIT_FOR_HYPERPOD,
    HyperPodCluster,
    NodesReady,
    PlacedGroup,
    WaitForGroupsGone,
    WaitForHyperPod,
)
from contracts.instance_groups import (
    ADD_GROUP,
    ADD_NODES,
    DELETE_GROUP,
    PLAN_SCALING,
    READ_GROUPS,
    REMOVE_NODES,
    SET_COUNT,
    UPDATE_GROUP,
    WAIT_FOR_UPDATE,
    AddGroup,
    AddNodes,
    DeleteGroup,
    PlanScaling,
    ReadGroups,
    RemoveNodes,
    Road,
    ScalingPlan,
    SetCount,
    UpdateGroup,
    UpdateInstanceGroupSpec,
    WaitForUpdate,
)
from contracts.network import ENSURE_COMPUTE_SUBNET, EnsureComputeSubnet, Network, Scope, Subnet
from contracts.plans import MAKE_PLAN, Action, MakePlan, PlanDraft
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World

STATE = (
    "CurrentCount",
    "TargetStateCount",
    "Status",
    "ActiveOperations",
    "InstanceTypeDetails",
    "InstanceRequirements",
)
"""Of a described group: what changes by itself."""


class Cluster:
    """A HyperPod cluster with one group of one Ready node."""

    def __init__(self, world: World, activities: Activities) -> None:
        self.world, self.scope, self.run, self.activities = world, world.scope, world.run, activities
        self.eks = world.control_plane.name
        addon = EnsureAddon(scope=self.scope, eks_cluster=self.eks, name="vpc-cni", kubernetes_version="1.34")
        self.run(ENSURE_ADDON, addon)
        self.run(ENSURE_RELEASE, EnsureRelease(scope=self.scope, eks_cluster=self.eks, name="hyperpod-dependencies"))
        self.made: HyperPodCluster = self.run(ENSURE_HYPERPOD, world.hyperpod(world.group()))
        self.name = self.made.name
        # Early: a role is not assumable in the moment in which it is made.
        service = {"Service": "hyperpod.sagemaker.amazonaws.com"}
        trust = {"Effect": "Allow", "Principal": service, "Action": "sts:AssumeRole"}
        role = activities.aws.act.iam(REGION).create_role(
            RoleName=f"{self.scope.cluster}-karpenter",
            AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
        )
        self.karpenter_role = role["Role"]["Arn"]
        self.ready("workers", 1)

    def at(self, group: str) -> dict[str, Any]:
        return {"scope": self.scope, "hyperpod_cluster": self.name, "group": group}

    def ready(self, group: str, count: int) -> NodesReady:
        wanted = WaitForHyperPod(
            scope=self.scope, name=self.name, eks_cluster=self.eks, groups=[group], targets={group: count}
        )
        return self.run(WAIT_FOR_HYPERPOD, wanted)

    def described(self) -> dict[str, Any]:
        found = self.activities.aws.read.sagemaker(REGION).describe_cluster(ClusterName=self.name)
        groups: list[Any] = list(found["InstanceGroups"])
        return {group["InstanceGroupName"]: group for group in groups}

    def add(self, group: PlacedGroup, **known: str) -> HyperPodCluster:
        request = AddGroup(scope=self.scope, hyperpod_cluster=self.name, group=group, **known)
        return self.run(ADD_GROUP, request).cluster

    def plan_scaling(self, group: str, count: int) -> ScalingPlan:
        return self.run(PLAN_SCALING, PlanScaling(**self.at(group), eks_cluster=self.eks, count=count))

    def subnet(self, group: str, zone: str, addresses: int = 50) -> Subnet:
        wanted = EnsureComputeSubnet(
            scope=self.scope,
            vpc_id=self.world.vpc.vpc_id,
            zone=zone,
            addresses=addresses,
            nat_gateways=[self.world.nat],
            s3_endpoint_id=self.world.endpoint.vpc_endpoint_id,
            group=group,
            hyperpod_cluster=self.name,
            dedicated=True,
        )
        return self.run(ENSURE_COMPUTE_SUBNET, wanted)

    def plan(self, kind: str, **spec: Any) -> PlanDraft:
        now = datetime.now(UTC)
        network = Network(
            vpc_id=self.world.vpc.vpc_id,
            vpc_cidrs=self.world.vpc.cidrs,
            owned=True,
            service_cidr=self.world.plan.service_cidr,
            zones=self.world.plan.zones,
            public_subnet_ids=[each.subnet_id for each in self.world.public],
            control_plane_subnet_ids=[each.subnet_id for each in self.world.control],
            security_group_id=self.world.security_group.security_group_id,
            nat_gateways=[self.world.nat],
        )
        record = ClusterRecord(
            tag=self.scope.cluster,
            region=REGION,
            created_by="tests",
            created_at=now,
            updated_at=now,
            network=network,
            control_plane=self.world.control_plane,
            hyperpod=self.made,
        )
        self.activities.lookup.forget()
        return self.run(MAKE_PLAN, MakePlan(kind=kind, record=record, spec=spec)).draft

    def pod(self, name: str, node: str, **labels: str) -> None:
        body: Any = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "work", "image": "work"}]},
        }
        with self.activities.kubernetes.connect(REGION, self.eks) as api:
            client.CoreV1Api(api).create_namespaced_pod("default", body)

    def clear(self) -> None:
        with self.activities.kubernetes.connect(REGION, self.eks) as api:
            client.PolicyV1Api(api).delete_collection_namespaced_pod_disruption_budget("default")
            client.CoreV1Api(api).delete_collection_namespaced_pod("default", grace_period_seconds=0)


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox, activities: Activities) -> Cluster:
    sandbox.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return Cluster(World(Runner(activities, f"scale-instance-group/{scope.cluster}/workers"), scope), activities)


@pytest.fixture(autouse=True)
def _calm(quiet: Sandbox) -> Iterator[None]:
    yield
    quiet.call("PUT", "capacity", {})


def without_state(groups: dict[str, Any], *names: str) -> dict[str, Any]:
    """The groups with what is asked of them, and not how far their nodes are."""
    return {name: {k: _asked(v) for k, v in groups[name].items() if k not in STATE} for name in names}


def _asked(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {member: each for member, each in value.items() if not member.startswith("Current")}


def test_a_new_group_has_all_its_choices_and_every_other_group_stays_member_by_member(
    cluster: Cluster, quiet: Sandbox
) -> None:
    rich: dict[str, Any] = {
        "InstanceGroupName": "rich",
        "InstanceCount": 0,
        "MinInstanceCount": 0,
        "InstanceRequirements": {"InstanceTypes": ["ml.g5.8xlarge", "ml.g5.12xlarge"]},
        "ExecutionRole": cluster.world.execution_role.arn,
        "LifeCycleConfig": {"SourceS3Uri": cluster.world.scripts.uri, "OnCreate": "on_create.sh"},
        "ThreadsPerCore": 1,
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 70}}],
        "OnStartDeepHealthChecks": ["InstanceStress"],
        "OverrideVpcConfig": cluster.described()["workers"]["OverrideVpcConfig"],
        "ScheduledUpdateConfig": {
            "ScheduleExpression": "cron(0 3 ? * SUN *)",
            "DeploymentConfig": {"WaitIntervalInSeconds": 60},
        },
        "AutoPatchConfig": {"PatchingStrategy": "WhenIdle", "IdleWaitWindowInSeconds": 7200},
        "KubernetesConfig": {
            "Labels": {"example.com/team": "a"},
            "Taints": [{"Key": "example.com/reserved", "Value": "x", "Effect": "NoSchedule"}],
        },
        "CapacityRequirements": {"Spot": {}},
        "NetworkInterface": {"InterfaceType": "efa"},
    }
    act: Any = cluster.activities.aws.act.sagemaker(REGION)
    act.update_cluster(ClusterName=cluster.name, InstanceGroups=[rich])
    before, mark = cluster.described(), quiet.mark()
    spot: dict[str, Any] = {
        "capacity": {"kind": "spot"},
        "alternative_types": ["ml.g5.12xlarge"],
        "network_interface": "efa",
    }
    more: dict[str, Any] = {"deep_health_checks": ["InstanceConnectivity"], "volume_gib": 90, "min_count": 0}
    more["labels"] = {"example.com/pool": "new"}
    quiet.lose_response("UpdateCluster", "sagemaker")
    added = cluster.add(cluster.world.group(count=0, name="new", **spot, **more))
    assert {group.name: group.target for group in added.groups} == {"workers": 1, "rich": 0, "new": 0}
    (update,) = quiet.effects("UpdateCluster", since=mark)
    (sent,) = update["parameters"]["InstanceGroups"]
    expected = {
        "InstanceRequirements": {"InstanceTypes": ["ml.g5.8xlarge", "ml.g5.12xlarge"]},
        "CapacityRequirements": {"Spot": {}},
        "NetworkInterface": {"InterfaceType": "efa"},
        "MinInstanceCount": 0,
        "ThreadsPerCore": 2,
        "OnStartDeepHealthChecks": ["InstanceConnectivity"],
        "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 90}}],
        "KubernetesConfig": {"Labels": {"example.com/pool": "new"}},
        # Nothing was given for these: the first group's.
        "ExecutionRole": before["workers"]["ExecutionRole"],
        "LifeCycleConfig": before["workers"]["LifeCycleConfig"],
        "OverrideVpcConfig": before["workers"]["OverrideVpcConfig"],
    }
    assert {member: sent[member] for member in expected} == expected
    assert "InstanceType" not in sent
    assert without_state(cluster.described(), "workers", "rich") == without_state(before, "workers", "rich")
    again = quiet.mark()
    cluster.add(cluster.world.group(count=0, name="new", **spot, **more))
    assert quiet.effects(since=again) == []


def test_an_update_changes_what_is_named_and_nothing_else(cluster: Cluster, quiet: Sandbox) -> None:
    before, mark = cluster.described()["rich"], quiet.mark()
    changes = UpdateInstanceGroupSpec(group="rich", volume_gib=80)
    assert cluster.run(UPDATE_GROUP, UpdateGroup(**cluster.at("rich"), changes=changes)).changed_members == [
        "InstanceStorageConfigs"
    ]
    cluster.run(WAIT_FOR_UPDATE, WaitForUpdate(**cluster.at("rich"), eks_cluster=cluster.eks, changes=changes))
    expected = {**before, "InstanceStorageConfigs": [{"EbsVolumeConfig": {"VolumeSizeInGB": 80}}]}
    assert without_state({"rich": cluster.described()["rich"]}, "rich") == without_state({"rich": expected}, "rich")
    assert len(quiet.effects("UpdateCluster", since=mark)) == 1
    assert cluster.run(UPDATE_GROUP, UpdateGroup(**cluster.at("rich"), changes=changes)).changed is False


def test_labels_and_taints_come_to_the_nodes(cluster: Cluster) -> None:
    taint = {"key": "example.com/gpu", "effect": "PreferNoSchedule"}
    changes = UpdateInstanceGroupSpec.model_validate(
        {"group": "workers", "labels": {"example.com/team": "b"}, "taints": [taint]}
    )
    cluster.run(UPDATE_GROUP, UpdateGroup(**cluster.at("workers"), changes=changes))
    wanted = WaitForUpdate(**cluster.at("workers"), eks_cluster=cluster.eks, changes=changes)
    settled = cluster.run(WAIT_FOR_UPDATE, wanted)
    assert (settled.nodes, settled.group.labels) == (1, {"example.com/team": "b"})
    with cluster.activities.kubernetes.connect(REGION, cluster.eks) as api:
        nodes: Any = client.CoreV1Api(api).list_node(label_selector="example.com/team=b")
    assert [taint.key for node in nodes.items for taint in node.spec.taints] == ["example.com/gpu"]


def test_the_last_labels_and_taints_and_the_minimum_can_be_taken_away_again(cluster: Cluster, quiet: Sandbox) -> None:
    none: dict[str, Any] = {"labels": {}, "taints": [], "min_count": 0}
    changes = UpdateInstanceGroupSpec.model_validate({"group": "workers", **none})
    cluster.run(UPDATE_GROUP, UpdateGroup(**cluster.at("workers"), changes=changes))
    wanted = WaitForUpdate(**cluster.at("workers"), eks_cluster=cluster.eks, changes=changes)
    settled = cluster.run(WAIT_FOR_UPDATE, wanted).group
    assert (settled.labels, settled.taints, settled.min_count or 0) == ({}, [], 0)
    mark = quiet.mark()
    assert cluster.run(UPDATE_GROUP, UpdateGroup(**cluster.at("workers"), changes=changes)).changed is False
    assert quiet.effects("UpdateCluster", since=mark) == []


def test_a_repeated_step_up_adds_nothing_twice(cluster: Cluster, quiet: Sandbox) -> None:
    plan = cluster.plan_scaling("workers", 3)
    assert (plan.road, plan.target) == (Road.ADD, 1)
    quiet.lose_response("BatchAddClusterNodes", "sagemaker")
    request = AddNodes(**cluster.at("workers"), base=1, count=2, step="scaling/1")
    assert cluster.run(ADD_NODES, request).target == 3
    assert cluster.run(ADD_NODES, request).changed is False
    assert len(cluster.ready("workers", 3).nodes) == 3
    # The same step again, though the cluster is still described as it was: SageMaker knows its token.
    act: Any = cluster.activities.aws.act.sagemaker(REGION)
    (first, *_) = quiet.effects("BatchAddClusterNodes")
    act.batch_add_cluster_nodes(**first["parameters"])
    assert cluster.described()["workers"]["TargetCount"] == 3


def test_many_are_added_in_calls_of_fifty_and_those_that_never_came_go_first(cluster: Cluster, quiet: Sandbox) -> None:
    quiet.call("PUT", "quotas", {"ml.g5.8xlarge": 100}, region=REGION)
    quiet.call("PUT", "capacity", {"us-west-2a": {"ml.g5.8xlarge": 0, "ml.g5.12xlarge": 0}})
    mark = quiet.mark()
    cluster.run(ADD_NODES, AddNodes(**cluster.at("new"), base=0, count=60, step="scaling/1"))
    calls = [each["parameters"] for each in quiet.effects("BatchAddClusterNodes", since=mark)]
    assert [call["NodesToAdd"][0]["IncrementTargetCountBy"] for call in calls] == [50, 10]
    assert len({call["ClientToken"] for call in calls}) == 2
    plan = cluster.plan_scaling("new", 0)
    assert (plan.road, len(plan.nodes), plan.busy) == (Road.REMOVE, 60, [])
    assert cluster.run(REMOVE_NODES, RemoveNodes(**cluster.at("new"), nodes=plan.nodes)).target == 0
    assert cluster.described()["new"]["TargetCount"] == 0


def test_idle_nodes_go_first_and_a_repeated_deletion_takes_no_more(cluster: Cluster, quiet: Sandbox) -> None:
    nodes = sorted(node.name for node in cluster.ready("workers", 3).nodes)
    for number, node in enumerate(nodes[1:]):
        cluster.pod(f"busy-{number}", node)
    plan = cluster.plan_scaling("workers", 2)
    assert [f"hyperpod-{each}" for each in plan.nodes] == nodes[:1]
    draft = cluster.plan(catalogue.SCALE_INSTANCE_GROUP.name, group="workers", count=1)
    assert (draft.facts["group_target"], draft.capacity[0].count) == (3, -2)
    assert any("default/busy-" in warning for warning in draft.warnings)
    quiet.lose_response("BatchDeleteClusterNodes", "sagemaker")
    request = RemoveNodes(**cluster.at("workers"), nodes=plan.nodes)
    assert cluster.run(REMOVE_NODES, request).target == 2
    cluster.run(REMOVE_NODES, request)
    assert sorted(node.name for node in cluster.ready("workers", 2).nodes) == nodes[1:]
    cluster.clear()


def test_a_target_that_somebody_else_has_set_is_told(cluster: Cluster) -> None:
    with pytest.raises(ApplicationError) as caught:
        cluster.run(ADD_NODES, AddNodes(**cluster.at("workers"), base=5, count=1, step="scaling/9"))
    assert problem(caught).code == "conflict"


def test_a_target_can_be_set_once_the_cluster_takes_it(cluster: Cluster, quiet: Sandbox) -> None:
    before, mark = cluster.described(), quiet.mark()
    request = SetCount(**cluster.at("workers"), count=1)
    moving = {"operation": "UpdateCluster", "code": "ConflictException", "status": 400, "message": "is Updating"}
    quiet.fault(moving | {"times": 1})
    with pytest.raises(ApplicationError) as caught:
        cluster.run.once(SET_COUNT, request)
    assert (problem(caught).code, caught.value.non_retryable) == ("busy", False)
    quiet.lose_response("UpdateCluster", "sagemaker")
    assert cluster.run(SET_COUNT, request).target == 1
    assert len(quiet.effects("UpdateCluster", since=mark)) == 1
    cluster.ready("workers", 1)
    after = {**before["workers"], "TargetCount": 1}
    assert without_state(cluster.described(), "workers") == without_state({"workers": after}, "workers")


def test_a_drain_keeps_to_disruption_budgets_and_gives_nodes_back(cluster: Cluster) -> None:
    (node,) = [node.name for node in cluster.ready("workers", 1).nodes]
    where: dict[str, Any] = {"scope": cluster.scope, "eks_cluster": cluster.eks, "nodes": [node, "hyperpod-i-gone"]}
    assert cluster.run(CORDON_NODES, CordonNodes(**where)).nodes == [node]
    assert cluster.run(CORDON_NODES, CordonNodes(**where)).changed is False
    cluster.pod("kept", node, app="kept")
    budget: Any = {
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
    }
    with cluster.activities.kubernetes.connect(REGION, cluster.eks) as api:
        policy = client.PolicyV1Api(api)
        policy.create_namespaced_pod_disruption_budget("default", budget)
        with pytest.raises(ApplicationError) as caught:
            cluster.run(DRAIN_NODES, DrainNodes(**where, timeout_minutes=1))
        assert (problem(caught).code, "default/kept" in problem(caught).detail) == ("not_ready", True)
        policy.delete_namespaced_pod_disruption_budget("kept", "default")
    assert cluster.run(DRAIN_NODES, DrainNodes(**where, timeout_minutes=1440)).evicted == 1
    assert cluster.run(UNCORDON_NODES, CordonNodes(**where)).nodes == [node]
    cluster.clear()


def test_a_dedicated_subnet_outlives_its_group_and_stays_its_own(cluster: Cluster, quiet: Sandbox) -> None:
    made = cluster.subnet("own", "us-west-2b")
    assert cluster.subnet("own", "us-west-2b").subnet_id == made.subnet_id
    assert cluster.world.compute("us-west-2b").subnet_id != made.subnet_id
    with pytest.raises(ApplicationError) as caught:
        cluster.subnet("own", "us-west-2a")
    assert (problem(caught).code, problem(caught).field) == ("invalid", "/subnet_placement")
    with pytest.raises(ApplicationError):
        cluster.subnet("own", "us-west-2b", addresses=10_000)
    spec: dict[str, Any] = {"name": "own", "instance_type": "ml.g5.8xlarge", "count": 0}
    spec["subnet_placement"] = "dedicated"
    plan = cluster.plan(catalogue.ADD_INSTANCE_GROUP.name, **spec, availability_zone="us-west-2b")
    assert (plan.blockers, plan.changes[0].name) == ([], made.subnet_id)
    (blocker,) = cluster.plan(catalogue.ADD_INSTANCE_GROUP.name, **spec, availability_zone="us-west-2a").blockers
    assert (blocker.field, made.subnet_id in blocker.detail) == ("/subnet_placement", True)
    group = cluster.world.group(count=0, name="own", zone="us-west-2b")
    cluster.add(group.model_copy(update={"subnet": made}))
    draft = cluster.plan(catalogue.DELETE_INSTANCE_GROUP.name, group="own")
    assert [(change.action, change.name) for change in draft.changes] == [
        (Action.DELETE, "own"),
        (Action.KEEP, made.subnet_id),
    ]
    cluster.run(DELETE_GROUP, DeleteGroup(**cluster.at("own"), eks_cluster=cluster.eks))
    gone = WaitForGroupsGone(scope=cluster.scope, name=cluster.name, groups=["own"])
    cluster.run(WAIT_FOR_GROUPS_GONE, gone)
    assert cluster.subnet("own", "us-west-2b").subnet_id == made.subnet_id


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"network_interface": "efa-only"}, "/network_interface", "one network card"),
        ({"alternative_types": ["ml.p5.48xlarge"], "availability_zone": "us-west-2a"}, "/availability_zone", "offer"),
        ({"availability_zone": "us-west-2z"}, "/availability_zone", "us-west-2z"),
        (
            {"capacity": {"kind": "training-plan", "training_plan": "none"}},
            "/capacity/training_plan",
            "no training plan",
        ),
        ({"count": 100_0}, "/count", "addresses"),
        ({"name": "workers", "instance_type": "ml.g5.12xlarge"}, "/name", "instance type is ml.g5.8xlarge"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_is_made(
    cluster: Cluster, quiet: Sandbox, spec: dict[str, Any], field: str, said: str
) -> None:
    given = {"name": "other", "instance_type": "ml.g5.8xlarge", "count": 1, **spec}
    mark = quiet.mark()
    blockers = cluster.plan(catalogue.ADD_INSTANCE_GROUP.name, **given).blockers
    assert any(blocker.field == field and said in blocker.detail for blocker in blockers), blockers
    assert quiet.effects(since=mark) == []


def test_a_plan_that_has_not_begun_is_told(cluster: Cluster, quiet: Sandbox) -> None:
    later = {"name": "later", "instance_type": "ml.g5.8xlarge", "zone": "us-west-2a", "count": 1, "start": 10**9}
    quiet.call("POST", "training-plans", later | {"status": "Scheduled"})
    spec = {"name": "other", "instance_type": "ml.g5.8xlarge", "count": 1}
    capacity = {"kind": "training-plan", "training_plan": "later"}
    warnings = cluster.plan(catalogue.ADD_INSTANCE_GROUP.name, **spec, capacity=capacity).warnings
    assert any("begins on" in warning for warning in warnings)


def _until_served(create: Callable[[], Any]) -> None:
    """HyperPod brings the definition with autoscaling, after a moment."""
    for _ in range(100):
        try:
            create()
            return
        except ApiException as error:
            if error.status != 404:
                raise
        time.sleep(0.05)
    raise AssertionError("the definition is not served")


def test_a_group_that_karpenter_scales_and_the_last_one_are_not_deleted(cluster: Cluster) -> None:
    node_class: Any = {
        "apiVersion": "karpenter.sagemaker.amazonaws.com/v1",
        "kind": "HyperpodNodeClass",
        "metadata": {"name": "gpus"},
        "spec": {"instanceGroups": ["new"]},
    }
    act: Any = cluster.activities.aws.act.sagemaker(REGION)
    act.update_cluster(
        ClusterName=cluster.name,
        ClusterRole=cluster.karpenter_role,
        AutoScaling={"Mode": "Enable", "AutoScalerType": "Karpenter"},
    )
    with cluster.activities.kubernetes.connect(REGION, cluster.eks) as api:
        objects = client.CustomObjectsApi(api)
        where = ("karpenter.sagemaker.amazonaws.com", "v1", "hyperpodnodeclasses")
        _until_served(lambda: objects.create_cluster_custom_object(*where, node_class))
        with pytest.raises(ApplicationError) as caught:
            cluster.run(DELETE_GROUP, DeleteGroup(**cluster.at("new"), eks_cluster=cluster.eks))
        assert "HyperpodNodeClass gpus" in problem(caught).detail
        (blocker,) = cluster.plan(catalogue.DELETE_INSTANCE_GROUP.name, group="new").blockers
        assert "delete-node-pool" in (blocker.remedy or "")
        objects.delete_cluster_custom_object(*where, "gpus")
    for group in ("new", "rich"):
        assert cluster.run(DELETE_GROUP, DeleteGroup(**cluster.at(group), eks_cluster=cluster.eks)).changed
    gone = WaitForGroupsGone(scope=cluster.scope, name=cluster.name, groups=["new", "rich"])
    cluster.run(WAIT_FOR_GROUPS_GONE, gone)
    assert cluster.run(DELETE_GROUP, DeleteGroup(**cluster.at("new"), eks_cluster=cluster.eks)).changed is False
    with pytest.raises(ApplicationError) as caught:
        cluster.run(DELETE_GROUP, DeleteGroup(**cluster.at("workers"), eks_cluster=cluster.eks))
    assert "level hyperpod" in (problem(caught).remedy or "")


def test_a_failed_cluster_refuses_everything_and_says_what_can_be_done(cluster: Cluster, quiet: Sandbox) -> None:
    quiet.call("POST", "hyperpod", {"fail_cluster": {"cluster": cluster.name, "message": "it broke"}})
    assert cluster.run(READ_GROUPS, ReadGroups(scope=cluster.scope, hyperpod_cluster=cluster.name)).status == "Failed"
    group = {"name": "other", "instance_type": "ml.g5.8xlarge", "count": 1}
    specs: dict[Any, dict[str, Any]] = {
        catalogue.ADD_INSTANCE_GROUP: group,
        catalogue.SCALE_INSTANCE_GROUP: {"group": "workers", "count": 2},
        catalogue.UPDATE_INSTANCE_GROUP: {"group": "workers", "volume_gib": 9},
        catalogue.DELETE_INSTANCE_GROUP: {"group": "workers"},
    }
    for kind, spec in specs.items():
        (blocker,) = cluster.plan(kind.name, **spec).blockers
        assert (blocker.code, "level hyperpod" in (blocker.remedy or "")) == ("not_ready", True)
    mark = quiet.mark()
    with pytest.raises(ApplicationError) as caught:
        cluster.run(SET_COUNT, SetCount(**cluster.at("workers"), count=2))
    assert "it broke" in problem(caught).detail
    assert quiet.effects(since=mark) == []
