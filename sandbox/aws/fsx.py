"""Amazon FSx for Lustre: file systems with their life, their interfaces and their tags. Nothing is stored in them.

API: https://docs.aws.amazon.com/fsx/latest/APIReference/API_Operations.html . Other kinds of file systems than Lustre
are not simulated. What the description of their interfaces says is UNVERIFIED.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox import timings
from sandbox.aws import backends, interfaces
from sandbox.aws.call import AwsError, Call
from sandbox.aws.world import Place, World, alphanumeric, hex_id, paginate, token_digest

PAGE = 100
INTERFACE = "Amazon FSx "
LUSTRE_PORT = 988
THROUGHPUTS = {"PERSISTENT_1": (50, 100, 200), "PERSISTENT_2": (125, 250, 500, 1000)}
STEPS = {"SCRATCH_1": 3600, "SCRATCH_2": 2400, "PERSISTENT_1": 2400, "PERSISTENT_2": 2400}


@dataclass
class FileSystem:
    id: str
    arn: str
    created: datetime
    owner: str
    vpc_id: str
    subnet_ids: list[str]
    capacity_gib: int
    lustre: dict[str, Any]
    """LustreConfiguration as it is described."""
    mount_name: str
    version: str
    lifecycle: str = "CREATING"
    failure: str = ""
    interface_ids: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    token: str = ""
    digest: str = ""


@dataclass
class FsxState:
    held: dict[Place, dict[str, FileSystem]] = field(default_factory=dict)


class Fsx:
    """Handlers of FSx's operations on file systems of Lustre."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = FsxState()
        world.on("fsx.created", self._created)
        world.on("fsx.deleted", self._deleted)

    def held(self, place: Place) -> dict[str, FileSystem]:
        return self.state.held.setdefault(place, {})

    def CreateFileSystem(self, call: Call) -> Any:
        """Equal requests with one token make one file system."""
        p = call.params
        if p["FileSystemType"] != "LUSTRE":
            raise AwsError("BadRequest", f"The sandbox has file systems of Lustre only, not {p['FileSystemType']}.")
        token, digest = p.get("ClientRequestToken") or "", token_digest(p, "ClientRequestToken")
        known = next((each for each in self.held(call.place).values() if token and each.token == token), None)
        if known is not None:
            if known.digest != digest:
                raise AwsError(
                    "IncompatibleParameterError",
                    "The client request token was used before with other parameters.",
                    Parameter="ClientRequestToken",
                )
            return {"FileSystem": self._describe(call, known)}
        lustre = dict(p.get("LustreConfiguration") or {})
        kind = lustre.setdefault("DeploymentType", "SCRATCH_1")
        _check_size(p.get("StorageCapacity"), kind)
        _check_throughput(lustre, kind)
        groups, subnet = self._network(call)
        made = FileSystem(
            id=f"fs-{hex_id()}",
            arn="",
            created=self.world.now(),
            owner=call.account,
            vpc_id=subnet.vpc_id,
            subnet_ids=[subnet.id],
            capacity_gib=p["StorageCapacity"],
            lustre=lustre,
            mount_name="fsx" if kind == "SCRATCH_1" else alphanumeric(8),
            version=p.get("FileSystemTypeVersion") or ("2.12" if kind == "PERSISTENT_2" else "2.10"),
            tags={tag["Key"]: tag["Value"] for tag in p.get("Tags") or []},
            token=token,
            digest=digest,
        )
        made.arn = call.arn("fsx", f"file-system/{made.id}")
        self.held(call.place)[made.id] = made
        interface = backends.ec2(*call.place).create_network_interface(
            subnet, subnet.get_available_subnet_ip(None), [], groups, f"{INTERFACE}{made.id}"
        )
        made.interface_ids.append(interface.id)
        self.world.changed("ec2")
        self._schedule(timings.FSX_CREATE, "created", call, made)
        return {"FileSystem": self._describe(call, made)}

    def _network(self, call: Call) -> tuple[list[str], Any]:
        """Security groups and the subnet. One of the groups must let Lustre in from members of the groups."""
        p = call.params
        if len(p["SubnetIds"]) != 1:
            raise AwsError("InvalidNetworkSettings", "A file system of Lustre is in exactly one subnet.")
        subnet = self.world.subnet(call.place, p["SubnetIds"][0])
        if subnet is None:
            raise AwsError(
                "InvalidNetworkSettings",
                f"The subnet {p['SubnetIds'][0]} does not exist.",
                InvalidSubnetId=p["SubnetIds"][0],
            )
        groups: list[str] = list(p.get("SecurityGroupIds") or [])
        if not groups:
            default = backends.ec2(*call.place).get_security_group_from_name("default", subnet.vpc_id)
            groups = [default.id] if default is not None else []
        held = [self.world.security_group(call.place, each) for each in groups]
        if any(group is None or group.vpc_id != subnet.vpc_id for group in held):
            raise AwsError("InvalidNetworkSettings", "A security group is not in the subnet's VPC.")
        if not any(_lets_lustre_in(group, groups) for group in held):
            raise AwsError(
                "InvalidNetworkSettings",
                "The file system cannot be created because the default security group in the subnet provided or the "
                "provided security groups do not permit Lustre LNET network traffic on port 988",
                InvalidSecurityGroupId=groups[0] if groups else None,
            )
        return groups, subnet

    def DescribeFileSystems(self, call: Call) -> Any:
        p, held = call.params, self.held(call.place)
        for asked in p.get("FileSystemIds") or []:
            if asked not in held:
                raise _missing(asked)
        found = [held[each] for each in p.get("FileSystemIds") or held]
        given = base64.b64decode(p["NextToken"]).decode() if p.get("NextToken") else None
        page, token = paginate(found, given, p.get("MaxResults") or PAGE)
        following = base64.b64encode(token.encode()).decode() if token else None
        return {"FileSystems": [self._describe(call, each) for each in page], "NextToken": following}

    def UpdateFileSystem(self, call: Call) -> Any:
        """Capacity and throughput change at once; the optimisation that follows in AWS takes no time here."""
        p, found = call.params, self._find(call)
        if found.lifecycle != "AVAILABLE":
            raise AwsError("BadRequest", f"The file system {found.id} is {found.lifecycle}.")
        lustre = {**found.lustre, **(p.get("LustreConfiguration") or {})}
        _check_throughput(lustre, lustre["DeploymentType"])
        if (capacity := p.get("StorageCapacity")) is not None:
            _check_size(capacity, lustre["DeploymentType"])
            if capacity <= found.capacity_gib:
                raise AwsError("BadRequest", "The storage capacity can only be increased.")
            found.capacity_gib = capacity
        found.lustre = lustre
        return {"FileSystem": self._describe(call, found)}

    def DeleteFileSystem(self, call: Call) -> Any:
        found = self._find(call)
        if found.lifecycle == "CREATING":
            raise AwsError("BadRequest", f"The file system {found.id} is CREATING and cannot be deleted now.")
        if found.lifecycle != "DELETING":
            found.lifecycle = "DELETING"
            self._schedule(timings.FSX_DELETE, "deleted", call, found)
        return {"FileSystemId": found.id, "Lifecycle": found.lifecycle, "LustreResponse": {}}

    def TagResource(self, call: Call) -> Any:
        self._tagged(call).tags.update({tag["Key"]: tag["Value"] for tag in call.params["Tags"]})
        return {}

    def UntagResource(self, call: Call) -> Any:
        for key in call.params["TagKeys"]:
            self._tagged(call).tags.pop(key, None)
        return {}

    def ListTagsForResource(self, call: Call) -> Any:
        return {"Tags": [{"Key": key, "Value": value} for key, value in self._tagged(call).tags.items()]}

    def _find(self, call: Call) -> FileSystem:
        found = self.held(call.place).get(call.params["FileSystemId"])
        if found is None:
            raise _missing(call.params["FileSystemId"])
        return found

    def _tagged(self, call: Call) -> FileSystem:
        arn = call.params["ResourceARN"]
        found = next((each for each in self.held(call.place).values() if each.arn == arn), None)
        if found is None:
            raise AwsError("ResourceNotFound", f"The resource {arn} does not exist.", ResourceARN=arn)
        return found

    def _describe(self, call: Call, found: FileSystem) -> dict[str, Any]:
        return {
            "OwnerId": found.owner,
            "CreationTime": found.created,
            "FileSystemId": found.id,
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": found.version,
            "Lifecycle": found.lifecycle,
            **({"FailureDetails": {"Message": found.failure}} if found.failure else {}),
            "StorageCapacity": found.capacity_gib,
            "StorageType": "SSD",
            "VpcId": found.vpc_id,
            "SubnetIds": found.subnet_ids,
            "NetworkInterfaceIds": found.interface_ids,
            "DNSName": f"{found.id}.fsx.{call.region}.amazonaws.com",
            "ResourceARN": found.arn,
            "Tags": [{"Key": key, "Value": value} for key, value in found.tags.items()],
            "LustreConfiguration": {**found.lustre, "MountName": found.mount_name},
        }

    def _schedule(self, seconds: float, event: str, call: Call, found: FileSystem) -> None:
        self.world.clock.schedule(
            seconds, f"fsx.{event}", account=call.account, region=call.region, file_system=found.id
        )

    def _created(self, account: str, region: str, file_system: str) -> None:
        found = self.held((account, region)).get(file_system)
        if found is None or found.lifecycle != "CREATING":
            return
        reason = self.world.knobs.broken_file_systems.pop(0) if self.world.knobs.broken_file_systems else ""
        found.lifecycle, found.failure = ("FAILED", reason) if reason else ("AVAILABLE", "")

    def _deleted(self, account: str, region: str, file_system: str) -> None:
        place = account, region
        found = self.held(place).pop(file_system, None)
        for interface in found.interface_ids if found is not None else ():
            interfaces.remove(place, interface)
        self.world.changed("ec2")


def _missing(identifier: str) -> AwsError:
    return AwsError("FileSystemNotFound", f"File system '{identifier}' does not exist.")


def _check_size(capacity: int | None, kind: str) -> None:
    step = STEPS[kind]
    if capacity is None or (capacity not in (1200, 2400) and (capacity <= 0 or capacity % step)):
        raise AwsError(
            "BadRequest",
            f"Invalid storage capacity provided: {capacity}. "
            f"Specify 1200 GiB, 2400 GiB, or an increment of {step} GiB.",
        )


def _check_throughput(lustre: dict[str, Any], kind: str) -> None:
    asked, possible = lustre.get("PerUnitStorageThroughput"), THROUGHPUTS.get(kind)
    if possible is None and asked is not None:
        raise AwsError("BadRequest", f"PerUnitStorageThroughput cannot be given for {kind}.")
    if possible is not None and asked not in possible:
        raise AwsError(
            "InvalidPerUnitStorageThroughput",
            f"Invalid per unit storage throughput {asked}: {kind} has {', '.join(map(str, possible))}.",
        )
    if lustre.get("ImportPath") and kind == "PERSISTENT_2":
        raise AwsError("BadRequest", "ImportPath cannot be given for PERSISTENT_2: associate a data repository.")


def _lets_lustre_in(group: Any, members: list[str]) -> bool:
    """Whether a rule of the group admits port 988 of members of the groups, or of any address."""
    for rule in group.ingress_rules:
        if str(rule.ip_protocol) not in ("-1", "tcp"):
            continue
        if str(rule.ip_protocol) == "tcp" and not int(rule.from_port) <= LUSTRE_PORT <= int(rule.to_port):
            continue
        if rule.ip_range or (rule.source_group or {}).get("GroupId") in members:
            return True
    return False
