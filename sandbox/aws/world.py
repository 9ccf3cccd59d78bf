"""What the simulated services share: the clock, the data plane, the admin API's knobs, and looking each other up."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call
from sandbox.aws.instance_types import offered_zones
from sandbox.clock import Clock
from sandbox.dataplane import DataPlane
from sandbox.timings import ROLE_PROPAGATION

Place = tuple[str, str]
"""An account and a region."""


@dataclass
class Knobs:
    """What a test or a demo may set."""

    capacity: dict[str, dict[str, int]] = field(default_factory=dict)
    """Zone name, zone id or ``*`` -> instance type -> free instances. Absent means unlimited."""
    quotas: dict[str, dict[str, int]] = field(default_factory=dict)
    """Region or ``*`` -> quota (an ``ml.`` type, ``vpcs``, ``elastic-ips``) -> value."""
    visible_after: float = 0.0
    """For so many sandbox seconds a fresh VPC or subnet is not described yet."""
    sick: dict[str, int] = field(default_factory=dict)
    """Instance group -> how many of its next nodes fail their deep health check."""
    broken_lifecycle: dict[str, int | None] = field(default_factory=dict)
    """Instance group -> how many of its next lifecycle scripts fail; None for all."""
    broken_file_systems: list[str] = field(default_factory=list)
    """Why the next file systems of FSx fail to be made, one after the other."""
    broken_addons: dict[str, str] = field(default_factory=dict)
    """Add-on -> the code of the health issue that it has, in every cluster."""


@dataclass
class World:
    """Handed to every simulated service."""

    clock: Clock
    dataplane: DataPlane
    on: Callable[[str, Callable[..., None]], None]
    """Register a handler of clock events; it runs under the sandbox's lock."""
    changed: Callable[..., None]
    """Tell that these moto services' backends changed."""
    knobs: Knobs = field(default_factory=Knobs)

    def now(self) -> Any:
        return self.clock.now()

    def quota(self, region: str, name: str, default: int | None = None) -> int | None:
        for scope in (region, "*"):
            if name in self.knobs.quotas.get(scope, {}):
                return self.knobs.quotas[scope][name]
        return default

    # Capacity: what EC2 has free per zone and instance type.

    def free(self, zone: str, zone_id: str, instance_type: str) -> int | None:
        """Free instances, or None for no limit."""
        for key in (zone, zone_id, "*"):
            if instance_type in self.knobs.capacity.get(key, {}):
                return self.knobs.capacity[key][instance_type]
        return None

    def take(self, zone: str, zone_id: str, instance_type: str, count: int = 1) -> None:
        """Use free capacity; a negative count gives it back."""
        for key in (zone, zone_id, "*"):
            if instance_type in self.knobs.capacity.get(key, {}):
                self.knobs.capacity[key][instance_type] -= count
                return

    # Other services' resources.

    def role_problem(self, arn: str, service: str, propagation: float = ROLE_PROPAGATION) -> str | None:
        """Why ``service`` cannot assume the role: it is missing, too new, or does not trust the service."""
        account = arn.split(":")[4] if arn.count(":") >= 5 else ""
        name = arn.rsplit("/", 1)[-1]
        role = backends.role(account, name) if account else None
        if role is None or role.arn != arn:
            return "it does not exist"
        created = role.create_date
        if (self.now() - created.replace(tzinfo=self.now().tzinfo)).total_seconds() < propagation:
            return "it was created too recently"
        if service not in str(role.assume_role_policy_document):
            return f"it does not trust {service}"
        return None

    def subnet(self, place: Place, subnet_id: str) -> Any | None:
        for subnets in backends.ec2(*place).subnets.values():
            if subnet_id in subnets:
                return subnets[subnet_id]
        return None

    def security_group(self, place: Place, group_id: str) -> Any | None:
        return backends.ec2(*place).get_security_group_from_id(group_id)

    def s3_object_exists(self, account: str, uri: str) -> bool:
        """Whether an ``s3://bucket/key`` names an object."""
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        held = backends.s3(account).buckets.get(bucket)
        return held is not None and key in held.keys

    def offered(self, region: str, zone: str, instance_type: str) -> bool:
        return zone in offered_zones(region, instance_type.removeprefix("ml."))


def token_digest(params: dict[str, Any], *ignored: str) -> str:
    """What a client token stands for: the request without the token itself."""
    kept = {k: v for k, v in params.items() if k not in ignored}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def hex_id(length: int = 17) -> str:
    return secrets.token_hex((length + 1) // 2)[:length]


def alphanumeric(length: int) -> str:
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(length))


def paginate(items: list[Any], token: str | None, size: int) -> tuple[list[Any], str | None]:
    """A page and the token of the next one."""
    if token is not None and not token.isdigit():
        raise AwsError("ValidationException", "The pagination token is invalid.")
    start = int(token or 0)
    end = start + size
    return items[start:end], (str(end) if end < len(items) else None)


__all__ = ["Call", "Knobs", "Place", "World", "alphanumeric", "hex_id", "paginate", "token_digest"]
