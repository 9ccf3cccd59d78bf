"""The capacity stage: which instances the cluster gets, chosen from what the account can really have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.availability import USABLE_PLANS, offer_errors, over_plan, over_quota, plans_to_come, zone_of
from contracts.capacity import CapacityAnswer, InstanceGroupSpec
from contracts.decision import COMBINATIONS
from contracts.options import (
    CHECK_GROUPS,
    LOOK_UP_OPTIONS,
    CheckGroups,
    InstanceTypeOption,
    LookUpOptions,
    Options,
)
from contracts.problem import invalid
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
        types = sorted({name for group in groups() for name in group.instance_types})
        region = operation.start.region
        options = await run.act(LOOK_UP_OPTIONS, LookUpOptions(region=region, instance_types=types))
        if not groups():
            choose([await ask(run, options)])
        findings = await run.act(
            CHECK_GROUPS,
            CheckGroups(
                region=region,
                groups=groups(),
                cluster=operation.start.cluster,
                compute_subnet_prefix=prefix,
            ),
        )
        if findings.errors:
            raise refusal(invalid(findings.errors))
        placed = [place(group, options) for group in groups()]
        chosen = [f"{g.count} × {g.instance_type} {g.capacity.kind} in {g.availability_zone}" for g in placed]
        run.detail("; ".join([*chosen, *plans_to_come(placed, options)]))
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
    return group_of(answer)


def choices(options: Options) -> dict[str, list[Any]]:
    """What can be answered now: types that the quota admits, their zones, ways to buy."""
    usable = [each for each in options.instance_types if each.quota is None or each.quota > 0]
    plans = [plan for plan in options.training_plans if plan.status in USABLE_PLANS and plan.available > 0]
    return {
        "instance_type": [each.instance_type for each in usable],
        "availability_zone": sorted({zone for each in usable for zone in each.availability_zones}),
        COMBINATIONS: [
            {"instance_type": each.instance_type, "availability_zone": zone}
            for each in usable
            for zone in each.availability_zones
        ],
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
    group = group_of(answer)
    errors = [
        *offer_errors(group, options, "/groups/0"),
        *over_plan([group], options, "/groups"),
        *over_quota([group], options, "/groups"),
    ]
    if errors:
        at_answer = [e.model_copy(update={"field": e.field.replace("/groups/0", "/answer", 1)}) for e in errors]
        raise refusal(invalid(at_answer))
    return answer


def group_of(answer: CapacityAnswer) -> InstanceGroupSpec:
    """The instance group that an answer means. Raises ValidationError."""
    return InstanceGroupSpec(
        name=answer.group,
        instance_type=answer.instance_type,
        count=answer.count,
        availability_zone=answer.availability_zone,
        capacity=answer.capacity,
    )


def place(group: InstanceGroupSpec, options: Options) -> InstanceGroupSpec:
    """The group with the name of its zone."""
    return group.model_copy(update={"availability_zone": zone_of(group, options)})
