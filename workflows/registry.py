"""All workflows, for workers, tests and the replayer."""

from __future__ import annotations

from workflows.autoscalers import CreateAutoscaler, DeleteAutoscaler
from workflows.cluster import ClusterEntity
from workflows.create_cluster import CreateCluster
from workflows.credentials import DeleteCredentialOperation, StoreCredentialOperation
from workflows.deployments import CreateDeployment, DeleteDeployment, ScaleDeployment, UpdateDeployment
from workflows.diagnostics import DiagnoseWorkflow
from workflows.drift import AdoptDrift, CheckDriftWorkflow, RestoreDrift
from workflows.experiment_lookups import (
    CompareRunsWorkflow,
    ListExperimentsWorkflow,
    ListTrackingServersWorkflow,
    OpenTrackingServerWorkflow,
    ReadRunWorkflow,
    ReadTrackingServerWorkflow,
    SearchRunsWorkflow,
    TryConnectionWorkflow,
)
from workflows.experiments import (
    ConnectExperimentsOperation,
    CreateTrackingServer,
    DeleteTrackingServerOperation,
    DisconnectExperimentsOperation,
    SyncExperimentsOperation,
)
from workflows.features import UpdateFeatures
from workflows.fsx_storage import CreateFsxStorage
from workflows.imports import ImportCluster, RedetectCluster
from workflows.inference import CallModelWorkflow
from workflows.instance_groups import (
    AddInstanceGroup,
    DeleteInstanceGroup,
    ScaleInstanceGroup,
    UpdateInstanceGroup,
)
from workflows.logs import FollowLogsWorkflow, ReadLogsWorkflow
from workflows.lookups import (
    ListAutoscalersWorkflow,
    ListCredentialsWorkflow,
    ListDeploymentsWorkflow,
    ListEndpointsWorkflow,
    ListJobsWorkflow,
    ListModelPoolsWorkflow,
    ListModelsWorkflow,
    ListNodeGroupsWorkflow,
    ListNodePoolsWorkflow,
    ListRayClustersWorkflow,
    ListRoutersWorkflow,
    ListServicesWorkflow,
    ListStorageContentsWorkflow,
    ListStorageWorkflow,
    ListTrainingWorkflow,
    LookUpOptionsWorkflow,
    MakePlanWorkflow,
    ReadAutoscalerWorkflow,
    ReadDeploymentWorkflow,
    ReadEndpointWorkflow,
    ReadFeaturesWorkflow,
    ReadInstanceGroupsWorkflow,
    ReadJobWorkflow,
    ReadModelPoolWorkflow,
    ReadNodesWorkflow,
    ReadRayClusterWorkflow,
    ReadRouterWorkflow,
    ReadSoftwareWorkflow,
    ReadStorageDefaultsWorkflow,
    ReadTrainingWorkflow,
)
from workflows.managed_endpoints import CreateEndpoint, DeleteEndpoint, UpdateEndpoint
from workflows.model_pools import AssignModelPool, CreateModelPool, DeleteModelPool, ScaleModelPool
from workflows.models import DownloadModel
from workflows.node_groups import (
    CreateNodeGroup,
    DeleteNodeGroup,
    ScaleNodeGroupOperation,
)
from workflows.node_pools import CreateNodePool, DeleteNodePool
from workflows.nodes import DeleteNodes, RebootNodes, ReplaceNodes
from workflows.pool_keeper import ModelPoolKeeper
from workflows.presets import Preset
from workflows.ray_clusters import CreateRayCluster, DeleteRayCluster
from workflows.routers import CreateRouter, DeleteRouter
from workflows.software import UpdateSoftwareOfGroups
from workflows.stages import (
    CreateControlPlane,
    CreateHyperPod,
    InstallDependencies,
    VerifyAccess,
    VerifyCluster,
)
from workflows.storage import CreateStorage, DeleteStorage
from workflows.teardown import DeleteCluster
from workflows.training import RunTraining
from workflows.training_control import ResumeTraining, StopTrainingOperation, SuspendTraining

OPERATIONS: tuple[type, ...] = (
    AddInstanceGroup,
    ScaleInstanceGroup,
    UpdateInstanceGroup,
    DeleteInstanceGroup,
    CreateCluster,
    CreateControlPlane,
    VerifyAccess,
    InstallDependencies,
    CreateHyperPod,
    CreateStorage,
    CreateFsxStorage,
    DeleteStorage,
    VerifyCluster,
    DeleteCluster,
    ImportCluster,
    RedetectCluster,
    AdoptDrift,
    RestoreDrift,
    CreateNodeGroup,
    ScaleNodeGroupOperation,
    DeleteNodeGroup,
    CreateNodePool,
    DeleteNodePool,
    CreateEndpoint,
    UpdateEndpoint,
    DeleteEndpoint,
    CreateAutoscaler,
    DeleteAutoscaler,
    UpdateFeatures,
    RebootNodes,
    ReplaceNodes,
    DeleteNodes,
    UpdateSoftwareOfGroups,
    StoreCredentialOperation,
    DeleteCredentialOperation,
    DownloadModel,
    CreateDeployment,
    UpdateDeployment,
    ScaleDeployment,
    DeleteDeployment,
    CreateModelPool,
    ScaleModelPool,
    AssignModelPool,
    DeleteModelPool,
    CreateRouter,
    DeleteRouter,
    CreateTrackingServer,
    DeleteTrackingServerOperation,
    ConnectExperimentsOperation,
    DisconnectExperimentsOperation,
    SyncExperimentsOperation,
    RunTraining,
    StopTrainingOperation,
    SuspendTraining,
    ResumeTraining,
    CreateRayCluster,
    DeleteRayCluster,
)
ENTITIES: tuple[type, ...] = (ClusterEntity, ModelPoolKeeper, Preset)
LOOKUPS: tuple[type, ...] = (
    ReadInstanceGroupsWorkflow,
    LookUpOptionsWorkflow,
    MakePlanWorkflow,
    ReadFeaturesWorkflow,
    ReadNodesWorkflow,
    ReadSoftwareWorkflow,
    ListNodeGroupsWorkflow,
    ListNodePoolsWorkflow,
    ListServicesWorkflow,
    ListEndpointsWorkflow,
    ReadEndpointWorkflow,
    ListAutoscalersWorkflow,
    ReadAutoscalerWorkflow,
    ListStorageWorkflow,
    ReadStorageDefaultsWorkflow,
    ListStorageContentsWorkflow,
    ListJobsWorkflow,
    ReadJobWorkflow,
    ListTrainingWorkflow,
    ReadTrainingWorkflow,
    DiagnoseWorkflow,
    ListCredentialsWorkflow,
    ListModelsWorkflow,
    CallModelWorkflow,
    ListTrackingServersWorkflow,
    ReadTrackingServerWorkflow,
    OpenTrackingServerWorkflow,
    ListExperimentsWorkflow,
    SearchRunsWorkflow,
    ReadRunWorkflow,
    CompareRunsWorkflow,
    TryConnectionWorkflow,
    ReadLogsWorkflow,
    FollowLogsWorkflow,
    ListDeploymentsWorkflow,
    ReadDeploymentWorkflow,
    ListModelPoolsWorkflow,
    ReadModelPoolWorkflow,
    ListRayClustersWorkflow,
    ListRoutersWorkflow,
    ReadRayClusterWorkflow,
    ReadRouterWorkflow,
    CheckDriftWorkflow,
)
WORKFLOWS: tuple[type, ...] = (*OPERATIONS, *ENTITIES, *LOOKUPS)
