"""Whether instance groups can be had, judged by options that were looked up. Pure: the same verdict for everyone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from contracts.capacity import InstanceGroupSpec, TrainingPlan
from contracts.options import Options
from contracts.problem import FieldError, ProblemCode

USABLE_PLANS = ("Active", "Scheduled")


def zone_of(group: InstanceGroupSpec, options: Options) -> str | None:
    """The name of a group's zone: as asked, else its plan's, else the first that offers the type."""
    if group.availability_zone:
        return options.zone_name(group.availability_zone)
    if isinstance(group.capacity, TrainingPlan):
        plan = options.training_plan(group.capacity.training_plan)
        return plan.availability_zone if plan else None
    return next(iter(options.zones_of(group.instance_types)), None)


def addresses_of(group: InstanceGroupSpec, options: Options) -> int:
    """VPC addresses that all the group's nodes take, if they are of the type that takes most."""
    found = [option.addresses for name in group.instance_types if (option := options.instance_type(name)) is not None]
    return group.count * max(found, default=1)


def offer_errors(
    group: InstanceGroupSpec, options: Options, at: str, known_types: Collection[str] = ()
) -> list[FieldError]:
    """Why a group's type, zone or plan does not fit what is offered. ``at``: the group's JSON pointer."""
    unknown = []
    for position, name in enumerate(group.instance_types):
        if options.instance_type(name) is None:
            reason = f"is not offered for HyperPod in {options.region}"
            if known_types and name not in known_types:
                reason = "is no HyperPod instance type"
            unknown.append(
                FieldError(
                    field=f"{at}/alternative_types/{position - 1}" if position else f"{at}/instance_type",
                    detail=f"{name} {reason}",
                    remedy="Choose one of the types that the options of the region list.",
                )
            )
    if unknown:
        return unknown
    cards = _card_errors(group, options, at)
    zone, offering = zone_of(group, options), options.zones_of(group.instance_types)
    if group.availability_zone and zone is None:
        detail = f"{group.availability_zone} is no available zone of {options.region}"
        remedy = f"Choose one of {', '.join(offering)}." if offering else "Name a zone of the region."
        return [*cards, FieldError(field=f"{at}/availability_zone", detail=detail, remedy=remedy)]
    if isinstance(group.capacity, TrainingPlan):
        return [*cards, *_plan_errors(group, group.capacity, options, at)]
    if not offering:
        return [*cards, _apart(group, options, at)]
    if zone not in offering:
        return [
            *cards,
            FieldError(
                field=f"{at}/availability_zone",
                detail=f"{zone} does not offer {' and '.join(group.instance_types)}",
                remedy=f"Choose a zone that does: {', '.join(offering)}.",
            ),
        ]
    return cards


def _apart(group: InstanceGroupSpec, options: Options, at: str) -> FieldError:
    """The group's types are offered, but nowhere together."""
    where = "; ".join(f"{name} in {', '.join(options.zones_of([name]))}" for name in group.instance_types)
    return FieldError(
        field=f"{at}/alternative_types",
        detail=f"No Availability Zone offers all types of the group: {where}. A group has one zone: EFA does not reach "
        "over two",
        remedy="Choose types of one zone, or make a group for each.",
    )


def _card_errors(group: InstanceGroupSpec, options: Options, at: str) -> list[FieldError]:
    """Whether every type has the cards that the network interface needs.

    (SageMaker API: ClusterNetworkInterface; EC2 DescribeInstanceTypes NetworkInfo)
    """
    if group.network_interface is None:
        return []
    found = [option for name in group.instance_types if (option := options.instance_type(name)) is not None]
    field = f"{at}/network_interface"
    for option in found:
        if not option.efa_interfaces:
            detail = f"{option.instance_type} has no EFA interface"
            return [FieldError(field=field, detail=detail, remedy="Leave network_interface out, or take another type.")]
        if group.network_interface == "efa-only" and option.network_cards < 2:
            detail = (
                f"{option.instance_type} has one network card, and that must carry the node's addresses: efa-only is "
                "for the cards behind the first"
            )
            remedy = "Ask for efa, leave network_interface out, or take a type with several network cards."
            return [FieldError(field=field, detail=detail, remedy=remedy)]
    return []


def _plan_errors(group: InstanceGroupSpec, capacity: TrainingPlan, options: Options, at: str) -> list[FieldError]:
    plan, field = options.training_plan(capacity.training_plan), f"{at}/capacity/training_plan"
    if plan is None:
        names = ", ".join(each.name for each in options.training_plans)
        return [
            FieldError(
                field=field,
                detail=f"There is no training plan {capacity.training_plan} for HyperPod in {options.region}",
                remedy=f"Choose one of {names}." if names else "Buy one, or take on-demand capacity.",
            )
        ]
    errors = []
    if plan.status not in USABLE_PLANS:
        errors.append(
            FieldError(
                field=field,
                detail=f"Training plan {plan.name} is {plan.status}",
                remedy="Choose a plan that is Active or Scheduled.",
            )
        )
    if plan.instance_type != group.instance_type:
        errors.append(
            FieldError(
                field=f"{at}/instance_type",
                detail=f"Training plan {plan.name} is for {plan.instance_type}, the group asks for "
                f"{group.instance_type}",
                remedy=f"Ask for {plan.instance_type}, or choose another plan.",
            )
        )
    asked = zone_of(group, options)
    if asked != plan.availability_zone:
        errors.append(
            FieldError(
                field=f"{at}/availability_zone",
                detail=f"Training plan {plan.name} is in {plan.availability_zone}, the group asks for "
                f"{group.availability_zone}" + (f" ({asked})" if asked != group.availability_zone else ""),
                remedy=f"Leave the zone out, or ask for {plan.availability_zone}.",
            )
        )
    return errors


def plans_to_come(groups: Sequence[InstanceGroupSpec], options: Options) -> list[str]:
    """Warnings for groups whose training plan has not begun: their instances do not come before."""
    warnings = []
    for group in groups:
        plan = options.training_plan(group.capacity.training_plan) if isinstance(group.capacity, TrainingPlan) else None
        if plan is not None and plan.status == "Scheduled":
            when = f" on {plan.starts_at:%Y-%m-%d %H:%M} UTC" if plan.starts_at else " later"
            warnings.append(f"training plan {plan.name} of {group.name} begins{when}; no instance comes before")
    return warnings


def over_plan(
    groups: Sequence[InstanceGroupSpec],
    options: Options,
    pointer: str,
    held: Mapping[tuple[str, str], int] | None = None,
) -> list[FieldError]:
    """Where groups together ask for more of a plan than it has left.

    ``held``: instances that a group has of a plan already, by (group's name, plan's ARN): those are its own.
    """
    asked: Counter[str] = Counter()
    errors = []
    for position, group in enumerate(groups):
        plan = options.training_plan(group.capacity.training_plan) if isinstance(group.capacity, TrainingPlan) else None
        if plan is None:
            continue
        asked[plan.arn] += group.count - (held or {}).get((group.name, plan.arn), 0)
        if asked[plan.arn] > plan.available:
            detail = f"Training plan {plan.name} has {plan.available} of {plan.total} instances left"
            errors.append(
                FieldError(
                    field=f"{pointer}/{position}/count",
                    detail=f"{detail}; {asked[plan.arn]} more are asked for",
                    remedy="Ask for fewer, or choose another plan.",
                    code=ProblemCode.CAPACITY,
                )
            )
    return errors


def over_quota(groups: Sequence[InstanceGroupSpec], options: Options, pointer: str) -> list[FieldError]:
    """Where groups of a type together ask for more than its quota; those of a training plan are reserved apart."""
    asked: Counter[str] = Counter()
    errors = []
    for position, group in enumerate(groups):
        option = options.instance_type(group.instance_type)
        if option is None or option.quota is None or isinstance(group.capacity, TrainingPlan):
            continue
        asked[group.instance_type] += group.count
        if asked[group.instance_type] > option.quota:
            errors.append(
                FieldError(
                    field=f"{pointer}/{position}/count",
                    detail=f"The quota '{group.instance_type} for cluster usage' is {option.quota}; "
                    f"{asked[group.instance_type]} are asked for",
                    remedy=f"Ask for {f'at most {option.quota}' if option.quota else 'another type'}, or have the "
                    "quota raised in Service Quotas.",
                    code=ProblemCode.QUOTA,
                )
            )
    return errors
