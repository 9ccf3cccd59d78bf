"""Node pools of managed Karpenter on one cluster of the sandbox: refused, made, scaled from zero and back, deleted."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.node_pools import objects
from activities.registry import Activities
from contracts.catalogue import CREATE_NODE_POOL, DELETE_NODE_POOL
from contracts.cluster import ClusterRecord
from contracts.dependencies import ENSURE_ADDON, ENSURE_RELEASE, EnsureAddon, EnsureRelease
from contracts.hyperpod import ENSURE_HYPERPOD, WAIT_FOR_HYPERPOD, WaitForHyperPod
from contracts.network import Scope
from contracts.node_pools import (
    DELETE_NODE_CLASS,
    ENSURE_NODE_CLASS,
    ENSURE_NODE_POOL,
    LIST_NODE_POOLS,
    START_NODE_POOL_DELETION,
    WAIT_FOR_NODE_POOL,
    WAIT_FOR_NODE_POOL_GONE,
    DeleteNodeClass,
    EnsureNodeClass,
    EnsureNodePool,
    ListNodePools,
    NodePool,
    NodePoolRef,
    NodePoolSpec,
)
from contracts.plans import MAKE_PLAN, Action, MakePlan, PlanDraft
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World, until

TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "hyperpod.sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}


class Pools:
    """A HyperPod cluster with groups that may be scaled, and node pools on them."""

    def __init__(self, world: World, activities: Activities) -> None:
        self.world, self.activities, self.scope, self.run = world, activities, world.scope, world.run
        # Early: it may be assumed a while after it was made.
        iam = activities.aws.act.iam(REGION)
        self.role = iam.create_role(
            RoleName=f"{self.scope.cluster}-karpenter", AssumeRolePolicyDocument=json.dumps(TRUST)
        )["Role"]
        self.cluster = world.control_plane.name
        wanted = EnsureAddon(scope=self.scope, eks_cluster=self.cluster, name="vpc-cni", kubernetes_version="1.34")
        world.run(ENSURE_ADDON, wanted)
        release = EnsureRelease(scope=self.scope, eks_cluster=self.cluster, name="hyperpod-dependencies")
        world.run(ENSURE_RELEASE, release)
        groups = [
            world.group(name="scaled", count=0),
            world.group(name="far", count=0, zone="us-west-2b"),
            world.group(name="slow", count=0, deep_health_checks=["InstanceStress"]),
            world.group(name="busy", count=1),
        ]
        self.hyperpod = world.run(ENSURE_HYPERPOD, world.hyperpod(*groups))
        waited = WaitForHyperPod(scope=self.scope, name=self.hyperpod.name, eks_cluster=self.cluster, groups=["busy"])
        world.run(WAIT_FOR_HYPERPOD, waited)

    def switch_on(self) -> None:
        sagemaker = self.activities.aws.act.sagemaker(REGION)
        sagemaker.update_cluster(
            ClusterName=self.hyperpod.name,
            NodeRecovery="Automatic",
            ClusterRole=self.role["Arn"],
            AutoScaling={"Mode": "Enable", "AutoScalerType": "Karpenter"},
        )
        until(
            lambda: sagemaker.describe_cluster(ClusterName=self.hyperpod.name)["AutoScaling"]["Status"] == "InService"
        )
        until(self.knows_node_pools)

    def knows_node_pools(self) -> bool:
        with self.api() as api:
            definitions = client.ApiextensionsV1Api(api).list_custom_resource_definition().items
        return "nodepools.karpenter.sh" in [each.metadata.name for each in definitions]

    def api(self) -> Any:
        return self.activities.kubernetes.connect(REGION, self.cluster)

    def spec(self, name: str = "gpus", groups: tuple[str, ...] = ("scaled",), **more: Any) -> NodePoolSpec:
        return NodePoolSpec.model_validate({"name": name, "instance_groups": list(groups), **more})

    def ensure(self, spec: NodePoolSpec) -> NodePool:
        self.run(
            ENSURE_NODE_CLASS,
            EnsureNodeClass(
                scope=self.scope, eks_cluster=self.cluster, name=spec.name, instance_groups=spec.instance_groups
            ),
        )
        wanted = EnsureNodePool(
            scope=self.scope, eks_cluster=self.cluster, hyperpod_cluster=self.hyperpod.name, spec=spec
        )
        return self.run(ENSURE_NODE_POOL, wanted)

    def ref(self, name: str = "gpus") -> NodePoolRef:
        return NodePoolRef(scope=self.scope, eks_cluster=self.cluster, name=name)

    def list(self) -> list[NodePool]:
        return self.run(LIST_NODE_POOLS, ListNodePools(scope=self.scope, eks_cluster=self.cluster)).node_pools

    def target(self, group: str) -> int:
        found = self.activities.aws.read.sagemaker(REGION).describe_cluster(ClusterName=self.hyperpod.name)
        return next(g["CurrentCount"] for g in found["InstanceGroups"] if g["InstanceGroupName"] == group)

    def plan(self, kind: str, spec: dict[str, Any]) -> PlanDraft:
        now = datetime.now(UTC)
        record = ClusterRecord(
            tag=self.scope.cluster,
            region=REGION,
            created_by="tests",
            created_at=now,
            updated_at=now,
            control_plane=self.world.control_plane,
            hyperpod=self.hyperpod,
        )
        return self.run(MAKE_PLAN, MakePlan(kind=kind, record=record, spec=spec)).draft

    def blockers(self, spec: NodePoolSpec) -> list[tuple[str, str]]:
        draft = self.plan(CREATE_NODE_POOL.name, spec.model_dump(mode="json"))
        return [(blocker.field, blocker.detail) for blocker in draft.blockers]


@pytest.fixture(scope="module")
def pools(sandbox: Sandbox, activities: Activities) -> Pools:
    sandbox.call("POST", "reset")
    activities.lookup.forget()
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return Pools(World(Runner(activities, f"create-node-pool/{scope.cluster}/gpus"), scope), activities)


def test_without_autoscaling_a_pool_is_refused_and_none_is_listed(pools: Pools) -> None:
    ((field, detail),) = pools.blockers(pools.spec())
    assert (field, detail) == ("", "autoscaling is off")
    assert pools.list() == []
    pools.switch_on()
    assert pools.blockers(pools.spec()) == []


@pytest.mark.parametrize(
    ("groups", "more", "field", "words"),
    [
        (("nothing",), {}, "/instance_groups/0", "no instance group nothing"),
        (("scaled", "slow"), {}, "/instance_groups/1", "deep health checks"),
        (("scaled", "far"), {}, "/instance_groups", "EFA does not cross zones"),
        (("busy",), {}, "/instance_groups/0", "1 instance now"),
    ],
)
def test_what_cannot_work_is_refused_up_front(
    pools: Pools, groups: tuple[str, ...], more: dict[str, Any], field: str, words: str
) -> None:
    ((pointer, detail),) = pools.blockers(pools.spec(groups=groups, **more))
    assert pointer == field
    assert words in detail


def test_a_scale_down_that_is_accepted_is_a_warning(pools: Pools) -> None:
    spec = pools.spec(groups=("busy",), accept_scale_down=True)
    draft = pools.plan(CREATE_NODE_POOL.name, spec.model_dump(mode="json"))
    assert draft.blockers == []
    assert "busy has 1 instance now" in draft.warnings[0]


def test_a_pool_is_made_once_with_working_defaults(pools: Pools, quiet: Sandbox) -> None:
    spec = pools.spec(gpu_limit=2, labels={"example.com/team": "a"})
    assert pools.ensure(spec).changed is True
    assert pools.ensure(spec).changed is False
    ready = pools.run(WAIT_FOR_NODE_POOL, pools.ref())
    assert (ready.ready, ready.nodes, ready.gpu_limit, ready.owned) == (True, 0, 2, True)
    with pools.api() as api:
        pool = objects.get(api, objects.NODE_POOL, "gpus")
    assert pool is not None
    assert pool["spec"]["disruption"]["consolidationPolicy"] == "WhenEmpty"
    assert pool["spec"]["disruption"]["consolidateAfter"] == "5m"
    assert pool["spec"]["template"]["spec"]["expireAfter"] == "Never"
    assert pool["spec"]["limits"] == {"nvidia.com/gpu": "2"}
    (requirement,) = pool["spec"]["template"]["spec"]["requirements"]
    assert requirement["values"] == ["ml.g5.8xlarge"]


def test_a_group_belongs_to_one_pool(pools: Pools) -> None:
    ((field, detail),) = pools.blockers(pools.spec("others"))
    assert field == "/instance_groups/0"
    assert "belongs to HyperpodNodeClass gpus already" in detail


def test_a_pool_that_others_made_is_not_changed(pools: Pools) -> None:
    theirs = {"apiVersion": "karpenter.sagemaker.amazonaws.com/v1", "kind": "HyperpodNodeClass"}
    with pools.api() as api:
        client.CustomObjectsApi(api).create_cluster_custom_object(
            **objects.NODE_CLASS.place,
            body={**theirs, "metadata": {"name": "theirs"}, "spec": {"instanceGroups": ["far"]}},
        )
    with pytest.raises(ApplicationError) as caught:
        pools.ensure(pools.spec("theirs", groups=("far",)))
    assert problem(caught).code == "foreign"
    assert ("/name", "a HyperpodNodeClass theirs exists that InstantStart has not made") in pools.blockers(
        pools.spec("theirs", groups=("far",))
    )
    wanted = DeleteNodeClass(scope=pools.scope, eks_cluster=pools.cluster, name="theirs")
    assert pools.run(DELETE_NODE_CLASS, wanted).kept == "it is not ours"


def test_a_class_that_does_not_get_ready_is_told_in_the_controllers_words(pools: Pools) -> None:
    pools.ensure(pools.spec("broken", groups=("slow",)))
    with pytest.raises(ApplicationError) as caught:
        pools.run(WAIT_FOR_NODE_POOL, pools.ref("broken"))
    assert problem(caught).code == "not_ready"
    assert "instance group slow is not supported" in problem(caught).detail


def test_a_pending_pod_brings_a_node_and_leaves_none(pools: Pools) -> None:
    pools.ensure(pools.spec(gpu_limit=2, consolidate_after="30s"))
    container = client.V1Container(
        name="main",
        image="train",
        resources=client.V1ResourceRequirements(limits={"nvidia.com/gpu": "1"}),
    )
    # Not on the node that is there already.
    spec = client.V1PodSpec(containers=[container], node_selector={objects.LABEL_POOL: "gpus"})
    with pools.api() as api:
        core = client.CoreV1Api(api)
        core.create_namespaced_pod("default", client.V1Pod(metadata=client.V1ObjectMeta(name="job"), spec=spec))
        until(lambda: core.read_namespaced_pod("job", "default").status.phase == "Running", 90)
        pool = next(each for each in pools.list() if each.name == "gpus")
        assert (pool.nodes, pool.accelerators, pools.target("scaled")) == (1, 1, 1)
        draft = pools.plan(DELETE_NODE_POOL.name, {"node_pool": "gpus"})
        assert "default/job" in draft.warnings[0]
        assert [(change.action, change.kind) for change in draft.changes] == [
            (Action.DELETE, "NodePool"),
            (Action.DELETE, "HyperpodNodeClass"),
        ]
        core.delete_namespaced_pod("job", "default")
    until(lambda: pools.target("scaled") == 0, 60)
    assert next(each for each in pools.list() if each.name == "gpus").nodes == 0


def test_a_pool_goes_with_its_class(pools: Pools) -> None:
    assert pools.run(START_NODE_POOL_DELETION, pools.ref()).node_class == "gpus"
    pools.run(WAIT_FOR_NODE_POOL_GONE, pools.ref())
    wanted = DeleteNodeClass(scope=pools.scope, eks_cluster=pools.cluster, name="gpus")
    assert pools.run(DELETE_NODE_CLASS, wanted).kept is None
    assert pools.run(DELETE_NODE_CLASS, wanted).changed is False
    assert pools.run(START_NODE_POOL_DELETION, pools.ref()).changed is False
    assert [pool.name for pool in pools.list()] == ["broken"]
