"""The kinds of operations: what each is called, what it is asked with, and what it needs exclusively."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field, field_validator, model_validator

from contracts.autoscalers import AutoscalerSpec, DeleteAutoscalerSpec
from contracts.capacity import InstanceGroupSpec, check_groups
from contracts.cluster import ClusterSpec
from contracts.credentials import DeleteCredentialSpec, StoreCredentialSpec
from contracts.dependencies import COMPONENTS
from contracts.deployments import DeleteDeploymentSpec, DeploymentSpec, ScaleDeploymentSpec
from contracts.drift import AdoptDriftSpec, RestoreDriftSpec
from contracts.eks import DEFAULT_KUBERNETES_VERSION, KubernetesVersion
from contracts.experiments import ConnectExperimentsSpec, DisconnectExperimentsSpec, SyncExperimentsSpec
from contracts.features import FeatureChanges
from contracts.fsx_storage import FsxStorageSpec
from contracts.hyperpod import HyperPodSpec
from contracts.imports import ImportClusterSpec, RedetectClusterSpec
from contracts.instance_groups import DeleteInstanceGroupSpec, ScaleInstanceGroupSpec, UpdateInstanceGroupSpec
from contracts.managed_endpoints import DeleteEndpointSpec, EndpointSpec
from contracts.model import Model
from contracts.model_pools import AssignModelPoolSpec, DeleteModelPoolSpec, ModelPoolSpec, ScaleModelPoolSpec
from contracts.models import DownloadSpec
from contracts.names import namespaced
from contracts.network import NetworkSpec
from contracts.node_groups import DeleteNodeGroupSpec, NodeGroupSpec, ScaleNodeGroupSpec
from contracts.node_pools import DeleteNodePoolSpec, NodePoolSpec
from contracts.nodes import DeleteNodesSpec, NodesSpec, RebootNodesSpec, ReplaceNodesSpec, nodes_target
from contracts.ray_clusters import DeleteRayClusterSpec, RayClusterSpec
from contracts.routers import DeleteRouterSpec, RouterSpec
from contracts.software import UpdateSoftwareSpec
from contracts.storage import DeleteStorageSpec, StorageSpec
from contracts.teardown import DeleteClusterSpec
from contracts.tracking_servers import DeleteTrackingServerSpec, TrackingServerSpec
from contracts.training import ResumeTrainingSpec, StopTrainingSpec, SuspendTrainingSpec, TrainingSpec
from contracts.training_parts import Submission

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


def _never(spec: Any) -> bool:
    """Of kinds whose requests are all alike."""
    return False


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
    held: bool = False
    """What an agent asks for is about what had the name then: others may have it when a person approves."""
    target: Callable[[Any], str | None] = _the_cluster
    """From a spec, what the operation is about beside the cluster: the last part of its workflow ID."""
    grave: Callable[[Any], bool] = _never
    """From a spec, whether just this is paid for, lets others in or ends what serves: an agent's request waits although
    its kind does not."""
    grave_by: frozenset[str] = frozenset()
    """The members of the spec that ``grave`` looks at."""

    @property
    def needs_approval(self) -> bool:
        return self.costs or self.destroys

    def asks_a_person(self, spec: Any) -> bool:
        """Whether an agent's request for ``spec`` waits for a human's approval."""
        return self.needs_approval or self.grave(spec)

    def may_be_corrected(self, corrections: dict[str, Any]) -> bool:
        """Whether an agent may correct just this: what somebody has approved, or must approve, stays as it is."""
        return not self.needs_approval and not self.grave_by & set(corrections)


def _nodes(spec: NodesSpec) -> str:
    return nodes_target(spec.nodes)


CREATE_CLUSTER = OperationKind("create-cluster", "Create a cluster", ClusterSpec, costs=True)
CREATE_CONTROL_PLANE = OperationKind(
    "create-control-plane", "Create network and EKS control plane", ControlPlaneSpec, costs=True
)
VERIFY_ACCESS = OperationKind("verify-access", "Verify access to the Kubernetes API", AccessSpec)
INSTALL_DEPENDENCIES = OperationKind("install-dependencies", "Install dependencies", DependenciesSpec)
CREATE_HYPERPOD = OperationKind("create-hyperpod", "Create the HyperPod cluster", HyperPodClusterSpec, costs=True)
CREATE_STORAGE = OperationKind(
    "create-storage", "Mount S3 storage", StorageSpec, target=lambda spec: namespaced(spec.claim, spec.namespace)
)
CREATE_FSX_STORAGE = OperationKind(
    "create-fsx-storage",
    "Mount FSx for Lustre storage",
    FsxStorageSpec,
    costs=True,
    target=lambda spec: namespaced(spec.claim, spec.namespace),
)
DELETE_STORAGE = OperationKind(
    "delete-storage",
    "Delete storage",
    DeleteStorageSpec,
    destroys=True,
    target=lambda spec: namespaced(spec.claim, spec.namespace),
)
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
CREATE_ENDPOINT = OperationKind(
    "create-endpoint",
    "Create a managed endpoint",
    EndpointSpec,
    target=lambda spec: spec.target,
    grave=lambda spec: spec.sagemaker_endpoint is not None,
    grave_by=frozenset({"sagemaker_endpoint", "load_balancer", "tls"}),
)
UPDATE_ENDPOINT = replace(CREATE_ENDPOINT, name="update-endpoint", title="Update a managed endpoint")
DELETE_ENDPOINT = OperationKind(
    "delete-endpoint",
    "Delete a managed endpoint",
    DeleteEndpointSpec,
    destroys=True,
    target=lambda spec: spec.target,
)
CREATE_AUTOSCALER = OperationKind(
    "create-autoscaler",
    "Create an autoscaler",
    AutoscalerSpec,
    target=lambda spec: spec.operated,
)
DELETE_AUTOSCALER = OperationKind(
    "delete-autoscaler", "Delete an autoscaler", DeleteAutoscalerSpec, target=lambda spec: spec.target
)
UPDATE_FEATURES = OperationKind(
    "update-features",
    "Switch features",
    FeatureChanges,
    costs=True,
    destroys=True,
    target=lambda spec: "+".join(sorted(spec.named)),
)
STORE_CREDENTIAL = OperationKind(
    "store-credential",
    "Store a credential",
    StoreCredentialSpec,
    target=lambda spec: namespaced(spec.name, spec.namespace),
)
DELETE_CREDENTIAL = OperationKind(
    "delete-credential",
    "Delete a credential",
    DeleteCredentialSpec,
    destroys=True,
    target=lambda spec: namespaced(spec.name, spec.namespace),
)
DOWNLOAD_MODEL = OperationKind(
    "download-model", "Download a model or data set", DownloadSpec, target=lambda spec: spec.target
)
CREATE_DEPLOYMENT = OperationKind(
    "create-deployment",
    "Serve a model",
    DeploymentSpec,
    target=lambda spec: spec.target,
    grave=lambda spec: spec.service == "public",
    grave_by=frozenset({"service", "public", "confirm_public"}),
)
UPDATE_DEPLOYMENT = replace(CREATE_DEPLOYMENT, name="update-deployment", title="Update a model server")
SCALE_DEPLOYMENT = OperationKind(
    "scale-deployment",
    "Scale a model server",
    ScaleDeploymentSpec,
    last_wins=True,
    target=lambda spec: spec.target,
    grave=lambda spec: spec.replicas == 0,
    grave_by=frozenset({"replicas"}),
)
DELETE_DEPLOYMENT = OperationKind(
    "delete-deployment",
    "Delete a model server",
    DeleteDeploymentSpec,
    destroys=True,
    target=lambda spec: spec.target,
)
CREATE_MODEL_POOL = OperationKind(
    "create-model-pool", "Create a model pool", ModelPoolSpec, target=lambda spec: spec.target
)
SCALE_MODEL_POOL = OperationKind(
    "scale-model-pool", "Scale a model pool", ScaleModelPoolSpec, last_wins=True, target=lambda spec: spec.target
)
ASSIGN_MODEL_POOL = OperationKind(
    "assign-model-pool",
    "Assign a model pool's pods",
    AssignModelPoolSpec,
    last_wins=True,
    target=lambda spec: spec.target,
    grave=lambda spec: bool(spec.public),
    grave_by=frozenset({"public", "confirm_public"}),
)
DELETE_MODEL_POOL = OperationKind(
    "delete-model-pool",
    "Delete a model pool",
    DeleteModelPoolSpec,
    destroys=True,
    target=lambda spec: spec.target,
)
CREATE_ROUTER = OperationKind(
    "create-router",
    "Create a router",
    RouterSpec,
    target=lambda spec: spec.operated,
    grave=lambda spec: spec.service == "public",
    grave_by=frozenset({"service", "public", "confirm_public"}),
)
DELETE_ROUTER = OperationKind(
    "delete-router", "Delete a router", DeleteRouterSpec, destroys=True, target=lambda spec: spec.operated
)
RUN_TRAINING = OperationKind(
    "run-training",
    "Train",
    TrainingSpec,
    target=lambda spec: spec.target,
    # SageMaker trains on instances of its own, which are paid for besides the cluster's.
    grave=lambda spec: spec.path is Submission.SAGEMAKER,
    grave_by=frozenset({"submission", "recipe"}),
)
STOP_TRAINING = OperationKind(
    "stop-training",
    "Stop a training run",
    StopTrainingSpec,
    destroys=True,
    last_wins=True,  # two requests differ in their reasons only
    held=True,
    target=lambda spec: spec.target,
)
SUSPEND_TRAINING = OperationKind(
    "suspend-training",
    "Suspend a training run",
    SuspendTrainingSpec,
    destroys=True,  # what was computed since the last checkpoint
    last_wins=True,
    held=True,
    target=lambda spec: spec.target,
)
RESUME_TRAINING = OperationKind(
    "resume-training",
    "Resume a training run",
    ResumeTrainingSpec,
    last_wins=True,
    target=lambda spec: spec.target,
)
CREATE_RAY_CLUSTER = OperationKind(
    "create-ray-cluster", "Create a Ray cluster", RayClusterSpec, target=lambda spec: spec.target
)
DELETE_RAY_CLUSTER = OperationKind(
    "delete-ray-cluster", "Delete a Ray cluster", DeleteRayClusterSpec, destroys=True, target=lambda spec: spec.target
)
CREATE_TRACKING_SERVER = OperationKind(
    "create-tracking-server",
    "Create a tracking server",
    TrackingServerSpec,
    costs=True,
    target=lambda spec: spec.name,
)
DELETE_TRACKING_SERVER = OperationKind(
    "delete-tracking-server",
    "Delete a tracking server",
    DeleteTrackingServerSpec,
    destroys=True,
    target=lambda spec: spec.name,
)
CONNECT_EXPERIMENTS = OperationKind(
    "connect-experiments",
    "Let training report to a tracking server",
    ConnectExperimentsSpec,
    target=lambda spec: spec.target,
)
DISCONNECT_EXPERIMENTS = OperationKind(
    "disconnect-experiments",
    "Let training report no more",
    DisconnectExperimentsSpec,
    destroys=True,
    target=lambda spec: spec.target,
)
SYNC_EXPERIMENTS = OperationKind(
    "sync-experiments",
    "Copy an experiment",
    SyncExperimentsSpec,
    target=lambda spec: spec.target,
    grave=lambda spec: True,  # it writes into what may be another account
    grave_by=frozenset(SyncExperimentsSpec.model_fields),
)
IMPORT_CLUSTER = OperationKind("import-cluster", "Import a cluster", ImportClusterSpec)
REDETECT_CLUSTER = OperationKind("redetect-cluster", "Detect a cluster anew", RedetectClusterSpec)
ADOPT_DRIFT = OperationKind(
    "adopt-drift",
    "Adopt drift",
    AdoptDriftSpec,
    grave=lambda spec: spec.accept_weaker_security,
    grave_by=frozenset({"accept_weaker_security"}),
)
RESTORE_DRIFT = OperationKind(
    "restore-drift",
    "Restore what has drifted",
    RestoreDriftSpec,
    costs=True,
    destroys=True,  # what somebody has changed on purpose is overwritten
)
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
        CREATE_FSX_STORAGE,
        DELETE_STORAGE,
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
        CREATE_ENDPOINT,
        UPDATE_ENDPOINT,
        DELETE_ENDPOINT,
        CREATE_AUTOSCALER,
        DELETE_AUTOSCALER,
        UPDATE_FEATURES,
        STORE_CREDENTIAL,
        DELETE_CREDENTIAL,
        DOWNLOAD_MODEL,
        CREATE_DEPLOYMENT,
        UPDATE_DEPLOYMENT,
        SCALE_DEPLOYMENT,
        DELETE_DEPLOYMENT,
        CREATE_MODEL_POOL,
        SCALE_MODEL_POOL,
        ASSIGN_MODEL_POOL,
        DELETE_MODEL_POOL,
        CREATE_ROUTER,
        DELETE_ROUTER,
        RUN_TRAINING,
        STOP_TRAINING,
        SUSPEND_TRAINING,
        RESUME_TRAINING,
        CREATE_RAY_CLUSTER,
        DELETE_RAY_CLUSTER,
        CREATE_TRACKING_SERVER,
        DELETE_TRACKING_SERVER,
        CONNECT_EXPERIMENTS,
        DISCONNECT_EXPERIMENTS,
        SYNC_EXPERIMENTS,
        IMPORT_CLUSTER,
        REDETECT_CLUSTER,
        ADOPT_DRIFT,
        RESTORE_DRIFT,
        DELETE_CLUSTER,
    )
}

LOOK_UP_OPTIONS_WORKFLOW = "look-up-options"
MAKE_PLAN_WORKFLOW = "make-plan"
READ_FEATURES_WORKFLOW = "read-features"
READ_INSTANCE_GROUPS_WORKFLOW = "read-instance-groups"
LIST_JOBS_WORKFLOW = "list-jobs"
DIAGNOSE_WORKFLOW = "diagnose"
READ_JOB_WORKFLOW = "read-job"
LIST_CREDENTIALS_WORKFLOW = "list-credentials"
LIST_TRACKING_SERVERS_WORKFLOW = "list-tracking-servers"
READ_TRACKING_SERVER_WORKFLOW = "read-tracking-server"
OPEN_TRACKING_SERVER_WORKFLOW = "open-tracking-server"
LIST_EXPERIMENTS_WORKFLOW = "list-experiments"
SEARCH_RUNS_WORKFLOW = "search-experiment-runs"
READ_RUN_WORKFLOW = "read-experiment-run"
COMPARE_RUNS_WORKFLOW = "compare-experiment-runs"
TRY_CONNECTION_WORKFLOW = "try-experiment-connection"
LIST_MODELS_WORKFLOW = "list-models"
LIST_NODE_GROUPS_WORKFLOW = "list-node-groups"
LIST_NODE_POOLS_WORKFLOW = "list-node-pools"
LIST_STORAGE_WORKFLOW = "list-storage"
READ_STORAGE_DEFAULTS_WORKFLOW = "read-storage-defaults"
LIST_STORAGE_CONTENTS_WORKFLOW = "list-storage-contents"
LIST_DEPLOYMENTS_WORKFLOW = "list-deployments"
READ_DEPLOYMENT_WORKFLOW = "read-deployment"
LIST_MODEL_POOLS_WORKFLOW = "list-model-pools"
READ_MODEL_POOL_WORKFLOW = "read-model-pool"
LIST_ROUTERS_WORKFLOW = "list-routers"
READ_ROUTER_WORKFLOW = "read-router"
READ_NODES_WORKFLOW = "read-nodes"
READ_SOFTWARE_WORKFLOW = "read-software"
LIST_SERVICES_WORKFLOW = "list-services"
CALL_MODEL_WORKFLOW = "call-model"
READ_LOGS_WORKFLOW = "read-logs"
FOLLOW_LOGS_WORKFLOW = "follow-logs"
LIST_ENDPOINTS_WORKFLOW = "list-endpoints"
READ_ENDPOINT_WORKFLOW = "read-endpoint"
LIST_AUTOSCALERS_WORKFLOW = "list-autoscalers"
READ_AUTOSCALER_WORKFLOW = "read-autoscaler"
LIST_TRAINING_WORKFLOW = "list-training"
READ_TRAINING_WORKFLOW = "read-training"
LIST_RAY_CLUSTERS_WORKFLOW = "list-ray-clusters"
READ_RAY_CLUSTER_WORKFLOW = "read-ray-cluster"
CLUSTER_WORKFLOW = "cluster"
FOUNDERS = frozenset({CREATE_CLUSTER.name, CREATE_CONTROL_PLANE.name, IMPORT_CLUSTER.name})
"""The kinds of operations that a cluster may begin with."""
WITHOUT_LEASE = frozenset({RUN_TRAINING.name})
"""Kinds of operations that last as long as what they watch, and hold no lease: they end with their cluster."""
MODEL_POOL_WORKFLOW = "model-pool"
