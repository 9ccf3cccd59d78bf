"""Plans of claims on file systems of FSx for Lustre.

What must hold: https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html and
https://docs.aws.amazon.com/eks/latest/userguide/fsx-csi.html
"""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities.aws import pages, tag_map
from activities.fsx_storage.claims import fsx_pair
from activities.fsx_storage.file_systems import (
    LUSTRE,
    USABLE,
    as_file_system,
    describe,
    owned_file_systems,
    trouble,
)
from activities.fsx_storage.site import Site, look, missing_ports, security_groups, subnet
from activities.kubernetes import read_or_none
from activities.plans.parts import control_plane_of
from activities.plans.storage import Findings, look_at_claim, look_at_ground, scope_of
from activities.plans.world import Planner, World
from contracts.catalogue import CREATE_FSX_STORAGE
from contracts.cluster import ClusterRecord
from contracts.fsx_storage import FsxStorageSpec, NewFileSystem, price_item
from contracts.names import TAG_RESOURCE, ClusterNames
from contracts.plans import Action, MakePlan, PlanDraft, PlannedChange
from contracts.problem import ProblemCode
from contracts.storage import StorageType

FILE_SYSTEM = "FSx file system"


def planners(world: World) -> dict[str, Planner]:
    return {CREATE_FSX_STORAGE.name: lambda request: _create(world, request)}


def _create(world: World, request: MakePlan) -> PlanDraft:
    record, spec = request.record, FsxStorageSpec.model_validate(request.spec)
    plane = control_plane_of(record)
    found = Findings()
    hyperpod = record.hyperpod.name if record.hyperpod is not None else None
    site = look(world.aws, record.region, plane.name, hyperpod)
    if not site.zones:
        found.warnings.append("the cluster has no nodes yet: the claim is made and cannot be tried")
    if spec.file_system_id is not None:
        _existing(world, record, spec, spec.file_system_id, site, found)
    elif spec.create is not None:
        _new(world, record, spec, spec.create, site, found)
    return found.draft()


def _existing(
    world: World, record: ClusterRecord, spec: FsxStorageSpec, name: str, site: Site, found: Findings
) -> None:
    """A file system that is there already: whether it works, and whether the nodes reach it."""
    pointer, described = "/file_system_id", describe(world.aws, record.region, name)
    if described is None:
        _ground(world, record, spec, found)
        remedy = "Name one that exists (aws fsx describe-file-systems), or let one be made (create)."
        found.block(pointer, f"there is no file system {name} in {record.region}", remedy, ProblemCode.NOT_FOUND)
        return
    if described["FileSystemType"] != LUSTRE:
        detail = f"file system {name} is of type {described['FileSystemType']}, not {LUSTRE}"
        _ground(world, record, spec, found)
        found.block(pointer, detail, "Name an FSx for Lustre file system.")
        return
    file_system = as_file_system(described, record.tag, changed=False)
    if (said := trouble(described)) is not None:
        found.block(pointer, said, "Mend it, or name another one.", ProblemCode.NOT_READY)
    elif file_system.lifecycle == "DELETING":
        found.block(pointer, f"file system {name} is being deleted", "Name another one.", ProblemCode.NOT_READY)
    elif file_system.lifecycle not in USABLE:
        found.warnings.append(f"file system {name} is {file_system.lifecycle}: the operation waits until it is there")
    found.changes.append(
        PlannedChange(
            action=Action.KEEP,
            kind=FILE_SYSTEM,
            name=name,
            detail=f"{file_system.capacity_gib} GiB, {file_system.deployment_type}",
        )
    )
    look_at_claim(world, record, fsx_pair(scope_of(record), spec, file_system), f"{FILE_SYSTEM} {name}", found)
    _reach(world, record, described, site, found)
    found.facts |= {"file_system": name}


def _reach(world: World, record: ClusterRecord, described: Any, site: Site, found: Findings) -> None:
    """VPC, zone and security groups between a file system and the nodes."""
    pointer, name = "/file_system_id", described["FileSystemId"]
    elsewhere = described.get("VpcId") != site.vpc_id
    detail = (
        f"file system {name} is in VPC {described.get('VpcId')}, the cluster in {site.vpc_id}" if elsewhere else None
    )
    remedy = "Name one of the cluster's VPC, or let one be made (create)."
    found.check("same VPC", pointer, detail, remedy, ProblemCode.INVALID)
    if elsewhere:
        return
    there = subnet(world.aws, record.region, described["SubnetIds"][0])
    _warn_of_zone(found, there["AvailabilityZone"] if there is not None else None, site)
    groups = _groups_of(world, record.region, described.get("NetworkInterfaceIds") or [])
    if not groups:
        found.warnings.append(f"the security groups of file system {name} cannot be seen: they were not checked")
        return
    rules = [rule for group in groups for rule in group.get("IpPermissions", [])]
    closed = missing_ports(rules, [site.security_group_id, *site.client_group_ids], site.blocks)
    shown = " and ".join(f"{first}-{last}" if first != last else str(first) for first, last in closed)
    names = ", ".join(group["GroupId"] for group in groups)
    detail = f"the file system's security group {names} does not let the nodes in on TCP {shown}" if closed else None
    remedy = f"Add inbound rules for TCP 988 and 1018-1023 from {site.security_group_id} to {names}."
    found.check("security groups let Lustre through", pointer, detail, remedy, ProblemCode.INVALID)


def _groups_of(world: World, region: str, interfaces: list[str]) -> list[Any]:
    if not interfaces:
        return []
    wanted: Any = [{"Name": "network-interface-id", "Values": interfaces}]
    described = pages(world.aws.read.ec2(region), "describe_network_interfaces", "NetworkInterfaces", Filters=wanted)
    ids = {group["GroupId"] for each in described for group in each.get("Groups", [])}
    return security_groups(world.aws, region, sorted(ids)) if ids else []


def _new(
    world: World, record: ClusterRecord, spec: FsxStorageSpec, wanted: NewFileSystem, site: Site, found: Findings
) -> None:
    role = ClusterNames(record.tag).file_system_role(spec.claim, spec.namespace)
    exists = next(
        (
            each
            for each in owned_file_systems(world.aws, record.region, record.tag)
            if tag_map(each.get("Tags")).get(TAG_RESOURCE) == role and each["Lifecycle"] != "DELETING"
        ),
        None,
    )
    if exists is not None:
        _made_before(world, record, spec, wanted, exists, found)
        return
    _ground(world, record, spec, found)
    _look_at_names(world, record, spec, found)
    zone = _zone(world, record, wanted, site, found)
    _warn_of_zone(found, zone, site)
    speed = f"{wanted.megabytes} MB/s for each TiB"
    claim = f"{spec.namespace}/{spec.claim}"
    found.changes += [
        PlannedChange(
            action=Action.CREATE,
            kind=FILE_SYSTEM,
            name=f"{record.tag}-{spec.claim}",
            detail=f"{wanted.capacity_gib} GiB, {wanted.deployment_type.value}, {speed}, in {zone or 'no zone'}",
        ),
        PlannedChange(
            action=Action.CREATE,
            kind="PersistentVolume",
            name=ClusterNames(record.tag).persistent_volume(spec.claim, spec.namespace),
        ),
        PlannedChange(action=Action.CREATE, kind="PersistentVolumeClaim", name=claim),
    ]
    found.hourly[price_item(wanted.deployment_type, wanted.megabytes)] = wanted.capacity_gib
    found.facts |= {"zone": zone}


def _made_before(
    world: World, record: ClusterRecord, spec: FsxStorageSpec, wanted: NewFileSystem, exists: Any, found: Findings
) -> None:
    """An earlier attempt, or an earlier claim of the name, has made one."""
    file_system = as_file_system(exists, record.tag, changed=False)
    name = file_system.file_system_id
    asked = {"capacity_gib": wanted.capacity_gib, "deployment_type": wanted.deployment_type.value}
    for member, value in asked.items():
        if getattr(file_system, member) != value:
            found.block(
                f"/create/{member}",
                f"file system {name} was made for this claim and has {getattr(file_system, member)}, asked was {value}",
                f"Ask for what it has, name it in file_system_id ({name}), or choose another claim name.",
                ProblemCode.CONFLICT,
            )
    if (said := trouble(exists)) is not None:
        found.block("/create", said, "Delete it (aws fsx delete-file-system) first.", ProblemCode.NOT_READY)
    detail = "it was made for this claim before"
    found.changes.append(PlannedChange(action=Action.NOTHING, kind=FILE_SYSTEM, name=name, detail=detail))
    look_at_claim(world, record, fsx_pair(scope_of(record), spec, file_system), f"{FILE_SYSTEM} {name}", found)


def _zone(world: World, record: ClusterRecord, wanted: NewFileSystem, site: Site, found: Findings) -> str | None:
    """Where a new one goes; None, with a blocker, where there is no such place."""
    if wanted.subnet_id is not None:
        there = subnet(world.aws, record.region, wanted.subnet_id)
        if there is None or there["VpcId"] != site.vpc_id:
            detail = f"the cluster's VPC {site.vpc_id} has no subnet {wanted.subnet_id}"
            found.block("/create/subnet_id", detail, "Name one that it has, or leave it out.", ProblemCode.NOT_FOUND)
            return None
        zone = str(there["AvailabilityZone"])
        if wanted.availability_zone not in (None, zone):
            detail = f"subnet {wanted.subnet_id} is in {zone}, not in {wanted.availability_zone}"
            found.block("/create/availability_zone", detail, "Give one of the two.")
        return zone
    place = site.place(wanted)
    if place is None:
        zones = ", ".join(dict.fromkeys(spot.zone for spot in site.spots)) or "none"
        detail = f"the cluster has no subnet in {wanted.availability_zone}; it has some in {zones}"
        found.block("/create/availability_zone", detail, "Choose one of those.", ProblemCode.NOT_FOUND)
    return place.zone if place is not None else None


def _warn_of_zone(found: Findings, zone: str | None, site: Site) -> None:
    others = ", ".join(each for each in site.zones if each != zone)
    if zone is not None and others:
        found.warnings.append(
            f"there are nodes in {others}, and the file system is in {zone}: traffic between zones is slower and costs"
        )


def _ground(world: World, record: ClusterRecord, spec: FsxStorageSpec, found: Findings) -> None:
    assert record.control_plane is not None
    with world.kubernetes.connect(record.region, record.control_plane.name) as api:
        look_at_ground(api, StorageType.FSX_LUSTRE, spec.namespace, found)


def _look_at_names(world: World, record: ClusterRecord, spec: FsxStorageSpec, found: Findings) -> None:
    """A new file system is on no volume yet: one that has the name is about something else. It is found here, because
    a file system costs from when it is made."""
    assert record.control_plane is not None
    volume = ClusterNames(record.tag).persistent_volume(spec.claim, spec.namespace)
    with world.kubernetes.connect(record.region, record.control_plane.name) as api:
        core = client.CoreV1Api(api)
        taken = {
            f"PersistentVolume {volume}": read_or_none(core.read_persistent_volume, volume),
            f"PersistentVolumeClaim {spec.namespace}/{spec.claim}": read_or_none(
                core.read_namespaced_persistent_volume_claim, spec.claim, spec.namespace
            ),
        }
    if there := [what for what, exists in taken.items() if exists is not None]:
        detail = f"{' and '.join(there)} exist{'s' if len(there) == 1 else ''} already, on something else"
        remedy = "Choose another claim name, or delete what exists first (delete-storage; the data stays)."
        found.block("/claim", detail, remedy, ProblemCode.CONFLICT)
