"""What a plan's capacity costs, and what of quotas and addresses it takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from activities.aws import pages
from activities.errors import is_absent
from activities.instance_types import describe_types
from activities.options import cluster_quotas
from activities.plans.prices import Prices
from activities.plans.world import World
from activities.quotas import quota_of
from contracts.plans import AddressNeed, CapacityChange, Cost, CostItem, PlanDraft, QuotaNeed
from contracts.problem import FieldError, ProblemCode
from contracts.words import number_of

RESERVED = ("training-plan", "capacity-block")
"""Ways to buy that are paid beforehand: using them costs nothing more, and takes nothing of the on-demand quotas."""

VCPU_QUOTAS = {
    ("standard", "on-demand"): "L-1216C47A",
    ("g", "on-demand"): "L-DB2E81BA",
    ("p", "on-demand"): "L-417A185B",
    ("trn", "on-demand"): "L-2C3B7624",
    ("standard", "spot"): "L-34B43A08",
    ("g", "spot"): "L-3819A6DF",
    ("p", "spot"): "L-7212CCBC",
    ("trn", "spot"): "L-6B0D517C",
}
"""EC2's quotas of running instances count vCPUs, by family. (Service Quotas, service ec2)"""


@dataclass
class Reckoned:
    cost: Cost | None
    quotas: list[QuotaNeed]
    addresses: list[AddressNeed]
    blockers: list[FieldError]


def reckon(world: World, prices: Prices, region: str, draft: PlanDraft) -> Reckoned:
    """Cost for every hour, quotas and addresses of ``draft``; what does not fit comes back as blockers."""
    quotas, quota_blockers = _quotas(world, region, draft.capacity)
    addresses, address_blockers = _addresses(world, region, draft.capacity)
    return Reckoned(
        cost=_cost(prices, region, draft),
        quotas=quotas,
        addresses=addresses,
        blockers=[*quota_blockers, *address_blockers],
    )


def _cost(prices: Prices, region: str, draft: PlanDraft) -> Cost | None:
    items: list[CostItem] = []
    sources: list[str] = []

    def add(name: str, item: str, quantity: float, known: float | None = None) -> None:
        if known is not None:
            items.append(CostItem(item=name, quantity=quantity, per_hour=known))
            return
        price = prices.price(region, item)
        if price.source not in sources:
            sources.append(price.source)
        amount = None if price.amount is None else round(price.amount * quantity, 4)
        items.append(CostItem(item=name, quantity=quantity, per_hour=amount))

    for change in (each for each in draft.capacity if each.count):
        match change.capacity:
            case "training-plan" | "capacity-block":
                add(f"{change.instance_type} ({change.capacity}, paid beforehand)", "", change.count, known=0.0)
            case "spot":
                # The market sets it from hour to hour; no list says what it will be.
                items.append(CostItem(item=f"{change.instance_type} (spot)", quantity=change.count, per_hour=None))
            case _:
                add(change.instance_type, change.instance_type, change.count)
        if change.volume_gib:
            kind = "hyperpod-volume-gib" if change.instance_type.startswith("ml.") else "gp3-gib"
            add(f"volumes of {change.instance_type}, GiB", kind, change.count * change.volume_gib)
    for name, quantity in draft.hourly.items():
        add(name, name, quantity)
    if not items:
        return None
    known = [item.per_hour for item in items if item.per_hour is not None]
    return Cost(
        per_hour=round(sum(known), 4) if len(known) == len(items) else None,
        known_per_hour=round(sum(known), 4),
        items=items,
        source="; ".join(sources) or "nothing has to be looked up",
    )


def _quotas(world: World, region: str, capacity: list[CapacityChange]) -> tuple[list[QuotaNeed], list[FieldError]]:
    growing = [each for each in capacity if each.count > 0 and each.capacity not in RESERVED]
    needs: list[QuotaNeed] = []
    blockers: list[FieldError] = []
    hyperpod = [each for each in growing if each.instance_type.startswith("ml.")]
    if hyperpod:
        limits, used = cluster_quotas(world.aws, region), instances_in_clusters(world, region)
        for instance_type in dict.fromkeys(each.instance_type for each in hyperpod):
            asked = [each for each in hyperpod if each.instance_type == instance_type]
            needs.append(
                QuotaNeed(
                    quota=f"{instance_type} for cluster usage",
                    needed=sum(each.count for each in asked),
                    used=used[instance_type],
                    limit=limits.get(instance_type),
                )
            )
            blockers += _exceeded(needs[-1], asked[-1].pointer)
    for need, pointer in _vcpus(world, region, [each for each in growing if each not in hyperpod]):
        needs.append(need)
        blockers += _exceeded(need, pointer)
    return needs, blockers


def _exceeded(need: QuotaNeed, pointer: str) -> list[FieldError]:
    if need.limit is None or need.needed + (need.used or 0) <= need.limit:
        return []
    left = max(need.limit - (need.used or 0), 0)
    return [
        FieldError(
            field=pointer,
            detail=f"The quota '{need.quota}' is {need.limit}, of which {need.used or 0} are in use; "
            f"{need.needed} more are asked for",
            remedy=f"Ask for {f'at most {left}' if left else 'another type'}, or have the quota raised in Service "
            "Quotas.",
            code=ProblemCode.QUOTA,
        )
    ]


def instances_in_clusters(world: World, region: str) -> Counter[str]:
    """How many instances of each type the account's HyperPod clusters have or are about to have, reserved ones left
    out."""
    client, used = world.aws.read.sagemaker(region), Counter[str]()
    for summary in pages(client, "list_clusters", "ClusterSummaries"):
        try:
            found: Any = client.describe_cluster(ClusterName=summary["ClusterArn"])
        except Exception as error:
            if is_absent(error, "ResourceNotFound"):
                continue
            raise
        for group in found.get("InstanceGroups", []):
            if not group.get("TrainingPlanArn"):
                used[group.get("InstanceType", "")] += max(group.get("CurrentCount", 0), group.get("TargetCount", 0))
    return used


def _vcpus(world: World, region: str, capacity: list[CapacityChange]) -> list[tuple[QuotaNeed, str]]:
    if not capacity:
        return []
    facts = describe_types(world.aws, region, [each.instance_type for each in capacity])
    needed: Counter[tuple[str, str]] = Counter()
    pointers: dict[tuple[str, str], str] = {}
    for each in capacity:
        key = (_family(each.instance_type), each.capacity)
        needed[key] += each.count * (facts[each.instance_type].vcpus if each.instance_type in facts else 0)
        pointers[key] = each.pointer
    result = []
    for key, vcpus in needed.items():
        code = VCPU_QUOTAS.get(key)
        limit = quota_of(world.aws, region, "ec2", code) if code else None
        need = QuotaNeed(quota=f"running {key[1]} {key[0]} instances, vCPUs", needed=vcpus, limit=limit)
        result.append((need, pointers[key]))
    return result


def _family(instance_type: str) -> str:
    for family in ("trn", "g", "p"):
        if instance_type.startswith(family):
            return family
    return "standard"


def _addresses(world: World, region: str, capacity: list[CapacityChange]) -> tuple[list[AddressNeed], list[FieldError]]:
    growing = [each for each in capacity if each.count > 0]
    if not growing:
        return [], []
    facts = describe_types(world.aws, region, [each.instance_type.removeprefix("ml.") for each in growing])
    needed: Counter[str] = Counter()
    pointers: dict[str, str] = {}
    for each in growing:
        fact = facts.get(each.instance_type.removeprefix("ml."))
        place = each.subnet_id or f"new, {each.availability_zone or 'any zone'}"
        needed[place] += each.count * (fact.addresses if fact else 1)
        pointers[place] = each.pointer
    free = _free(world, region, [each.subnet_id for each in growing if each.subnet_id])
    needs, blockers = [], []
    for place, count in needed.items():
        needs.append(AddressNeed(subnet=place, needed=count, free=free.get(place)))
        if place in free and free[place] < count:
            blockers.append(
                FieldError(
                    field=pointers[place],
                    detail=f"The nodes take {number_of(count, 'address', 'addresses')}; {place} has {free[place]} free",
                    remedy="Ask for fewer, name a larger subnet, or a dedicated one.",
                )
            )
    return needs, blockers


def _free(world: World, region: str, subnet_ids: list[str]) -> dict[str, int]:
    if not subnet_ids:
        return {}
    found = world.aws.read.ec2(region).describe_subnets(SubnetIds=list(dict.fromkeys(subnet_ids)))["Subnets"]
    return {subnet["SubnetId"]: subnet["AvailableIpAddressCount"] for subnet in found}
