"""What can be known before anything is made, and what can be chosen."""

from __future__ import annotations

from typing import Any

import pytest

from activities.registry import Activities
from contracts.capacity import InstanceGroupSpec
from contracts.cluster import ClusterSpec
from contracts.options import (
    CHECK_CLUSTER,
    CHECK_GROUPS,
    LOOK_UP_OPTIONS,
    CheckCluster,
    CheckGroups,
    LookUpOptions,
)
from tests.activities.conftest import REGION, Runner, Sandbox


@pytest.fixture(autouse=True)
def _empty(quiet: Sandbox, activities: Activities) -> None:
    quiet.call("POST", "reset")
    activities.lookup.forget()


def group(**given: Any) -> InstanceGroupSpec:
    return InstanceGroupSpec.model_validate({"instance_type": "ml.g5.8xlarge", "count": 1, **given})


def faults(run: Runner, **spec: Any) -> dict[str, str]:
    found = run(CHECK_CLUSTER, CheckCluster(spec=ClusterSpec(tag="demo", **spec), region=REGION))
    assert all(error.remedy for error in found.errors)
    return {error.field: error.detail for error in found.errors}


def group_faults(run: Runner, *groups: InstanceGroupSpec, prefix: int = 20) -> dict[str, str]:
    request = CheckGroups(region=REGION, groups=list(groups), compute_subnet_prefix=prefix)
    return {error.field: error.detail for error in run(CHECK_GROUPS, request).errors}


def test_options(run: Runner, quiet: Sandbox) -> None:
    quiet.call(
        "POST",
        "training-plans",
        {"name": "plan", "instance_type": "ml.p5.48xlarge", "zone": "us-west-2b", "count": 4},
    )
    options = run(LOOK_UP_OPTIONS, LookUpOptions(region=REGION))
    addresses = {option.instance_type: option.addresses for option in options.instance_types}
    wanted = {"ml.p5.48xlarge": 81, "ml.p4d.24xlarge": 51, "ml.trn1.32xlarge": 57, "ml.trn2.48xlarge": 65}
    assert {name: addresses[name] for name in wanted} == wanted
    small = options.instance_type("ml.g5.8xlarge")
    assert small is not None
    assert (small.accelerators, small.accelerator_resource, small.efa_interfaces) == (1, "nvidia.com/gpu", 1)
    assert small.quota is not None
    large = options.instance_type("ml.p5.48xlarge")
    assert large is not None
    assert "us-west-2a" not in large.availability_zones
    (plan,) = options.training_plans
    assert (plan.availability_zone, plan.available) == ("us-west-2b", 4)
    assert not any(option.instance_type.startswith(("ml.m5", "ml.c5")) for option in options.instance_types)


def test_options_without_service_quotas(run: Runner, quiet: Sandbox) -> None:
    quiet.deny("ListServiceQuotas", "service-quotas")
    options = run(LOOK_UP_OPTIONS, LookUpOptions(region=REGION, instance_types=["ml.g5.8xlarge"]))
    assert [option.quota for option in options.instance_types] == [None]


def test_nothing_stands_in_the_way_and_nothing_is_changed(run: Runner, quiet: Sandbox) -> None:
    mark = quiet.mark()
    assert faults(run, instance_groups=[group()]) == {}
    assert quiet.effects(since=mark) == []


def test_overlaps(run: Runner, activities: Activities) -> None:
    ec2 = activities.aws.act.ec2(REGION)
    other = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.associate_vpc_cidr_block(VpcId=other, CidrBlock="10.77.0.0/20")
    assert "10.0.0.0/16" in faults(run, network={"vpc_cidr": "10.0.128.0/17"})["/network/vpc_cidr"]
    assert "10.77.0.0/20" in faults(run, network={"vpc_cidr": "10.77.0.0/16"})["/network/vpc_cidr"]
    assert "/network/service_cidr" in faults(run, network={"service_cidr": "10.0.0.0/12"})


def test_quotas(run: Runner, quiet: Sandbox, activities: Activities) -> None:
    quiet.call("PUT", "quotas", {"vpcs": 1, "elastic-ips": 1, "ml.g5.8xlarge": 1}, region=REGION)
    found = faults(run, instance_groups=[group(count=1), group(name="b", count=1)])
    assert set(found) == {"/network/vpc_id", "/network", "/instance_groups/1/count"}


def test_a_vpc_that_is_not_there(run: Runner) -> None:
    assert "/network/vpc_id" in faults(run, network={"vpc_id": "vpc-0123456789abcdef0"})


def test_a_tag_in_use(run: Runner, activities: Activities) -> None:
    iam = activities.aws.act.iam(REGION)
    trust = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"},"Action":"sts:AssumeRole"}]}'  # noqa: E501
    iam.create_role(
        Path="/instantstart/", RoleName="instantstart-demo-cluster-eu-west-1", AssumeRolePolicyDocument=trust
    )
    assert "eu-west-1" in faults(run)["/tag"]


def test_groups(run: Runner, quiet: Sandbox) -> None:
    quiet.call(
        "POST",
        "training-plans",
        {"name": "plan", "instance_type": "ml.p5.48xlarge", "zone": "us-west-2b", "count": 2},
    )
    plan = {"kind": "training-plan", "training_plan": "plan"}
    at = "/instance_groups/0"
    assert group_faults(run, group(instance_type="ml.p5.48xlarge", count=2, capacity=plan)) == {}
    wrong_zone = group_faults(
        run, group(instance_type="ml.p5.48xlarge", count=1, capacity=plan, availability_zone="us-west-2c")
    )
    assert "us-west-2b" in wrong_zone[f"{at}/availability_zone"]
    assert "us-west-2c" in wrong_zone[f"{at}/availability_zone"]
    assert f"{at}/count" in group_faults(run, group(instance_type="ml.p5.48xlarge", count=3, capacity=plan))
    assert f"{at}/instance_type" in group_faults(run, group(capacity=plan))
    assert f"{at}/instance_type" in group_faults(run, group(instance_type="ml.p9.48xlarge"))
    nowhere = group_faults(run, group(instance_type="ml.p5.48xlarge", availability_zone="usw2-az2"))
    assert f"{at}/availability_zone" in nowhere
    few = group_faults(run, group(instance_type="ml.p5.48xlarge", count=4), prefix=24)
    assert "4 × 81 addresses = 324" in few[f"{at}/count"]
    assert f"{at}/availability_zone" in group_faults(run, group(availability_zone="us-west-2z"))
    assert f"{at}/subnet_id" in group_faults(run, group(subnet_id="subnet-0123456789abcdef0"))


def test_groups_share_a_plan_and_the_subnet_of_their_zone(run: Runner, quiet: Sandbox) -> None:
    plan = {"name": "plan", "instance_type": "ml.p5.48xlarge", "zone": "us-west-2b", "count": 2}
    quiet.call("POST", "training-plans", plan)
    reserved = {"kind": "training-plan", "training_plan": "plan"}
    pair = [group(name=name, instance_type="ml.p5.48xlarge", count=2, capacity=reserved) for name in "ab"]
    assert "4 more are asked for" in group_faults(run, *pair)["/instance_groups/1/count"]
    several = [
        group(name=name, instance_type="ml.p5.48xlarge", count=2, availability_zone="us-west-2b") for name in "ab"
    ]
    assert "324 together" in group_faults(run, *several, prefix=24)["/instance_groups/1/count"]
