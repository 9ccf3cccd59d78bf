"""Clusters that others made: read as they are, and changed only where that was asked for."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from contracts.hyperpod import ENSURE_HYPERPOD
from contracts.identity import ENSURE_ACCESS_ENTRY, EnsureAccessEntry
from contracts.imports import ADOPT, DETECT_CLUSTER, DETECT_WORKLOADS, Adopt, Detect, DetectWorkloads
from contracts.names import ClusterNames
from contracts.network import Scope
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.world import World


def _scope() -> Scope:
    return Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")


@pytest.fixture(scope="module")
def made(sandbox: Sandbox, activities: Activities) -> World:
    """A cluster with a group of one, made under a tag that the importing tests do not use."""
    sandbox.call("POST", "reset")
    scope = _scope()
    world = World(Runner(activities, f"create-cluster/{scope.cluster}"), scope)
    cluster = world.run(ENSURE_HYPERPOD, world.hyperpod(world.group()))
    client, deadline = activities.aws.read.sagemaker(REGION), time.monotonic() + 20
    while client.describe_cluster(ClusterName=cluster.name)["ClusterStatus"] != "InService":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return world


@pytest.fixture
def others(activities: Activities) -> Any:
    """What somebody else makes with boto3 alone, in the default VPC: an EKS cluster whose principal is not ours."""
    iam, ec2, eks = (activities.aws.act.client(each, REGION) for each in ("iam", "ec2", "eks"))
    name = f"theirs-{uuid.uuid4().hex[:6]}"
    trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.attach_role_policy(RoleName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
    subnets = [each["SubnetId"] for each in ec2.describe_subnets()["Subnets"] if each["DefaultForAz"]][:2]
    return name, role, subnets, eks


def test_a_cluster_is_read_as_it_is_without_a_change(made: World, quiet: Sandbox) -> None:
    mark, scope = quiet.mark(), _scope()
    found = made.run(DETECT_CLUSTER, Detect(scope=scope, eks_cluster=made.control_plane.name))
    assert found.hyperpod is not None
    assert found.hyperpod.name == ClusterNames(made.scope.cluster).hyperpod_cluster
    assert (found.network.vpc_id, found.network.owned) == (made.vpc.vpc_id, False)
    assert found.network.security_group_id == made.security_group.security_group_id
    assert [each.nat_gateway_id for each in found.network.nat_gateways] == [made.nat.nat_gateway_id]
    assert [each.subnet_id for each in found.network.compute_subnets] == [made.compute("us-west-2a").subnet_id]
    assert found.identity.execution_role_arn == made.execution_role.arn
    assert found.identity.lifecycle_scripts_uri == made.scripts.uri
    assert found.identity.bucket is None
    assert found.administered
    assert found.owned == []
    assert {gap.what for gap in found.gaps} == {"component", "ownership"}
    assert quiet.effects(since=mark) == []


def test_under_its_own_tag_a_lost_record_is_read_as_ours(made: World) -> None:
    found = made.run(DETECT_CLUSTER, Detect(scope=made.scope, eks_cluster=made.control_plane.name))
    assert found.hyperpod is not None
    assert found.owned == [made.control_plane.arn, found.hyperpod.arn]
    assert found.network.owned
    assert found.identity.bucket == made.bucket.name


def test_a_hyperpod_cluster_of_another_eks_cluster_is_refused(made: World, others: Any) -> None:
    name, role, subnets, eks = others
    network = {"subnetIds": subnets}
    access = {"authenticationMode": "API_AND_CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": False}
    made_by_others: Any = eks.create_cluster(
        name=name, roleArn=role, resourcesVpcConfig=network, accessConfig=access, version="1.34"
    )
    assert made_by_others["cluster"]["status"] == "CREATING"
    eks.get_waiter("cluster_active").wait(name=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    hyperpod = ClusterNames(made.scope.cluster).hyperpod_cluster
    with pytest.raises(ApplicationError) as caught:
        made.run(DETECT_CLUSTER, Detect(scope=_scope(), eks_cluster=name, hyperpod_cluster=hyperpod))
    assert (problem(caught).code, problem(caught).field) == ("conflict", "/hyperpod_cluster")

    found = made.run(DETECT_CLUSTER, Detect(scope=_scope(), eks_cluster=name))
    assert found.hyperpod is None
    assert not found.administered
    assert {"access entry", "HyperPod cluster", "nat gateway", "s3 endpoint"} <= {gap.what for gap in found.gaps}


def test_a_cluster_that_takes_no_access_entries_says_how_it_comes_to(made: World, others: Any) -> None:
    name, role, subnets, eks = others
    access = {"authenticationMode": "CONFIG_MAP"}
    eks.create_cluster(name=name, roleArn=role, resourcesVpcConfig={"subnetIds": subnets}, accessConfig=access)
    eks.get_waiter("cluster_active").wait(name=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30})
    with pytest.raises(ApplicationError) as caught:
        made.run(
            ENSURE_ACCESS_ENTRY,
            EnsureAccessEntry(scope=_scope(), eks_cluster=name, principal_arn=made.caller.principal_arn),
        )
    assert "API_AND_CONFIG_MAP" in (problem(caught).remedy or "")


def test_what_is_not_there_is_named(made: World) -> None:
    with pytest.raises(ApplicationError) as caught:
        made.run(DETECT_CLUSTER, Detect(scope=_scope(), eks_cluster="nobody"))
    assert (problem(caught).code, problem(caught).field) == ("not_found", "/eks_cluster")


def test_workloads_are_read_through_kubernetes(made: World, quiet: Sandbox) -> None:
    found = made.run(DETECT_WORKLOADS, DetectWorkloads(scope=_scope(), eks_cluster=made.control_plane.name))
    assert found.kubernetes_version.startswith("v1.34")
    assert [gap.what for gap in found.gaps] == ["component"]


def test_adopting_tags_both_clusters_once_and_never_another_platform_cluster(made: World, quiet: Sandbox) -> None:
    scope, hyperpod = _scope(), ClusterNames(made.scope.cluster).hyperpod_cluster
    sagemaker = made.run(DETECT_CLUSTER, Detect(scope=made.scope, eks_cluster=made.control_plane.name)).hyperpod
    assert sagemaker is not None
    assert sagemaker.name == hyperpod
    wish = Adopt(scope=scope, eks_cluster_arn=made.control_plane.arn, hyperpod_cluster_arn=sagemaker.arn)
    with pytest.raises(ApplicationError) as caught:
        made.run(ADOPT, wish)
    assert problem(caught).code == "foreign"
    again = made.run(ADOPT, wish.model_copy(update={"scope": made.scope}))
    assert not again.changed
