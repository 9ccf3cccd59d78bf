"""All workflows, for workers, tests and the replayer."""

from __future__ import annotations

from workflows.cluster import ClusterEntity
from workflows.create_cluster import CreateCluster
from workflows.features import UpdateFeatures
from workflows.imports import ImportCluster, RedetectCluster
from workflows.instance_groups import (
    AddInstanceGroup,
    DeleteInstanceGroup,
    ScaleInstanceGroup,
    UpdateInstanceGroup,
)
from workflows.lookups import (
    ListJobsWorkflow,
    ListNodeGroupsWorkflow,
    ListNodePoolsWorkflow,
    ListStorageContentsWorkflow,
    ListStorageWorkflow,
    LookUpOptionsWorkflow,
    MakePlanWorkflow,
    ReadFeaturesWorkflow,
    ReadInstanceGroupsWorkflow,
    ReadJobWorkflow,
    ReadNodesWorkflow,
    ReadSoftwareWorkflow,
    ReadStorageDefaultsWorkflow,
)
from workflows.node_groups import (
    CreateNodeGroup,
    DeleteNodeGroup,
    ScaleNodeGroupOperation,
)
from workflows.node_pools import CreateNodePool, DeleteNodePool
from workflows.nodes import DeleteNodes, RebootNodes, ReplaceNodes
from workflows.software import UpdateSoftwareOfGroups
from workflows.stages import (
    CreateControlPlane,
    CreateHyperPod,
    CreateStorage,
    InstallDependencies,
    VerifyAccess,
    VerifyCluster,
)
from workflows.teardown import DeleteCluster

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
    VerifyCluster,
    DeleteCluster,
    ImportCluster,
    RedetectCluster,
    CreateNodeGroup,
    ScaleNodeGroupOperation,
    DeleteNodeGroup,
    CreateNodePool,
    DeleteNodePool,
    UpdateFeatures,
    RebootNodes,
    ReplaceNodes,
    DeleteNodes,
    UpdateSoftwareOfGroups,
)
ENTITIES: tuple[type, ...] = (ClusterEntity,)
LOOKUPS: tuple[type, ...] = (
    ReadInstanceGroupsWorkflow,
    LookUpOptionsWorkflow,
    MakePlanWorkflow,
    ReadFeaturesWorkflow,
    ReadNodesWorkflow,
    ReadSoftwareWorkflow,
    ListNodeGroupsWorkflow,
    ListNodePoolsWorkflow,
    ListStorageWorkflow,
    ReadStorageDefaultsWorkflow,
    ListStorageContentsWorkflow,
    ListJobsWorkflow,
    ReadJobWorkflow,
)
WORKFLOWS: tuple[type, ...] = (*OPERATIONS, *ENTITIES, *LOOKUPS)
