"""What can be chosen now: zones, instance types, training plans, Kubernetes versions, and what the account may use."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from temporalio import activity

from activities.aws import AwsClients, pages
from activities.context import Threads
from activities.errors import classify, code_of
from activities.instance_types import describe_types
from activities.network.plan import usable_zones
from contracts.eks import SUPPORTED_KUBERNETES_VERSIONS
from contracts.options import (
    LOOK_UP_OPTIONS,
    InstanceTypeOption,
    LookUpOptions,
    Options,
    TrainingPlanOption,
    ZoneOption,
)
from contracts.problem import ProblemCode

Value = TypeVar("Value")

KEEP_SECONDS = 30.0
MAX_FILTER_VALUES = 200
ACCELERATED = re.compile(r"ml\.(g\d|gr\d|p\d|trn\d|inf\d)")
"""Families that can have accelerators; EC2 says which do. Keeps the calls few."""
QUOTA = re.compile(r"(ml\.\S+) for (.+ usage)")
"""(Service Quotas, service sagemaker: names of the quotas of instances)"""

logger = logging.getLogger(__name__)


class OptionActivities:
    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    @activity.defn(name=LOOK_UP_OPTIONS.name)
    def look_up(self, request: LookUpOptions) -> Options:
        """Look up what a cluster in the region can be made of. Reads only, in parallel; kept for half a minute."""
        return self._lookup.options(request.region, request.instance_types)


class Lookup:
    """Reads options; one for each process, so that a form that is opened twice does not read all twice."""

    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, tuple[str, ...]], tuple[float, Options]] = {}

    def options(self, region: str, instance_types: list[str]) -> Options:
        key = (region, tuple(sorted(instance_types)))
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept[0] < KEEP_SECONDS:
            return kept[1]
        found = self._look_up(region, instance_types)
        with self._lock:
            self._kept = {k: v for k, v in self._kept.items() if time.monotonic() - v[0] < KEEP_SECONDS}
            self._kept[key] = (time.monotonic(), found)
        return found

    def forget(self) -> None:
        """Read anew at the next question."""
        with self._lock:
            self._kept.clear()

    def _look_up(self, region: str, instance_types: list[str]) -> Options:
        known = hyperpod_types(self._aws, region)
        names = [name for name in known if (name in instance_types if instance_types else ACCELERATED.match(name))]
        with Threads(max_workers=6, thread_name_prefix="options") as pool:
            zones = pool.submit(usable_zones, self._aws, region)
            offered = pool.submit(offerings, self._aws, region, names)
            facts = pool.submit(describe_types, self._aws, region, [name.removeprefix("ml.") for name in names])
            plans = pool.submit(training_plans, self._aws, region)
            quotas = pool.submit(cluster_quotas, self._aws, region)
            versions = pool.submit(kubernetes_versions, self._aws, region)
        zone_options = [ZoneOption(name=zone["ZoneName"], zone_id=zone["ZoneId"]) for zone in zones.result()]
        usable, types, allowed = {zone.name for zone in zone_options}, [], quotas.result()
        for name in names:
            fact = facts.result().get(name.removeprefix("ml."))
            where = sorted(offered.result().get(name, set()) & usable)
            if fact is None or not where or not (fact.accelerators or instance_types):
                continue
            types.append(
                InstanceTypeOption(
                    instance_type=name,
                    availability_zones=where,
                    vcpus=fact.vcpus,
                    memory_gib=fact.memory_gib,
                    accelerator=fact.accelerator,
                    accelerators=fact.accelerators,
                    accelerator_resource=fact.accelerator_resource,
                    efa_interfaces=fact.efa_interfaces,
                    addresses=fact.addresses,
                    network_cards=fact.network_cards,
                    quota=allowed.get(name),
                )
            )
        return Options(
            region=region,
            zones=zone_options,
            instance_types=types,
            training_plans=[as_plan(plan, zone_options) for plan in plans.result()],
            kubernetes_versions=versions.result(),
            looked_up_at=datetime.now(UTC),
        )


def hyperpod_types(aws: AwsClients, region: str) -> list[str]:
    """Every type that HyperPod knows, with ``ml.``: the enum in SageMaker's own API model, never a copy of it."""
    model: Any = aws.read.sagemaker(region).meta.service_model
    return list(model.shape_for("ClusterInstanceType").enum)


def offerings(aws: AwsClients, region: str, names: list[str]) -> dict[str, set[str]]:
    """Names of the zones that offer each of the types (given and returned with ``ml.``, which EC2 does not know)."""
    found: dict[str, set[str]] = {}
    plain = [name.removeprefix("ml.") for name in names]
    for start in range(0, len(plain), MAX_FILTER_VALUES):
        chunk: Any = [{"Name": "instance-type", "Values": plain[start : start + MAX_FILTER_VALUES]}]
        for offer in pages(
            aws.read.ec2(region),
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=chunk,
        ):
            found.setdefault(f"ml.{offer['InstanceType']}", set()).add(offer["Location"])
    return found


def training_plans(aws: AwsClients, region: str) -> list[Any]:
    """Summaries of the training plans that HyperPod clusters can use; none where the account may not list them."""

    def read() -> list[Any]:
        plans = pages(aws.read.sagemaker(region), "list_training_plans", "TrainingPlanSummaries")
        return [plan for plan in plans if "hyperpod-cluster" in plan.get("TargetResources", ["hyperpod-cluster"])]

    return _if_allowed(read, [], "training plans")


def as_plan(plan: Any, zones: list[ZoneOption]) -> TrainingPlanOption:
    """A plan with the name of its zone; plans name zones by ID."""
    capacity = (plan.get("ReservedCapacitySummaries") or [{}])[0]
    zone = capacity.get("AvailabilityZoneId") or capacity.get("AvailabilityZone") or ""
    name = next((each.name for each in zones if zone in (each.zone_id, each.name)), zone)
    total = plan.get("TotalInstanceCount") or capacity.get("TotalInstanceCount") or 0
    available = plan.get("AvailableInstanceCount")
    return TrainingPlanOption(
        name=plan["TrainingPlanName"],
        arn=plan["TrainingPlanArn"],
        status=plan["Status"],
        instance_type=capacity.get("InstanceType", ""),
        availability_zone=name,
        total=total,
        available=max(total - (plan.get("InUseInstanceCount") or 0), 0) if available is None else available,
        starts_at=plan.get("StartTime"),
        ends_at=plan.get("EndTime"),
    )


def cluster_quotas(aws: AwsClients, region: str) -> dict[str, int]:
    """Instances of each type that the account may have in clusters; empty where Service Quotas does not tell."""
    return instance_quotas(aws, region, "cluster usage")


def instance_quotas(aws: AwsClients, region: str, usage: str) -> dict[str, int]:
    """Instances of each type that the account may have for ``usage``, as SageMaker's quotas call it; empty where
    Service Quotas does not tell."""

    def read() -> dict[str, int]:
        found = {}
        for quota in pages(aws.read.service_quotas(region), "list_service_quotas", "Quotas", ServiceCode="sagemaker"):
            match = QUOTA.fullmatch(quota.get("QuotaName", ""))
            if match and match.group(2) == usage:
                found[match.group(1)] = int(quota["Value"])
        return found

    return _if_allowed(read, {}, "quotas")


def kubernetes_versions(aws: AwsClients, region: str) -> list[str]:
    """Versions that EKS offers and the platform supports; the platform's list where EKS does not tell."""

    def read() -> list[str]:
        return [
            v["clusterVersion"] for v in pages(aws.read.eks(region), "describe_cluster_versions", "clusterVersions")
        ]

    none: list[str] = []
    offered = _if_allowed(read, none, "Kubernetes versions")
    return [v for v in SUPPORTED_KUBERNETES_VERSIONS if v in offered] or list(SUPPORTED_KUBERNETES_VERSIONS)


def _if_allowed(read: Callable[[], Value], otherwise: Value, what: str) -> Value:
    """What helps to choose, but is not needed: a refusal leaves it out. Faults that may pass are raised."""
    try:
        return read()
    except Exception as error:
        kind = classify(error).type
        if kind in (ProblemCode.DENIED, ProblemCode.UNSUPPORTED, ProblemCode.INVALID) or "NoSuchResource" in code_of(
            error
        ):
            logger.warning("no %s: %s", what, error)
            return otherwise
        raise
