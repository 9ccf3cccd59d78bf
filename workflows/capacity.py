"""The capacity stage: which instances the cluster gets, chosen from what the account can really have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.capacity import CapacityAnswer, InstanceGroupSpec, TrainingPlan
from contracts.options import (
    CHECK_GROUPS,
    LOOK_UP_OPTIONS,
    CheckGroups,
    InstanceTypeOption,
    LookUpOptions,
    Options,
)
from contracts.problem import FieldError, invalid
from workflows.engine import Operation, StagePlan, StageRun
from workflows.engine.failures import refusal

CAPACITY = StagePlan("capacity", "Capacity", inputs=("instance_groups",))

PREFERRED_TYPES = ("ml.g5.8xlarge", "ml.g6.8xlarge", "ml.g6e.8xlarge", "ml.g5.12xlarge")
"""What the default takes first: one GPU, EFA, widely offered. After these, the smallest type that the quota admits."""


async def capacity_stage(
    operation: Operation[Any],
    groups: Callable[[], list[InstanceGroupSpec]],
    prefix: int,
    choose: Callable[[list[InstanceGroupSpec]], None],
) -> list[InstanceGroupSpec]:
    """Check the groups that were asked for, or ask for one. ``choose`` puts the choice into the operation's spec."""

    async def steps(run: StageRun) -> list[InstanceGroupSpec]:
        types = sorted({group.instance_type for group in groups()})
        region = operation.start.region
        options = await run.act(LOOK_UP_OPTIONS, LookUpOptions(region=region, instance_types=types))
        if not groups():
            choose([await ask(run, options)])
        findings = await run.act(
            CHECK_GROUPS, CheckGroups(region=region, groups=groups(), compute_subnet_prefix=prefix)
        )
        if findings.errors:
            raise refusal(invalid(findings.errors))
        placed = [place(group, options) for group in groups()]
        run.detail(
            "; ".join(f"{g.count} × {g.instance_type} {g.capacity.kind} in {g.availability_zone}" for g in placed)
        )
        return placed

    return await operation.stage(CAPACITY.name, steps)


async def ask(run: StageRun, options: Options) -> InstanceGroupSpec:
    """Ask which capacity to take; returns the instance group of the answer."""
    answer = await run.decide(
        f"Which accelerated capacity should the cluster have in {options.region}?",
        schema=CapacityAnswer.model_json_schema(),
        options=choices(options),
        default=default_answer(options),
        parse=lambda document: read_answer(document, options),
    )
    return InstanceGroupSpec(
        name=answer.group,
        instance_type=answer.instance_type,
        count=answer.count,
        availability_zone=answer.availability_zone,
        capacity=answer.capacity,
    )


def choices(options: Options) -> dict[str, list[Any]]:
    """What can be answered now: types that the quota admits, their zones, ways to buy."""
    usable = [each for each in options.instance_types if each.quota is None or each.quota > 0]
    plans = [plan for plan in options.training_plans if plan.status in ("Active", "Scheduled") and plan.available > 0]
    return {
        "instance_type": [each.instance_type for each in usable],
        "availability_zone": sorted({zone for each in usable for zone in each.availability_zones}),
        "capacity": [
            {"kind": "on-demand"},
            {"kind": "spot"},
            *({"kind": "training-plan", "training_plan": plan.name} for plan in plans),
        ],
    }


def default_answer(options: Options) -> dict[str, Any] | None:
    """One on-demand instance of a modest type; None where the quota admits no type at all."""
    usable = [each for each in options.instance_types if (each.quota is None or each.quota > 0) and each.accelerators]
    if not usable:
        return None
    preferred = {name: rank for rank, name in enumerate(PREFERRED_TYPES)}

    def modesty(option: InstanceTypeOption) -> tuple[int, int, int, float, str]:
        rank = preferred.get(option.instance_type, len(preferred))
        return rank, option.accelerators, option.vcpus, option.memory_gib, option.instance_type

    best = min(usable, key=modesty)
    return {
        "instance_type": best.instance_type,
        "count": 1,
        "availability_zone": best.availability_zones[0],
        "capacity": {"kind": "on-demand"},
    }


def read_answer(document: dict[str, Any], options: Options) -> CapacityAnswer:
    """Read an answer and hold it against the options. Raises ValidationError or ApplicationError with the fields."""
    answer = CapacityAnswer.model_validate(document)
    group = InstanceGroupSpec(
        name=answer.group,
        instance_type=answer.instance_type,
        count=answer.count,
        availability_zone=answer.availability_zone,
        capacity=answer.capacity,
    )
    if errors := unavailable(group, options, "/answer"):
        raise refusal(invalid(errors))
    return answer


def unavailable(group: InstanceGroupSpec, options: Options, pointer: str) -> list[FieldError]:
    """Why a group cannot be had, as far as the options tell."""
    option = options.instance_type(group.instance_type)
    if option is None:
        return [
            FieldError(
                field=f"{pointer}/instance_type",
                detail=f"{group.instance_type} is not offered for HyperPod in {options.region}",
                remedy="Choose one of the decision's options.",
            )
        ]
    errors: list[FieldError] = []
    if isinstance(group.capacity, TrainingPlan):
        errors += _unavailable_in_plan(group, group.capacity, options, pointer)
    else:
        if option.quota is not None and group.count > option.quota:
            errors.append(
                FieldError(
                    field=f"{pointer}/count",
                    detail=f"the quota for {group.instance_type} is {option.quota}, {group.count} were asked for",
                    remedy=f"Ask for at most {option.quota}, or raise the quota in Service Quotas.",
                )
            )
        zone = options.zone_name(group.availability_zone) if group.availability_zone else None
        if group.availability_zone and zone not in option.availability_zones:
            errors.append(
                FieldError(
                    field=f"{pointer}/availability_zone",
                    detail=f"{group.availability_zone} does not offer {group.instance_type}",
                    remedy=f"These do: {', '.join(option.availability_zones)}.",
                )
            )
    return errors


def _unavailable_in_plan(
    group: InstanceGroupSpec, capacity: TrainingPlan, options: Options, pointer: str
) -> list[FieldError]:
    plan = options.training_plan(capacity.training_plan)
    at_plan = f"{pointer}/capacity/training_plan"
    if plan is None:
        names = ", ".join(each.name for each in options.training_plans) or "none"
        return [
            FieldError(field=at_plan, detail=f"no training plan {capacity.training_plan!r}", remedy=f"Plans: {names}.")
        ]
    errors: list[FieldError] = []
    if plan.status not in ("Active", "Scheduled"):
        errors.append(FieldError(field=at_plan, detail=f"training plan {plan.name} is {plan.status}"))
    if plan.instance_type != group.instance_type:
        errors.append(
            FieldError(
                field=f"{pointer}/instance_type",
                detail=f"training plan {plan.name} is for {plan.instance_type}, not {group.instance_type}",
            )
        )
    if group.count > plan.available:
        errors.append(
            FieldError(
                field=f"{pointer}/count",
                detail=f"training plan {plan.name} has {plan.available} instances left, not {group.count}",
            )
        )
    asked = options.zone_name(group.availability_zone) if group.availability_zone else None
    if group.availability_zone and asked != plan.availability_zone:
        errors.append(
            FieldError(
                field=f"{pointer}/availability_zone",
                detail=f"training plan {plan.name} is in {plan.availability_zone}; {group.availability_zone} was asked",
                remedy=f"Leave the zone out, or ask for {plan.availability_zone}.",
            )
        )
    return errors


def place(group: InstanceGroupSpec, options: Options) -> InstanceGroupSpec:
    """The group with the name of its zone: the plan's, the one that was asked for, else the first that offers it."""
    if isinstance(group.capacity, TrainingPlan):
        plan = options.training_plan(group.capacity.training_plan)
        zone = plan.availability_zone if plan is not None else group.availability_zone
    elif group.availability_zone:
        zone = options.zone_name(group.availability_zone)
    else:
        option = options.instance_type(group.instance_type)
        zone = option.availability_zones[0] if option is not None and option.availability_zones else None
    return group.model_copy(update={"availability_zone": zone})
