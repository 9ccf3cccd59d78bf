"""Pools of model servers: pods that are loaded already and are handed out to services by a label.

A pool is a deployment without a Service. Which service has how many of its pods stands on the pool's Deployment, so
that whoever looks at the cluster sees it; which pods those are, on the pods.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.deployment_parts import DeploymentName
from contracts.deployments import MOST_REPLICAS, DeploymentObject, DeploymentSpec
from contracts.inference import InferenceService
from contracts.model import Ensured, Model, fault
from contracts.names import DEPLOYMENT_NAME
from contracts.network import Scope
from contracts.pool_moves import RESERVED, Move, PoolPod

MOST_SERVICES = 100


def _served(name: str) -> str:
    if violation := DEPLOYMENT_NAME.violation(name):
        raise ValueError(violation)
    if name in RESERVED:
        raise ValueError(f"{name} says that a pod serves nobody; call the service something else")
    return name


PoolServiceName = Annotated[str, AfterValidator(_served)]
"""Of a service that a pool's pods are handed out to: of its Service, and the value of the pods' label ``business``."""
WorkerCount = Annotated[int, Field(ge=0, le=MOST_REPLICAS, strict=True)]


class PoolName(DeploymentName):
    """A pool by its name."""

    @property
    def lease(self) -> str:
        return f"model-pools/{self.namespace}/{self.name}"


class ModelPoolSpec(DeploymentSpec):
    """Model servers that are handed out to services later. All that a deployment has, but no Service of its own."""

    name: str = Field(examples=["qwen3-pool"])
    """The Deployment's."""
    service: Literal["none"] = "none"
    """Its services come with assignments."""

    @property
    def lease(self) -> str:
        return f"model-pools/{self.namespace}/{self.name}"

    @property
    def health_path(self) -> str | None:
        """What a pod that was handed out is asked; null: nothing."""
        chosen = self.verification
        if chosen.kind == "none":
            return None
        return "/v1/models" if chosen.kind == "openai" else chosen.path


class ScaleModelPoolSpec(PoolName):
    """Another number of pods. Never fewer than are assigned."""

    replicas: int = Field(ge=1, le=MOST_REPLICAS, strict=True, examples=[4])


class AssignModelPoolSpec(PoolName):
    """How the pool's pods are handed out: the whole wish. Who is not named gives its pods back."""

    assignments: dict[PoolServiceName, WorkerCount] = Field(
        max_length=MOST_SERVICES, examples=[{"chat": 2, "search": 1}]
    )
    """Service to its number of pods."""
    public: dict[PoolServiceName, Literal["internal", "internet-facing"]] = Field(
        default_factory=dict, max_length=MOST_SERVICES
    )
    """Services with a load balancer besides, and from where that is reached: the VPC, or everywhere."""
    confirm_public: bool = False
    """Says that services which everybody on the internet may call are wanted."""
    keep_services: bool = False
    """Services that have no pods any more stay, and answer with an error; otherwise they are deleted."""

    @model_validator(mode="after")
    def _consistent(self) -> AssignModelPoolSpec:
        for service, scheme in self.public.items():
            if service not in self.assignments:
                raise fault(f"/public/{service}", "no pods are assigned to a service of this name")
            if scheme == "internet-facing" and not self.confirm_public:
                detail = (
                    "everybody on the internet may call the service, and use its GPUs; send confirm_public true if so"
                )
                raise fault("/confirm_public", detail)
        return self

    @property
    def total(self) -> int:
        return sum(self.assignments.values())

    @property
    def wish(self) -> Wish:
        return Wish(assignments=dict(self.assignments), public=dict(self.public))


class DeleteModelPoolSpec(PoolName):
    """Its services go first, then its pods."""


class Wish(Model):
    """What a pool's Deployment says of its pods."""

    assignments: dict[PoolServiceName, WorkerCount] = Field(default_factory=dict)
    public: dict[PoolServiceName, Literal["internal", "internet-facing"]] = Field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(self.assignments.values())


class KeeperState(StrEnum):
    WATCHING = "watching"
    """All is as asked, or nothing can be done about it now."""
    REPAIRING = "repairing"
    WAITING = "waiting"
    """An operation is at work on the pool; it has the say."""


class Keeper(Model):
    """What keeps a pool's pods handed out as asked, whatever becomes of single pods."""

    state: KeeperState
    detail: str | None = None
    repairs: int = 0
    """How often it has handed out pods."""
    repaired_at: datetime | None = None


class PoolState(StrEnum):
    READY = "ready"
    """As many pods as asked are Ready, and every service has its number."""
    PROGRESSING = "progressing"
    """Pods come, load, move or go."""
    DEGRADED = "degraded"
    """A service has fewer Ready pods than asked, or a pod is in trouble."""
    FAILED = "failed"
    """No pod is Ready, and one is in trouble that does not pass by itself."""
    DELETING = "deleting"


class PoolAssignment(Model):
    """A service, and the pods that it has."""

    service: str
    wanted: int
    pods: int = 0
    """That carry its name."""
    ready: int = 0


class ModelPoolView(Model):
    """A pool as it is now."""

    namespace: str
    name: str
    state: PoolState
    detail: str
    engine: str
    image: str
    model: str | None = None
    gpu_count: int = 0
    replicas: int
    """Asked for."""
    ready: int = 0
    unassigned: int = 0
    """Ready, and free."""
    leaving: int = 0
    """Out of a service, with requests under way perhaps."""
    assignments: list[PoolAssignment] = Field(default_factory=list)
    services: list[InferenceService] = Field(default_factory=list)
    keeper: Keeper | None = None
    """Null: nobody looks after it; assign-model-pool starts it."""
    created_at: datetime
    operation: str | None = None
    """Who changed it last."""


class ModelPoolList(Model):
    """The pools of a cluster, by namespace and name."""

    model_pools: list[ModelPoolView] = Field(default_factory=list)
    read_at: datetime


class PoolPodView(Model):
    name: str
    business: str
    """``unassigned``, ``leaving``, or the service that it serves."""
    ready: bool
    node: str | None = None
    phase: str
    reason: str | None = None
    """What is in its way, in Kubernetes' word."""


class ModelPoolDetail(Model):
    """A pool with its pods, by whom they serve."""

    pool: ModelPoolView
    spec: ModelPoolSpec | None = None
    """What it was made from; null where that is not kept any more."""
    pods: list[PoolPodView] = Field(default_factory=list)
    read_at: datetime


class PoolRef(PoolName):
    """A pool of a cluster."""

    scope: Scope
    eks_cluster: str


class ApplyPool(Model):
    scope: Scope
    eks_cluster: str
    spec: ModelPoolSpec
    startup_minutes: int | None = None
    """By the model's size, where the plan knows it."""


class ScalePool(PoolRef):
    replicas: int


class PoolSeen(Model):
    """A pool at one moment."""

    name: str
    namespace: str
    replicas: int
    wish: Wish
    wish_problem: str | None = None
    """Why the wish on the Deployment cannot be read; nothing is moved then."""
    pods: list[PoolPod] = Field(default_factory=list)
    services: list[str] = Field(default_factory=list)
    """Whose Services there are."""


class SetWish(PoolRef):
    wish: Wish


class WishSet(Ensured):
    name: str


class ApplyPoolServices(PoolRef):
    """The Services of ``wish``. ``delete_others``: and no others of the pool."""

    wish: Wish
    delete_others: bool = False


class PoolServices(Ensured):
    names: list[str] = Field(default_factory=list)
    removed: list[str] = Field(default_factory=list)

    @property
    def identifier(self) -> str:
        return ", ".join(self.names) or "no Service"


class MovePod(PoolRef):
    """One step of a pod's way."""

    move: Move


class PodMoved(Ensured):
    """``gone``: the pod is no more, or somebody else has moved it; the way is planned anew then."""

    pod: str
    gone: bool = False
    detail: str = ""


class WatchPool(PoolRef):
    """``known``: what is known of the pool already, in words; null: nothing, so that the first look is news.
    ``patience_seconds``: after this nothing new is news as well."""

    known: str | None = None
    patience_seconds: int = 1800


class PoolNews(Model):
    """Why a pool is to be looked at: it is gone, pods can be handed out, it is not as known, or nothing happened."""

    gone: bool = False
    work: bool = False
    detail: str


class PoolGone(Ensured):
    name: str
    namespace: str


class ListModelPools(Model):
    scope: Scope
    eks_cluster: str
    namespace: str | None = None


class ReadModelPool(PoolRef):
    """One pool, with its pods."""


class KeepPool(PoolRef):
    """What a keeper is started with, and takes along when it continues as new."""

    repairs: int = 0
    repaired_at: datetime | None = None


MEMO_KEEPER = "keeper"

DRAIN_LIMIT = timedelta(hours=2)
JOIN_LIMIT = timedelta(minutes=10)
WORKERS_LIMIT = timedelta(hours=1)
WATCH_LIMIT = timedelta(days=1)

APPLY_POOL = Act("model_pools.apply", ApplyPool, DeploymentObject, queue=Queue.KUBERNETES)
SCALE_POOL = Act("model_pools.scale", ScalePool, DeploymentObject, queue=Queue.KUBERNETES)
SURVEY_POOL = Act("model_pools.survey", PoolRef, PoolSeen, queue=Queue.KUBERNETES)
SET_WISH = Act("model_pools.set_wish", SetWish, WishSet, queue=Queue.KUBERNETES)
APPLY_POOL_SERVICES = Act("model_pools.apply_services", ApplyPoolServices, PoolServices, queue=Queue.KUBERNETES)
DETACH_POD = Act("model_pools.detach", MovePod, PodMoved, queue=Queue.KUBERNETES)
WAIT_FOR_DRAINED_POD = Wait("model_pools.wait_until_drained", MovePod, PodMoved, limit=DRAIN_LIMIT)
ATTACH_POD = Act("model_pools.attach", MovePod, PodMoved, queue=Queue.KUBERNETES)
WAIT_FOR_SERVING_POD = Wait("model_pools.wait_until_serving", MovePod, PodMoved, limit=JOIN_LIMIT)
WAIT_FOR_WORKERS = Wait("model_pools.wait_for_workers", PoolRef, PoolNews, limit=WORKERS_LIMIT)
WATCH_POOL = Wait("model_pools.watch", WatchPool, PoolNews, limit=WATCH_LIMIT)
START_POOL_DELETION = Act("model_pools.delete", PoolRef, PoolGone, queue=Queue.KUBERNETES)
WAIT_FOR_POOL_GONE = Wait("model_pools.wait_until_gone", PoolRef, PoolGone, limit=timedelta(minutes=90))
LIST_MODEL_POOLS = Act("model_pools.list", ListModelPools, ModelPoolList, queue=Queue.KUBERNETES)
READ_MODEL_POOL = Act("model_pools.read", ReadModelPool, ModelPoolDetail, queue=Queue.KUBERNETES)
