"""What a node pool's instance groups are made of, and the limits and requirements that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from activities.aws import AwsClients
from activities.hyperpod.cluster import describe
from activities.hyperpod.groups import Specification
from activities.instance_types import InstanceFacts, describe_types
from activities.options import Lookup
from contracts.node_pools import NodePoolSpec

LABEL_TYPE = "node.kubernetes.io/instance-type"
LABEL_CAPACITY = "karpenter.sh/capacity-type"


@dataclass
class PoolGroups:
    """The HyperPod cluster and those of its groups that a pool names."""

    cluster: Specification
    groups: dict[str, Specification]
    """By name; a group that the cluster does not have is missing."""
    facts: dict[str, InstanceFacts] = field(default_factory=dict)
    """By EC2 name."""
    quotas: dict[str, int | None] = field(default_factory=dict)
    """Instances that the account may have in clusters, by type with ``ml.``."""

    @property
    def types(self) -> list[str]:
        return sorted({name for group in self.groups.values() for name in types_of(group)})


def look(aws: AwsClients, lookup: Lookup, region: str, hyperpod: str, names: list[str]) -> PoolGroups | None:
    """The groups called ``names`` with what is known of their types; None where there is no such HyperPod cluster."""
    cluster = describe(aws, region, hyperpod)
    if cluster is None:
        return None
    there = {group["InstanceGroupName"]: group for group in cluster.get("InstanceGroups", [])}
    found = PoolGroups(cluster, {name: there[name] for name in names if name in there})
    if found.types:
        found.facts = describe_types(aws, region, [name.removeprefix("ml.") for name in found.types])
        options = lookup.options(region, found.types)
        found.quotas = {
            name: option.quota if (option := options.instance_type(name)) is not None else None for name in found.types
        }
    return found


def types_of(group: Specification) -> list[str]:
    """The types that a group may have, with ``ml.``."""
    requirements = group.get("InstanceRequirements") or {}
    several = requirements.get("DesiredInstanceTypes") or requirements.get("CurrentInstanceTypes") or []
    return list(several) or [name for name in [group.get("InstanceType")] if name]


def is_spot(group: Specification) -> bool:
    return "Spot" in (group.get("CapacityRequirements") or {})


def node_size(found: PoolGroups) -> dict[str, int]:
    """The smallest node that the groups give, by resource: what every limit must have room for."""
    smallest: dict[str, int] = {}
    for fact in found.facts.values():
        resource, count = _counted(fact)
        smallest[resource] = min(count, smallest.get(resource, count))
    return smallest


def limits(found: PoolGroups, spec: NodePoolSpec) -> dict[str, str]:
    """What the pool may have at most: accelerators as asked for, else as many as the types' quotas admit together.

    Groups without accelerators are limited by their CPUs. Without a known quota there is no limit of our own.
    """
    totals: dict[str, int | None] = {}
    for name in found.types:
        fact = found.facts.get(name.removeprefix("ml."))
        if fact is None:
            continue
        resource, count = _counted(fact)
        quota, before = found.quotas.get(name), totals.get(resource, 0)
        totals[resource] = None if quota is None or before is None else before + quota * count
    if spec.gpu_limit is not None:
        for resource in totals:
            if resource != "cpu":
                totals[resource] = spec.gpu_limit
    return {resource: str(total) for resource, total in sorted(totals.items()) if total is not None}


def requirements(found: PoolGroups) -> list[dict[str, Any]]:
    """The groups' types, and how they are bought where some are spot: Karpenter then falls back to on-demand.

    (SageMaker Developer Guide: spot instances in HyperPod, with Karpenter)
    """
    result: list[dict[str, Any]] = [{"key": LABEL_TYPE, "operator": "In", "values": found.types}]
    if any(is_spot(group) for group in found.groups.values()):
        kinds = sorted({"spot" if is_spot(group) else "on-demand" for group in found.groups.values()})
        result.append({"key": LABEL_CAPACITY, "operator": "In", "values": kinds})
    return result


def _counted(fact: InstanceFacts) -> tuple[str, int]:
    if fact.accelerator_resource:
        return fact.accelerator_resource, fact.accelerators
    return "cpu", fact.vcpus
