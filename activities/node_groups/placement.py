"""Which zones and image a node group's instances need, from what EC2 says of their types."""

from __future__ import annotations

from dataclasses import dataclass

from activities.aws import AwsClients, pages
from activities.errors import fail, is_absent
from activities.instance_types import NEURON, NVIDIA, InstanceFacts, describe_types
from contracts.network import Network
from contracts.node_groups import NodeGroupSpec
from contracts.problem import FieldError, ProblemCode


@dataclass
class Placing:
    """Where the nodes would go; ``errors`` say why they cannot."""

    zones: list[str]
    addresses: int
    facts: dict[str, InstanceFacts]
    errors: list[FieldError]


def place(aws: AwsClients, region: str, spec: NodeGroupSpec, network: Network) -> Placing:
    """Zones that are asked for, else the cluster's that offer every type: those that have a compute subnet already, if
    there is one. Just one zone for EFA and capacity blocks.

    ``addresses`` is what the desired nodes of one zone take from its subnet.
    """
    facts = describe_types(aws, region, spec.instance_types)
    errors = [*_unknown(spec, facts, region)]
    if errors:
        return Placing([], 0, facts, errors)
    errors += _mixed(spec, facts)
    one_zone = spec.efa or spec.capacity == "capacity-block"
    if spec.efa and (lacking := [name for name in spec.instance_types if not facts[name].efa_cards]):
        errors.append(
            _error("/efa", f"{', '.join(lacking)} has no EFA", "Leave EFA out, or choose a type that has it.")
        )
    zones, asked = _zones(aws, region, spec, network, errors)
    offered = zones_that_offer(aws, region, spec.instance_types)
    for position, zone in enumerate(asked):
        if missing := [name for name in spec.instance_types if zone not in offered.get(name, set())]:
            common = sorted(set.intersection(*(offered.get(name, set()) for name in spec.instance_types)))
            errors.append(
                _error(
                    f"/availability_zones/{position}" if spec.availability_zones else "/instance_types",
                    f"{zone} does not offer {', '.join(missing)}",
                    f"Choose among {', '.join(common)}." if common else "Choose other instance types.",
                )
            )
    if not asked and not errors:
        fitting = [zone for zone in zones if all(zone in offered.get(name, set()) for name in spec.instance_types)]
        used = {subnet.zone for subnet in network.compute_subnets}
        fitting = [zone for zone in fitting if zone in used] or fitting
        if not fitting:
            types = ", ".join(spec.instance_types)
            errors.append(_error("/instance_types", f"no zone of {region} offers {types}", "Choose other types."))
        zones = fitting
    if one_zone:
        zones = zones[:1]
    each = -(-spec.scaling.desired // max(len(zones), 1))
    addresses = max(each, 1) * max(facts[name].addresses for name in spec.instance_types)
    return Placing(zones, addresses, facts, errors)


def image(facts: list[InstanceFacts]) -> str:
    """The AMI type that has the driver of the types' accelerators. (EKS API: AMITypes)"""
    architecture = "ARM_64" if facts[0].architecture == "arm64" else "x86_64"
    flavour = {NVIDIA: "NVIDIA", NEURON: "NEURON"}.get(facts[0].accelerator_resource or "", "STANDARD")
    return f"AL2023_{architecture}_{flavour}"


def zones_that_offer(aws: AwsClients, region: str, names: list[str]) -> dict[str, set[str]]:
    """Names of the zones that offer each of the EC2 types."""
    found: dict[str, set[str]] = {}
    condition = [{"Name": "instance-type", "Values": names}]
    for offer in pages(
        aws.read.ec2(region),
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=condition,
    ):
        found.setdefault(str(offer["InstanceType"]), set()).add(offer["Location"])
    return found


def _zones(
    aws: AwsClients, region: str, spec: NodeGroupSpec, network: Network, errors: list[FieldError]
) -> tuple[list[str], list[str]]:
    """Candidates in order, and those of them that are a must."""
    if spec.subnet_ids:
        zones = _zones_of_subnets(aws, region, spec, network, errors)
        if len(zones) > 1 and (spec.efa or spec.capacity == "capacity-block"):
            what = "EFA does not cross" if spec.efa else "a capacity block is in one of the"
            errors.append(_error("/subnet_ids", f"{what} Availability Zones", "Give subnets of one zone."))
        return zones, zones
    if spec.capacity == "capacity-block" and (zone := _zone_of_block(aws, region, spec, errors)):
        if spec.availability_zones and zone not in spec.availability_zones:
            detail = f"{spec.capacity_reservation_id} is in {zone}"
            errors.append(_error("/availability_zones", detail, f"Leave the zones out, or name {zone}."))
        return [zone], [zone]
    if spec.availability_zones:
        return spec.availability_zones, spec.availability_zones
    compute = [subnet.zone for subnet in network.compute_subnets]
    return list(dict.fromkeys([*compute, *network.zones])), []


def _zone_of_block(aws: AwsClients, region: str, spec: NodeGroupSpec, errors: list[FieldError]) -> str | None:
    """The capacity block's zone, with its state and type checked.

    (EC2 API: CapacityReservation; EKS User Guide: managed node groups with capacity blocks)
    """
    identifier, at = spec.capacity_reservation_id or "", "/capacity_reservation_id"
    try:
        found = aws.read.ec2(region).describe_capacity_reservations(CapacityReservationIds=[identifier])
    except Exception as error:
        if not is_absent(error, "InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"):
            raise
        errors.append(_error(at, f"there is no capacity reservation {identifier} in {region}", "Give one that exists."))
        return None
    block = found["CapacityReservations"][0]
    state, kind = block.get("State", ""), block.get("InstanceType", "")
    if block.get("ReservationType") == "default":
        errors.append(_error(at, f"{identifier} is no capacity block but an on-demand reservation", "Give a block."))
    if state not in ("active", "scheduled"):
        errors.append(_error(at, f"{identifier} is {state}", "Give a block that is active or scheduled."))
    if kind and kind != spec.instance_types[0]:
        errors.append(_error("/instance_types/0", f"{identifier} is of {kind}", f"Use {kind}."))
    free = block.get("AvailableInstanceCount", block.get("TotalInstanceCount", 0))
    if state == "active" and spec.scaling.desired > free:
        detail = f"{identifier} has {free} free instances; {spec.scaling.desired} are asked for"
        errors.append(_error("/scaling/desired", detail, f"Ask for {free} or fewer.", ProblemCode.CAPACITY))
    return block.get("AvailabilityZone")


def _zones_of_subnets(
    aws: AwsClients, region: str, spec: NodeGroupSpec, network: Network, errors: list[FieldError]
) -> list[str]:
    try:
        subnets = aws.read.ec2(region).describe_subnets(SubnetIds=spec.subnet_ids)["Subnets"]
    except Exception as error:
        if not is_absent(error, "InvalidSubnetID.NotFound"):
            raise
        errors.append(_error("/subnet_ids", "not all of these subnets exist", "Give subnets of the cluster's VPC."))
        return []
    for position, subnet_id in enumerate(spec.subnet_ids):
        subnet = next((each for each in subnets if each["SubnetId"] == subnet_id), None)
        if subnet is not None and subnet["VpcId"] != network.vpc_id:
            detail = f"{subnet_id} is in {subnet['VpcId']}, not in the cluster's {network.vpc_id}"
            errors.append(_error(f"/subnet_ids/{position}", detail, "Give subnets of the cluster's VPC."))
    return sorted({subnet["AvailabilityZone"] for subnet in subnets})


def _unknown(spec: NodeGroupSpec, facts: dict[str, InstanceFacts], region: str) -> list[FieldError]:
    return [
        _error(f"/instance_types/{position}", f"{region} has no instance type {name}", "Choose one that it has.")
        for position, name in enumerate(spec.instance_types)
        if name not in facts
    ]


def _mixed(spec: NodeGroupSpec, facts: dict[str, InstanceFacts]) -> list[FieldError]:
    """One image serves all nodes of a group, so all types have its architecture and its accelerators' driver."""
    images = {name: image([facts[name]]) for name in spec.instance_types}
    first = images[spec.instance_types[0]]
    return [
        _error(
            f"/instance_types/{position}",
            f"{name} needs the image {images[name]}, {spec.instance_types[0]} needs {first}: a group has one",
            "Make a node group for each kind of instance.",
        )
        for position, name in enumerate(spec.instance_types)
        if images[name] != first
    ]


def _error(field: str, detail: str, remedy: str, code: ProblemCode = ProblemCode.INVALID) -> FieldError:
    return FieldError(field=field, detail=detail, remedy=remedy, code=code)


def require(placing: Placing) -> Placing:
    """Raise the first of the errors, if there are any."""
    for error in placing.errors:
        fail(error.code, error.detail, error.remedy or "Correct the field.", field=error.field)
    return placing
