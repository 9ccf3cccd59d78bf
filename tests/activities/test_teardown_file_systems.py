"""FSx file systems of a cluster that is deleted: they hold data and the network, and go only where that is wanted."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.catalogue import DELETE_CLUSTER
from contracts.cluster import ClusterRecord
from contracts.fsx_storage import (
    ENSURE_FILE_SYSTEM,
    WAIT_FOR_FILE_SYSTEM,
    EnsureFileSystem,
    FileSystemPlace,
    FileSystemRef,
    NewFileSystem,
)
from contracts.network import Scope
from contracts.plans import MAKE_PLAN, Action, MakePlan, PlanDraft
from contracts.teardown import DELETE_PART, SURVEY, DeleteClusterSpec, Part, TeardownPart
from tests.activities.account import everything
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.test_teardown import asked, delete, swept
from tests.activities.world import World

KIND = "FSx file system"


@pytest.fixture
def world(quiet: Sandbox, activities: Activities) -> World:
    """A network with a security group and no clusters."""
    quiet.call("POST", "reset")
    scope = Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")
    made = World(Runner(activities, f"delete-cluster/{scope.cluster}"), scope)
    assert all([made.vpc, made.security_group, made.control])
    return made


def file_system(world: World) -> str:
    place = FileSystemPlace(
        vpc_id=world.vpc.vpc_id,
        subnet_id=world.control[0].subnet_id,
        zone="us-west-2a",
        security_group_id=world.security_group.security_group_id,
    )
    wanted = EnsureFileSystem(scope=world.scope, claim="data", namespace="default", create=NewFileSystem(), place=place)
    name = world.run(ENSURE_FILE_SYSTEM, wanted).file_system_id
    world.run(WAIT_FOR_FILE_SYSTEM, FileSystemRef(scope=world.scope, file_system_id=name))
    return name


def plan(world: World, **spec: Any) -> PlanDraft:
    now = datetime.now(UTC)
    record = ClusterRecord(tag=world.scope.cluster, region=REGION, created_by="tests", created_at=now, updated_at=now)
    wanted = DeleteClusterSpec.model_validate(spec).model_dump(mode="json")
    return world.run(MAKE_PLAN, MakePlan(kind=DELETE_CLUSTER.name, record=record, spec=wanted)).draft


def test_one_that_is_wanted_gone_goes_with_the_network(world: World, activities: Activities) -> None:
    name = file_system(world)
    found = plan(world, delete_file_systems=True)
    assert (Action.DELETE, KIND, name) in [(each.action, each.kind, each.name) for each in found.changes]
    assert found.blockers == []
    assert any(name in each and "data" in each for each in found.warnings)
    assert found.facts["file-systems"] == [name]
    assert found.hourly["fsx-lustre-persistent-2-125-gib"] == -1200
    delete(world.run, asked(world.scope, delete_file_systems=True))
    assert swept(world.run, asked(world.scope, delete_file_systems=True)).resources == []
    left = everything(activities.aws.session)
    assert (left["File systems"], world.vpc.vpc_id in left["Vpcs"]) == ([], False)


def test_one_that_nobody_asked_for_keeps_the_network_from_going(world: World) -> None:
    name = file_system(world)
    found = plan(world)
    assert (Action.KEEP, KIND, name) in [(each.action, each.kind, each.name) for each in found.changes]
    (blocker,) = [each for each in found.blockers if name in each.detail]
    assert "delete_file_systems" in (blocker.remedy or "")
    with pytest.raises(ApplicationError) as caught:
        world.run(DELETE_PART, TeardownPart(**dict(asked(world.scope)), part=Part.SUBNETS))
    assert name in problem(caught).detail
    lower = plan(world, level="eks")
    assert lower.blockers == []
    assert (Action.KEEP, KIND, name) in [(each.action, each.kind, each.name) for each in lower.changes]


def test_one_that_keep_names_stays_with_the_network(world: World) -> None:
    name = file_system(world)
    kept = world.run(SURVEY, asked(world.scope, level="eks", delete_file_systems=True, keep=[name]))
    assert (name, "named in keep") in [(each.id, each.why) for each in kept.kept]
    assert name not in [each.id for each in kept.resources]
    whole = plan(world, delete_file_systems=True, keep=[name])
    assert any("keep names it" in each.detail for each in whole.blockers)


def test_one_of_others_in_the_network_is_named(world: World, activities: Activities) -> None:
    theirs = activities.aws.act.fsx(REGION).create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[world.control[0].subnet_id],
        SecurityGroupIds=[world.security_group.security_group_id],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
    )["FileSystem"]["FileSystemId"]
    found = plan(world, delete_file_systems=True)
    (blocker,) = [each for each in found.blockers if theirs in each.detail]
    assert blocker.code == "foreign"
    assert theirs not in [each.name for each in found.changes]


def test_file_systems_cannot_go_before_the_eks_cluster() -> None:
    with pytest.raises(ValueError, match="level eks or network"):
        DeleteClusterSpec.model_validate({"level": "hyperpod", "delete_file_systems": True})
