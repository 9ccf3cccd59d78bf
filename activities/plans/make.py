"""The activity that makes plans, with the planner of the operation's kind."""

from __future__ import annotations

from temporalio import activity

from activities.plans.parts import PartMissing
from activities.plans.prices import Prices
from activities.plans.reckoning import reckon
from activities.plans.registry import planners
from activities.plans.world import World
from contracts.plans import MAKE_PLAN, MakePlan, PlanDraft, PlanFindings
from contracts.problem import FieldError


class MakePlanActivities:
    def __init__(self, world: World) -> None:
        self._world = world
        self._planners = planners(world)
        self._prices = Prices(world.aws, world.settings.price_file)

    @activity.defn(name=MAKE_PLAN.name)
    def make_plan(self, request: MakePlan) -> PlanFindings:
        """What the operation would do now, what it would cost for every hour, what it takes of quotas and addresses,
        and what stands in its way. Changes nothing."""
        planner = self._planners.get(request.kind)
        try:
            draft = planner(request) if planner is not None else PlanDraft()
        except PartMissing as missing:
            draft = PlanDraft(blockers=[missing.blocker])
        reckoned = reckon(self._world, self._prices, request.record.region, draft)
        blockers = _blockers(draft.blockers, reckoned.blockers)
        return PlanFindings(
            draft=draft.model_copy(update={"blockers": blockers}),
            cost=reckoned.cost,
            quotas=reckoned.quotas,
            addresses=reckoned.addresses,
        )


def _blockers(planned: list[FieldError], reckoned: list[FieldError]) -> list[FieldError]:
    """All that the planner found, and of the reckoning what is not the same again: a fault of a kind in a field."""
    said = {(each.field, each.code) for each in planned}
    return [*planned, *(each for each in reckoned if (each.field, each.code) not in said)]
