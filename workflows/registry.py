"""All workflows, for workers, tests and the replayer."""

from __future__ import annotations

from workflows.cluster import ClusterEntity
from workflows.create_cluster import CreateCluster
from workflows.lookups import CheckClusterWorkflow, LookUpOptionsWorkflow
from workflows.stages import (
    CreateControlPlane,
    CreateHyperPod,
    CreateStorage,
    InstallDependencies,
    VerifyAccess,
    VerifyCluster,
)

OPERATIONS: tuple[type, ...] = (
    CreateCluster,
    CreateControlPlane,
    VerifyAccess,
    InstallDependencies,
    CreateHyperPod,
    CreateStorage,
    VerifyCluster,
)
ENTITIES: tuple[type, ...] = (ClusterEntity,)
LOOKUPS: tuple[type, ...] = (LookUpOptionsWorkflow, CheckClusterWorkflow)
WORKFLOWS: tuple[type, ...] = (*OPERATIONS, *ENTITIES, *LOOKUPS)
