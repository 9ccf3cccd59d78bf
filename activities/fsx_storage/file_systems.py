"""File systems of FSx for Lustre: placed, made, watched and deleted.

API: https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

from temporalio import activity

from activities.aws import AwsClients, is_ours, pages, tag_list, tag_map, tags_of, token
from activities.context import attempt
from activities.errors import code_of, fail, is_absent
from activities.fsx_storage.site import blocks_of, look, missing_ports, security_groups, subnet
from activities.network.lookup import EVERYWHERE, only_one
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.fsx_storage import (
    DELETE_FILE_SYSTEM,
    ENSURE_FILE_SYSTEM,
    ENSURE_LUSTRE_ACCESS,
    FIND_FILE_SYSTEM_PLACE,
    WAIT_FOR_FILE_SYSTEM,
    WAIT_FOR_FILE_SYSTEM_GONE,
    DeploymentType,
    EnsureFileSystem,
    EnsureLustreAccess,
    FileSystem,
    FileSystemGone,
    FileSystemPlace,
    FileSystemRef,
    FindPlace,
    LustreAccess,
)
from contracts.model import fingerprint
from contracts.names import TAG_RESOURCE, ClusterNames
from contracts.problem import ProblemCode

LUSTRE = "LUSTRE"
LUSTRE_VERSION = "2.15"
"""For clients of Linux 6.1 as of Amazon Linux 2023. (FSx for Lustre User Guide: Lustre file system and client kernel
compatibility)"""
LONGEST_TOKEN = 63
USABLE = ("AVAILABLE", "UPDATING")
BROKEN = ("FAILED", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE")
PROPAGATION_ATTEMPTS = 8
"""FSx sees a new rule of a security group only after a while, and says until then that Lustre is not let through."""


class FileSystemActivities:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._poll = aws, settings.poll_seconds

    @activity.defn(name=FIND_FILE_SYSTEM_PLACE.name)
    def find_place(self, request: FindPlace) -> FileSystemPlace:
        """The subnet that was asked for, or the nodes' own in the zone that most of them are in. Changes nothing.

        Raises NOT_FOUND for a subnet or zone that the cluster does not have.
        """
        region, wanted = request.scope.region, request.create
        site = look(self._aws, region, request.eks_cluster, request.hyperpod_cluster)
        if wanted.subnet_id is None:
            place = site.place(wanted)
            if place is None:
                fail(
                    ProblemCode.NOT_FOUND,
                    f"The cluster has no subnet in {wanted.availability_zone}; it has some in {', '.join(site.zones)}",
                    "Choose one of those zones, or name a subnet of the VPC.",
                    field="/create/availability_zone",
                )
            return place
        found = subnet(self._aws, region, wanted.subnet_id)
        if found is None or found["VpcId"] != site.vpc_id:
            fail(
                ProblemCode.NOT_FOUND,
                f"The cluster's VPC {site.vpc_id} has no subnet {wanted.subnet_id}",
                "Name a subnet of the VPC, or leave it out.",
                field="/create/subnet_id",
            )
        return FileSystemPlace(
            vpc_id=site.vpc_id,
            subnet_id=wanted.subnet_id,
            zone=found["AvailabilityZone"],
            security_group_id=site.security_group_id,
            client_group_ids=site.client_group_ids,
        )

    @activity.defn(name=ENSURE_LUSTRE_ACCESS.name)
    def ensure_access(self, request: EnsureLustreAccess) -> LustreAccess:
        """Rules for Lustre's ports in the file servers' own group, as far as it does not let them through: among its
        members, and, where nodes have other groups, within the VPC. Not by naming those groups: a group that a rule
        names cannot be deleted, and EKS deletes its own. Theirs are left alone: nodes begin the connections."""
        region, own = request.scope.region, request.security_group_id
        blocks = blocks_of(self._aws, region, request.vpc_id) if request.client_group_ids else []
        (group,) = security_groups(self._aws, region, [own])
        changed = self._open(region, group, [] if blocks else [own], blocks)
        return LustreAccess(security_group_id=own, changed=changed)

    def _open(self, region: str, group: Any, within: list[str], blocks: list[IPv4Network]) -> bool:
        """Whether a rule had to be added."""
        act, added = self._aws.act.ec2(region), False
        outward = blocks or [IPv4Network(EVERYWHERE)]
        missing = [
            *(
                (act.authorize_security_group_ingress, ports)
                for ports in missing_ports(group.get("IpPermissions", []), within, blocks)
            ),
            *(
                (act.authorize_security_group_egress, ports)
                for ports in missing_ports(group.get("IpPermissionsEgress", []), within, outward)
            ),
        ]
        for authorize, (first, last) in missing:
            wanted: Any = {"IpProtocol": "tcp", "FromPort": first, "ToPort": last}
            if within:
                wanted["UserIdGroupPairs"] = [{"GroupId": each} for each in within]
            else:
                wanted["IpRanges"] = [{"CidrIp": str(block), "Description": "Lustre"} for block in blocks]
            try:
                authorize(GroupId=group["GroupId"], IpPermissions=[wanted])
                added = True
            except Exception as error:
                if code_of(error) != "InvalidPermission.Duplicate":
                    raise
        return added

    @activity.defn(name=ENSURE_FILE_SYSTEM.name)
    def ensure_file_system(self, request: EnsureFileSystem) -> FileSystem:
        """The file system of the claim; does not wait until it is AVAILABLE.

        Raises CONFLICT where the one that was made for the claim differs, NOT_READY where it has failed.
        """
        scope, wanted = request.scope, request.create
        role = ClusterNames(scope.cluster).file_system_role(request.claim, request.namespace)
        found = only_one(
            [
                each
                for each in owned_file_systems(self._aws, scope.region, scope.cluster)
                if tag_map(each.get("Tags")).get(TAG_RESOURCE) == role and each["Lifecycle"] != "DELETING"
            ],
            f"file system {role}",
            "FileSystemId",
        )
        if found is not None:
            _refuse_broken(found)
            _compare(found, request)
            return as_file_system(found, scope.cluster, changed=False)
        lustre: Any = {"DeploymentType": wanted.deployment_type.value}
        if wanted.deployment_type is DeploymentType.PERSISTENT_2:
            lustre["PerUnitStorageThroughput"] = wanted.megabytes
        step = f"{role}/{fingerprint(request)}"
        try:
            made = self._aws.act.fsx(scope.region).create_file_system(
                ClientRequestToken=token(step)[:LONGEST_TOKEN],
                FileSystemType=LUSTRE,
                FileSystemTypeVersion=LUSTRE_VERSION,
                StorageCapacity=wanted.capacity_gib,
                StorageType="SSD",
                SubnetIds=[request.place.subnet_id],
                SecurityGroupIds=[request.place.security_group_id],
                Tags=tag_list(tags_of(scope, role, f"{scope.cluster}-{request.claim}")),
                LustreConfiguration=lustre,
            )["FileSystem"]
        except Exception as error:
            if code_of(error) != "InvalidNetworkSettings" or attempt() >= PROPAGATION_ATTEMPTS:
                raise
            group = request.place.security_group_id
            detail = f"FSx does not see yet that security group {group} lets Lustre through: {error}"
            fail(ProblemCode.PROPAGATION, detail, "The platform tries again.", retry=True, delay=self._poll)
        return as_file_system(made, scope.cluster, changed=True)

    @activity.defn(name=WAIT_FOR_FILE_SYSTEM.name)
    async def wait_for_file_system(self, request: FileSystemRef) -> FileSystem:
        """Until it is AVAILABLE. Raises NOT_READY with FSx's words where it has failed, NOT_FOUND where it is gone."""

        def look_at(memory: Memory) -> Seen[FileSystem]:
            found = describe(self._aws, request.scope.region, request.file_system_id)
            if found is None:
                detail = f"There is no file system {request.file_system_id}"
                fail(
                    ProblemCode.NOT_FOUND, detail, "Name one that exists, or let one be made.", field="/file_system_id"
                )
            _refuse_broken(found)
            detail = f"{request.file_system_id} {found['Lifecycle']}, {found['StorageCapacity']} GiB"
            if found["Lifecycle"] not in USABLE:
                return Seen(detail)
            return Seen(detail, as_file_system(found, request.scope.cluster, changed=False))

        limit = WAIT_FOR_FILE_SYSTEM.limit
        return await wait_until(look_at, what="an available file system", limit=limit, poll_seconds=self._poll)

    @activity.defn(name=DELETE_FILE_SYSTEM.name)
    def delete_file_system(self, request: FileSystemRef) -> FileSystemGone:
        """Begin the deletion of a file system of ours, with all that is in it. Absent is done.

        Raises FOREIGN for one that does not carry the cluster's tag.
        """
        region, name = request.scope.region, request.file_system_id
        found = describe(self._aws, region, name)
        if found is None:
            return FileSystemGone(file_system_id=name, changed=False)
        if not is_ours(tag_map(found.get("Tags")), request.scope.cluster):
            fail(
                ProblemCode.FOREIGN,
                f"File system {name} was not made by the platform for {request.scope.cluster}",
                "Delete it yourself, or retry without delete_file_system.",
                field="/delete_file_system",
            )
        begin_deletion(self._aws, region, found)
        return FileSystemGone(file_system_id=name)

    @activity.defn(name=WAIT_FOR_FILE_SYSTEM_GONE.name)
    async def wait_for_file_system_gone(self, request: FileSystemRef) -> FileSystemGone:
        """Until there is no such file system any more."""
        name = request.file_system_id

        def look_at(memory: Memory) -> Seen[FileSystemGone]:
            found = describe(self._aws, request.scope.region, name)
            if found is None:
                return Seen(f"{name} is gone", FileSystemGone(file_system_id=name))
            return Seen(f"{name} {found['Lifecycle']}")

        limit = WAIT_FOR_FILE_SYSTEM_GONE.limit
        return await wait_until(look_at, what="the end of the file system", limit=limit, poll_seconds=self._poll)


def describe(aws: AwsClients, region: str, file_system_id: str) -> Any | None:
    """A file system as FSx describes it; None where it says that there is none."""
    try:
        found = aws.read.fsx(region).describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
    except Exception as error:
        if is_absent(error, "FileSystemNotFound"):
            return None
        raise
    return found[0] if found else None


def owned_file_systems(aws: AwsClients, region: str, cluster: str) -> list[Any]:
    """Those that carry the cluster's tag, going ones too. Their descriptions hold their tags."""
    return [
        each
        for each in pages(aws.read.fsx(region), "describe_file_systems", "FileSystems")
        if is_ours(tag_map(each.get("Tags")), cluster)
    ]


def begin_deletion(aws: AwsClients, region: str, found: Any) -> None:
    """Delete a described file system, without a last backup of a persistent one; one that is going is left to it.

    Raises BUSY (retried) while it is being made: FSx would refuse.
    """
    name = found["FileSystemId"]
    if found["Lifecycle"] == "DELETING":
        return
    if found["Lifecycle"] == "CREATING":
        detail = f"File system {name} is CREATING, and can be deleted only when it is there"
        fail(ProblemCode.BUSY, detail, "The platform tries again.", retry=True, delay=60)
    kind = (found.get("LustreConfiguration") or {}).get("DeploymentType", "")
    # Scratch file systems have no backups, and take no word about them.
    skip: Any = {} if kind.startswith("SCRATCH") else {"LustreConfiguration": {"SkipFinalBackup": True}}
    try:
        aws.act.fsx(region).delete_file_system(
            FileSystemId=name, ClientRequestToken=token(f"delete/{name}")[:LONGEST_TOKEN], **skip
        )
    except Exception as error:
        if not is_absent(error, "FileSystemNotFound"):
            raise


def as_file_system(found: Any, cluster: str, *, changed: bool) -> FileSystem:
    lustre = found.get("LustreConfiguration") or {}
    return FileSystem(
        file_system_id=found["FileSystemId"],
        lifecycle=found["Lifecycle"],
        dns_name=found.get("DNSName", ""),
        # The oldest kind of file systems has a fixed one and does not tell it.
        mount_name=lustre.get("MountName", "fsx"),
        capacity_gib=found["StorageCapacity"],
        deployment_type=lustre.get("DeploymentType", ""),
        throughput=lustre.get("PerUnitStorageThroughput"),
        subnet_id=found["SubnetIds"][0] if found.get("SubnetIds") else "",
        vpc_id=found.get("VpcId", ""),
        owned=is_ours(tag_map(found.get("Tags")), cluster),
        changed=changed,
    )


def trouble(found: Any) -> str | None:
    """What FSx says of a file system that does not work; None where it does, or is about to."""
    if found["Lifecycle"] not in BROKEN:
        return None
    words = (found.get("FailureDetails") or {}).get("Message") or "FSx says nothing more"
    return f"File system {found['FileSystemId']} is {found['Lifecycle']}: {words}"


def _refuse_broken(found: Any) -> None:
    if (said := trouble(found)) is not None:
        remedy = "Mend what the message names, or delete the file system (aws fsx delete-file-system); then retry."
        fail(ProblemCode.NOT_READY, said, remedy, retryable=True)


def _compare(found: Any, request: EnsureFileSystem) -> None:
    wanted, exists = request.create, as_file_system(found, request.scope.cluster, changed=False)
    asked = {"capacity_gib": wanted.capacity_gib, "deployment_type": wanted.deployment_type.value}
    if wanted.throughput is not None:
        asked["throughput"] = wanted.throughput
    if differing := {key: value for key, value in asked.items() if getattr(exists, key) != value}:
        shown = "; ".join(f"{key} is {getattr(exists, key)}, asked was {value}" for key, value in differing.items())
        fail(
            ProblemCode.CONFLICT,
            f"File system {exists.file_system_id} was made for claim {request.namespace}/{request.claim} and differs: "
            f"{shown}",
            f"Ask for what it has, name it ({exists.file_system_id}) in file_system_id, or choose another claim name.",
            field=f"/create/{next(iter(differing))}",
        )
