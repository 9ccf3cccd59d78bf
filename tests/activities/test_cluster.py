"""From identity to Ready nodes, on one cluster of the sandbox; each module-wide step is made once."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.dependencies import (
    ENSURE_ADDON,
    ENSURE_RELEASE,
    ENSURE_STORAGE_ROLE,
    VERIFY_RELEASE,
    WAIT_FOR_ADDON,
    ComponentState,
    EnsureAddon,
    EnsureRelease,
    EnsureStorageRole,
    VerifyRelease,
    WaitForAddon,
)
from contracts.eks import ENSURE_CONTROL_PLANE
from contracts.hyperpod import (
    ENSURE_HYPERPOD,
    LIST_NODES,
    WAIT_FOR_GROUPS_GONE,
    WAIT_FOR_HYPERPOD,
    ListNodes,
    WaitForGroupsGone,
    WaitForHyperPod,
)
from contracts.identity import (
    ENSURE_ACCESS_ENTRY,
    ENSURE_BUCKET,
    ENSURE_CLUSTER_ROLE,
    ENSURE_EXECUTION_ROLE,
    ENSURE_LIFECYCLE_SCRIPTS,
    ENSURE_OIDC_PROVIDER,
    EnsureAccessEntry,
    EnsureBucket,
    EnsureLifecycleScripts,
    EnsureOidcProvider,
    EnsureRole,
)
from contracts.names import ClusterNames
from contracts.network import Scope
from contracts.options import CHECK_GROUPS, CheckGroups
from contracts.storage import ENSURE_CLAIM, WAIT_FOR_CLAIM, EnsureClaim, StorageSpec, WaitForClaim
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World


@pytest.fixture(scope="module")
def world(sandbox: Sandbox, activities: Activities) -> World:
    sandbox.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return World(Runner(activities, f"create-cluster/{scope.cluster}"), scope)


@pytest.fixture(autouse=True)
def _calm(quiet: Sandbox) -> Iterator[None]:
    yield
    quiet.call("PUT", "capacity", {})


def test_the_caller_is_a_role_with_its_path(world: World) -> None:
    assert world.caller.principal_arn == "arn:aws:iam::123456789012:role/platform/instantstart"


def test_roles_once_and_mended(world: World, quiet: Sandbox, activities: Activities) -> None:
    scope, request = world.scope, EnsureRole(scope=world.scope, account=world.caller.account)
    quiet.lose_response("CreateRole", "iam")
    role = world.run(ENSURE_CLUSTER_ROLE, request)
    assert len(quiet.effects("CreateRole")) == 1
    assert world.run(ENSURE_CLUSTER_ROLE, request).changed is False
    iam = activities.aws.act.iam(REGION)
    iam.update_assume_role_policy(
        RoleName=role.name,
        PolicyDocument=json.dumps(
            {
                "Version": "2012-10-17",
                "Statement": [
                    {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
                ],
            }
        ),
    )
    assert world.run(ENSURE_CLUSTER_ROLE, request).changed is True
    assert world.run(ENSURE_EXECUTION_ROLE, request).arn.split(":")[-1].startswith("role/instantstart/")
    assert world.run(ENSURE_EXECUTION_ROLE, request).changed is False
    iam.untag_role(RoleName=role.name, TagKeys=["instantstart:cluster"])
    with pytest.raises(ApplicationError) as caught:
        world.run(ENSURE_CLUSTER_ROLE, request)
    assert problem(caught).code == "foreign"
    iam.tag_role(RoleName=role.name, Tags=[{"Key": "instantstart:cluster", "Value": scope.cluster}])


def test_a_role_that_may_not_be_seen_is_not_absent(world: World, quiet: Sandbox) -> None:
    mark = quiet.mark()
    quiet.deny("GetRole", "iam")
    with pytest.raises(ApplicationError) as caught:
        world.run(ENSURE_CLUSTER_ROLE, EnsureRole(scope=world.scope, account=world.caller.account))
    assert problem(caught).code == "denied"
    assert quiet.effects(since=mark) == []


def test_the_bucket_once(world: World, quiet: Sandbox) -> None:
    request = EnsureBucket(scope=world.scope, account=world.caller.account)
    quiet.lose_response("CreateBucket", "s3")
    bucket = world.run(ENSURE_BUCKET, request)
    assert world.run(ENSURE_BUCKET, request).changed is False
    assert len(quiet.effects("CreateBucket")) == 1
    scripts = EnsureLifecycleScripts(scope=world.scope, bucket=bucket.name)
    assert world.run(ENSURE_LIFECYCLE_SCRIPTS, scripts).uri == f"s3://{bucket.name}/lifecycle"
    assert world.run(ENSURE_LIFECYCLE_SCRIPTS, scripts).changed is False
    quiet.fault({"operation": "HeadBucket", "service": "s3", "code": "403", "status": 403})
    with pytest.raises(ApplicationError) as caught:
        world.run(ENSURE_BUCKET, request)
    assert problem(caught).code == "foreign"


def test_the_control_plane_once(world: World, quiet: Sandbox) -> None:
    request = world.control_plane_request
    quiet.lose_response("CreateCluster", "eks")
    made = world.run(ENSURE_CONTROL_PLANE, request)
    assert len(quiet.effects("CreateCluster", "eks")) == 1
    assert made.name == ClusterNames(world.scope.cluster).eks_cluster
    with pytest.raises(ApplicationError) as caught:
        world.run(ENSURE_CONTROL_PLANE, request.model_copy(update={"kubernetes_version": "1.33"}))
    assert problem(caught).code == "conflict"
    assert "it has 1.34, asked was 1.33" in problem(caught).detail
    assert world.control_plane.status == "ACTIVE"


def test_access_once(world: World, quiet: Sandbox) -> None:
    name, scope = world.control_plane.name, world.scope
    entry = EnsureAccessEntry(scope=scope, eks_cluster=name, principal_arn=world.caller.principal_arn)
    assert world.run(ENSURE_ACCESS_ENTRY, entry).changed is False
    provider = EnsureOidcProvider(scope=scope, eks_cluster=name)
    quiet.lose_response("CreateOpenIDConnectProvider", "iam")
    world.run(ENSURE_OIDC_PROVIDER, provider)
    assert world.run(ENSURE_OIDC_PROVIDER, provider).changed is False
    assert len(quiet.effects("CreateOpenIDConnectProvider")) == 1


def test_addons(world: World, quiet: Sandbox) -> None:
    scope, name = world.scope, world.control_plane.name

    def ensure(addon: str) -> Any:
        wanted = EnsureAddon(scope=scope, eks_cluster=name, name=addon, kubernetes_version="1.34")
        return world.run(ENSURE_ADDON, wanted)

    def wait(addon: str) -> Any:
        waited = WaitForAddon(scope=scope, eks_cluster=name, name=addon, accept_waiting_for_nodes=True)
        return world.run(WAIT_FOR_ADDON, waited)

    quiet.lose_response("CreateAddon", "eks")
    ensure("vpc-cni")
    assert ensure("vpc-cni").changed is False
    assert len(quiet.effects("CreateAddon")) == 1
    assert wait("vpc-cni").state is ComponentState.READY
    for addon in ("kube-proxy", "eks-pod-identity-agent"):
        ensure(addon)
        assert wait(addon).state is ComponentState.READY
    ensure("coredns")
    assert wait("coredns").state is ComponentState.WAITING_FOR_NODES
    role = EnsureStorageRole(scope=scope, account=world.caller.account, eks_cluster=name, bucket=world.bucket.name)
    quiet.lose_response("CreatePodIdentityAssociation", "eks")
    world.run(ENSURE_STORAGE_ROLE, role)
    assert world.run(ENSURE_STORAGE_ROLE, role).changed is False
    assert len(quiet.effects("CreatePodIdentityAssociation")) == 1
    ensure("aws-mountpoint-s3-csi-driver")
    assert wait("aws-mountpoint-s3-csi-driver").state is ComponentState.WAITING_FOR_NODES


def test_the_release(world: World) -> None:
    wanted = EnsureRelease(scope=world.scope, eks_cluster=world.control_plane.name, name="hyperpod-dependencies")
    made = world.run(ENSURE_RELEASE, wanted)
    assert (made.status, made.revision) == ("deployed", 1)
    again = world.run(ENSURE_RELEASE, wanted)
    assert (again.changed, again.revision) == (False, 1)
    verified = world.run(VERIFY_RELEASE, VerifyRelease(**wanted.model_dump()))
    assert verified.state is ComponentState.WAITING_FOR_NODES


def test_nodes(world: World, quiet: Sandbox) -> None:
    request = world.hyperpod(world.group())
    quiet.lose_response("CreateCluster", "sagemaker")
    made = world.run(ENSURE_HYPERPOD, request)
    assert len(quiet.effects("CreateCluster", "sagemaker")) == 1
    waited = WaitForHyperPod(
        scope=world.scope, name=made.name, eks_cluster=world.control_plane.name, groups=["workers"]
    )
    ready = world.run(WAIT_FOR_HYPERPOD, waited)
    (node,) = ready.nodes
    assert (node.ready, node.accelerators, node.accelerator_resource) == (True, 1, "nvidia.com/gpu")
    assert (node.efa_interfaces, node.zone, node.instance_type) == (1, "us-west-2a", "ml.g5.8xlarge")
    mark = quiet.mark()
    assert world.run(ENSURE_HYPERPOD, request).changed is False
    assert quiet.effects(since=mark) == []


def test_groups_grow_by_one_update_that_touches_no_other(world: World, quiet: Sandbox, activities: Activities) -> None:
    described = activities.aws.read.sagemaker(REGION).describe_cluster
    name, mark = ClusterNames(world.scope.cluster).hyperpod_cluster, quiet.mark()
    before = described(ClusterName=name)["InstanceGroups"][0]
    labels = {"example.com/team": "a"}
    spare = world.group(count=0, name="spare", labels=labels)
    quiet.lose_response("UpdateCluster", "sagemaker")
    world.run(ENSURE_HYPERPOD, world.hyperpod(world.group(count=2), spare))
    (update,) = quiet.effects("UpdateCluster", since=mark)
    sent = {group["InstanceGroupName"]: group for group in update["parameters"]["InstanceGroups"]}
    assert set(sent) == {"workers", "spare"}
    assert sent["spare"]["KubernetesConfig"]["Labels"] == labels
    assert sent["workers"]["InstanceCount"] == 2
    for member in ("ThreadsPerCore", "LifeCycleConfig", "OverrideVpcConfig", "InstanceStorageConfigs"):
        assert sent["workers"][member] == before[member]
    waited = WaitForHyperPod(
        scope=world.scope, name=name, eks_cluster=world.control_plane.name, groups=["workers", "spare"]
    )
    assert len(world.run(WAIT_FOR_HYPERPOD, waited).nodes) == 2


def test_a_group_stays_in_the_subnet_that_its_own_nodes_fill(world: World, quiet: Sandbox) -> None:
    subnet, mark = world.compute("us-west-2a"), quiet.mark()
    assert world.compute("us-west-2a", addresses=10_000, group="workers").subnet_id == subnet.subnet_id
    assert quiet.effects(since=mark) == []


def test_a_group_that_holds_its_plans_instances_may_keep_them(
    world: World, quiet: Sandbox, activities: Activities
) -> None:
    plan = {"name": "mine", "instance_type": "ml.g5.8xlarge", "zone": "us-west-2a", "count": 1}
    arn = quiet.call("POST", "training-plans", plan)["arn"]
    taints = [{"key": "example.com/reserved", "effect": "NoSchedule"}]
    capacity = {"kind": "training-plan", "training_plan": "mine"}
    reserved = world.group(name="reserved", capacity=capacity, taints=taints)
    made = world.run(
        ENSURE_HYPERPOD, world.hyperpod(reserved.model_copy(update={"training_plan_arn": arn}), world.group(count=2))
    )
    waited = WaitForHyperPod(
        scope=world.scope, name=made.name, eks_cluster=world.control_plane.name, groups=["reserved"]
    )
    world.run(WAIT_FOR_HYPERPOD, waited)
    activities.lookup.forget()
    again = CheckGroups(region=REGION, groups=[reserved.spec], cluster=world.scope.cluster)
    assert world.run(CHECK_GROUPS, again).errors == []
    (fault,) = world.run(CHECK_GROUPS, again.model_copy(update={"cluster": "other"})).errors
    assert "0 of 1 instances left" in fault.detail


def test_a_group_with_nodes_is_not_moved(world: World) -> None:
    with pytest.raises(ApplicationError) as caught:
        world.run(ENSURE_HYPERPOD, world.hyperpod(world.group(count=2, zone="us-west-2b")))
    assert problem(caught).code == "conflict"
    assert "subnets" in problem(caught).detail


def test_a_shortage_that_lasts_is_told_and_the_group_made_elsewhere(world: World, quiet: Sandbox) -> None:
    zone = "us-west-2c"
    quiet.call("PUT", "capacity", {zone: {"ml.g5.12xlarge": 0}})
    big: dict[str, Any] = {"name": "big", "instance_type": "ml.g5.12xlarge"}
    made = world.run(ENSURE_HYPERPOD, world.hyperpod(world.group(zone=zone, **big)))
    waited = WaitForHyperPod(scope=world.scope, name=made.name, eks_cluster=world.control_plane.name, groups=["big"])
    with pytest.raises(ApplicationError) as caught:
        world.run(WAIT_FOR_HYPERPOD, waited)
    found = problem(caught)
    assert (found.code, found.retryable, caught.value.non_retryable) == ("capacity", True, True)
    assert "big has 0 of 1 ml.g5.12xlarge" in found.detail
    assert "sufficient capacity" in found.detail
    elsewhere = world.hyperpod(world.group(zone="us-west-2a", **big))
    replaced = world.run(ENSURE_HYPERPOD, elsewhere)
    assert replaced.replacing == ["big"]
    gone = WaitForGroupsGone(scope=world.scope, name=made.name, groups=replaced.replacing)
    world.run(WAIT_FOR_GROUPS_GONE, gone)
    again = world.run(ENSURE_HYPERPOD, elsewhere)
    assert (again.replacing, again.changed) == ([], True)
    nodes = world.run(WAIT_FOR_HYPERPOD, waited).nodes
    assert [(node.accelerators, node.zone) for node in nodes if node.instance_group == "big"] == [(4, "us-west-2a")]


def test_while_too_few_are_counted_the_lists_of_all_nodes_are_read_rarely(world: World, quiet: Sandbox) -> None:
    quiet.call("PUT", "capacity", {"us-west-2c": {"ml.g5.12xlarge": 0}})
    rare = world.group(name="rare", instance_type="ml.g5.12xlarge", zone="us-west-2c")
    made = world.run(ENSURE_HYPERPOD, world.hyperpod(rare))
    waited = WaitForHyperPod(scope=world.scope, name=made.name, eks_cluster=world.control_plane.name, groups=["rare"])
    slow = {"api": "aws", "service": "sagemaker", "action": "latency"}
    quiet.fault(
        {**slow, "operation": "ListClusterNodes", "latency": 0.3},
        {**slow, "operation": "DescribeCluster", "latency": 0},
    )
    with pytest.raises(ApplicationError):
        world.run(WAIT_FOR_HYPERPOD, waited)
    looks = Counter(entry["operation"] for entry in quiet.fired())
    assert looks["DescribeCluster"] > 2 * looks["ListClusterNodes"] > 0


def test_with_nodes_everything_runs(world: World) -> None:
    scope, name = world.scope, world.control_plane.name
    for addon in ("coredns", "aws-mountpoint-s3-csi-driver"):
        waited = WaitForAddon(scope=scope, eks_cluster=name, name=addon, accept_waiting_for_nodes=False)
        assert world.run(WAIT_FOR_ADDON, waited).state is ComponentState.READY
    release = VerifyRelease(scope=scope, eks_cluster=name, name="hyperpod-dependencies")
    assert world.run(VERIFY_RELEASE, release).state is ComponentState.READY
    listed = world.run(
        LIST_NODES, ListNodes(scope=scope, name=ClusterNames(scope.cluster).hyperpod_cluster, eks_cluster=name)
    )
    assert all(node.ready for node in listed.nodes)


def test_what_others_delete_of_a_component_is_missed_and_made_again_by_installing_it(
    world: World, activities: Activities
) -> None:
    scope, name = world.scope, world.control_plane.name
    wanted = EnsureRelease(scope=scope, eks_cluster=name, name="hyperpod-dependencies")
    addon = EnsureAddon(scope=scope, eks_cluster=name, name="coredns", kubernetes_version="1.34")
    before = world.run(ENSURE_RELEASE, wanted)
    for _ in range(2):
        # Twice: the second request for the same is another one.
        with activities.kubernetes.connect(REGION, name) as api:
            apps = client.AppsV1Api(api)
            apps.delete_namespaced_daemon_set("efa-device-plugin", "kube-system")
            apps.delete_namespaced_deployment("coredns", "kube-system")
        with pytest.raises(ApplicationError) as caught:
            world.run.once(VERIFY_RELEASE, VerifyRelease(**wanted.model_dump()))
        assert "has lost DaemonSet kube-system/efa-device-plugin" in problem(caught).detail
        again = world.run(ENSURE_RELEASE, wanted)
        assert (again.changed, again.revision > before.revision) == (True, True)
        assert world.run(VERIFY_RELEASE, VerifyRelease(**wanted.model_dump())).state is ComponentState.READY
        assert world.run(ENSURE_ADDON, addon).status == "UPDATING"
        waited = WaitForAddon(scope=scope, eks_cluster=name, name="coredns", accept_waiting_for_nodes=False)
        assert world.run(WAIT_FOR_ADDON, waited).state is ComponentState.READY
        assert world.run(ENSURE_ADDON, addon).changed is False
        assert world.run(ENSURE_RELEASE, wanted).changed is False


def test_storage(world: World) -> None:
    scope, name = world.scope, world.control_plane.name
    spec = StorageSpec(prefix="data/")
    wanted = EnsureClaim(scope=scope, eks_cluster=name, bucket=world.bucket.name, spec=spec)
    world.run(ENSURE_CLAIM, wanted)
    assert world.run(ENSURE_CLAIM, wanted).changed is False
    waited = WaitForClaim(scope=scope, eks_cluster=name, claim="s3-claim", namespace="default")
    bound = world.run(WAIT_FOR_CLAIM, waited)
    assert (bound.phase, bound.prefix, bound.bucket) == ("Bound", "data/", world.bucket.name)
    with pytest.raises(ApplicationError) as caught:
        world.run(ENSURE_CLAIM, wanted.model_copy(update={"spec": StorageSpec(prefix="other/")}))
    assert problem(caught).code == "conflict"
    with pytest.raises(ApplicationError) as caught:
        world.run(ENSURE_CLAIM, wanted.model_copy(update={"spec": StorageSpec(namespace="nowhere")}))
    assert (problem(caught).code, problem(caught).field) == ("not_found", "/storage/namespace")
