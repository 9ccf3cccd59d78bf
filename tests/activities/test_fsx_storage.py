"""FSx for Lustre in the sandbox: checked before it is bought, made once, mounted, and deleted only where it is ours."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.catalogue import CREATE_FSX_STORAGE, DELETE_STORAGE
from contracts.dependencies import ENSURE_ADDON, EnsureAddon
from contracts.fsx_storage import (
    DELETE_FILE_SYSTEM,
    ENSURE_FILE_SYSTEM,
    ENSURE_FSX_CLAIM,
    ENSURE_LUSTRE_ACCESS,
    FIND_FILE_SYSTEM_PLACE,
    WAIT_FOR_FILE_SYSTEM,
    WAIT_FOR_FILE_SYSTEM_GONE,
    EnsureFileSystem,
    EnsureFsxClaim,
    EnsureLustreAccess,
    FileSystem,
    FileSystemPlace,
    FileSystemRef,
    FindPlace,
    FsxStorageSpec,
    NewFileSystem,
)
from contracts.imports import DETECT_WORKLOADS, DetectWorkloads
from contracts.network import Scope
from contracts.plans import Action, PlanDraft
from contracts.storage import (
    LIST_STORAGE_CONTENTS,
    REMOVE_PROBE,
    WAIT_FOR_CLAIM,
    Claim,
    ListContents,
    ProbeState,
    StorageType,
    WaitForClaim,
)
from tests.activities.claims import Cluster, blockers
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World, until


class Fsx(Cluster):
    """A cluster with the FSx CSI driver."""

    def __init__(self, world: World, activities: Activities) -> None:
        super().__init__(world, activities)
        wanted = EnsureAddon(
            scope=self.scope, eks_cluster=self.name, name="aws-fsx-csi-driver", kubernetes_version="1.34"
        )
        self.run(ENSURE_ADDON, wanted)
        self.fsx = activities.aws.act.fsx(REGION)
        self.ec2 = activities.aws.act.ec2(REGION)

    def place(self, **create: Any) -> FileSystemPlace:
        asked = FindPlace(
            scope=self.scope,
            eks_cluster=self.name,
            hyperpod_cluster=self.hyperpod.name,
            create=NewFileSystem.model_validate(create),
        )
        return self.run(FIND_FILE_SYSTEM_PLACE, asked)

    def wish(self, claim: str, **create: Any) -> EnsureFileSystem:
        return EnsureFileSystem(
            scope=self.scope,
            claim=claim,
            namespace="default",
            create=NewFileSystem.model_validate(create),
            place=self.place(),
        )

    def file_system(self, claim: str, **create: Any) -> FileSystem:
        made = self.run(ENSURE_FILE_SYSTEM, self.wish(claim, **create))
        return self.run(WAIT_FOR_FILE_SYSTEM, self.file_system_ref(made.file_system_id))

    def file_system_ref(self, name: str) -> FileSystemRef:
        return FileSystemRef(scope=self.scope, file_system_id=name)

    def mount(self, file_system: FileSystem, claim: str, **more: Any) -> Claim:
        spec = FsxStorageSpec(claim=claim, file_system_id=file_system.file_system_id, **more)
        wanted = EnsureFsxClaim(scope=self.scope, eks_cluster=self.name, file_system=file_system, spec=spec)
        self.run(ENSURE_FSX_CLAIM, wanted)
        waited = WaitForClaim(scope=self.scope, eks_cluster=self.name, claim=claim, namespace="default")
        return self.run(WAIT_FOR_CLAIM, waited)

    def others(self, subnet: str, group: str, **more: Any) -> str:
        """A file system that somebody else has made, there already."""
        made = self.fsx.create_file_system(
            FileSystemType="LUSTRE",
            StorageCapacity=1200,
            SubnetIds=[subnet],
            SecurityGroupIds=[group],
            LustreConfiguration={"DeploymentType": "SCRATCH_2"},
            **more,
        )["FileSystem"]
        name = str(made["FileSystemId"])
        until(lambda: self.lifecycle(name) == "AVAILABLE")
        return name

    def lifecycle(self, name: str) -> str:
        return str(self.fsx.describe_file_systems(FileSystemIds=[name])["FileSystems"][0]["Lifecycle"])

    def owned(self) -> list[str]:
        found = self.fsx.describe_file_systems()["FileSystems"]
        return [each["FileSystemId"] for each in found if each["Tags"]]

    def fsx_plan(self, **spec: Any) -> PlanDraft:
        return self.plan(CREATE_FSX_STORAGE.name, **spec)


@pytest.fixture(scope="module")
def cluster(sandbox: Sandbox, activities: Activities) -> Fsx:
    sandbox.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    return Fsx(World(Runner(activities, f"create-fsx-storage/{scope.cluster}"), scope), activities)


@pytest.fixture(autouse=True)
def _calm(quiet: Sandbox) -> None:
    """No fault is left of another test."""


# File systems


def test_a_file_system_goes_where_most_nodes_are(cluster: Fsx) -> None:
    place = cluster.place()
    assert place.zone == "us-west-2a"
    assert place.security_group_id == cluster.world.security_group.security_group_id
    assert place.client_group_ids == [], "nodes have no other group"
    other = next(each for each in cluster.world.control if each.zone == "us-west-2b")
    assert cluster.place(availability_zone="us-west-2b").subnet_id == other.subnet_id
    assert cluster.place(subnet_id=other.subnet_id).zone == "us-west-2b"
    for create, field in (
        ({"availability_zone": "us-west-2d"}, "/create/availability_zone"),
        ({"subnet_id": "subnet-0123456789abcdef0"}, "/create/subnet_id"),
    ):
        with pytest.raises(ApplicationError) as caught:
            cluster.place(**create)
        assert (problem(caught).code, problem(caught).field) == ("not_found", field)


def test_a_file_system_is_made_once_also_when_the_answer_is_lost(cluster: Fsx, quiet: Sandbox) -> None:
    mark = quiet.mark()
    quiet.lose_response("CreateFileSystem", "fsx")
    made = cluster.file_system("once")
    assert (made.lifecycle, made.owned, made.deployment_type, made.throughput) == (
        "AVAILABLE",
        True,
        "PERSISTENT_2",
        125,
    )
    again = cluster.run(ENSURE_FILE_SYSTEM, cluster.wish("once"))
    assert (again.file_system_id, again.changed) == (made.file_system_id, False)
    assert len(quiet.effects("CreateFileSystem", "fsx", since=mark)) == 1
    tags = cluster.fsx.describe_file_systems(FileSystemIds=[made.file_system_id])["FileSystems"][0]["Tags"]
    assert {each["Key"]: each["Value"] for each in tags}["instantstart:resource"] == "fsx/default/once"


def test_another_shape_under_the_same_claim_is_a_conflict_that_names_the_file_system(cluster: Fsx) -> None:
    made = cluster.file_system("shaped", deployment_type="SCRATCH_2")
    with pytest.raises(ApplicationError) as caught:
        cluster.run(ENSURE_FILE_SYSTEM, cluster.wish("shaped", capacity_gib=2400))
    found = problem(caught)
    assert (found.code, found.field) == ("conflict", "/create/capacity_gib")
    assert made.file_system_id in found.detail
    plan = cluster.fsx_plan(claim="shaped", create={"capacity_gib": 2400, "deployment_type": "SCRATCH_2"})
    assert blockers(plan) == {"/create/capacity_gib": "conflict"}


def test_one_that_fails_says_why_and_is_not_made_twice(cluster: Fsx, quiet: Sandbox) -> None:
    quiet.call("PUT", "file-systems", {"failing": ["no capacity left in us-west-2a"]})
    mark = quiet.mark()
    for _ in range(2):
        with pytest.raises(ApplicationError) as caught:
            cluster.file_system("failed")
        assert problem(caught).code == "not_ready"
        assert "no capacity left in us-west-2a" in problem(caught).detail
    assert len(quiet.effects("CreateFileSystem", "fsx", since=mark)) == 1
    assert blockers(cluster.fsx_plan(claim="failed", create={})) == {"/create": "not_ready"}


def test_a_rule_that_fsx_does_not_see_yet_is_waited_for(cluster: Fsx, quiet: Sandbox) -> None:
    quiet.fault({"operation": "CreateFileSystem", "service": "fsx", "code": "InvalidNetworkSettings", "times": 2})
    assert cluster.run(ENSURE_FILE_SYSTEM, cluster.wish("late", deployment_type="SCRATCH_2")).changed
    assert cluster.run.attempts == 3
    quiet.fault({"operation": "CreateFileSystem", "service": "fsx", "code": "InvalidNetworkSettings"})
    with pytest.raises(ApplicationError) as caught:
        cluster.run(ENSURE_FILE_SYSTEM, cluster.wish("never"))
    assert problem(caught).code != "propagation"


def test_lustre_is_let_through_once_and_only_where_it_was_not(cluster: Fsx, quiet: Sandbox) -> None:
    vpc, own = cluster.world.vpc.vpc_id, cluster.world.security_group.security_group_id
    mark = quiet.mark()
    wanted = EnsureLustreAccess(scope=cluster.scope, vpc_id=vpc, security_group_id=own)
    assert cluster.run(ENSURE_LUSTRE_ACCESS, wanted).changed is False
    assert quiet.effects(since=mark) == [], "EFA's rules let everything through already"
    closed = cluster.ec2.create_security_group(GroupName=f"c{mark}", Description="x", VpcId=vpc)["GroupId"]
    alone = wanted.model_copy(update={"security_group_id": closed})
    quiet.lose_response("AuthorizeSecurityGroupIngress", "ec2")
    assert cluster.run(ENSURE_LUSTRE_ACCESS, alone).changed
    assert cluster.run(ENSURE_LUSTRE_ACCESS, alone).changed is False
    assert rules(cluster, closed) == [(988, 988, closed), (1018, 1023, closed)]


def test_nodes_with_other_groups_are_let_in_by_their_addresses(cluster: Fsx) -> None:
    vpc = cluster.world.vpc.vpc_id
    own, theirs = (
        cluster.ec2.create_security_group(GroupName=f"of-{name}", Description="x", VpcId=vpc)["GroupId"]
        for name in ("servers", "nodes")
    )
    wanted = EnsureLustreAccess(scope=cluster.scope, vpc_id=vpc, security_group_id=own, client_group_ids=[theirs])
    assert cluster.run(ENSURE_LUSTRE_ACCESS, wanted).changed
    assert cluster.run(ENSURE_LUSTRE_ACCESS, wanted).changed is False
    block = cluster.world.plan.vpc_cidr
    assert rules(cluster, own) == [(988, 988, block), (1018, 1023, block)], "a group that a rule names cannot go"
    assert rules(cluster, theirs) == []


def rules(cluster: Fsx, group: str) -> list[tuple[int, int, str]]:
    """Inbound rules: ports, and the group or block that is let in."""
    found = cluster.ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
    return sorted(
        (each["FromPort"], each["ToPort"], source)
        for each in found
        for source in (
            *(pair["GroupId"] for pair in each["UserIdGroupPairs"]),
            *(block["CidrIp"] for block in each["IpRanges"]),
        )
    )


# Claims


def test_a_claim_on_a_file_system_is_mounted_listed_and_has_no_contents(cluster: Fsx) -> None:
    file_system = cluster.file_system("once")
    claim = cluster.mount(file_system, "once")
    assert (claim.type, claim.file_system, claim.phase) == (
        StorageType.FSX_LUSTRE,
        file_system.file_system_id,
        "Bound",
    )
    volume = cluster.core(lambda core: core.read_persistent_volume(claim.volume)).spec
    assert volume.csi.volume_attributes == {"dnsname": file_system.dns_name, "mountname": file_system.mount_name}
    assert (volume.mount_options, volume.persistent_volume_reclaim_policy) == (["noatime", "flock"], "Retain")
    assert volume.capacity == {"storage": "1200Gi"}
    assert cluster.tried("once").state is ProbeState.VERIFIED
    cluster.run(REMOVE_PROBE, cluster.probe("once"))
    until(lambda: "instantstart-probe-once" not in cluster.pods())
    listed = cluster.claims()["default/once"]
    assert (listed.type, listed.file_system, listed.bucket, listed.managed) == (
        StorageType.FSX_LUSTRE,
        file_system.file_system_id,
        "",
        True,
    )
    asked = ListContents(scope=cluster.scope, eks_cluster=cluster.name, claim="once", namespace="default", size=10)
    with pytest.raises(ApplicationError) as caught:
        cluster.run(LIST_STORAGE_CONTENTS, asked)
    assert problem(caught).code == "unsupported"
    assert file_system.file_system_id in problem(caught).detail
    detected = cluster.run(DETECT_WORKLOADS, DetectWorkloads(scope=cluster.scope, eks_cluster=cluster.name)).storage
    assert listed in detected


def test_the_same_claim_on_another_file_system_is_a_conflict(cluster: Fsx) -> None:
    cluster.mount(cluster.file_system("once"), "kept")
    with pytest.raises(ApplicationError) as caught:
        cluster.mount(cluster.file_system("shaped", deployment_type="SCRATCH_2"), "kept")
    assert (problem(caught).code, problem(caught).field) == ("conflict", "/claim")


# Plans


def test_a_plan_of_a_new_one_tells_place_and_price(cluster: Fsx) -> None:
    there = cluster.owned()
    plan = cluster.fsx_plan(claim="new", create={"capacity_gib": 2400, "throughput": 250})
    assert plan.blockers == []
    assert [(each.action, each.kind) for each in plan.changes] == [
        (Action.CREATE, "FSx file system"),
        (Action.CREATE, "PersistentVolume"),
        (Action.CREATE, "PersistentVolumeClaim"),
    ]
    assert "us-west-2a" in (plan.changes[0].detail or "")
    assert plan.hourly == {"fsx-lustre-persistent-2-250-gib": 2400}
    far = cluster.fsx_plan(claim="new", create={"availability_zone": "us-west-2b"})
    assert far.blockers == []
    assert any("between zones" in each for each in far.warnings)
    nowhere = cluster.fsx_plan(claim="new", create={"availability_zone": "us-west-2d"})
    assert blockers(nowhere) == {"/create/availability_zone": "not_found"}
    cluster.ensure("on-s3")
    taken = cluster.fsx_plan(claim="on-s3", create={})
    assert blockers(taken) == {"/claim": "conflict"}, "no file system is bought for a claim that is another's"
    assert cluster.owned() == there, "a plan makes nothing"


def test_an_existing_one_must_work_and_be_reached(cluster: Fsx) -> None:
    own = cluster.world.security_group.security_group_id
    near = cluster.place().subnet_id
    good = cluster.others(near, own)
    plan = cluster.fsx_plan(claim="theirs", file_system_id=good)
    assert plan.blockers == []
    assert all(check.passed for check in plan.checks)
    assert plan.hourly == {}, "it is paid for already"
    missing = cluster.fsx_plan(claim="theirs", file_system_id="fs-0123456789abcdef0")
    assert blockers(missing) == {"/file_system_id": "not_found"}


def test_one_of_another_network_or_behind_closed_ports_is_refused(cluster: Fsx) -> None:
    vpc = cluster.ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    subnet = cluster.ec2.create_subnet(VpcId=vpc, CidrBlock="10.77.0.0/24")["Subnet"]["SubnetId"]
    group = cluster.ec2.create_security_group(GroupName="elsewhere", Description="x", VpcId=vpc)["GroupId"]
    itself: Any = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    cluster.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
    elsewhere = cluster.fsx_plan(claim="theirs", file_system_id=cluster.others(subnet, group))
    assert blockers(elsewhere) == {"/file_system_id": "invalid"}
    assert vpc in elsewhere.blockers[0].detail

    own_vpc = cluster.world.vpc.vpc_id
    shut = cluster.ec2.create_security_group(GroupName="shut", Description="x", VpcId=own_vpc)["GroupId"]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": shut}]}]
    cluster.ec2.authorize_security_group_ingress(GroupId=shut, IpPermissions=itself)
    behind = cluster.others(cluster.place().subnet_id, shut)
    refused = cluster.fsx_plan(claim="theirs", file_system_id=behind)
    assert blockers(refused) == {"/file_system_id": "invalid"}
    assert "988 and 1018-1023" in refused.blockers[0].detail
    nodes: Any = [
        {"IpProtocol": "tcp", "FromPort": first, "ToPort": last, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}
        for first, last in ((988, 988), (1018, 1023))
    ]
    cluster.ec2.authorize_security_group_ingress(GroupId=shut, IpPermissions=nodes)
    assert cluster.fsx_plan(claim="theirs", file_system_id=behind).blockers == []


# Deleting


def test_a_file_system_stays_unless_it_is_asked_for_and_others_claims_hold_it(cluster: Fsx) -> None:
    file_system = cluster.file_system("going")
    name = file_system.file_system_id
    cluster.mount(file_system, "going")
    cluster.mount(file_system, "beside")
    kept = cluster.plan(DELETE_STORAGE.name, claim="beside")
    assert (kept.blockers, kept.changes[-1].action, kept.changes[-1].name) == ([], Action.KEEP, name)
    held = cluster.plan(DELETE_STORAGE.name, claim="going", delete_file_system=True)
    assert blockers(held) == {"/delete_file_system": "conflict"}
    assert cluster.delete("beside").file_system == name
    assert cluster.lifecycle(name) == "AVAILABLE"
    plan = cluster.plan(DELETE_STORAGE.name, claim="going", delete_file_system=True)
    assert plan.blockers == []
    assert plan.hourly == {"fsx-lustre-persistent-2-125-gib": -1200}
    assert any(name in each for each in plan.warnings)
    assert cluster.delete("going").file_system == name
    cluster.run(DELETE_FILE_SYSTEM, cluster.file_system_ref(name))
    cluster.run(WAIT_FOR_FILE_SYSTEM_GONE, cluster.file_system_ref(name))
    assert name not in cluster.owned()
    assert cluster.run(DELETE_FILE_SYSTEM, cluster.file_system_ref(name)).changed is False


def test_a_file_system_of_others_is_never_deleted(cluster: Fsx, quiet: Sandbox) -> None:
    name = cluster.others(cluster.place().subnet_id, cluster.world.security_group.security_group_id)
    file_system = cluster.run(WAIT_FOR_FILE_SYSTEM, cluster.file_system_ref(name))
    assert file_system.owned is False
    cluster.mount(file_system, "foreign")
    plan = cluster.plan(DELETE_STORAGE.name, claim="foreign", delete_file_system=True)
    assert blockers(plan) == {"/delete_file_system": "foreign"}
    mark = quiet.mark()
    with pytest.raises(ApplicationError) as caught:
        cluster.run(DELETE_FILE_SYSTEM, cluster.file_system_ref(name))
    assert problem(caught).code == "foreign"
    assert quiet.effects(since=mark) == []


def test_the_deletion_of_one_that_is_just_being_made_waits(cluster: Fsx, quiet: Sandbox) -> None:
    quiet.call("POST", "clock", {"speed": 1})
    try:
        made = cluster.run(ENSURE_FILE_SYSTEM, cluster.wish("young", deployment_type="SCRATCH_2"))
        with pytest.raises(ApplicationError) as caught:
            cluster.run(DELETE_FILE_SYSTEM, cluster.file_system_ref(made.file_system_id), attempts=1)
        assert (caught.value.type, caught.value.non_retryable) == ("busy", False)
    finally:
        quiet.call("POST", "clock", {"speed": 900})


def test_without_the_driver_the_feature_is_offered(sandbox: Sandbox, activities: Activities) -> None:
    sandbox.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    bare = Cluster(World(Runner(activities, f"create-fsx-storage/{scope.cluster}"), scope), activities)
    plan = bare.plan(CREATE_FSX_STORAGE.name, create={})
    assert blockers(plan) == {"": "not_found"}
    assert "update-features with fsx_csi" in (plan.blockers[0].remedy or "")
