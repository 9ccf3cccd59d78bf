"""Plans: what is known of prices, quotas and addresses, and what is not."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from activities.plans.make import MakePlanActivities
from activities.plans.prices import Prices
from activities.plans.reckoning import reckon
from activities.plans.world import World
from activities.registry import Activities
from contracts.catalogue import CREATE_CLUSTER, CREATE_HYPERPOD
from contracts.cluster import ClusterRecord, ClusterSpec
from contracts.plans import HOURLY, MAKE_PLAN, CapacityChange, MakePlan, PlanDraft
from contracts.problem import FieldError, ProblemCode
from tests.activities.conftest import REGION, Runner, Sandbox, settings


@pytest.fixture
def looking(activities: Activities, quiet: Sandbox) -> World:
    return World(activities.aws, activities.kubernetes, activities.lookup, settings())


@pytest.fixture
def prices(activities: Activities, quiet: Sandbox) -> Prices:
    return Prices(activities.aws, None)


def _record() -> ClusterRecord:
    now = datetime.now(UTC)
    return ClusterRecord(tag=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="t", created_at=now, updated_at=now)


@pytest.mark.parametrize("item", ["ml.g5.8xlarge", "m6i.2xlarge", "gp3-gib", "hyperpod-volume-gib", *HOURLY])
def test_prices_come_from_the_price_list_and_say_that_they_are_samples(prices: Prices, item: str) -> None:
    price = prices.price(REGION, item)
    assert price.amount is not None
    assert price.amount > 0
    assert "sample" in price.source


def test_a_price_is_looked_up_once(prices: Prices, quiet: Sandbox) -> None:
    prices.price(REGION, "ml.g5.8xlarge")
    quiet.deny("GetProducts", "pricing")
    assert prices.price(REGION, "ml.g5.8xlarge").amount is not None
    assert prices.price(REGION, "ml.g5.12xlarge").amount is None


def test_a_file_of_prices_wins(activities: Activities, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(f"{REGION}: {{ml.g5.8xlarge: 1.5}}")
    own = Prices(activities.aws, file)
    assert (own.price(REGION, "ml.g5.8xlarge").amount, own.price(REGION, "ml.g5.8xlarge").source) == (
        1.5,
        "prices.yaml",
    )
    assert own.price(REGION, "ml.g5.12xlarge").amount is not None


def test_an_unknown_price_makes_the_sum_unknown_and_never_zero(looking: World, prices: Prices) -> None:
    draft = PlanDraft(
        capacity=[
            CapacityChange(instance_type="ml.g5.8xlarge", count=2),
            CapacityChange(instance_type="ml.g5.8xlarge", count=1, capacity="spot"),
            CapacityChange(instance_type="ml.p5.48xlarge", count=1, capacity="training-plan"),
        ]
    )
    cost = reckon(looking, prices, REGION, draft).cost
    assert cost is not None
    assert cost.per_hour is None
    one = prices.price(REGION, "ml.g5.8xlarge").amount
    assert one is not None
    assert [item.per_hour for item in cost.items] == [2 * one, None, 0.0]
    assert cost.known_per_hour == 2 * one


def test_what_is_given_back_is_a_negative_cost_and_asks_for_nothing(looking: World, prices: Prices) -> None:
    found = reckon(
        looking, prices, REGION, PlanDraft(capacity=[CapacityChange(instance_type="ml.g5.8xlarge", count=-2)])
    )
    assert found.cost is not None
    assert found.cost.per_hour is not None
    assert found.cost.per_hour < 0
    assert (found.quotas, found.addresses, found.blockers) == ([], [], [])


def test_more_than_the_quota_leaves_is_a_blocker_with_what_is_left(looking: World, prices: Prices) -> None:
    wish = CapacityChange(instance_type="ml.g5.8xlarge", count=9, pointer="/count")
    found = reckon(looking, prices, REGION, PlanDraft(capacity=[wish]))
    assert (found.quotas[0].needed, found.quotas[0].limit) == (9, 8)
    assert [(each.field, each.code) for each in found.blockers] == [("/count", ProblemCode.QUOTA)]
    left = 8 - (found.quotas[0].used or 0)
    assert (f"at most {left}" if left else "another type") in (found.blockers[0].remedy or "")


def test_everything_in_the_way_is_named_and_nothing_twice(looking: World) -> None:
    """Two things stand in the way of one choice; planner and reckoning find the same fault of another."""

    def fault(field: str, detail: str, code: ProblemCode) -> FieldError:
        return FieldError(field=field, detail=detail, code=code)

    own = [fault("/level", each, ProblemCode.FOREIGN) for each in ("volume", "instance")]
    own.append(fault("/count", "too many", ProblemCode.QUOTA))
    too_many = CapacityChange(instance_type="ml.g5.8xlarge", count=900, pointer="/count")
    plans = MakePlanActivities(looking)
    plans._planners["delete-cluster"] = lambda _: PlanDraft(blockers=own, capacity=[too_many])
    assert plans.make_plan(MakePlan(kind="delete-cluster", record=_record(), spec={})).draft.blockers == own


def test_addresses_that_a_subnet_does_not_have_are_a_blocker(
    looking: World, prices: Prices, activities: Activities
) -> None:
    subnet = activities.aws.read.ec2(REGION).describe_subnets()["Subnets"][0]
    wish = CapacityChange(
        instance_type="ml.g5.8xlarge", count=8, capacity="training-plan", subnet_id=subnet["SubnetId"], pointer="/count"
    )
    small = reckon(looking, prices, REGION, PlanDraft(capacity=[wish]))
    assert small.addresses[0].free == subnet["AvailableIpAddressCount"]
    needed = small.addresses[0].needed // 8
    too_many = subnet["AvailableIpAddressCount"] // needed + 1
    large = wish.model_copy(update={"count": too_many})
    blockers = reckon(looking, prices, REGION, PlanDraft(capacity=[large])).blockers
    assert [each.field for each in blockers] == ["/count"]


def test_the_plan_of_a_cluster_lists_what_is_made_in_order_with_its_cost(run: Runner, quiet: Sandbox) -> None:
    record, mark = _record(), quiet.mark()
    groups = [{"instance_type": "ml.g5.8xlarge", "count": 2}]
    spec = ClusterSpec.model_validate({"tag": record.tag, "region": REGION, "instance_groups": groups})
    wish = MakePlan(kind=CREATE_CLUSTER.name, record=record, spec=spec.model_dump(mode="json"))
    found = run(MAKE_PLAN, wish)
    kinds = [change.kind for change in found.draft.changes]
    assert kinds.index("VPC") < kinds.index("EKS cluster") < kinds.index("HyperPod cluster")
    assert found.cost is not None
    assert {item.item for item in found.cost.items} >= {"ml.g5.8xlarge", "eks-cluster", "nat-gateway"}
    assert found.draft.blockers == []
    assert quiet.effects(since=mark) == []


def test_a_stage_on_a_cluster_without_a_control_plane_is_blocked(run: Runner) -> None:
    found = run(MAKE_PLAN, MakePlan(kind=CREATE_HYPERPOD.name, record=_record(), spec={}))
    assert [each.code for each in found.draft.blockers] == [ProblemCode.NOT_FOUND]


def test_a_cluster_on_a_bucket_that_is_not_there_is_refused_before_anything_is_made(
    looking: World, quiet: Sandbox
) -> None:
    record = _record()
    spec = ClusterSpec.model_validate({"tag": record.tag, "storage": {"bucket": "nobody-has-this-bucket"}})
    request = MakePlan(kind=CREATE_CLUSTER.name, record=record, spec=spec.model_dump(mode="json"))
    blockers = MakePlanActivities(looking).make_plan(request).draft.blockers
    assert [(each.field, each.code) for each in blockers] == [("/storage/bucket", ProblemCode.NOT_FOUND)]
