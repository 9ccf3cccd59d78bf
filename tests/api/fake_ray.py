"""Fake workflows that answer which Ray clusters a cluster has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import workflow

from contracts.problem import ProblemCode
from contracts.ray_clusters import (
    ListRayClusters,
    RayClusterDetail,
    RayClusterList,
    RayClusterState,
    RayClusterView,
    RayUse,
    ReadRayCluster,
)
from tests.api.fake_readings import refuse

NOTEBOOKS = RayClusterView(
    namespace="default",
    name="notebooks",
    state=RayClusterState.READY,
    detail="head ready, 2 of 2 workers ready",
    image="rayproject/ray:2.52.0-py312-gpu",
    ray_version="2.52.0",
    workers=2,
    ready=2,
    head_ready=True,
    gpus=2,
    dashboard="http://notebooks-head-svc.default.svc:8265",
    created_at=datetime(2026, 11, 1, tzinfo=UTC),
)


@workflow.defn(name="list-ray-clusters")
class ListRayClustersOf:
    @workflow.run
    async def run(self, asked: ListRayClusters) -> RayClusterList:
        view = NOTEBOOKS.model_copy(update={"namespace": asked.namespace or NOTEBOOKS.namespace})
        return RayClusterList(ray_clusters=[view], read_at=workflow.now())


@workflow.defn(name="read-ray-cluster")
class ReadRayClusterOf:
    @workflow.run
    async def run(self, asked: ReadRayCluster) -> RayClusterDetail:
        if asked.name != NOTEBOOKS.name:
            raise refuse(ProblemCode.NOT_FOUND, f"namespace {asked.namespace} has no Ray cluster {asked.name}")
        view = NOTEBOOKS.model_copy(update={"namespace": asked.namespace})
        use = RayUse(ray_version="2.52.0", running=1, note="1 job or session runs on it")
        return RayClusterDetail(ray_cluster=view, use=use, read_at=workflow.now())


RAY: list[Any] = [ListRayClustersOf, ReadRayClusterOf]
