"""SGLang routers: one address before many model servers, which it finds by their labels."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field, field_validator, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.command_flags import PINNED_IMAGES
from contracts.commands import Engine
from contracts.deployments import DeploymentObject, DeploymentState
from contracts.inference import InferenceService
from contracts.jobs import JobPod
from contracts.model import Ensured, Model, fault
from contracts.names import (
    DEPLOYMENT_NAME,
    KUBERNETES_LABEL,
    LABEL_BUSINESS,
    LABEL_DEPLOYMENT,
    LABEL_MODEL_POOL,
    namespaced,
)
from contracts.network import Scope
from contracts.objects import DEFAULT_NAMESPACE, ObjectName

Policy = Literal["cache_aware", "round_robin", "random"]


class RouterName(Model):
    """A router by its name."""

    name: ObjectName
    namespace: ObjectName = DEFAULT_NAMESPACE

    @property
    def operated(self) -> str:
        """The target of operations on it."""
        return namespaced(self.name, self.namespace)

    @property
    def lease(self) -> str:
        return f"routers/{self.namespace}/{self.name}"


class RouterTarget(Model):
    """Whose pods a router chooses among, all of its own namespace: one of a deployment, a service of a model pool, or
    labels."""

    deployment: ObjectName | None = Field(None, examples=["qwen3-chat"])
    """A model server of the platform's."""
    pool: ObjectName | None = None
    """A model pool; ``service`` says which of its pods."""
    service: ObjectName | None = None
    """A service that the pool's pods are assigned to."""
    selector: dict[str, str] = Field(default_factory=dict, max_length=10, examples=[{"app": "qwen"}])
    """Labels that pods must have, whoever made them."""

    @field_validator("selector")
    @classmethod
    def _labels(cls, selector: dict[str, str]) -> dict[str, str]:
        for key, value in selector.items():
            if "=" in key or "," in key or not key or any(letter.isspace() for letter in key):
                raise ValueError(f"{key!r} is no label")
            if violation := KUBERNETES_LABEL.violation(value):
                raise ValueError(violation)
        return selector

    @model_validator(mode="after")
    def _one(self) -> RouterTarget:
        given = [self.deployment is not None, self.pool is not None, bool(self.selector)]
        if sum(given) != 1:
            raise fault("", "name exactly one of deployment, pool (with service) and selector")
        if (self.pool is None) != (self.service is None):
            raise fault("/service", "pool and service belong together")
        return self

    @property
    def labels(self) -> dict[str, str]:
        """What the pods carry."""
        if self.deployment is not None:
            return {LABEL_DEPLOYMENT: self.deployment}
        if self.pool is not None and self.service is not None:
            return {LABEL_MODEL_POOL: self.pool, LABEL_BUSINESS: self.service}
        return dict(self.selector)

    @property
    def words(self) -> str:
        if self.deployment is not None:
            return f"deployment {self.deployment}"
        if self.pool is not None:
            return f"service {self.service} of model pool {self.pool}"
        return ", ".join(f"{key}={value}" for key, value in sorted(self.selector.items()))


class RouterSpec(RouterName):
    """A router: whom it sends requests to, how it chooses, and who reaches it.

    (SGLang documentation: SGLang Model Gateway, load balancing policies and service discovery)
    """

    name: str = Field(examples=["chat-router"])
    """Its Deployment's, its account's, and that of its Service inside the cluster."""
    target: RouterTarget
    worker_port: int | None = Field(None, ge=1, le=65_535)
    """Where the model servers listen; null: as the deployment or pool says, else 8000."""
    policy: Policy = "cache_aware"
    """``cache_aware``: equal beginnings go to the same server, while the load is balanced."""
    cache_threshold: float = Field(0.5, ge=0, le=1)
    """Share of a request that must be known to a server for it to be chosen for that."""
    balance_abs_threshold: int = Field(32, ge=0)
    """More requests than this between the busiest and the idlest server, and the load decides;"""
    balance_rel_threshold: float = Field(1.1, ge=1)
    """and so many times as many."""
    eviction_interval_seconds: int = Field(30, ge=1, le=86_400)
    """How often what was remembered of requests is cut back."""
    max_tree_size: int = Field(10_000, ge=1)
    """Nodes of that memory, at most."""
    image: str | None = Field(None, max_length=500, pattern=r"^\S+$")
    """Null: SGLang's, of a pinned version."""
    replicas: int = Field(1, ge=1, le=20, strict=True)
    """Each remembers for itself: with more than one, ``cache_aware`` knows less of the caches."""
    service: Literal["in_cluster", "public"] = "in_cluster"
    """``public``: a load balancer besides."""
    public: Literal["internal", "internet-facing"] = "internal"
    confirm_public: bool = False
    """Says that a router which everybody on the internet may call is wanted."""
    port: int = Field(30_000, ge=1024, le=65_535)
    metrics_port: int = Field(29_000, ge=1024, le=65_535)
    """Prometheus' format, at ``/metrics``."""
    cpu: float = Field(2, gt=0, le=256)
    """Requested; twice as much may be used."""
    memory_gib: float = Field(4, gt=0, le=1024)
    """Requested; twice as much may be used."""

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if violation := DEPLOYMENT_NAME.violation(name):
            raise ValueError(violation)
        return name

    @model_validator(mode="after")
    def _consistent(self) -> RouterSpec:
        if self.port == self.metrics_port:
            raise fault("/metrics_port", f"{self.port} is where requests are answered")
        if self.service == "public" and self.public == "internet-facing" and not self.confirm_public:
            detail = "everybody on the internet may call the router; send confirm_public true if that is wanted"
            raise fault("/confirm_public", detail)
        if self.service != "public" and self.public != "internal":
            raise fault("/public", 'only a service "public" has a load balancer')
        return self

    @property
    def chosen_image(self) -> str:
        return self.image or PINNED_IMAGES[Engine.SGLANG]


class DeleteRouterSpec(RouterName):
    """Its Services, its pods, its account and what that was allowed go."""


class Worker(Model):
    """A model server, as a router sees it."""

    url: str
    healthy: bool | None = None
    """Null: the router does not say."""
    pod: str | None = None
    """Null: no pod of the target has the address."""


class RouterView(Model):
    """A router as it is now."""

    namespace: str
    name: str
    state: DeploymentState
    detail: str
    reason: str | None = None
    target: str
    """In words; of one whose specification is not kept, empty."""
    policy: str | None = None
    image: str
    replicas: int
    ready: int = 0
    targets: int = 0
    """Ready pods of the target."""
    services: list[InferenceService] = Field(default_factory=list)
    created_at: datetime
    operation: str | None = None
    """Who made it."""


class RouterList(Model):
    """The routers of a cluster, by namespace and name."""

    routers: list[RouterView] = Field(default_factory=list)
    read_at: datetime


class RouterDetail(Model):
    """A router with what it sees."""

    router: RouterView
    spec: RouterSpec | None = None
    workers: list[Worker] = Field(default_factory=list)
    """As its first ready pod lists them."""
    pods: list[JobPod] = Field(default_factory=list)
    metrics: dict[str, float] = Field(default_factory=dict)
    """Of that pod, by name, summed over labels: requests, running requests, the depth of its queue, active workers."""
    read_at: datetime


class RouterRef(RouterName):
    """A router of a cluster."""

    scope: Scope
    eks_cluster: str


class ApplyRouter(Model):
    """A part of a router as specified. ``worker_port``: resolved."""

    scope: Scope
    eks_cluster: str
    spec: RouterSpec
    worker_port: int


class RouterAccess(Ensured):
    """Who the router is to Kubernetes, and that it may look for pods in its namespace."""

    name: str


class RouterServices(Ensured):
    names: list[str] = Field(default_factory=list)

    @property
    def identifier(self) -> str:
        return ", ".join(self.names)


class WatchWorkers(RouterRef):
    target: RouterTarget
    port: int


class WorkersListed(Model):
    workers: int
    pods: list[str] = Field(default_factory=list)


class RouterGone(Ensured):
    name: str
    namespace: str


class ListRouters(Model):
    scope: Scope
    eks_cluster: str
    namespace: str | None = None


class ReadRouter(RouterRef):
    """One router, with what it sees."""


DEFAULT_WORKER_PORT = 8000

ENSURE_ROUTER_ACCESS = Act("routers.ensure_access", ApplyRouter, RouterAccess, queue=Queue.KUBERNETES)
APPLY_ROUTER = Act("routers.apply", ApplyRouter, DeploymentObject, queue=Queue.KUBERNETES)
APPLY_ROUTER_SERVICES = Act("routers.apply_services", ApplyRouter, RouterServices, queue=Queue.KUBERNETES)
WAIT_FOR_ROUTER_WORKERS = Wait("routers.wait_for_workers", WatchWorkers, WorkersListed, limit=timedelta(minutes=15))
START_ROUTER_DELETION = Act("routers.delete", RouterRef, RouterGone, queue=Queue.KUBERNETES)
WAIT_FOR_ROUTER_GONE = Wait("routers.wait_until_gone", RouterRef, RouterGone, limit=timedelta(minutes=30))
LIST_ROUTERS = Act("routers.list", ListRouters, RouterList, queue=Queue.KUBERNETES)
READ_ROUTER = Act("routers.read", ReadRouter, RouterDetail, queue=Queue.KUBERNETES)
