"""The kinds of operations: what each is called, what it is asked with, and what it needs exclusively."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field, field_validator, model_validator

from contracts.capacity import InstanceGroupSpec, check_groups
from contracts.cluster import ClusterSpec
from contracts.dependencies import COMPONENTS
from contracts.eks import DEFAULT_KUBERNETES_VERSION, KubernetesVersion
from contracts.hyperpod import HyperPodSpec
from contracts.model import Model
from contracts.network import NetworkSpec
from contracts.storage import StorageSpec

Spec = TypeVar("Spec", bound=BaseModel)


class ControlPlaneSpec(Model):
    """Network, identity and EKS control plane of a cluster."""

    kubernetes_version: KubernetesVersion = DEFAULT_KUBERNETES_VERSION
    network: NetworkSpec = Field(default_factory=NetworkSpec)


class AccessSpec(Model):
    """Nothing to choose: the platform's own principal gets, and proves, administration of the Kubernetes API."""


class DependenciesSpec(Model):
    """Which components to install; what they need comes along."""

    components: list[str] = Field(default_factory=lambda: [each.name for each in COMPONENTS], min_length=1)

    @field_validator("components")
    @classmethod
    def _known(cls, names: list[str]) -> list[str]:
        known = [each.name for each in COMPONENTS]
        for name in names:
            if name not in known:
                raise ValueError(f"{name!r} is not a component; one of {', '.join(known)} is")
        return names


class HyperPodClusterSpec(Model):
    """The HyperPod cluster on an EKS cluster that is ready for it."""

    hyperpod: HyperPodSpec = Field(default_factory=HyperPodSpec)
    instance_groups: list[InstanceGroupSpec] = Field(default_factory=list, max_length=100)
    """Empty: the operation asks."""

    @model_validator(mode="after")
    def _groups(self) -> HyperPodClusterSpec:
        check_groups(self.instance_groups, self.hyperpod.provisioning)
        return self


class VerificationSpec(Model):
    """Nothing to choose: the cluster is looked at and its record brought up to date."""


@dataclass(frozen=True)
class OperationKind(Generic[Spec]):
    """A kind of operation: its workflow type and the first part of its workflow IDs are ``name``."""

    name: str
    title: str
    spec: type[Spec]
    costs: bool
    """It makes things that are paid for: an agent's request waits for a human's approval."""


CREATE_CLUSTER = OperationKind("create-cluster", "Create a cluster", ClusterSpec, costs=True)
CREATE_CONTROL_PLANE = OperationKind(
    "create-control-plane", "Create network and EKS control plane", ControlPlaneSpec, costs=True
)
VERIFY_ACCESS = OperationKind("verify-access", "Verify access to the Kubernetes API", AccessSpec, costs=False)
INSTALL_DEPENDENCIES = OperationKind("install-dependencies", "Install dependencies", DependenciesSpec, costs=False)
CREATE_HYPERPOD = OperationKind("create-hyperpod", "Create the HyperPod cluster", HyperPodClusterSpec, costs=True)
CREATE_STORAGE = OperationKind("create-storage", "Mount S3 storage", StorageSpec, costs=False)
VERIFY_CLUSTER = OperationKind("verify-cluster", "Verify the cluster", VerificationSpec, costs=False)

KINDS: dict[str, OperationKind[Any]] = {
    kind.name: kind
    for kind in (
        CREATE_CLUSTER,
        CREATE_CONTROL_PLANE,
        VERIFY_ACCESS,
        INSTALL_DEPENDENCIES,
        CREATE_HYPERPOD,
        CREATE_STORAGE,
        VERIFY_CLUSTER,
    )
}

LOOK_UP_OPTIONS_WORKFLOW = "look-up-options"
CHECK_CLUSTER_WORKFLOW = "check-cluster"
CLUSTER_WORKFLOW = "cluster"
