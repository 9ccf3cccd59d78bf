"""What can be chosen now: looked up in the account, not assumed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pydantic import Field

from contracts.activity import Act
from contracts.capacity import InstanceGroupSpec
from contracts.cluster import ClusterSpec
from contracts.model import Model
from contracts.problem import FieldError


class LookUpOptions(Model):
    region: str
    instance_types: list[str] = Field(default_factory=list)
    """Only these, with ``ml.``; empty: every accelerated type that HyperPod knows and the region offers."""


class InstanceTypeOption(Model):
    """An instance type that HyperPod and the region offer."""

    instance_type: str
    availability_zones: list[str]
    """Names of the zones that really offer it."""
    vcpus: int
    memory_gib: float
    accelerator: str | None = None
    """e.g. ``NVIDIA H100``."""
    accelerators: int = 0
    accelerator_resource: str | None = None
    """The Kubernetes resource, e.g. ``nvidia.com/gpu``."""
    efa_interfaces: int = 0
    addresses: int
    """VPC addresses that one node takes on EKS."""
    network_cards: int = 1
    quota: int | None = None
    """Instances of the type that the account may use in clusters; null: unknown."""


class TrainingPlanOption(Model):
    name: str
    arn: str
    status: str
    instance_type: str
    availability_zone: str
    total: int
    available: int
    starts_at: datetime | None = None
    ends_at: datetime | None = None


class ZoneOption(Model):
    name: str
    zone_id: str


class Options(Model):
    """What a cluster in ``region`` can be made of at ``looked_up_at``."""

    region: str
    zones: list[ZoneOption]
    instance_types: list[InstanceTypeOption]
    training_plans: list[TrainingPlanOption]
    kubernetes_versions: list[str]
    looked_up_at: datetime

    def instance_type(self, name: str) -> InstanceTypeOption | None:
        return next((option for option in self.instance_types if option.instance_type == name), None)

    def zones_of(self, names: Iterable[str]) -> list[str]:
        """Names of the zones that offer every one of these types."""
        offers = [set(option.availability_zones) if (option := self.instance_type(name)) else set() for name in names]
        return sorted(set.intersection(*offers)) if offers else []

    def training_plan(self, name_or_arn: str) -> TrainingPlanOption | None:
        return next((plan for plan in self.training_plans if name_or_arn in (plan.name, plan.arn)), None)

    def zone_name(self, name_or_id: str) -> str | None:
        """The name of a zone that is given by name or by ID."""
        return next((zone.name for zone in self.zones if name_or_id in (zone.name, zone.zone_id)), None)


class CheckCluster(Model):
    """Check a spec against the account, without changing anything."""

    spec: ClusterSpec
    region: str


class CheckGroups(Model):
    """Check instance groups against the account."""

    region: str
    groups: list[InstanceGroupSpec]
    cluster: str | None = None
    """What this cluster's nodes take already is not asked for once more."""
    compute_subnet_prefix: int = 20
    pointer: str = "/instance_groups"
    """Where the groups stand in what the caller sent."""
    hyperpod_cluster: str | None = None
    """The cluster's HyperPod cluster; null: the one that is named after the tag."""


class Findings(Model):
    """What is wrong; empty: nothing."""

    errors: list[FieldError] = Field(default_factory=list)


LOOK_UP_OPTIONS = Act("options.look_up", LookUpOptions, Options)
CHECK_CLUSTER = Act("preflight.check_cluster", CheckCluster, Findings)
CHECK_GROUPS = Act("preflight.check_groups", CheckGroups, Findings)
