"""Accelerator capacity: how it is bought, and instance groups of it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from contracts.model import Model, fault
from contracts.names import INSTANCE_GROUP

LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_KEY = rf"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?{LABEL_VALUE}"
"""(SageMaker API: ClusterKubernetesLabelKey, ClusterKubernetesLabelValue; a taint's are the same)"""
RESERVED_LABEL_PREFIXES = ("sagemaker.amazonaws.com/", "kubernetes.io/", "k8s.io/", "eks.amazonaws.com/")


class OnDemand(Model):
    kind: Literal["on-demand"] = "on-demand"


class Spot(Model):
    """Spare capacity that AWS may take back. Needs Continuous provisioning."""

    kind: Literal["spot"] = "spot"


class TrainingPlan(Model):
    """Reserved capacity of a flexible training plan. The plan pins the Availability Zone."""

    kind: Literal["training-plan"] = "training-plan"
    training_plan: str = Field(min_length=1, max_length=2048)
    """Name or ARN of the plan."""


Capacity = Annotated[OnDemand | Spot | TrainingPlan, Field(discriminator="kind")]


class Taint(Model):
    key: str = Field(max_length=317, pattern=f"^{LABEL_KEY}$", examples=["example.com/reserved"])
    value: str = Field("", pattern=f"^({LABEL_VALUE})?$", examples=["training"])
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


DeepHealthCheck = Literal["InstanceStress", "InstanceConnectivity", "MultiNodeTrainingValidation"]


def _group_name(name: str) -> str:
    if violation := INSTANCE_GROUP.violation(name):
        raise ValueError(violation)
    return name


GroupName = Annotated[str, AfterValidator(_group_name)]
Count = Annotated[int, Field(ge=0, le=6758, strict=True)]
"""Instances of a group. (SageMaker API: ClusterInstanceCount) Strict: ``true`` is no number of instances."""


class InstanceGroupSpec(Model):
    """Instances of one type in one Availability Zone (sagemaker:CreateCluster InstanceGroups)."""

    name: GroupName = "workers"
    instance_type: str = Field(examples=["ml.g5.8xlarge"])
    """With the ``ml.`` prefix, e.g. ``ml.g5.8xlarge``."""
    alternative_types: list[str] = Field(default_factory=list, max_length=19)
    """Types to take, in order, where ``instance_type`` has no capacity (InstanceRequirements)."""
    count: Count
    availability_zone: str | None = Field(
        None, pattern=r"^[a-z]{2}(-[a-z]+)+-\d[a-z]$|^[a-z]+\d-az\d$", examples=["us-west-2b"]
    )
    """Name (``us-west-2b``) or ID (``usw2-az2``); null: the training plan's, else one that offers the type."""
    capacity: Capacity = Field(default_factory=OnDemand)
    min_count: Count | None = None
    """The group works only with so many instances (MinInstanceCount); null: with any number."""
    network_interface: Literal["efa", "efa-only"] | None = None
    """How the cards behind the first one are attached; ``efa-only`` takes no IP addresses and needs a type with several
    cards. Null: HyperPod's choice."""
    volume_gib: int = Field(500, ge=1, le=16384, strict=True)
    threads_per_core: Literal[1, 2] | None = None
    """Null: 2 for accelerated families that are sold with hyper-threading on (p4, p5, p6, trn), else 1."""
    deep_health_checks: list[DeepHealthCheck] = Field(default_factory=list, max_length=3)
    labels: dict[str, str] = Field(default_factory=dict, max_length=50)
    taints: list[Taint] = Field(default_factory=list, max_length=50)
    subnet_id: str | None = Field(None, pattern=r"^subnet-[0-9a-f]{8,17}$", examples=["subnet-0123456789abcdef0"])
    """Use this compute subnet; null: one that fits, or a new one."""
    subnet_placement: Literal["shared", "dedicated"] = "shared"
    """Shared: the compute subnet of the zone. Dedicated: one of the group's own, which outlives the group and is found
    again by a later group of the same name."""

    @field_validator("instance_type")
    @classmethod
    def _instance_type(cls, text: str) -> str:
        return instance_type(text)

    @field_validator("alternative_types")
    @classmethod
    def _alternative_types(cls, texts: list[str]) -> list[str]:
        return [instance_type(text) for text in texts]

    @model_validator(mode="after")
    def _consistent(self) -> InstanceGroupSpec:
        types = self.instance_types
        if doubled := next((each for n, each in enumerate(types) if each in types[:n]), None):
            raise fault("/alternative_types", f"{doubled} is named twice")
        if self.min_count is not None and self.min_count > self.count:
            raise fault("/min_count", f"min_count {self.min_count} is more than count {self.count}")
        if self.subnet_id and self.subnet_placement == "dedicated":
            raise fault("/subnet_placement", "give subnet_id or subnet_placement dedicated, not both")
        if self.alternative_types and self.capacity.kind == "training-plan":
            raise fault("/alternative_types", "a training plan is for one instance type")
        return self

    @property
    def instance_types(self) -> list[str]:
        """All types of the group, in order of preference."""
        return [self.instance_type, *self.alternative_types]

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        return check_labels(labels)

    @property
    def ec2_type(self) -> str:
        """The type as EC2 knows it: without ``ml.``."""
        return self.instance_type.removeprefix("ml.")


def instance_type(text: str) -> str:
    """A HyperPod instance type. Raises ValueError with what was probably meant."""
    if not re.fullmatch(r"ml\.[a-z0-9-]+\.(\d*x?large|medium|metal)", text):
        hint = f"; did you mean ml.{text}?" if re.fullmatch(r"[a-z0-9-]+\.\d*x?large", text) else ""
        raise ValueError(f"a HyperPod instance type looks like ml.g5.8xlarge, not {text!r}{hint}")
    return text


def check_labels(labels: dict[str, str]) -> dict[str, str]:
    """Node labels that may be given. Raises ValueError for a reserved or malformed one."""
    for key, value in labels.items():
        prefix, _, name = key.rpartition("/")
        if any(f"{prefix}/".endswith(reserved) for reserved in RESERVED_LABEL_PREFIXES):
            raise ValueError(f"label {key!r} has a reserved prefix; use one of your own, e.g. example.com/{name}")
        if len(key) > 317 or not re.fullmatch(LABEL_KEY, key):
            raise ValueError(f"{key!r} is not a Kubernetes label key")
        if not re.fullmatch(LABEL_VALUE, value):
            raise ValueError(f"{value!r} is not a Kubernetes label value (1 to 63 characters here)")
    return labels


def threads_per_core(instance_type: str) -> int:
    """What a group gets if it does not say: hyper-threading stays on where training expects it (p4, p5, p6, trn)."""
    return 2 if re.match(r"ml\.(p4|p5|p6|trn)", instance_type) else 1


def check_groups(groups: list[InstanceGroupSpec], provisioning: str) -> None:
    """What holds for groups together: unique names, and spot only where nodes come one by one. Raises a fault."""
    names = [group.name for group in groups]
    for position, group in enumerate(groups):
        if group.name in names[:position]:
            raise fault(
                f"/instance_groups/{position}/name",
                f"{group.name!r} is the name of instance group {names.index(group.name)}; "
                "names are unique in a cluster",
            )
        if group.capacity.kind == "spot" and provisioning != "Continuous":
            raise fault(f"/instance_groups/{position}/capacity", "spot needs hyperpod.provisioning Continuous")


class CapacityAnswer(Model):
    """The answer to the capacity decision: what the first instance group is made of."""

    instance_type: str
    count: int = Field(1, ge=1, le=6758, strict=True)
    availability_zone: str | None = None
    capacity: Capacity = Field(default_factory=OnDemand)
    group: GroupName = "workers"
    """Name of the instance group."""
