"""Instance groups: offered, reserved, allowed, and with room in a subnet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from activities.aws import AwsClients
from activities.errors import is_absent
from activities.network.compute import RESERVED_ADDRESSES
from activities.options import Lookup, hyperpod_types
from contracts.capacity import InstanceGroupSpec, TrainingPlan
from contracts.options import CheckGroups, InstanceTypeOption, Options
from contracts.problem import FieldError

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import SubnetTypeDef

USABLE_PLANS = ("Active", "Scheduled")


def group_errors(aws: AwsClients, lookup: Lookup, request: CheckGroups) -> list[FieldError]:
    types = sorted({group.instance_type for group in request.groups})
    options = lookup.options(request.region, types)
    known = set(hyperpod_types(aws, request.region))
    errors: list[FieldError] = []
    for position, group in enumerate(request.groups):
        errors += _check(aws, group, options, known, f"{request.pointer}/{position}", request)
    return errors + _over_quota(request, options)


def _check(
    aws: AwsClients, group: InstanceGroupSpec, options: Options, known: set[str], at: str, request: CheckGroups
) -> list[FieldError]:
    option = options.instance_type(group.instance_type)
    if option is None:
        reason = "is no HyperPod instance type"
        if group.instance_type in known:
            reason = f"is not offered in {options.region}"
        return [
            FieldError(
                field=f"{at}/instance_type",
                detail=f"{group.instance_type} {reason}",
                remedy="Choose one of the types that the options of the region list.",
            )
        ]
    errors: list[FieldError] = []
    zone = _zone(group, options)
    if group.availability_zone and options.zone_name(group.availability_zone) is None:
        errors.append(
            FieldError(
                field=f"{at}/availability_zone",
                detail=f"{group.availability_zone} is no available zone of {options.region}",
                remedy=f"Choose one of {', '.join(option.availability_zones)}.",
            )
        )
    elif isinstance(group.capacity, TrainingPlan):
        errors += _plan(group, group.capacity, options, at)
    elif zone not in option.availability_zones:
        errors.append(
            FieldError(
                field=f"{at}/availability_zone",
                detail=f"{zone} does not offer {group.instance_type}",
                remedy=f"Choose a zone that does: {', '.join(option.availability_zones)}.",
            )
        )
    return errors + _room(aws, group, option, zone, at, request)


def _zone(group: InstanceGroupSpec, options: Options) -> str | None:
    """The name of the group's zone: as asked, else its plan's, else the first that offers the type."""
    if group.availability_zone:
        return options.zone_name(group.availability_zone)
    if isinstance(group.capacity, TrainingPlan):
        plan = options.training_plan(group.capacity.training_plan)
        return plan.availability_zone if plan else None
    option = options.instance_type(group.instance_type)
    return option.availability_zones[0] if option else None


def _plan(group: InstanceGroupSpec, capacity: TrainingPlan, options: Options, at: str) -> list[FieldError]:
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
    asked = options.zone_name(group.availability_zone) if group.availability_zone else plan.availability_zone
    if asked != plan.availability_zone:
        errors.append(
            FieldError(
                field=f"{at}/availability_zone",
                detail=f"Training plan {plan.name} is in {plan.availability_zone}, the group asks for "
                f"{group.availability_zone}" + (f" ({asked})" if asked != group.availability_zone else ""),
                remedy=f"Leave the zone out, or ask for {plan.availability_zone}.",
            )
        )
    if group.count > plan.available:
        errors.append(
            FieldError(
                field=f"{at}/count",
                detail=f"Training plan {plan.name} has {plan.available} of {plan.total} instances left, the group asks "
                f"for {group.count}",
                remedy=f"Ask for at most {plan.available}.",
            )
        )
    return errors


def _room(
    aws: AwsClients,
    group: InstanceGroupSpec,
    option: InstanceTypeOption,
    zone: str | None,
    at: str,
    request: CheckGroups,
) -> list[FieldError]:
    """Whether the nodes' addresses fit: into the subnet that was named, else into a new one."""
    needed = group.count * option.addresses
    arithmetic = f"{group.count} × {option.addresses} addresses = {needed}"
    if group.subnet_id is None:
        room = 2 ** (32 - request.compute_subnet_prefix) - RESERVED_ADDRESSES
        if needed <= room:
            return []
        return [
            FieldError(
                field=f"{at}/count",
                detail=f"{arithmetic}; a /{request.compute_subnet_prefix} has {room}",
                remedy="Ask for a larger compute subnet (a smaller network.compute_subnet_prefix), or fewer nodes.",
            )
        ]
    field = f"{at}/subnet_id"
    subnet = _subnet(aws, request.region, group.subnet_id)
    if subnet is None:
        detail = f"There is no subnet {group.subnet_id} in {request.region}"
        return [FieldError(field=field, detail=detail, remedy="Give another one, or none.")]
    if zone is not None and subnet["AvailabilityZone"] != zone:
        where = f"{subnet['AvailabilityZone']} ({subnet['AvailabilityZoneId']})"
        detail = f"{group.subnet_id} is in {where}, the group in {zone}"
        return [FieldError(field=field, detail=detail, remedy="Give a subnet of the group's zone, or none.")]
    if needed > subnet["AvailableIpAddressCount"]:
        detail = f"{arithmetic}; {group.subnet_id} has {subnet['AvailableIpAddressCount']} free"
        return [FieldError(field=field, detail=detail, remedy="Give a larger subnet, none, or ask for fewer nodes.")]
    return []


def _subnet(aws: AwsClients, region: str, subnet_id: str) -> SubnetTypeDef | None:
    try:
        return aws.read.ec2(region).describe_subnets(SubnetIds=[subnet_id])["Subnets"][0]
    except Exception as error:
        if is_absent(error, "InvalidSubnetID.NotFound"):
            return None
        raise


def _over_quota(request: CheckGroups, options: Options) -> list[FieldError]:
    """Quotas count all groups of a type together; those of a training plan are reserved apart."""
    asked: Counter[str] = Counter()
    errors = []
    for position, group in enumerate(request.groups):
        option = options.instance_type(group.instance_type)
        if option is None or option.quota is None or isinstance(group.capacity, TrainingPlan):
            continue
        asked[group.instance_type] += group.count
        if asked[group.instance_type] > option.quota:
            errors.append(
                FieldError(
                    field=f"{request.pointer}/{position}/count",
                    detail=f"The quota '{group.instance_type} for cluster usage' is {option.quota}; "
                    f"{asked[group.instance_type]} are asked for",
                    remedy=f"Ask for at most {option.quota}, or have the quota raised in Service Quotas.",
                )
            )
    return errors
