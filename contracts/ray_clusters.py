"""Ray clusters for interactive use: a head, workers, and the Service inside the cluster that leads to both.

KubeRay's RayCluster (ray.io/v1): https://ray-project.github.io/kuberay/reference/api/. What trains by a recipe makes a
Ray cluster of its own, for as long as its job runs (contracts/training.py).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import Field, field_validator, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.capacity import RESERVED_LABEL_PREFIXES, check_labels
from contracts.credentials import CredentialName
from contracts.deployment_parts import StorageMount
from contracts.deployments import TOKEN_VARIABLE
from contracts.endpoint_parts import EnvironmentName, PlainEnvironment
from contracts.jobs import JobPod
from contracts.model import Ensured, Model, fault
from contracts.names import LABEL_DOMAIN, RAY_CLUSTER_NAME, namespaced
from contracts.network import Scope
from contracts.objects import DEFAULT_NAMESPACE, ImageName, ObjectName
from contracts.ray_parts import DASHBOARD_PORT, RayVersion, version_conflict

RAY_IMAGE = "rayproject/ray:2.52.0-py312-gpu"
MOST_WORKERS = 1000
MOST_GPUS = 16
RESERVED_LABELS = (*RESERVED_LABEL_PREFIXES, LABEL_DOMAIN, "app.kubernetes.io/", "ray.io/")
ASK_FOR_GPUS = "Say how many GPUs each worker is to have: gpus_per_worker (0: none)."


class RayClusterName(Model):
    """A Ray cluster by its name."""

    name: str = Field(examples=["notebooks"])
    namespace: ObjectName = DEFAULT_NAMESPACE

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if violation := RAY_CLUSTER_NAME.violation(name):
            raise ValueError(violation)
        return name

    @property
    def target(self) -> str:
        return namespaced(self.name, self.namespace)

    @property
    def lease(self) -> str:
        return f"ray-clusters/{self.namespace}/{self.name}"


class RayClusterSpec(RayClusterName):
    """A Ray cluster that people connect to. It is reached inside the Kubernetes cluster only: neither its dashboard nor
    its jobs ask who somebody is."""

    image: ImageName = Field(RAY_IMAGE, max_length=500, pattern=r"^\S+$")
    """Of head and workers; it must have Ray, and the Python that people connect with."""
    ray_version: RayVersion | None = None
    """Ray's version in the image; null: told by the image's tag, where it tells."""
    workers: int = Field(1, ge=0, le=MOST_WORKERS, strict=True)
    gpus_per_worker: int = Field(
        ge=0, le=MOST_GPUS, strict=True, examples=[1], json_schema_extra={"x-if-missing": ASK_FOR_GPUS}
    )
    """It has no default: it is what is held, and paid for, until the Ray cluster is deleted."""
    efa_per_worker: int = Field(0, ge=0, le=32, strict=True)
    """EFA interfaces of each worker."""
    instance_types: list[str] = Field(default_factory=list, max_length=20, examples=[["ml.g5.8xlarge"]])
    """Where workers may run; empty: on every node that has what they take."""
    worker_cpu: float | None = Field(None, gt=0, le=1024)
    """Null: by its GPUs."""
    worker_memory_gib: float | None = Field(None, gt=0, le=24_576)
    """Null: by its GPUs."""
    head_cpu: float = Field(2, gt=0, le=192)
    head_memory_gib: float = Field(8, gt=0, le=2048)
    head_gpus: int = Field(0, ge=0, le=MOST_GPUS, strict=True)
    """Most heads have none: what runs there takes memory from what holds the cluster together."""
    env: PlainEnvironment = Field(default_factory=dict, max_length=200)
    """Plain values. Secrets are stored as credentials."""
    secret_env: dict[EnvironmentName, CredentialName] = Field(default_factory=dict, max_length=50)
    """Variable to the name of the credential that it holds."""
    credential: CredentialName | None = None
    """Credential with a Hugging Face token, as HF_TOKEN."""
    storage: list[StorageMount] | None = Field(None, max_length=20)
    """Null: the claim ``s3-claim`` at ``/s3``, to read from, where the namespace has one."""
    shm_gib: int | None = Field(None, ge=1, le=2048)
    """Of each pod's /dev/shm, where Ray keeps objects, in memory; null: a third of the pod's memory."""
    labels: dict[str, str] = Field(default_factory=dict, max_length=50)

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        if reserved := sorted(key for key in labels if key.startswith(RESERVED_LABELS)):
            raise ValueError(f"{reserved[0]} is not free to choose")
        return check_labels(labels)

    @model_validator(mode="after")
    def _consistent(self) -> RayClusterSpec:
        if conflict := version_conflict(self.ray_version, self.image):
            raise fault("/ray_version", conflict)
        if self.efa_per_worker and not self.gpus_per_worker:
            raise fault("/efa_per_worker", "EFA interfaces are for workers with GPUs")
        given = {TOKEN_VARIABLE} if self.credential else set()
        for name in sorted(set(self.secret_env) & (set(self.env) | given)):
            raise fault(f"/secret_env/{name}", f"{name} is given twice")
        for name in sorted(set(self.env) & given):
            raise fault(f"/env/{name}", f"{name} is given twice: the credential holds it")
        places = [each.mount_path.rstrip("/") for each in self.storage or ()]
        for position, place in enumerate(places):
            if place in places[:position] or place in ("", "/dev/shm", "/tmp"):
                raise fault(f"/storage/{position}/mount_path", f"{place or '/'} is taken")
        return self

    @property
    def gpus(self) -> int:
        """Of head and workers."""
        return self.head_gpus + self.workers * self.gpus_per_worker

    @property
    def credentials(self) -> dict[str, str]:
        """The stored credentials that it uses, each by the pointer of its field."""
        used = {f"/secret_env/{key}": name for key, name in self.secret_env.items()}
        if self.credential is not None:
            used["/credential"] = self.credential
        return used


class DeleteRayClusterSpec(RayClusterName):
    """Its pods go, with everything that runs on it and what it keeps in memory."""


class RayClusterState(StrEnum):
    READY = "ready"
    """Head and workers are."""
    PROGRESSING = "progressing"
    DEGRADED = "degraded"
    """The head is ready, and a worker is not, or not any more."""
    FAILED = "failed"
    """Something is in the way that does not pass by itself."""
    SUSPENDED = "suspended"
    DELETING = "deleting"


class RayClusterView(Model):
    """A Ray cluster as it is now."""

    namespace: str
    name: str
    state: RayClusterState
    reason: str | None = None
    """Kubernetes' or KubeRay's word for what is in the way."""
    detail: str
    image: str
    ray_version: str | None = None
    """As it is said to be; null: the image's tag does not tell."""
    workers: int
    """Asked for."""
    ready: int = 0
    """Workers that are."""
    head_ready: bool = False
    gpus: int = 0
    """Of head and all workers."""
    dashboard: str | None = None
    """Address inside the cluster; null: there is no Service yet."""
    created_at: datetime
    operation: str | None = None
    """Who made it."""


class RayClusterList(Model):
    """The Ray clusters that the platform made for people, by namespace and name."""

    ray_clusters: list[RayClusterView] = Field(default_factory=list)
    read_at: datetime


class RayUse(Model):
    """What runs on a Ray cluster, as its head tells."""

    ray_version: str | None = None
    running: int = 0
    """Jobs and sessions."""
    last_ended_at: datetime | None = None
    note: str
    """One line; of one that idles, what it holds."""


class RayClusterDetail(Model):
    """A Ray cluster with its pods, those in trouble first."""

    ray_cluster: RayClusterView
    spec: RayClusterSpec | None = None
    """What it was made from; null where that is not kept any more."""
    use: RayUse | None = None
    """Null: the head does not answer."""
    pods: list[JobPod] = Field(default_factory=list)
    read_at: datetime


class RayClusterRef(RayClusterName):
    """A Ray cluster of a cluster."""

    scope: Scope
    eks_cluster: str


class ApplyRayCluster(Model):
    scope: Scope
    eks_cluster: str
    spec: RayClusterSpec


class RayClusterObject(Ensured):
    name: str
    namespace: str
    generation: int


class WatchRayCluster(RayClusterRef):
    generation: int
    """That must have been seen."""
    workers: int


class RayClusterRuns(Model):
    name: str
    namespace: str
    workers: int
    nodes: list[str] = Field(default_factory=list)
    """Where its pods run."""


class WatchDashboard(RayClusterRef):
    ray_version: str | None = None
    """As it is said to be."""


class DashboardAnswered(Model):
    """What the head has said of itself."""

    address: str
    """Inside the cluster."""
    ray_version: str
    note: str | None = None


class RayClusterGone(Ensured):
    name: str
    namespace: str


class ListRayClusters(Model):
    scope: Scope
    eks_cluster: str
    namespace: str | None = None


class ReadRayCluster(RayClusterRef):
    """One Ray cluster, with its pods and what runs on it."""


def dashboard_address(name: str, namespace: str) -> str:
    """Inside the cluster. KubeRay calls a head's Service after its Ray cluster."""
    return f"http://{name}-head-svc.{namespace}.svc:{DASHBOARD_PORT}"


APPLY_RAY_CLUSTER = Act("ray_clusters.apply", ApplyRayCluster, RayClusterObject, queue=Queue.KUBERNETES)
WAIT_FOR_RAY_CLUSTER = Wait("ray_clusters.wait_for_pods", WatchRayCluster, RayClusterRuns, limit=timedelta(hours=25))
WAIT_FOR_DASHBOARD = Wait(
    "ray_clusters.wait_for_dashboard", WatchDashboard, DashboardAnswered, limit=timedelta(minutes=15)
)
START_RAY_CLUSTER_DELETION = Act("ray_clusters.delete", RayClusterRef, RayClusterGone, queue=Queue.KUBERNETES)
WAIT_FOR_RAY_CLUSTER_GONE = Wait(
    "ray_clusters.wait_until_gone", RayClusterRef, RayClusterGone, limit=timedelta(minutes=60)
)
LIST_RAY_CLUSTERS = Act("ray_clusters.list", ListRayClusters, RayClusterList, queue=Queue.KUBERNETES)
READ_RAY_CLUSTER = Act("ray_clusters.read", ReadRayCluster, RayClusterDetail, queue=Queue.KUBERNETES)
