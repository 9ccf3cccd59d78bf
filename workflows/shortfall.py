"""Instances that do not come: what can be done about it now, asked and carried into the specification."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import ValidationError
from temporalio.exceptions import ActivityError

from contracts.availability import USABLE_PLANS, offer_errors, over_plan, over_quota
from contracts.capacity import InstanceGroupSpec, OnDemand, Spot, TrainingPlan
from contracts.hyperpod import WAIT_FOR_HYPERPOD
from contracts.instance_groups import (
    ADD_GROUP,
    ADD_NODES,
    SET_COUNT,
    EndOperation,
    KeepWaiting,
    KeepWhatCame,
    ShortfallAnswer,
    TakeCapacity,
    TakeFewer,
    TakeType,
    TakeZone,
)
from contracts.instance_groups import Remedy as AnyRemedy
from contracts.options import Options
from contracts.problem import FieldError, Problem, ProblemCode, field_errors, invalid
from workflows.engine import StageRun
from workflows.engine.failures import problem_of, refusal

SHORTAGES = (ProblemCode.CAPACITY, ProblemCode.QUOTA)
"""Problems that a person decides on, instead of a block."""
TOLD_BY = tuple(each.name for each in (ADD_GROUP, ADD_NODES, SET_COUNT, WAIT_FOR_HYPERPOD))
"""Activities whose shortages are of instances. (A subnet's is one of addresses: that blocks.)"""
MOST_TYPES = 30
"""So many other types are offered at most; any other may be answered too."""


@dataclass(frozen=True)
class Shortfall:
    """What is short, and what the group could be made of instead.

    ``options`` is None where the group keeps its type, zone and capacity whatever is answered.
    """

    group: str
    count: int
    current: int
    problem: Problem
    spec: InstanceGroupSpec | None = None
    options: Options | None = None
    spot_possible: bool = False

    @property
    def movable(self) -> bool:
        """Whether it can be made anew elsewhere: nodes that came would be lost, so only while there are none."""
        return self.spec is not None and self.options is not None and self.current == 0

    def remedies(self) -> list[AnyRemedy]:
        """What can be answered now; types, zones and plans as far as they are really offered."""
        found: list[AnyRemedy] = [KeepWaiting()]
        if self.movable and self.spec is not None and self.options is not None:
            found += _elsewhere(self.spec, self.options, self.spot_possible)
        if self.current:
            found.append(KeepWhatCame())
        if self.count - 1 > self.current:
            found.append(TakeFewer(count=self.count - 1))
        return [*found, EndOperation()]

    def read(self, document: dict[str, Any]) -> AnyRemedy:
        """An answer that can be carried out. Raises ApplicationError with the fields at fault."""
        try:
            remedy = ShortfallAnswer.model_validate(document).remedy
        except ValidationError as error:
            raise refusal(invalid(_pointed(error))) from error
        match remedy:
            case TakeFewer(count=count) if count >= self.count:
                _refuse("/count", f"{count} is not fewer than {self.count}", "Answer wait, or a smaller count.")
            case TakeFewer(count=count) if self.spec is not None and count < (self.spec.min_count or 0):
                _refuse("/count", f"the group's min_count is {self.spec.min_count}", "Answer at least that.")
            case KeepWhatCame() if not self.current:
                _refuse("/kind", "no instance has come", "Answer wait or abort, or take other capacity.")
            case TakeZone() | TakeType() | TakeCapacity() if not self.movable:
                what = "has nodes, which would be lost" if self.current else "keeps its type, zone and capacity"
                _refuse("/kind", f"group {self.group} {what}", "Keep what came, and add another group for the rest.")
            case TakeZone() | TakeType() | TakeCapacity():
                self._check(remedy)
        return remedy

    def _check(self, remedy: AnyRemedy) -> None:
        if self.spec is None or self.options is None:
            return
        if isinstance(remedy, TakeCapacity) and remedy.capacity.kind == "spot" and not self.spot_possible:
            _refuse("/capacity", "spot needs Continuous provisioning", "Answer other capacity.")
        group = respecified(self.spec, remedy, self.options)
        errors = [
            *offer_errors(group, self.options, "/groups/0"),
            *over_plan([group], self.options, "/groups"),
            *over_quota([group], self.options, "/groups"),
        ]
        if errors:
            at = "/answer/remedy"
            told = [error.model_copy(update={"field": error.field.replace("/groups/0", at, 1)}) for error in errors]
            raise refusal(invalid(told))


def shortage_in(error: ActivityError) -> Problem | None:
    """The problem, if it is that instances do not come."""
    found = problem_of(error)
    return found if found.code in SHORTAGES and error.activity_type in TOLD_BY else None


async def ask(run: StageRun, short: Shortfall) -> AnyRemedy:
    """Ask what to do, with the reasons that HyperPod gives. Nothing is taken by default: waiting changes nothing."""
    parse: Callable[[dict[str, Any]], AnyRemedy] = short.read
    return await run.decide(
        f"{short.problem.detail} What should become of {short.group}?",
        schema=ShortfallAnswer.model_json_schema(),
        options={"remedy": [remedy.model_dump(mode="json") for remedy in short.remedies()]},
        default=None,
        parse=parse,
    )


def respecified(spec: InstanceGroupSpec, remedy: AnyRemedy, options: Options, current: int = 0) -> InstanceGroupSpec:
    """The group after the answer. Raises ValidationError where the two do not go together."""
    changes: dict[str, Any] = {}
    match remedy:
        case TakeZone(availability_zone=zone):
            changes = {"availability_zone": zone, "subnet_id": None}
        case TakeType(instance_type=name, availability_zone=zone):
            offered = options.zones_of([name])
            here = options.zone_name(spec.availability_zone) if spec.availability_zone else None
            chosen = zone or (here if here in offered else None)
            subnet = spec.subnet_id if chosen is not None and chosen == here else None
            changes = {
                "instance_type": name,
                "alternative_types": [],
                "availability_zone": chosen,
                "subnet_id": subnet,
            }
        case TakeCapacity(capacity=TrainingPlan() as capacity):
            plan = options.training_plan(capacity.training_plan)
            zone = plan.availability_zone if plan else None
            here = options.zone_name(spec.availability_zone) if spec.availability_zone else None
            changes = {"capacity": capacity, "alternative_types": [], "availability_zone": zone}
            changes |= {"subnet_id": spec.subnet_id if zone == here else None}
        case TakeCapacity(capacity=capacity):
            changes = {"capacity": capacity}
        case TakeFewer(count=count):
            changes = {"count": count}
        case KeepWhatCame():
            changes = {"count": current, "min_count": None if (spec.min_count or 0) > current else spec.min_count}
    return InstanceGroupSpec.model_validate({**spec.model_dump(), **_plain(changes)})


def _pointed(error: ValidationError) -> list[FieldError]:
    """The faults of an answer; which kind of remedy was read is no part of where they stand."""
    return [
        fault.model_copy(update={"field": re.sub(r"^(/answer/remedy)/[a-z]+(?=/|$)", r"\1", fault.field)})
        for fault in field_errors(error, "/answer")
    ]


def _plain(changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value.model_dump() if hasattr(value, "model_dump") else value for name, value in changes.items()}


def _elsewhere(spec: InstanceGroupSpec, options: Options, spot_possible: bool) -> list[AnyRemedy]:
    here = options.zone_name(spec.availability_zone) if spec.availability_zone else None
    planned = isinstance(spec.capacity, TrainingPlan)
    zones = [] if planned else options.zones_of(spec.instance_types)
    # A dedicated subnet has its zone.
    fixed = spec.subnet_placement == "dedicated"
    found: list[AnyRemedy] = [TakeZone(availability_zone=zone) for zone in zones if zone != here and not fixed]
    if not planned:
        enough = [
            option
            for option in options.instance_types
            if option.instance_type not in spec.instance_types and (option.quota is None or option.quota >= spec.count)
        ]
        near = [option for option in enough if here in option.availability_zones]
        far = [option for option in enough if here not in option.availability_zones and not fixed]
        found += [
            TakeType(
                instance_type=option.instance_type,
                availability_zone=here if here in option.availability_zones else option.availability_zones[0],
            )
            for option in [*near, *far][:MOST_TYPES]
        ]
    if spec.capacity.kind != "on-demand":
        found.append(TakeCapacity(capacity=OnDemand()))
    if spec.capacity.kind != "spot" and spot_possible:
        found.append(TakeCapacity(capacity=Spot()))
    present = spec.capacity.training_plan if isinstance(spec.capacity, TrainingPlan) else None
    for plan in options.training_plans:
        fits = plan.instance_type == spec.instance_type and plan.available >= spec.count
        usable = plan.status in USABLE_PLANS and present not in (plan.name, plan.arn)
        if fits and usable and (not fixed or plan.availability_zone == here):
            found.append(TakeCapacity(capacity=TrainingPlan(training_plan=plan.name)))
    return found


def _refuse(member: str, detail: str, remedy: str) -> NoReturn:
    raise refusal(invalid([FieldError(field=f"/answer/remedy{member}", detail=detail, remedy=remedy)]))
