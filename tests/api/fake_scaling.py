"""Fake workflows that answer which managed endpoints and autoscalers a cluster has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import workflow

from contracts.autoscalers import (
    Autoscaler,
    AutoscalerDetail,
    AutoscalerList,
    AutoscalerState,
    ListAutoscalers,
    ReadAutoscaler,
    TriggerView,
)
from contracts.managed_endpoints import (
    EndpointDetail,
    EndpointList,
    EndpointState,
    ListEndpoints,
    ManagedEndpoint,
    ReadEndpoint,
)
from contracts.problem import ProblemCode
from tests.api.fake_readings import refuse

QWEN = ManagedEndpoint(
    namespace="default",
    name="qwen",
    kind="InferenceEndpointConfig",
    state=EndpointState.READY,
    model="qwen",
    source="s3",
    instance_types=["ml.g5.8xlarge"],
    replicas=2,
    ready_replicas=2,
    service="qwen-routing-service",
    port=80,
    created_at=datetime(2026, 11, 1, tzinfo=UTC),
)
CHAT = Autoscaler(
    namespace="default",
    name="chat",
    target="chat",
    state=AutoscalerState.ACTIVE,
    min_replicas=1,
    max_replicas=5,
    replicas=3,
    desired_replicas=3,
    triggers=["prometheus"],
)


@workflow.defn(name="list-endpoints")
class ListEndpointsOf:
    @workflow.run
    async def run(self, asked: ListEndpoints) -> EndpointList:
        found = QWEN.model_copy(update={"namespace": asked.namespace or QWEN.namespace})
        return EndpointList(endpoints=[found], read_at=workflow.now())


@workflow.defn(name="read-endpoint")
class ReadEndpointOf:
    @workflow.run
    async def run(self, asked: ReadEndpoint) -> EndpointDetail:
        if asked.name != QWEN.name:
            raise refuse(ProblemCode.NOT_FOUND, f"there is no endpoint {asked.name}; there are: qwen")
        found = QWEN.model_copy(update={"namespace": asked.namespace})
        return EndpointDetail(endpoint=found, pods=["qwen-1: Running"], read_at=workflow.now())


@workflow.defn(name="list-autoscalers")
class ListAutoscalersOf:
    @workflow.run
    async def run(self, asked: ListAutoscalers) -> AutoscalerList:
        found = CHAT.model_copy(update={"namespace": asked.namespace or CHAT.namespace})
        return AutoscalerList(autoscalers=[found], read_at=workflow.now())


@workflow.defn(name="read-autoscaler")
class ReadAutoscalerOf:
    @workflow.run
    async def run(self, asked: ReadAutoscaler) -> AutoscalerDetail:
        if asked.name != CHAT.name:
            raise refuse(ProblemCode.NOT_FOUND, f"there is no autoscaler {asked.name}; there are: chat")
        found = CHAT.model_copy(update={"namespace": asked.namespace})
        trigger = TriggerView(type="prometheus", query="load", threshold=5, value=12, wants=3)
        return AutoscalerDetail(autoscaler=found, triggers=[trigger], read_at=workflow.now())


SCALING: list[Any] = [ListEndpointsOf, ReadEndpointOf, ListAutoscalersOf, ReadAutoscalerOf]
