"""EKS node groups on one cluster of the sandbox: made, short of capacity, scaled, planned and deleted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.instance_types import describe_types
from activities.node_groups.templates import efa_interfaces
from activities.registry import Activities
from contracts.catalogue import CREATE_NODE_GROUP, DELETE_NODE_GROUP, SCALE_NODE_GROUP
from contracts.cluster import ClusterRecord
from contracts.dependencies import ENSURE_ADDON, EnsureAddon
from contracts.network import Network, Scope
from contracts.node_groups import (
    DELETE_LAUNCH_TEMPLATE,
    DELETE_NODE_ROLE,
    ENSURE_DEVICE_PLUGINS,
    ENSURE_LAUNCH_TEMPLATE,
    ENSURE_NODE_GROUP,
    ENSURE_NODE_ROLE,
    LIST_NODE_GROUPS,
    SCALE_NODE_GROUP_TO,
    START_NODE_GROUP_DELETION,
    WAIT_FOR_NODE_GROUP,
    WAIT_FOR_NODE_GROUP_GONE,
    DeleteNodeRole,
    EnsureDevicePlugins,
    EnsureLaunchTemplate,
    EnsureNodeGroup,
    EnsureNodeRole,
    ListNodeGroups,
    NodeGroup,
    NodeGroupRef,
    NodeGroupSpec,
    ScaleNodeGroup,
    ScaleNodeGroupSpec,
    WaitForNodeGroup,
)
from contracts.plans import MAKE_PLAN, Action, MakePlan, PlanDraft
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World


class Groups:
    """Node groups of a cluster, and what they are made with."""

    def __init__(self, world: World) -> None:
        self.world, self.scope, self.run = world, world.scope, world.run
        self.cluster = world.control_plane.name
        world.run(
            ENSURE_ADDON,
            EnsureAddon(scope=self.scope, eks_cluster=self.cluster, name="vpc-cni", kubernetes_version="1.34"),
        )

    def spec(self, name: str = "gpu", desired: int = 1, **more: Any) -> NodeGroupSpec:
        given: dict[str, Any] = {"instance_types": ["g5.8xlarge"], "volume_gib": 100, **more}
        return NodeGroupSpec.model_validate({"name": name, "scaling": {"desired": desired}, **given})

    def request(self, spec: NodeGroupSpec, zone: str = "us-west-2a") -> EnsureNodeGroup:
        security_groups = [self.world.security_group.security_group_id]
        wanted = EnsureLaunchTemplate(scope=self.scope, spec=spec, security_group_ids=security_groups)
        return EnsureNodeGroup(
            scope=self.scope,
            eks_cluster=self.cluster,
            spec=spec,
            role_arn=self.run(ENSURE_NODE_ROLE, EnsureNodeRole(scope=self.scope)).arn,
            subnet_ids=[self.world.compute(zone).subnet_id],
            launch_template=self.run(ENSURE_LAUNCH_TEMPLATE, wanted),
        )

    def ensure(self, spec: NodeGroupSpec, zone: str = "us-west-2a") -> NodeGroup:
        return self.run(ENSURE_NODE_GROUP, self.request(spec, zone))

    def wait(self, name: str, desired: int, **more: Any) -> NodeGroup:
        wanted = WaitForNodeGroup(scope=self.scope, eks_cluster=self.cluster, name=name, desired=desired, **more)
        return self.run(WAIT_FOR_NODE_GROUP, wanted)

    def ref(self, name: str) -> NodeGroupRef:
        return NodeGroupRef(scope=self.scope, eks_cluster=self.cluster, name=name)

    def delete(self, name: str) -> None:
        self.run(START_NODE_GROUP_DELETION, self.ref(name))
        self.run(WAIT_FOR_NODE_GROUP_GONE, self.ref(name))

    def names(self) -> list[str]:
        found = self.run(LIST_NODE_GROUPS, ListNodeGroups(scope=self.scope, eks_cluster=self.cluster))
        return [group.name for group in found.node_groups]

    def plan(self, kind: str, spec: dict[str, Any]) -> PlanDraft:
        world = self.world
        network = Network(
            vpc_id=world.vpc.vpc_id,
            vpc_cidrs=world.vpc.cidrs,
            owned=True,
            service_cidr=world.plan.service_cidr,
            zones=world.plan.zones,
            public_subnet_ids=[],
            control_plane_subnet_ids=[],
            security_group_id=world.security_group.security_group_id,
            compute_subnets=[world.compute("us-west-2a")],
        )
        now = datetime.now(UTC)
        record = ClusterRecord(
            tag=self.scope.cluster,
            region=REGION,
            created_by="tests",
            created_at=now,
            updated_at=now,
            network=network,
            control_plane=world.control_plane,
        )
        return self.run(MAKE_PLAN, MakePlan(kind=kind, record=record, spec=spec)).draft


@pytest.fixture(scope="module")
def groups(sandbox: Sandbox, activities: Activities) -> Groups:
    sandbox.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return Groups(World(Runner(activities, f"create-node-group/{scope.cluster}/gpu"), scope))


@pytest.fixture(autouse=True)
def _calm(quiet: Sandbox) -> Iterator[None]:
    yield
    quiet.call("PUT", "capacity", {})


def test_a_group_is_made_once_and_its_gpus_are_there(groups: Groups, quiet: Sandbox) -> None:
    spec = groups.spec(labels={"example.com/team": "a"}, taints=[{"key": "gpu", "effect": "NoSchedule"}])
    mark = quiet.mark()
    for operation in ("CreateRole", "CreateLaunchTemplate", "CreateNodegroup"):
        quiet.lose_response(operation)
        groups.ensure(spec)
        assert len(quiet.effects(operation, since=mark)) == 1
        quiet.fault()
    wanted = EnsureDevicePlugins(scope=groups.scope, eks_cluster=groups.cluster, resources=["nvidia.com/gpu"])
    assert groups.run(ENSURE_DEVICE_PLUGINS, wanted).changed is True
    assert groups.run(ENSURE_DEVICE_PLUGINS, wanted).changed is False
    ready = groups.wait("gpu", 1)
    assert (ready.status, ready.ready, ready.accelerators, ready.owned) == ("ACTIVE", 1, 1, True)
    mark = quiet.mark()
    assert groups.ensure(spec).changed is False
    assert quiet.effects(since=mark) == []


def test_what_exists_and_differs_is_a_conflict(groups: Groups) -> None:
    with pytest.raises(ApplicationError) as caught:
        groups.ensure(groups.spec(instance_types=["g5.12xlarge"]))
    assert problem(caught).code == "conflict"
    assert "instance types is ['g5.8xlarge'], asked was ['g5.12xlarge']" in problem(caught).detail


def test_a_group_without_our_tag_is_never_adopted(groups: Groups, activities: Activities) -> None:
    eks = activities.aws.act.eks(REGION)
    request = groups.request(groups.spec("theirs", desired=0))
    eks.create_nodegroup(
        clusterName=groups.cluster,
        nodegroupName="theirs",
        subnets=request.subnet_ids,
        nodeRole=request.role_arn,
        instanceTypes=["m5.large"],
        scalingConfig={"minSize": 0, "maxSize": 3, "desiredSize": 0},
    )
    with pytest.raises(ApplicationError) as caught:
        groups.run(ENSURE_NODE_GROUP, request)
    assert problem(caught).code == "foreign"
    groups.wait("theirs", 0)
    draft = groups.plan(SCALE_NODE_GROUP.name, {"node_group": "theirs", "desired": 1})
    assert (draft.blockers, len(draft.warnings)) == ([], 1)
    groups.delete("theirs")


def test_a_shortage_that_lasts_is_told_and_the_group_made_anew_elsewhere(groups: Groups, quiet: Sandbox) -> None:
    quiet.call("PUT", "capacity", {"us-west-2a": {"g5.4xlarge": 0}})
    short = groups.spec("big", instance_types=["g5.4xlarge"])
    groups.ensure(short)
    with pytest.raises(ApplicationError) as caught:
        groups.wait("big", 1)
    found = problem(caught)
    assert (found.code, found.retryable) == ("capacity", True)
    assert "InsufficientInstanceCapacity" in found.detail
    assert groups.ensure(short, zone="us-west-2b").replacing is True
    groups.run(WAIT_FOR_NODE_GROUP_GONE, groups.ref("big"))
    again = groups.request(short, zone="us-west-2b").model_copy(update={"round": 2})
    assert groups.run(ENSURE_NODE_GROUP, again).replacing is False
    assert groups.wait("big", 1).ready == 1


def test_scaling_moves_the_bounds_as_far_as_it_must(groups: Groups, quiet: Sandbox) -> None:
    def scale(desired: int, **more: Any) -> NodeGroup:
        spec = ScaleNodeGroupSpec(node_group="gpu", desired=desired, **more)
        return groups.run(
            SCALE_NODE_GROUP_TO, ScaleNodeGroup(scope=groups.scope, eks_cluster=groups.cluster, spec=spec)
        )

    quiet.lose_response("UpdateNodegroupConfig", "eks")
    scale(2, minimum=1)
    grown = groups.wait("gpu", 2)
    assert (grown.minimum, grown.desired, grown.maximum, grown.accelerators) == (1, 2, 2, 2)
    scale(0)
    shrunk = groups.wait("gpu", 0)
    assert (shrunk.minimum, shrunk.maximum, shrunk.ready) == (0, 2, 0)
    mark = quiet.mark()
    assert scale(0).changed is False
    assert quiet.effects(since=mark) == []


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ({"instance_types": ["q9.large"]}, "/instance_types/0", "no instance type"),
        ({"instance_types": ["g5.8xlarge", "m5.large"]}, "/instance_types/1", "a group has one"),
        ({"instance_types": ["m5.large"], "efa": True}, "/efa", "no EFA"),
        ({"availability_zones": ["us-west-2z"]}, "/availability_zones/0", "does not offer"),
        ({"subnet_ids": ["subnet-0123456789abcdef0"]}, "/subnet_ids", "exist"),
        ({"instance_types": ["g5.12xlarge"]}, "/name", "differs"),
    ],
)
def test_what_cannot_work_is_refused_up_front(groups: Groups, more: dict[str, Any], field: str, words: str) -> None:
    spec = groups.spec(**more).model_dump(mode="json")
    (blocker,) = groups.plan(CREATE_NODE_GROUP.name, spec).blockers
    assert blocker.field == field
    assert words in blocker.detail


def test_a_plan_says_what_would_be_made_and_deleted(groups: Groups) -> None:
    made = groups.plan(CREATE_NODE_GROUP.name, groups.spec("new", desired=3).model_dump(mode="json"))
    assert [(change.action, change.kind) for change in made.changes][-1] == (Action.CREATE, "node group")
    assert (made.capacity[0].count, made.capacity[0].availability_zone) == (3, "us-west-2a")
    gone = groups.plan(DELETE_NODE_GROUP.name, {"node_group": "big"})
    assert [(change.action, change.kind) for change in gone.changes] == [
        (Action.DELETE, "node group"),
        (Action.DELETE, "launch template"),
        (Action.KEEP, "IAM role"),
    ]
    (unknown,) = groups.plan(DELETE_NODE_GROUP.name, {"node_group": "nothing"}).blockers
    assert (unknown.code, unknown.field) == ("not_found", "/node_group")


def test_efa_interfaces_are_one_for_each_card(activities: Activities) -> None:
    facts = describe_types(activities.aws, REGION, ["p4d.24xlarge", "g5.8xlarge"])
    interfaces = efa_interfaces([facts["p4d.24xlarge"]], ["sg-1"])
    assert [each["NetworkCardIndex"] for each in interfaces] == [0, 1, 2, 3]
    assert [each["InterfaceType"] for each in interfaces] == ["efa", "efa-only", "efa-only", "efa-only"]
    assert [each["DeviceIndex"] for each in interfaces] == [0, 1, 1, 1]
    assert len(efa_interfaces([facts["g5.8xlarge"]], ["sg-1"])) == 1


def test_efa_nodes_offer_efa(groups: Groups) -> None:
    spec = groups.spec("fabric", efa=True)
    wanted = EnsureDevicePlugins(
        scope=groups.scope, eks_cluster=groups.cluster, resources=["nvidia.com/gpu", "vpc.amazonaws.com/efa"]
    )
    groups.run(ENSURE_DEVICE_PLUGINS, wanted)
    groups.ensure(spec)
    assert groups.wait("fabric", 1, efa=True).ready == 1


def test_the_role_goes_with_the_last_group_and_leaves_no_access_entry(groups: Groups, activities: Activities) -> None:
    role = DeleteNodeRole(scope=groups.scope, eks_cluster=groups.cluster)
    arn = groups.request(groups.spec()).role_arn
    assert "has it" in (groups.run(DELETE_NODE_ROLE, role).kept or "")
    for name in ("gpu", "big", "fabric"):
        groups.delete(name)
        assert groups.run(DELETE_LAUNCH_TEMPLATE, groups.ref(name)).changed is True
    assert groups.names() == []
    assert groups.run(DELETE_NODE_ROLE, role).kept is None
    entries = activities.aws.read.eks(REGION).list_access_entries(clusterName=groups.cluster)["accessEntries"]
    assert arn not in entries
    assert groups.run(DELETE_NODE_ROLE, role).changed is False
    assert groups.run(DELETE_LAUNCH_TEMPLATE, groups.ref("gpu")).changed is False


def test_a_capacity_block_stands_in_the_launch_template_and_pins_its_type(
    groups: Groups, activities: Activities
) -> None:
    block = {"capacity": "capacity-block", "capacity_reservation_id": "cr-0123456789abcdef0"}
    spec = groups.spec("block", **block)
    wanted = EnsureLaunchTemplate(scope=groups.scope, spec=spec, security_group_ids=[])
    template = groups.run(ENSURE_LAUNCH_TEMPLATE, wanted)
    assert groups.run(ENSURE_LAUNCH_TEMPLATE, wanted).changed is False
    (version,) = activities.aws.read.ec2(REGION).describe_launch_template_versions(
        LaunchTemplateId=template.launch_template_id
    )["LaunchTemplateVersions"]
    data = version["LaunchTemplateData"]
    assert (data["InstanceType"], data["InstanceMarketOptions"]) == ("g5.8xlarge", {"MarketType": "capacity-block"})
    (blocker,) = groups.plan(CREATE_NODE_GROUP.name, spec.model_dump(mode="json")).blockers
    assert blocker.field == "/capacity_reservation_id"
    groups.run(DELETE_LAUNCH_TEMPLATE, groups.ref("block"))
