"""Autoscalers: KEDA ScaledObjects that size a Deployment by metrics.

https://keda.sh/docs/2.17/reference/scaledobject-spec/ and https://keda.sh/docs/2.17/scalers/prometheus/
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.endpoint_parts import WORKSPACE
from contracts.model import Ensured, Model, fault
from contracts.names import KUBERNETES_NAME, fit, namespaced
from contracts.network import Scope
from contracts.objects import DEFAULT_NAMESPACE, ObjectName

IN_CLUSTER = re.compile(
    r"(?P<scheme>https?)://(?P<service>[a-z0-9-]+)\.(?P<namespace>[a-z0-9-]+)(\.svc(\.cluster\.local)?)?"
    r"(:(?P<port>\d{1,5}))?(?P<path>/\S*)?"
)
"""A Service by its name in the cluster's DNS. (Kubernetes: DNS for Services and Pods)"""


class MetricsServer(Model):
    """Where a query is asked: a Prometheus by its address, or a workspace of Amazon Managed Service for Prometheus."""

    server_address: str | None = Field(
        None,
        max_length=500,
        pattern=r"^https?://[^\s/@?#]+(/[^\s?#]*)?$",
        examples=["http://prometheus-server.prometheus.svc:80"],
    )
    workspace_id: str | None = Field(None, pattern=WORKSPACE, examples=["ws-12345678"])
    """Asked with the identity of KEDA's operator."""

    @model_validator(mode="after")
    def _one_of_them(self) -> MetricsServer:
        if (self.server_address is None) == (self.workspace_id is None):
            raise fault("/server_address", "name either server_address or workspace_id")
        return self

    def address(self, region: str) -> str:
        """As KEDA is told it. (AMP User Guide: query-compatible APIs)"""
        if self.server_address is not None:
            return self.server_address
        return f"https://aps-workspaces.{region}.amazonaws.com/workspaces/{self.workspace_id}"


class PrometheusTrigger(MetricsServer):
    """The value of a query that gives one number."""

    type: Literal["prometheus"] = "prometheus"
    query: str = Field(min_length=1, max_length=4000, examples=['sum(vllm:num_requests_waiting{namespace="default"})'])
    threshold: float = Field(gt=0)
    """What one replica takes; of all together without ``per_replica``."""
    activation: float = Field(0, ge=0)
    """Above it the first replica is started; matters where ``min_replicas`` is 0."""
    per_replica: bool = True


class RouterMetric(StrEnum):
    REQUESTS = "requests_per_second"
    QUEUE = "queue_depth"


class RouterTrigger(MetricsServer):
    """How busy an SGLang router is, from its own metrics: the query is written for you."""

    type: Literal["router"] = "router"
    router: ObjectName
    metric: RouterMetric = RouterMetric.REQUESTS
    threshold: float = Field(2, gt=0)
    """What one replica takes."""
    activation: float = Field(0, ge=0)
    window_seconds: int = Field(60, ge=10, le=3600)
    """Over which requests are averaged."""


class CpuTrigger(Model):
    """Use of CPUs, as the metrics server tells it."""

    type: Literal["cpu"] = "cpu"
    utilization: int = Field(ge=1, le=100)
    """Percent of what the pods request."""


Trigger = Annotated[PrometheusTrigger | RouterTrigger | CpuTrigger, Field(discriminator="type")]


class AutoscalerSpec(Model):
    """How many replicas a Deployment has, by metrics. It is the only owner of that number then."""

    target: ObjectName
    """The Deployment."""
    namespace: ObjectName = DEFAULT_NAMESPACE
    name: ObjectName | None = None
    """Null: as the Deployment."""
    min_replicas: int = Field(1, ge=0, le=1000)
    max_replicas: int = Field(5, ge=1, le=1000)
    polling_seconds: int = Field(30, ge=1, le=3600)
    cooldown_seconds: int = Field(300, ge=0, le=86_400)
    """Without activity before the last replica goes; matters where ``min_replicas`` is 0."""
    scale_up_stabilization_seconds: int = Field(0, ge=0, le=3600)
    scale_down_stabilization_seconds: int = Field(300, ge=0, le=3600)
    """The highest wish of so many seconds counts before replicas are taken away."""
    triggers: list[Trigger] = Field(min_length=1, max_length=10)
    """Of several, the one that wants most replicas counts."""

    @model_validator(mode="after")
    def _consistent(self) -> AutoscalerSpec:
        if self.min_replicas > self.max_replicas:
            raise fault("/min_replicas", f"more than max_replicas, which is {self.max_replicas}")
        kinds = [trigger.type for trigger in self.triggers]
        if self.min_replicas == 0 and set(kinds) == {"cpu"}:
            raise fault("/min_replicas", "CPU use alone never starts the first replica again: use at least 1")
        if kinds.count("cpu") > 1:
            raise fault(f"/triggers/{len(kinds) - 1 - kinds[::-1].index('cpu')}", "CPU use is given twice")
        return self

    @property
    def called(self) -> str:
        return self.name or self.target

    @property
    def operated(self) -> str:
        """The target of operations on it."""
        return namespaced(self.called, self.namespace)

    @property
    def hpa(self) -> str:
        """The HorizontalPodAutoscaler that KEDA makes of it."""
        return fit(f"keda-hpa-{self.called}", KUBERNETES_NAME.maximum)


def query_of(trigger: PrometheusTrigger | RouterTrigger, namespace: str) -> str:
    """What the metrics server is asked.

    The router's metrics are ``sgl_router_requests_total`` and ``sgl_router_job_queue_depth`` (SGLang: router metrics);
    ``namespace`` and ``pod`` are labels that Prometheus' discovery of pods gives them.
    """
    if isinstance(trigger, PrometheusTrigger):
        return trigger.query
    chosen = f'{{namespace="{namespace}",pod=~"{trigger.router}-.*"}}'
    if trigger.metric is RouterMetric.QUEUE:
        return f"sum(sgl_router_job_queue_depth{chosen})"
    return f"sum(rate(sgl_router_requests_total{chosen}[{trigger.window_seconds}s]))"


def desired(
    value: float, threshold: float, activation: float, per_replica: bool, limits: tuple[int, int], now: int
) -> int:
    """How many replicas a value of a metric asks for, within ``limits`` (least, most); ``now`` are the present ones.

    (Kubernetes: horizontal pod autoscaling, algorithm details; KEDA: scaling deployments, activating and scaling)
    """
    least, most = limits
    if value <= activation and least == 0:
        return 0
    wish = value / threshold if per_replica else max(now, 1) * value / threshold
    return min(max(math.ceil(round(wish, 6)), least, 1), most)


class AutoscalerName(Model):
    """An autoscaler by its name."""

    name: ObjectName
    namespace: ObjectName = DEFAULT_NAMESPACE

    @property
    def target(self) -> str:
        return namespaced(self.name, self.namespace)


class DeleteAutoscalerSpec(AutoscalerName):
    """The Deployment keeps the replicas that it has then."""


class AutoscalerState(StrEnum):
    PROGRESSING = "progressing"
    ACTIVE = "active"
    """At least one trigger wants replicas."""
    IDLE = "idle"
    """No trigger is active: the least number of replicas, or none."""
    PAUSED = "paused"
    FAILED = "failed"
    DELETING = "deleting"


class TriggerView(Model):
    """A trigger, and what it says now."""

    type: str
    query: str | None = None
    server: str | None = None
    threshold: float | None = None
    value: float | None = None
    """Null where it could not be read."""
    wants: int | None = None
    """Replicas, by this value."""
    problem: str | None = None
    """Why there is no value."""


class Autoscaler(Model):
    """A ScaledObject as the cluster has it."""

    namespace: str
    name: str
    target: str
    state: AutoscalerState
    reason: str | None = None
    detail: str | None = None
    min_replicas: int
    max_replicas: int
    replicas: int | None = None
    """Of the Deployment now; null where there is none."""
    desired_replicas: int | None = None
    """What its HorizontalPodAutoscaler wants."""
    last_scaled_at: datetime | None = None
    last_active_at: datetime | None = None
    triggers: list[str] = Field(default_factory=list)
    """Their types."""
    managed: bool = True
    """Whether the platform made it for this cluster."""


class AutoscalerList(Model):
    """The autoscalers of a cluster, others' among them."""

    autoscalers: list[Autoscaler] = Field(default_factory=list)
    """By namespace and name."""
    read_at: datetime


class AutoscalerDetail(Model):
    """An autoscaler, and what its triggers say now."""

    autoscaler: Autoscaler
    triggers: list[TriggerView] = Field(default_factory=list)
    conditions: list[str] = Field(default_factory=list)
    """KEDA's and the HorizontalPodAutoscaler's, each in a line."""
    read_at: datetime


class ApplyAutoscaler(Model):
    scope: Scope
    eks_cluster: str
    spec: AutoscalerSpec


class AutoscalerApplied(Ensured):
    name: str
    namespace: str


class AutoscalerRef(Model):
    """An autoscaler on its cluster."""

    scope: Scope
    eks_cluster: str
    namespace: str
    name: str


class AutoscalerGone(Ensured):
    name: str
    target: str | None = None
    replicas: int | None = None
    """That the Deployment keeps."""


class ListAutoscalers(Model):
    cluster: str
    region: str
    eks_cluster: str
    namespace: str | None = None
    """Null: all."""


class ReadAutoscaler(Model):
    cluster: str
    region: str
    eks_cluster: str
    namespace: str
    name: str


APPLY_AUTOSCALER = Act("autoscalers.apply", ApplyAutoscaler, AutoscalerApplied, queue=Queue.KUBERNETES)
WAIT_FOR_AUTOSCALER = Wait("autoscalers.wait_until_ready", AutoscalerRef, Autoscaler, limit=timedelta(minutes=20))
START_AUTOSCALER_DELETION = Act("autoscalers.delete", AutoscalerRef, AutoscalerGone, queue=Queue.KUBERNETES)
WAIT_FOR_AUTOSCALER_GONE = Wait(
    "autoscalers.wait_until_gone", AutoscalerRef, AutoscalerGone, limit=timedelta(minutes=20)
)
LIST_AUTOSCALERS = Act("autoscalers.list", ListAutoscalers, AutoscalerList, queue=Queue.KUBERNETES)
READ_AUTOSCALER = Act("autoscalers.read", ReadAutoscaler, AutoscalerDetail, queue=Queue.KUBERNETES)
