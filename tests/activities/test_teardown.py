"""Deletion finds everything by itself, in every state that a creation may have left, and leaves nothing."""

from __future__ import annotations

import time
import uuid
from typing import Any

import boto3
import pytest
from kubernetes.utils import create_from_dict
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from activities.teardown.act import LIMITS_OF_OBJECTS
from contracts.dependencies import (
    ENSURE_ADDON,
    ENSURE_RELEASE,
    ENSURE_STORAGE_ROLE,
    EnsureAddon,
    EnsureRelease,
    EnsureStorageRole,
)
from contracts.eks import ENSURE_CONTROL_PLANE
from contracts.hyperpod import ENSURE_HYPERPOD, WAIT_FOR_HYPERPOD, WaitForHyperPod
from contracts.identity import (
    ENSURE_ACCESS_ENTRY,
    ENSURE_EXECUTION_ROLE,
    ENSURE_OIDC_PROVIDER,
    GET_CALLER,
    VERIFY_ACCESS,
    EnsureAccessEntry,
    EnsureOidcProvider,
    EnsureRole,
    GetCaller,
    VerifyAccess,
)
from contracts.names import ClusterNames
from contracts.network import (
    ENSURE_COMPUTE_SUBNET,
    ENSURE_VPC,
    PLAN_NETWORK,
    EnsureComputeSubnet,
    EnsureVpc,
    NetworkSpec,
    PlanNetwork,
    Scope,
)
from contracts.teardown import (
    DELETE_OBJECTS,
    DELETE_PART,
    KUBERNETES_PARTS,
    SURVEY,
    SWEEP,
    WAIT_UNTIL_GONE,
    WAIT_UNTIL_SETTLED,
    DeleteClusterSpec,
    DeletedPart,
    Inventory,
    Known,
    Level,
    Part,
    Teardown,
    TeardownPart,
)
from tests.activities.account import everything
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.test_node_pools import Pools
from tests.activities.world import World


@pytest.fixture
def session(activities: Activities) -> boto3.Session:
    return activities.aws.session


@pytest.fixture
def world(quiet: Sandbox, activities: Activities) -> World:
    quiet.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return World(Runner(activities, f"create-cluster/{scope.cluster}"), scope)


def asked(scope: Scope, **spec: Any) -> Teardown:
    names = ClusterNames(scope.cluster)
    known = Known(eks_clusters=[names.eks_cluster], hyperpod_clusters=[names.hyperpod_cluster])
    return Teardown(scope=scope, known=known, spec=DeleteClusterSpec.model_validate(spec))


def delete(run: Runner, wanted: Teardown, *parts: Part) -> list[DeletedPart]:
    """Delete parts as the operation does: each until it is gone."""
    done: list[DeletedPart] = []
    for name in run(WAIT_UNTIL_SETTLED, wanted).active:
        principal = run(GET_CALLER, GetCaller(region=REGION)).principal_arn
        run(ENSURE_ACCESS_ENTRY, EnsureAccessEntry(scope=wanted.scope, eks_cluster=name, principal_arn=principal))
        run(VERIFY_ACCESS, VerifyAccess(scope=wanted.scope, eks_cluster=name))
    for part in parts or tuple(Part):
        if not part.goes(wanted.spec):
            continue
        request = TeardownPart(**dict(wanted), part=part)
        limit = WAIT_UNTIL_GONE.limit * (LIMITS_OF_OBJECTS if part in KUBERNETES_PARTS else 1)
        while True:
            deleted = run(DELETE_OBJECTS if part in KUBERNETES_PARTS else DELETE_PART, request, attempts=60)
            run.once(WAIT_UNTIL_GONE, request, limit=limit)
            if not deleted.resources:
                break
            done.append(deleted)
    return done


def swept(run: Runner, wanted: Teardown) -> Inventory:
    return run(SWEEP, wanted)


def complete(world: World) -> str:
    """A whole cluster, with a node; its HyperPod cluster's name."""
    scope, eks = world.scope, world.control_plane.name
    world.run(
        ENSURE_STORAGE_ROLE,
        EnsureStorageRole(scope=scope, account=world.caller.account, eks_cluster=eks, bucket=world.bucket.name),
    )
    for name in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent"):
        world.run(ENSURE_ADDON, EnsureAddon(scope=scope, eks_cluster=eks, name=name, kubernetes_version="1.34"))
    world.run(ENSURE_RELEASE, EnsureRelease(scope=scope, eks_cluster=eks, name="hyperpod-dependencies"))
    made = world.run(ENSURE_HYPERPOD, world.hyperpod(world.group()))
    wanted = WaitForHyperPod(
        scope=world.scope, name=made.name, eks_cluster=world.control_plane.name, groups=["workers"]
    )
    world.run(WAIT_FOR_HYPERPOD, wanted)
    world.run(ENSURE_OIDC_PROVIDER, EnsureOidcProvider(scope=world.scope, eks_cluster=world.control_plane.name))
    return made.name


def apply(activities: Activities, cluster: str, *manifests: dict[str, Any]) -> None:
    with activities.kubernetes.connect(REGION, cluster) as api:
        for manifest in manifests:
            make: Any = create_from_dict
            make(api, manifest)


def application(name: str, namespace: str = "default", **pod: Any) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "app:1"}], **pod},
            },
        },
    }


def claim(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "ebs",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }


def volume_of(activities: Activities, name: str) -> str:
    wanted: Any = [{"Name": "tag:kubernetes.io/created-for/pvc/name", "Values": [name]}]
    return str(activities.aws.read.ec2(REGION).describe_volumes(Filters=wanted)["Volumes"][0]["VolumeId"])


def workloads(activities: Activities, cluster: str, session: boto3.Session) -> None:
    """A load balancer for a Service, an EBS volume that a Deployment's pod mounts, and one that nobody does."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    apply(
        activities,
        cluster,
        application("aws-load-balancer-controller", "kube-system"),
        application("web", volumes=[volume]),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "type": "LoadBalancer",
                "loadBalancerClass": "service.k8s.aws/nlb",
                "ports": [{"port": 80}],
                "selector": {"app": "web"},
            },
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": "ebs.csi.aws.com"},
            "spec": {"attachRequired": True},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "ebs"},
            "provisioner": "ebs.csi.aws.com",
            "reclaimPolicy": "Delete",
        },
        claim("data"),
        claim("kept"),
    )
    deadline = time.monotonic() + 30
    while not (there := everything(session))["Load balancers"] or len(there["Volumes"]) < 2:
        assert time.monotonic() < deadline, there
        time.sleep(0.2)


def test_a_complete_cluster_with_workloads_leaves_only_what_is_kept(
    world: World, activities: Activities, session: boto3.Session
) -> None:
    before = everything(session)
    complete(world)
    workloads(activities, world.control_plane.name, session)
    volume = volume_of(activities, "kept")
    wanted = asked(world.scope, delete_bucket=True, keep=[volume])
    found = world.run(SURVEY, wanted)
    assert found.leftovers == []
    assert {each.name for each in found.resources if each.part is Part.WORKLOADS} == {"default/web", "default/data"}
    assert any("default/data" in warning and "10Gi" in warning for warning in found.warnings)

    deleted = delete(world.run, wanted)

    assert everything(session) == {**before, "Volumes": [volume]}
    assert [each.id for part in deleted for each in part.kept] == [volume]
    assert (swept(world.run, wanted).resources, swept(world.run, wanted).leftovers) == ([], [])
    unaware = swept(world.run, asked(world.scope))
    assert [(each.kind, each.id) for each in unaware.leftovers] == [("EBS volume", volume)]


STAGES = ("vpc", "public", "security_group", "endpoint", "nat", "cluster_role", "scripts", "eks", "hyperpod")


@pytest.mark.parametrize("reached", ["vpc", "nat", "scripts", "eks", "hyperpod"])
def test_a_half_made_cluster_leaves_nothing(world: World, session: boto3.Session, reached: str) -> None:
    before = everything(session)
    for stage in STAGES[: STAGES.index(reached) + 1]:
        match stage:
            case "eks":
                world.run(ENSURE_CONTROL_PLANE, world.control_plane_request)
            case "hyperpod":
                world.run(ENSURE_HYPERPOD, world.hyperpod(world.group()))
            case _:
                getattr(world, stage)

    delete(world.run, asked(world.scope, delete_bucket=True))

    assert everything(session) == before


DELETIONS = (
    "DeleteNatGateway",
    "DeleteVpcEndpoints",
    "ReleaseAddress",
    "DeleteSubnet",
    "DeleteRouteTable",
    "DetachInternetGateway",
    "DeleteInternetGateway",
    "DeleteSecurityGroup",
    "DeleteVpc",
    "DetachRolePolicy",
    "DeleteRolePolicy",
    "DeleteRole",
    "DeleteObjects",
    "DeleteBucket",
)


def test_lost_answers_to_deletions_are_asked_for_again(world: World, quiet: Sandbox, session: boto3.Session) -> None:
    before = everything(session)
    assert all([world.nat, world.endpoint, world.security_group, world.execution_role, world.scripts])
    quiet.fault(
        *({"operation": name, "phase": "after", "action": "drop", "times": 1} for name in DELETIONS),
    )

    delete(world.run, asked(world.scope, delete_bucket=True))

    assert everything(session) == before
    assert {each["operation"] for each in quiet.fired()} == set(DELETIONS)


def test_what_others_made_blocks_by_its_name_until_it_is_gone(world: World, activities: Activities) -> None:
    ec2, elb = activities.aws.act.ec2(REGION), activities.aws.act.elbv2(REGION)
    ours, vpc_id = world.security_group.security_group_id, world.vpc.vpc_id
    subnet_id = world.public[0].subnet_id
    group = ec2.create_security_group(GroupName="theirs", Description="theirs", VpcId=vpc_id)["GroupId"]
    ec2.authorize_security_group_ingress(
        GroupId=group, IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": ours}]}]
    )
    eni = ec2.create_network_interface(SubnetId=subnet_id, Groups=[ours], Description="a database")
    eni_id = eni["NetworkInterface"]["NetworkInterfaceId"]
    orphan = ec2.create_network_interface(SubnetId=subnet_id, Description="aws-K8S-i-0123456789abcdef0")
    assert world.endpoint
    balancer = elb.create_load_balancer(
        Name="theirs", Subnets=[each.subnet_id for each in world.public], Type="network", Scheme="internal"
    )["LoadBalancers"][0]["LoadBalancerArn"]
    wanted = asked(world.scope)

    found = world.run(SURVEY, wanted)
    named = {(each.kind, each.id) for each in found.leftovers}
    assert named == {("security group", group), ("network interface", eni_id), ("load balancer", "theirs")}
    orphans = [each.id for each in found.resources if each.part is Part.INTERFACES]
    assert orphans == [orphan["NetworkInterface"]["NetworkInterfaceId"]]
    with pytest.raises(ApplicationError) as caught:
        delete(world.run, wanted)
    assert problem(caught).code == "foreign"
    assert all(identifier in problem(caught).detail for _, identifier in named if identifier != group)

    elb.delete_load_balancer(LoadBalancerArn=balancer)
    ec2.delete_network_interface(NetworkInterfaceId=eni_id)
    ec2.delete_security_group(GroupId=group)
    delete(world.run, wanted)
    assert swept(world.run, wanted).resources == []


def test_other_clusters_and_the_bucket_stay(world: World, activities: Activities, session: boto3.Session) -> None:
    scope = world.scope.model_copy(update={"cluster": f"{world.scope.cluster}-2"})
    other = World(world.run, scope)
    assert all([other.vpc, other.security_group, other.cluster_role, other.bucket])
    staying = everything(session)
    assert all([world.vpc, world.cluster_role, world.scripts])

    found = world.run(SURVEY, asked(world.scope))
    delete(world.run, asked(world.scope))

    assert [each.id for each in found.kept] == [world.bucket.name]
    after = everything(session)
    assert {**after, "Buckets": []} == {**staying, "Buckets": []}
    assert after["Buckets"] == sorted([*staying["Buckets"], world.bucket.name])


def test_a_vpc_that_was_given_keeps_what_is_not_the_clusters(
    world: World, activities: Activities, session: boto3.Session
) -> None:
    ec2 = activities.aws.act.ec2(REGION)
    vpc_id = ec2.create_vpc(CidrBlock="10.60.0.0/16")["Vpc"]["VpcId"]
    for attribute in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2.modify_vpc_attribute(VpcId=vpc_id, **{attribute: {"Value": True}})  # type: ignore[arg-type]
    ec2.create_subnet(VpcId=vpc_id, CidrBlock="10.60.200.0/24")
    ec2.create_security_group(GroupName="theirs", Description="theirs", VpcId=vpc_id)
    before, scope = everything(session), world.scope
    spec = NetworkSpec(vpc_id=vpc_id)
    plan = world.run(PLAN_NETWORK, PlanNetwork(cluster=scope.cluster, region=REGION, spec=spec))
    world.plan, world.vpc = plan, world.run(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan, vpc_id=vpc_id))
    shared = world.compute("us-west-2a")
    own = world.run(
        ENSURE_COMPUTE_SUBNET,
        EnsureComputeSubnet(
            scope=scope,
            vpc_id=vpc_id,
            zone="us-west-2a",
            addresses=60,
            nat_gateways=[world.nat],
            group="workers",
            dedicated=True,
        ),
    )
    assert world.security_group

    delete(world.run, asked(scope))
    kept = swept(world.run, asked(scope)).kept
    assert [(each.kind, each.id) for each in kept] == [("dedicated subnet", own.subnet_id)]
    assert shared.subnet_id not in everything(session)["Subnets"]

    delete(world.run, asked(scope, level=Level.EKS, delete_dedicated_subnets=True))
    assert everything(session) == before


def test_clusters_that_are_not_tagged_block(world: World, activities: Activities) -> None:
    made = world.run(ENSURE_CONTROL_PLANE, world.control_plane_request)
    eks = activities.aws.act.eks(REGION)
    wanted = asked(world.scope)
    eks.untag_resource(resourceArn=made.arn, tagKeys=["instantstart:cluster"])
    recorded = wanted.known.model_copy(update={"recorded": [made.name]})
    found = world.run(SURVEY, wanted.model_copy(update={"known": recorded}))
    blocking = next(each for each in found.leftovers if each.kind == "EKS cluster")
    assert "adopt" in blocking.remedy
    assert not [each for each in found.resources if each.part is Part.CONTROL_PLANE]
    assert {each.kind for each in world.run(SURVEY, wanted).leftovers} >= {"EKS cluster"}  # it is in our VPC
    level = asked(world.scope, level=Level.HYPERPOD).model_copy(update={"known": recorded})
    assert world.run(SURVEY, level).leftovers == []


def test_a_hyperpod_cluster_without_its_role_says_so_and_goes_on_once_it_is_back(
    world: World, activities: Activities
) -> None:
    name = complete(world)
    iam = activities.aws.act.iam(REGION)
    wanted = asked(world.scope, level=Level.HYPERPOD)
    role = world.execution_role.name
    iam.delete_role_policy(RoleName=role, PolicyName="instantstart")
    for policy in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        iam.detach_role_policy(RoleName=role, PolicyArn=policy["PolicyArn"])
    iam.delete_role(RoleName=role)
    with pytest.raises(ApplicationError) as caught:
        delete(world.run, wanted, Part.HYPERPOD)
    assert problem(caught).code == "not_ready"
    assert role in str(problem(caught).remedy)

    world.run(ENSURE_EXECUTION_ROLE, EnsureRole(scope=world.scope, account=world.caller.account))
    delete(world.run, wanted, Part.HYPERPOD)
    listed = activities.aws.read.sagemaker(REGION).list_clusters()["ClusterSummaries"]
    assert name not in [each["ClusterName"] for each in listed]


def test_node_pools_go_before_hyperpod_and_the_eks_cluster_stays(world: World, activities: Activities) -> None:
    pools = Pools(world, activities)
    pools.switch_on()
    pools.ensure(pools.spec())
    wanted = asked(world.scope, level=Level.HYPERPOD)
    found = world.run(SURVEY, wanted)
    assert [(each.kind, each.name) for each in found.resources] == [
        ("node pool", "gpus"),
        ("node class", "gpus"),
        ("HyperPod cluster", pools.hyperpod.name),
    ]

    delete(world.run, wanted)

    assert pools.list() == []
    assert swept(world.run, wanted).resources == []
    assert [each.name for each in world.run(SURVEY, asked(world.scope)).resources if each.kind == "EKS cluster"]
