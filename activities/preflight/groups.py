"""Instance groups: offered, reserved, allowed, and with room in a subnet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from activities.aws import AwsClients
from activities.errors import is_absent
from activities.hyperpod.cluster import describe
from activities.network.compute import RESERVED_ADDRESSES
from activities.options import Lookup, hyperpod_types
from contracts.availability import addresses_of, offer_errors, over_plan, over_quota, zone_of
from contracts.names import ClusterNames
from contracts.options import CheckGroups, Options
from contracts.problem import FieldError

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import SubnetTypeDef


def group_errors(aws: AwsClients, lookup: Lookup, request: CheckGroups) -> list[FieldError]:
    types = sorted({name for group in request.groups for name in group.instance_types})
    options = lookup.options(request.region, types)
    known = set(hyperpod_types(aws, request.region))
    errors: list[FieldError] = []
    for position, group in enumerate(request.groups):
        errors += offer_errors(group, options, f"{request.pointer}/{position}", known)
    own = _own_groups(aws, request)
    return [
        *errors,
        *over_plan(request.groups, options, request.pointer, _held(own)),
        *_over_room(aws, request, options, own),
        *over_quota(request.groups, options, request.pointer),
    ]


def _own_groups(aws: AwsClients, request: CheckGroups) -> dict[str, Any]:
    """The groups that the cluster has, as SageMaker describes them."""
    if request.cluster is None:
        return {}
    name = request.hyperpod_cluster or ClusterNames(request.cluster).hyperpod_cluster
    found = describe(aws, request.region, name) or {}
    return {group["InstanceGroupName"]: group for group in found.get("InstanceGroups", [])}


def _held(own: dict[str, Any]) -> dict[tuple[str, str], int]:
    """Instances of training plans that the cluster's groups have already."""
    return {
        (name, group["TrainingPlanArn"]): group["CurrentCount"]
        for name, group in own.items()
        if group.get("TrainingPlanArn")
    }


def _over_room(aws: AwsClients, request: CheckGroups, options: Options, own: dict[str, Any]) -> list[FieldError]:
    """Whether the nodes' addresses fit: into the subnet that was named, else into the one that the groups of a zone
    share."""
    asked: Counter[str | None] = Counter()
    errors = []
    for position, group in enumerate(request.groups):
        if options.instance_type(group.instance_type) is None:
            continue
        at, zone = f"{request.pointer}/{position}", zone_of(group, options)
        needed = addresses_of(group, options)
        each = needed // max(group.count, 1)
        arithmetic = f"{group.count} × {each} addresses = {needed}"
        if group.subnet_id is None:
            # A dedicated subnet is no other group's.
            place = zone if group.subnet_placement == "shared" else f"group {group.name}"
            asked[place] += needed
            room = 2 ** (32 - request.compute_subnet_prefix) - RESERVED_ADDRESSES
            if asked[place] > room:
                shared = f", {asked[place]} together with the groups before" if asked[place] > needed else ""
                errors.append(
                    FieldError(
                        field=f"{at}/count",
                        detail=f"{arithmetic}{shared}; a /{request.compute_subnet_prefix} has {room}",
                        remedy="Ask for a larger compute subnet (a smaller network.compute_subnet_prefix), or fewer "
                        "nodes.",
                    )
                )
            continue
        held = own.get(group.name, {})
        there = group.subnet_id in held.get("OverrideVpcConfig", {}).get("Subnets", [])
        asked[group.subnet_id] += (group.count - (held["CurrentCount"] if there else 0)) * each
        errors += _given_subnet(aws, request.region, group.subnet_id, zone, asked[group.subnet_id], arithmetic, at)
    return errors


def _given_subnet(
    aws: AwsClients, region: str, subnet_id: str, zone: str | None, needed: int, arithmetic: str, at: str
) -> list[FieldError]:
    field, subnet = f"{at}/subnet_id", _subnet(aws, region, subnet_id)
    if subnet is None:
        detail = f"There is no subnet {subnet_id} in {region}"
        return [FieldError(field=field, detail=detail, remedy="Give another one, or none.")]
    if zone is not None and subnet["AvailabilityZone"] != zone:
        where = f"{subnet['AvailabilityZone']} ({subnet['AvailabilityZoneId']})"
        detail = f"{subnet_id} is in {where}, the group in {zone}"
        return [FieldError(field=field, detail=detail, remedy="Give a subnet of the group's zone, or none.")]
    if needed > subnet["AvailableIpAddressCount"]:
        detail = f"{arithmetic}; {subnet_id} has {subnet['AvailableIpAddressCount']} free"
        return [FieldError(field=field, detail=detail, remedy="Give a larger subnet, none, or ask for fewer nodes.")]
    return []


def _subnet(aws: AwsClients, region: str, subnet_id: str) -> SubnetTypeDef | None:
    try:
        return aws.read.ec2(region).describe_subnets(SubnetIds=[subnet_id])["Subnets"][0]
    except Exception as error:
        if is_absent(error, "InvalidSubnetID.NotFound"):
            return None
        raise
