"""Questions that the gateway asks of an account and waits for: seconds long, nothing changes.

They are one activity each and run outside Temporal's workflow sandbox: it would import this module anew for every
question, 16 ms in which the worker's event loop does nothing else.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RetryPolicy

from contracts.activity import Act
from contracts.autoscalers import (
    LIST_AUTOSCALERS,
    READ_AUTOSCALER,
    AutoscalerDetail,
    AutoscalerList,
    ListAutoscalers,
    ReadAutoscaler,
)
from contracts.catalogue import (
    LIST_AUTOSCALERS_WORKFLOW,
    LIST_CREDENTIALS_WORKFLOW,
    LIST_DEPLOYMENTS_WORKFLOW,
    LIST_ENDPOINTS_WORKFLOW,
    LIST_JOBS_WORKFLOW,
    LIST_MODEL_POOLS_WORKFLOW,
    LIST_MODELS_WORKFLOW,
    LIST_NODE_GROUPS_WORKFLOW,
    LIST_NODE_POOLS_WORKFLOW,
    LIST_RAY_CLUSTERS_WORKFLOW,
    LIST_ROUTERS_WORKFLOW,
    LIST_SERVICES_WORKFLOW,
    LIST_STORAGE_CONTENTS_WORKFLOW,
    LIST_STORAGE_WORKFLOW,
    LIST_TRAINING_WORKFLOW,
    LOOK_UP_OPTIONS_WORKFLOW,
    MAKE_PLAN_WORKFLOW,
    READ_AUTOSCALER_WORKFLOW,
    READ_DEPLOYMENT_WORKFLOW,
    READ_ENDPOINT_WORKFLOW,
    READ_FEATURES_WORKFLOW,
    READ_INSTANCE_GROUPS_WORKFLOW,
    READ_JOB_WORKFLOW,
    READ_MODEL_POOL_WORKFLOW,
    READ_NODES_WORKFLOW,
    READ_RAY_CLUSTER_WORKFLOW,
    READ_ROUTER_WORKFLOW,
    READ_SOFTWARE_WORKFLOW,
    READ_STORAGE_DEFAULTS_WORKFLOW,
    READ_TRAINING_WORKFLOW,
)
from contracts.credentials import LIST_CREDENTIALS, CredentialList, ListCredentials
from contracts.deployments import (
    LIST_DEPLOYMENTS,
    READ_DEPLOYMENT,
    DeploymentDetail,
    DeploymentList,
    ListDeployments,
    ReadDeployment,
)
from contracts.features import READ_FEATURES, Features, ReadFeatures
from contracts.hyperpod import HyperPodCluster
from contracts.inference import LIST_SERVICES, ListServices, ServicesRead
from contracts.instance_groups import READ_GROUPS, ReadGroups
from contracts.jobs import LIST_JOBS, READ_JOB, JobDetail, JobsRead, ListJobs, ReadJob
from contracts.managed_endpoints import (
    LIST_ENDPOINTS,
    READ_ENDPOINT,
    EndpointDetail,
    EndpointList,
    ListEndpoints,
    ReadEndpoint,
)
from contracts.model_pools import (
    LIST_MODEL_POOLS,
    READ_MODEL_POOL,
    ListModelPools,
    ModelPoolDetail,
    ModelPoolList,
    ReadModelPool,
)
from contracts.models import LIST_MODELS, ListModels, ModelsRead
from contracts.node_groups import LIST_NODE_GROUPS, ListNodeGroups, NodeGroups
from contracts.node_pools import LIST_NODE_POOLS, ListNodePools, NodePools
from contracts.node_views import READ_NODES, NodesRead, ReadNodes
from contracts.options import LOOK_UP_OPTIONS, LookUpOptions, Options
from contracts.plans import MAKE_PLAN, MakePlan, PlanFindings
from contracts.queues import task_queue
from contracts.ray_clusters import (
    LIST_RAY_CLUSTERS,
    READ_RAY_CLUSTER,
    ListRayClusters,
    RayClusterDetail,
    RayClusterList,
    ReadRayCluster,
)
from contracts.routers import LIST_ROUTERS, READ_ROUTER, ListRouters, ReadRouter, RouterDetail, RouterList
from contracts.software import READ_SOFTWARE, ReadSoftware, SoftwareRead
from contracts.storage import (
    LIST_STORAGE,
    LIST_STORAGE_CONTENTS,
    READ_STORAGE_DEFAULTS,
    ContentsRead,
    ListContents,
    ListStorage,
    ReadStorageDefaults,
    StorageClaims,
    StorageDefaults,
)
from contracts.training_activities import LIST_TRAINING, READ_TRAINING, ListTraining, ReadTraining
from contracts.training_views import TrainingRunDetail, TrainingRunList

In = TypeVar("In", bound=BaseModel)
Out = TypeVar("Out", bound=BaseModel)

PATIENCE = timedelta(seconds=20)
RETRY = RetryPolicy(maximum_attempts=4)


async def answer(signature: Act[In, Out], question: In, region: str) -> Out:
    """One activity's answer, or its failure, while the gateway waits."""
    found: Out = await workflow.execute_activity(
        signature.name,
        question,
        task_queue=task_queue(signature.queue, region),
        result_type=signature.output,
        schedule_to_close_timeout=PATIENCE,
        retry_policy=RETRY,
    )
    return found


@workflow.defn(name=LOOK_UP_OPTIONS_WORKFLOW, sandboxed=False)
class LookUpOptionsWorkflow:
    @workflow.run
    async def run(self, question: LookUpOptions) -> Options:
        return await answer(LOOK_UP_OPTIONS, question, question.region)


@workflow.defn(name=MAKE_PLAN_WORKFLOW, sandboxed=False)
class MakePlanWorkflow:
    @workflow.run
    async def run(self, question: MakePlan) -> PlanFindings:
        return await answer(MAKE_PLAN, question, question.record.region)


@workflow.defn(name=READ_INSTANCE_GROUPS_WORKFLOW, sandboxed=False)
class ReadInstanceGroupsWorkflow:
    @workflow.run
    async def run(self, question: ReadGroups) -> HyperPodCluster:
        return await answer(READ_GROUPS, question, question.scope.region)


@workflow.defn(name=READ_NODES_WORKFLOW, sandboxed=False)
class ReadNodesWorkflow:
    @workflow.run
    async def run(self, question: ReadNodes) -> NodesRead:
        return await answer(READ_NODES, question, question.region)


@workflow.defn(name=READ_SOFTWARE_WORKFLOW, sandboxed=False)
class ReadSoftwareWorkflow:
    @workflow.run
    async def run(self, question: ReadSoftware) -> SoftwareRead:
        return await answer(READ_SOFTWARE, question, question.region)


@workflow.defn(name=READ_FEATURES_WORKFLOW, sandboxed=False)
class ReadFeaturesWorkflow:
    @workflow.run
    async def run(self, question: ReadFeatures) -> Features:
        return await answer(READ_FEATURES, question, question.site.scope.region)


@workflow.defn(name=LIST_NODE_GROUPS_WORKFLOW, sandboxed=False)
class ListNodeGroupsWorkflow:
    @workflow.run
    async def run(self, question: ListNodeGroups) -> NodeGroups:
        return await answer(LIST_NODE_GROUPS, question, question.scope.region)


@workflow.defn(name=LIST_NODE_POOLS_WORKFLOW, sandboxed=False)
class ListNodePoolsWorkflow:
    @workflow.run
    async def run(self, question: ListNodePools) -> NodePools:
        return await answer(LIST_NODE_POOLS, question, question.scope.region)


@workflow.defn(name=LIST_DEPLOYMENTS_WORKFLOW, sandboxed=False)
class ListDeploymentsWorkflow:
    @workflow.run
    async def run(self, question: ListDeployments) -> DeploymentList:
        return await answer(LIST_DEPLOYMENTS, question, question.scope.region)


@workflow.defn(name=READ_DEPLOYMENT_WORKFLOW, sandboxed=False)
class ReadDeploymentWorkflow:
    @workflow.run
    async def run(self, question: ReadDeployment) -> DeploymentDetail:
        return await answer(READ_DEPLOYMENT, question, question.scope.region)


@workflow.defn(name=LIST_MODEL_POOLS_WORKFLOW, sandboxed=False)
class ListModelPoolsWorkflow:
    @workflow.run
    async def run(self, question: ListModelPools) -> ModelPoolList:
        return await answer(LIST_MODEL_POOLS, question, question.scope.region)


@workflow.defn(name=READ_MODEL_POOL_WORKFLOW, sandboxed=False)
class ReadModelPoolWorkflow:
    @workflow.run
    async def run(self, question: ReadModelPool) -> ModelPoolDetail:
        return await answer(READ_MODEL_POOL, question, question.scope.region)


@workflow.defn(name=LIST_RAY_CLUSTERS_WORKFLOW, sandboxed=False)
class ListRayClustersWorkflow:
    @workflow.run
    async def run(self, question: ListRayClusters) -> RayClusterList:
        return await answer(LIST_RAY_CLUSTERS, question, question.scope.region)


@workflow.defn(name=READ_RAY_CLUSTER_WORKFLOW, sandboxed=False)
class ReadRayClusterWorkflow:
    @workflow.run
    async def run(self, question: ReadRayCluster) -> RayClusterDetail:
        return await answer(READ_RAY_CLUSTER, question, question.scope.region)


@workflow.defn(name=LIST_ROUTERS_WORKFLOW, sandboxed=False)
class ListRoutersWorkflow:
    @workflow.run
    async def run(self, question: ListRouters) -> RouterList:
        return await answer(LIST_ROUTERS, question, question.scope.region)


@workflow.defn(name=READ_ROUTER_WORKFLOW, sandboxed=False)
class ReadRouterWorkflow:
    @workflow.run
    async def run(self, question: ReadRouter) -> RouterDetail:
        return await answer(READ_ROUTER, question, question.scope.region)


@workflow.defn(name=LIST_JOBS_WORKFLOW, sandboxed=False)
class ListJobsWorkflow:
    @workflow.run
    async def run(self, question: ListJobs) -> JobsRead:
        return await answer(LIST_JOBS, question, question.region)


@workflow.defn(name=READ_JOB_WORKFLOW, sandboxed=False)
class ReadJobWorkflow:
    @workflow.run
    async def run(self, question: ReadJob) -> JobDetail:
        return await answer(READ_JOB, question, question.region)


@workflow.defn(name=LIST_SERVICES_WORKFLOW, sandboxed=False)
class ListServicesWorkflow:
    @workflow.run
    async def run(self, question: ListServices) -> ServicesRead:
        return await answer(LIST_SERVICES, question, question.region)


@workflow.defn(name=LIST_CREDENTIALS_WORKFLOW, sandboxed=False)
class ListCredentialsWorkflow:
    @workflow.run
    async def run(self, question: ListCredentials) -> CredentialList:
        return await answer(LIST_CREDENTIALS, question, question.scope.region)


@workflow.defn(name=LIST_MODELS_WORKFLOW, sandboxed=False)
class ListModelsWorkflow:
    @workflow.run
    async def run(self, question: ListModels) -> ModelsRead:
        return await answer(LIST_MODELS, question, question.scope.region)


@workflow.defn(name=LIST_ENDPOINTS_WORKFLOW, sandboxed=False)
class ListEndpointsWorkflow:
    @workflow.run
    async def run(self, question: ListEndpoints) -> EndpointList:
        return await answer(LIST_ENDPOINTS, question, question.region)


@workflow.defn(name=READ_ENDPOINT_WORKFLOW, sandboxed=False)
class ReadEndpointWorkflow:
    @workflow.run
    async def run(self, question: ReadEndpoint) -> EndpointDetail:
        return await answer(READ_ENDPOINT, question, question.region)


@workflow.defn(name=LIST_AUTOSCALERS_WORKFLOW, sandboxed=False)
class ListAutoscalersWorkflow:
    @workflow.run
    async def run(self, question: ListAutoscalers) -> AutoscalerList:
        return await answer(LIST_AUTOSCALERS, question, question.region)


@workflow.defn(name=READ_AUTOSCALER_WORKFLOW, sandboxed=False)
class ReadAutoscalerWorkflow:
    @workflow.run
    async def run(self, question: ReadAutoscaler) -> AutoscalerDetail:
        return await answer(READ_AUTOSCALER, question, question.region)


@workflow.defn(name=LIST_TRAINING_WORKFLOW, sandboxed=False)
class ListTrainingWorkflow:
    @workflow.run
    async def run(self, question: ListTraining) -> TrainingRunList:
        return await answer(LIST_TRAINING, question, question.scope.region)


@workflow.defn(name=READ_TRAINING_WORKFLOW, sandboxed=False)
class ReadTrainingWorkflow:
    @workflow.run
    async def run(self, question: ReadTraining) -> TrainingRunDetail:
        return await answer(READ_TRAINING, question, question.scope.region)


@workflow.defn(name=LIST_STORAGE_WORKFLOW, sandboxed=False)
class ListStorageWorkflow:
    @workflow.run
    async def run(self, question: ListStorage) -> StorageClaims:
        return await answer(LIST_STORAGE, question, question.scope.region)


@workflow.defn(name=READ_STORAGE_DEFAULTS_WORKFLOW, sandboxed=False)
class ReadStorageDefaultsWorkflow:
    @workflow.run
    async def run(self, question: ReadStorageDefaults) -> StorageDefaults:
        return await answer(READ_STORAGE_DEFAULTS, question, question.scope.region)


@workflow.defn(name=LIST_STORAGE_CONTENTS_WORKFLOW, sandboxed=False)
class ListStorageContentsWorkflow:
    @workflow.run
    async def run(self, question: ListContents) -> ContentsRead:
        return await answer(LIST_STORAGE_CONTENTS, question, question.scope.region)
