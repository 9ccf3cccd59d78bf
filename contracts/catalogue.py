"""The kinds of operations: what each is called, what it is asked with, and what it needs exclusively."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field, field_validator, model_validator

from contracts.capacity import InstanceGroupSpec, check_groups
from contracts.cluster import ClusterSpec
from contracts.dependencies import COMPONENTS
from contracts.eks import DEFAULT_KUBERNETES_VERSION, KubernetesVersion
from contracts.features import FeatureChanges
from contracts.hyperpod import HyperPodSpec
from contracts.imports import ImportClusterSpec, RedetectClusterSpec
from contracts.instance_groups import DeleteInstanceGroupSpec, ScaleInstanceGroupSpec, UpdateInstanceGroupSpec
from contracts.model import Model
from contracts.network import NetworkSpec
from contracts.node_groups import DeleteNodeGroupSpec, NodeGroupSpec, ScaleNodeGroupSpec
from contracts.node_pools import DeleteNodePoolSpec, NodePoolSpec
from contracts.nodes import DeleteNodesSpec, NodesSpec, RebootNodesSpec, ReplaceNodesSpec, nodes_target
from contracts.software import UpdateSoftwareSpec
from contracts.storage import StorageSpec
from contracts.teardown import DeleteClusterSpec

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


def _the_cluster(spec: Any) -> None:
    """The target of what concerns the cluster as a whole."""


@dataclass(frozen=True)
class OperationKind(Generic[Spec]):
    """A kind of operation: its workflow type and the first part of its workflow IDs are ``name``."""

    name: str
    title: str
    spec: type[Spec]
    costs: bool = False
    """It makes things that are paid for: an agent's request waits for a human's approval."""
    destroys: bool = False
    """It deletes or replaces: an agent's request waits for a human's approval, too."""
    last_wins: bool = False
    """Asked for something else while it runs, it does that instead; other kinds refuse (409)."""
    target: Callable[[Any], str | None] = _the_cluster
    """From a spec, what the operation is about beside the cluster: the last part of its workflow ID."""

    @property
    def needs_approval(self) -> bool:
        return self.costs or self.destroys


def _nodes(spec: NodesSpec) -> str:
    return nodes_target(spec.nodes)


CREATE_CLUSTER = OperationKind("create-cluster", "Create a cluster", ClusterSpec, costs=True)
CREATE_CONTROL_PLANE = OperationKind(
    "create-control-plane", "Create network and EKS control plane", ControlPlaneSpec, costs=True
)
VERIFY_ACCESS = OperationKind("verify-access", "Verify access to the Kubernetes API", AccessSpec)
INSTALL_DEPENDENCIES = OperationKind("install-dependencies", "Install dependencies", DependenciesSpec)
CREATE_HYPERPOD = OperationKind("create-hyperpod", "Create the HyperPod cluster", HyperPodClusterSpec, costs=True)
CREATE_STORAGE = OperationKind("create-storage", "Mount S3 storage", StorageSpec, target=lambda spec: spec.claim)
VERIFY_CLUSTER = OperationKind("verify-cluster", "Verify the cluster", VerificationSpec)

ADD_INSTANCE_GROUP = OperationKind(
    "add-instance-group", "Add an instance group", InstanceGroupSpec, costs=True, target=lambda spec: spec.name
)
SCALE_INSTANCE_GROUP = OperationKind(
    "scale-instance-group",
    "Scale an instance group",
    ScaleInstanceGroupSpec,
    costs=True,
    destroys=True,
    last_wins=True,
    target=lambda spec: spec.group,
)
UPDATE_INSTANCE_GROUP = OperationKind(
    "update-instance-group",
    "Update an instance group",
    UpdateInstanceGroupSpec,
    destroys=True,  # a taint can end the pods on the group's nodes
    target=lambda spec: spec.group,
)
DELETE_INSTANCE_GROUP = OperationKind(
    "delete-instance-group",
    "Delete an instance group",
    DeleteInstanceGroupSpec,
    destroys=True,
    target=lambda spec: spec.group,
)
UPDATE_SOFTWARE = OperationKind("update-software", "Update the nodes' software", UpdateSoftwareSpec, destroys=True)
REBOOT_NODES = OperationKind("reboot-nodes", "Reboot nodes", RebootNodesSpec, destroys=True, target=_nodes)
REPLACE_NODES = OperationKind("replace-nodes", "Replace nodes", ReplaceNodesSpec, destroys=True, target=_nodes)
DELETE_NODES = OperationKind("delete-nodes", "Delete nodes", DeleteNodesSpec, destroys=True, target=_nodes)
CREATE_NODE_GROUP = OperationKind(
    "create-node-group", "Create an EKS node group", NodeGroupSpec, costs=True, target=lambda spec: spec.name
)
SCALE_NODE_GROUP = OperationKind(
    "scale-node-group",
    "Scale an EKS node group",
    ScaleNodeGroupSpec,
    costs=True,
    destroys=True,
    last_wins=True,
    target=lambda spec: spec.node_group,
)
DELETE_NODE_GROUP = OperationKind(
    "delete-node-group",
    "Delete an EKS node group",
    DeleteNodeGroupSpec,
    destroys=True,
    target=lambda spec: spec.node_group,
)
CREATE_NODE_POOL = OperationKind(
    "create-node-pool", "Create a node pool", NodePoolSpec, costs=True, target=lambda spec: spec.name
)
DELETE_NODE_POOL = OperationKind(
    "delete-node-pool", "Delete a node pool", DeleteNodePoolSpec, destroys=True, target=lambda spec: spec.node_pool
)
UPDATE_FEATURES = OperationKind(
    "update-features",
    "Switch features",
    FeatureChanges,
    costs=True,
    destroys=True,
    target=lambda spec: "+".join(sorted(spec.named)),
)
IMPORT_CLUSTER = OperationKind("import-cluster", "Import a cluster", ImportClusterSpec)
REDETECT_CLUSTER = OperationKind("redetect-cluster", "Detect a cluster anew", RedetectClusterSpec)
DELETE_CLUSTER = OperationKind("delete-cluster", "Delete a cluster", DeleteClusterSpec, destroys=True)

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
        ADD_INSTANCE_GROUP,
        SCALE_INSTANCE_GROUP,
        UPDATE_INSTANCE_GROUP,
        DELETE_INSTANCE_GROUP,
        UPDATE_SOFTWARE,
        REBOOT_NODES,
        REPLACE_NODES,
        DELETE_NODES,
        CREATE_NODE_GROUP,
        SCALE_NODE_GROUP,
        DELETE_NODE_GROUP,
        CREATE_NODE_POOL,
        DELETE_NODE_POOL,
        UPDATE_FEATURES,
        IMPORT_CLUSTER,
        REDETECT_CLUSTER,
        DELETE_CLUSTER,
    )
}

LOOK_UP_OPTIONS_WORKFLOW = "look-up-options"
MAKE_PLAN_WORKFLOW = "make-plan"
READ_FEATURES_WORKFLOW = "read-features"
READ_INSTANCE_GROUPS_WORKFLOW = "read-instance-groups"
LIST_JOBS_WORKFLOW = "list-jobs"
READ_JOB_WORKFLOW = "read-job"
LIST_NODE_GROUPS_WORKFLOW = "list-node-groups"
LIST_NODE_POOLS_WORKFLOW = "list-node-pools"
LIST_STORAGE_WORKFLOW = "list-storage"
READ_STORAGE_DEFAULTS_WORKFLOW = "read-storage-defaults"
LIST_STORAGE_CONTENTS_WORKFLOW = "list-storage-contents"
READ_NODES_WORKFLOW = "read-nodes"
READ_SOFTWARE_WORKFLOW = "read-software"
CLUSTER_WORKFLOW = "cluster"
