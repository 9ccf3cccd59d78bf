"""Plans: what an operation would do, what it would cost, and what stands in its way. Nothing is changed."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import Field, JsonValue

from contracts.activity import Act
from contracts.cluster import ClusterRecord
from contracts.model import Model, fingerprint
from contracts.problem import FieldError

VALID_FOR = timedelta(minutes=30)

HOURLY = ("eks-cluster", "nat-gateway", "load-balancer")
"""What else is paid by the hour, as plans and price files name it; beside them the GiB of file systems
(:func:`contracts.fsx_storage.price_item`)."""


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    KEEP = "keep"
    """Stays on purpose."""
    NOTHING = "nothing"
    """It is as asked already."""


class PlannedChange(Model):
    """One step, in the order in which it would be done."""

    action: Action
    kind: str
    """e.g. ``instance group``, ``IAM role``."""
    name: str
    detail: str | None = None
    before: JsonValue = None
    after: JsonValue = None


class CapacityChange(Model):
    """Instances that would be added (or, negative, given back): what cost, quota and addresses are reckoned from."""

    instance_type: str
    """With ``ml.`` for HyperPod, without for EKS node groups."""
    count: int
    capacity: str = "on-demand"
    volume_gib: int = 0
    availability_zone: str | None = None
    subnet_id: str | None = None
    pointer: str = ""
    """Where the number stands in the spec."""


class CostItem(Model):
    """``per_hour`` in ``currency``; null: the price is unknown."""

    item: str
    quantity: float
    per_hour: float | None


class Cost(Model):
    """What would be paid more (or, negative, less) for every hour."""

    per_hour: float | None
    """Sum; null as soon as one price is unknown."""
    known_per_hour: float
    """Sum of the known ones."""
    currency: str = "USD"
    items: list[CostItem] = Field(default_factory=list)
    source: str
    """Where the prices come from, and whether they are samples."""


class QuotaNeed(Model):
    quota: str
    needed: int
    used: int | None = None
    limit: int | None = None
    """Null: unknown."""


class AddressNeed(Model):
    """Free addresses of the subnet that nodes would go into."""

    subnet: str
    needed: int
    free: int | None = None
    """Null: it would be made."""


class Check(Model):
    """A prerequisite, passed or not."""

    name: str
    passed: bool
    detail: str | None = None
    remedy: str | None = None


class PlanDraft(Model):
    """What a kind's planner finds. Prices, quotas and addresses are added from ``capacity``."""

    changes: list[PlannedChange] = Field(default_factory=list)
    capacity: list[CapacityChange] = Field(default_factory=list)
    checks: list[Check] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    blockers: list[FieldError] = Field(default_factory=list)
    hourly: dict[str, int] = Field(default_factory=dict)
    """Other things that are paid by the hour, by the names of :data:`HOURLY`."""
    facts: dict[str, JsonValue] = Field(default_factory=dict)
    """What of the world the plan rests on: if one of these differs later, the plan does not hold any more."""


class MakePlan(Model):
    """An operation that might be started."""

    kind: str
    record: ClusterRecord
    spec: dict[str, Any]
    spec_pointer: str = ""
    """Where the spec stands in what the caller sent."""


class PlannedNames(Model):
    """Names that derive from the tag. The bucket's holds the account's number and is known when it is made."""

    eks_cluster: str
    hyperpod_cluster: str
    security_group: str
    vpc: str
    persistent_volume: str | None = None


class Plan(Model):
    """What would be done. ``plan`` names it: an operation that is started with it is refused (412) when the world has
    changed since in a way that matters, or when ``valid_until`` is over."""

    plan: str | None = None
    """Null where the account gave no answer: there is nothing that could be held to then."""
    valid: bool
    """Nothing stands in the way."""
    operation: str
    """The ID that the operation would have."""
    kind: str
    cluster: str
    region: str
    spec: dict[str, Any]
    """With every default filled in."""
    plan_hash: str
    """Of the spec: what an approval is bound to."""
    changes: list[PlannedChange] = Field(default_factory=list)
    cost: Cost | None = None
    quotas: list[QuotaNeed] = Field(default_factory=list)
    addresses: list[AddressNeed] = Field(default_factory=list)
    checks: list[Check] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    blockers: list[FieldError] = Field(default_factory=list)
    names: PlannedNames
    checked_against_account: bool
    """False: the operation itself will check."""
    needs_approval: bool = False
    computed_at: datetime
    valid_until: datetime


class PlanRequest(Model):
    """What might be started. Nothing is."""

    kind: str
    """A kind of operation, e.g. ``scale-instance-group``."""
    cluster: str
    region: str | None = None
    """Of a new cluster; null: the deployment's default."""
    spec: dict[str, Any] = Field(default_factory=dict)
    """The spec of the kind, with its target (``group``, ``nodes`` …) in it."""


class PlanFindings(Model):
    """A draft with what was reckoned from its capacity."""

    draft: PlanDraft
    cost: Cost | None = None
    quotas: list[QuotaNeed] = Field(default_factory=list)
    addresses: list[AddressNeed] = Field(default_factory=list)

    @property
    def facts_hash(self) -> str:
        """Changes when the world does in a way that matters to the plan."""
        return fingerprint(Facts(facts=self.draft.facts))


class Facts(Model):
    facts: dict[str, JsonValue]


MAKE_PLAN = Act("plans.make", MakePlan, PlanFindings)
