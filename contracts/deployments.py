"""Model servers that the platform runs itself ("deployments"): a Deployment, and the Services that lead to it.

What a server is started with is in ``contracts/commands.py``; what can be wrong with that, in
``contracts/command_lint.py``.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue, field_validator, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.capacity import RESERVED_LABEL_PREFIXES, check_labels
from contracts.command_flags import PINNED_IMAGES, image_engine
from contracts.command_lint import secrets_in
from contracts.commands import Command, Engine, Severity, Shell, of_words, parse
from contracts.credentials import CredentialName
from contracts.deployment_parts import DeploymentName, ServerResources, StorageMount, Verification
from contracts.endpoint_parts import EnvironmentName, PlainEnvironment
from contracts.inference import InferenceService
from contracts.jobs import JobPod
from contracts.model import Ensured, Model, fault
from contracts.names import DEPLOYMENT_NAME, LABEL_DOMAIN
from contracts.network import Scope
from contracts.node_views import NodeCondition

LONGEST_COMMAND = 32_768
MOST_GPUS = 16
MOST_REPLICAS = 1000
TOKEN_VARIABLE = "HF_TOKEN"
"""Where Hugging Face's library looks for a token. (huggingface_hub: environment variables)"""
RESERVED_LABELS = (*RESERVED_LABEL_PREFIXES, LABEL_DOMAIN, "app.kubernetes.io/", "business", "pod-template-hash")
ASK_FOR_GPUS = "Say how many GPUs one replica takes: gpu_count (0: none)."


class DeploymentSpec(DeploymentName):
    """A model server: how it is started, on what, and who reaches it."""

    name: str = Field(examples=["qwen3-chat"])
    """The Deployment's, and that of its Service inside the cluster."""
    command: str | None = Field(
        None, max_length=LONGEST_COMMAND, examples=["vllm serve Qwen/Qwen3-0.6B --port 8000 --max-model-len 8192"]
    )
    """A command line, read by POSIX rules of quoting. Nothing is expanded; see ``shell``."""
    argv: list[str] | None = Field(None, min_length=1, max_length=1000)
    """Instead of ``command``: its words, each meant as it stands."""
    shell: Shell | None = None
    """What a shell would act on in ``command`` (``&&``, ``|``, ``$NAME``, ``*`` …): ``sh`` has one carry the text out,
    ``exec`` means every character as it stands. Null: there must be none."""
    engine: Engine | None = None
    """Null: told by the command, or by the image."""
    image: str | None = Field(None, max_length=500, pattern=r"^\S+$", examples=["vllm/vllm-openai:v0.28.0-cu129"])
    """Null: the engine's, of a pinned version."""
    gpu_count: int = Field(
        ge=0,
        le=MOST_GPUS,
        strict=True,
        examples=[1],
        json_schema_extra={"x-if-missing": ASK_FOR_GPUS},
    )
    """GPUs of one replica, all of one machine. It has no default and is never told from the command: it is what is paid
    for."""
    replicas: int = Field(1, ge=1, le=MOST_REPLICAS, strict=True)
    instance_types: list[str] = Field(default_factory=list, max_length=20, examples=[["ml.g5.8xlarge"]])
    """Where replicas may run; empty: on every machine that has what they take."""
    service: Literal["in_cluster", "public", "none"] = "in_cluster"
    """``public``: a load balancer besides. ``none``: nobody reaches it but through a pool's or router's Service."""
    public: Literal["internal", "internet-facing"] = "internal"
    """Of a public service: reached from the VPC, or from everywhere."""
    confirm_public: bool = False
    """Says that a server which everybody on the internet may call is wanted."""
    port: int = Field(8000, ge=1, le=65_535)
    """Where the server listens."""
    env: PlainEnvironment = Field(default_factory=dict, max_length=200)
    """Plain values. Secrets are stored as credentials."""
    secret_env: dict[EnvironmentName, CredentialName] = Field(default_factory=dict, max_length=50)
    """Variable to the name of the credential that it holds."""
    credential: CredentialName | None = None
    """Credential with a Hugging Face token, as HF_TOKEN."""
    resources: ServerResources = Field(default_factory=ServerResources)
    storage: list[StorageMount] | None = Field(None, max_length=20)
    """Null: the claim ``s3-claim`` at ``/s3``, to read from, where the namespace has one."""
    shm_gib: int | None = Field(None, ge=1, le=1024)
    """Of /dev/shm, in memory; null: reckoned from the GPUs."""
    efa: int = Field(0, ge=0, le=32)
    """EFA interfaces of one replica."""
    startup_timeout_minutes: int | None = Field(None, ge=1, le=24 * 60)
    """How long a replica may load; null: by the model's size where that is known, else 30."""
    grace_seconds: int = Field(60, ge=0, le=3600)
    """For requests under way when a replica ends."""
    strategy: Literal["rolling", "recreate"] = "rolling"
    """Of an update. ``recreate`` ends the old replicas first: with a gap, and without GPUs to spare."""
    labels: dict[str, str] = Field(default_factory=dict, max_length=50)
    served_model: str | None = Field(None, max_length=255)
    """What the server must call its model; null: whatever it says."""
    verify: Verification | None = None
    """Null: by OpenAI's API for vLLM and SGLang, else that ``/`` answers."""

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if violation := DEPLOYMENT_NAME.violation(name):
            raise ValueError(violation)
        return name

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        if reserved := sorted(key for key in labels if key.startswith(RESERVED_LABELS)):
            raise ValueError(f"{reserved[0]} is not free to choose")
        return check_labels(labels)

    @model_validator(mode="after")
    def _consistent(self) -> DeploymentSpec:
        if (self.command is None) == (self.argv is None):
            raise fault("/command", "give either command (a command line) or argv (its words)")
        if self.argv is not None and self.shell is not None:
            raise fault("/shell", "the words of argv go to no shell; with one, give command")
        if told := secrets_in(self.read):
            # Before anything else: other findings quote the words that they are about.
            raise fault("/command" if self.argv is None else "/argv", f"{told[0].message}. {told[0].remedy}")
        broken = [each for each in self.read.findings if each.severity is Severity.ERROR]
        if broken:
            raise fault("/command", f"{broken[0].message}. {broken[0].remedy or ''}".strip())
        if self.chosen_image is None:
            raise fault("/image", "no engine is recognised in the command, so an image must be named")
        given = {TOKEN_VARIABLE} if self.credential else set()
        if twice := sorted((set(self.env) | given) & set(self.secret_env) or set(self.env) & given):
            raise fault(f"/secret_env/{twice[0]}" if twice[0] in self.secret_env else f"/env/{twice[0]}", "given twice")
        self._check_reach()
        places = [each.mount_path.rstrip("/") for each in self.storage or ()]
        for position, place in enumerate(places):
            if place in places[:position] or place in ("", "/dev/shm"):
                raise fault(f"/storage/{position}/mount_path", f"{place or '/'} is taken")
        return self

    def _check_reach(self) -> None:
        if self.service == "public" and self.public == "internet-facing" and not self.confirm_public:
            detail = "everybody on the internet may call the server, and use its GPUs; send confirm_public true if so"
            raise fault("/confirm_public", detail)
        if self.service != "public" and self.public != "internal":
            raise fault("/public", 'only a service "public" has a load balancer')

    @property
    def read(self) -> Command:
        """The command, taken apart."""
        if self.argv is not None:
            found = of_words(self.argv, self.engine)
        else:
            found = parse(self.command or "", self.engine, self.shell)
        told = image_engine(self.image) if self.image else None
        if self.engine is None and found.engine is Engine.CUSTOM and found.program == 0 and told is not None:
            return found.model_copy(update={"engine": told, "model": of_words(found.words, told).model})
        return found

    @property
    def chosen_image(self) -> str | None:
        return self.image or PINNED_IMAGES.get(self.read.engine)

    @property
    def verification(self) -> Verification:
        if self.verify is not None:
            return self.verify
        return Verification(kind="http", path="/") if self.read.engine is Engine.CUSTOM else Verification()

    @property
    def credentials(self) -> dict[str, str]:
        """The stored credentials that it uses, each by the pointer of its field."""
        used = {f"/secret_env/{key}": name for key, name in self.secret_env.items()}
        if self.credential is not None:
            used["/credential"] = self.credential
        return used


class ScaleDeploymentSpec(DeploymentName):
    replicas: int = Field(ge=0, le=MOST_REPLICAS, strict=True, examples=[2])
    """0: nothing runs, and nothing is paid for; it stays as it is otherwise."""


class DeleteDeploymentSpec(DeploymentName):
    """Its Services and pods go; what it loaded stays where it was."""


class DeploymentState(StrEnum):
    READY = "ready"
    """As many replicas as asked answer, all of the newest form."""
    PROGRESSING = "progressing"
    """Replicas come, load or go."""
    DEGRADED = "degraded"
    """Some answer, and others are in trouble."""
    FAILED = "failed"
    """None answers, and one is in trouble that does not pass by itself."""
    STOPPED = "stopped"
    """Scaled to 0."""
    DELETING = "deleting"


class DeploymentView(Model):
    """A model server as it is now."""

    namespace: str
    name: str
    state: DeploymentState
    reason: str | None = None
    """Kubernetes' word for what is in the way."""
    detail: str
    """One line on what goes on."""
    engine: str
    image: str
    model: str | None = None
    gpu_count: int = 0
    instance_types: list[str] = Field(default_factory=list)
    replicas: int
    """Asked for."""
    ready: int = 0
    updated: int = 0
    """Of the newest form."""
    autoscaled_by: str | None = None
    """Who decides on the replicas, where that is an autoscaler."""
    services: list[InferenceService] = Field(default_factory=list)
    created_at: datetime
    operation: str | None = None
    """Who changed it last."""


class DeploymentList(Model):
    """The model servers that the platform runs, by namespace and name."""

    deployments: list[DeploymentView] = Field(default_factory=list)
    read_at: datetime


class DeploymentDetail(Model):
    """A model server with its pods, those in trouble first."""

    deployment: DeploymentView
    spec: DeploymentSpec | None = None
    """What it was made from; null where that is not kept any more."""
    conditions: list[NodeCondition] = Field(default_factory=list)
    pods: list[JobPod] = Field(default_factory=list)
    read_at: datetime


class DeploymentRef(DeploymentName):
    """A deployment of a cluster."""

    scope: Scope
    eks_cluster: str


class ApplyDeployment(Model):
    """A deployment as its specification says. ``update``: one that differs is changed, and must be there."""

    scope: Scope
    eks_cluster: str
    spec: DeploymentSpec
    update: bool = False
    startup_minutes: int | None = None
    """By the model's size, where the plan knows it."""


class DeploymentObject(Ensured):
    name: str
    namespace: str
    generation: int
    replicas: int


class FormerDeployment(Model):
    """How a deployment was before it was changed: what it goes back to."""

    name: str
    namespace: str
    spec: dict[str, JsonValue]
    """Of the Deployment: strategy, template and the like, without its replicas."""
    replicas: int | None = None
    """As many as were asked for; null: not known. They come back, too, unless an autoscaler decides on them."""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    healthy: bool
    """Whether it served."""


class RestoreDeployment(Model):
    scope: Scope
    eks_cluster: str
    former: FormerDeployment
    recreate: bool = False
    """End what runs before the former form comes: there is no room for both. Its own strategy is restored later."""


class WatchRollout(DeploymentRef):
    generation: int
    """Of the Deployment, that must have been seen."""
    limit_minutes: int
    """How long a replica may load."""
    patient: bool = True
    """Wait out what may pass; false: what is in trouble is given up soon (a way back)."""


class RolledOut(Model):
    name: str
    namespace: str
    replicas: int
    ready: int
    nodes: list[str] = Field(default_factory=list)
    """Where its replicas run."""


class ApplyServices(Model):
    scope: Scope
    eks_cluster: str
    spec: DeploymentSpec


class ServicesMade(Ensured):
    names: list[str] = Field(default_factory=list)
    """Those that lead to the deployment."""
    removed: list[str] = Field(default_factory=list)
    """Those that are not asked for any more."""

    @property
    def identifier(self) -> str:
        return ", ".join(self.names) or "no Service"


class PublicAddress(Model):
    service: str
    hostname: str


class WatchAnswers(DeploymentRef):
    port: int
    service: str | None
    """Null: a pod is asked."""
    verification: Verification
    served_model: str | None = None


class Answered(Model):
    """What came back from the server."""

    verified: str
    """How it was seen that it answers, or why nobody looked."""
    model: str | None = None
    latency_ms: float | None = None
    """Of the completion, or of the answer."""
    sample: str | None = Field(None, max_length=200)
    """Beginning of what it completed."""


class SetReplicas(DeploymentRef):
    replicas: int = Field(ge=0)


class DeploymentGone(Ensured):
    name: str
    namespace: str


class ListDeployments(Model):
    scope: Scope
    eks_cluster: str
    namespace: str | None = None


class ReadDeployment(DeploymentRef):
    """One deployment, with its pods."""


ROLLOUT_LIMIT = timedelta(hours=25)
ADDRESS_LIMIT = timedelta(minutes=20)
ANSWER_LIMIT = timedelta(minutes=15)
GONE_LIMIT = timedelta(minutes=90)

APPLY_DEPLOYMENT = Act("deployments.apply", ApplyDeployment, DeploymentObject, queue=Queue.KUBERNETES)
REMEMBER_DEPLOYMENT = Act("deployments.remember", DeploymentRef, FormerDeployment, queue=Queue.KUBERNETES)
RESTORE_DEPLOYMENT = Act("deployments.restore", RestoreDeployment, DeploymentObject, queue=Queue.KUBERNETES)
WAIT_FOR_ROLLOUT = Wait("deployments.wait_for_rollout", WatchRollout, RolledOut, limit=ROLLOUT_LIMIT)
APPLY_SERVICES = Act("deployments.apply_services", ApplyServices, ServicesMade, queue=Queue.KUBERNETES)
WAIT_FOR_ADDRESS = Wait("deployments.wait_for_address", DeploymentRef, PublicAddress, limit=ADDRESS_LIMIT)
WAIT_FOR_ANSWERS = Wait("deployments.wait_for_answers", WatchAnswers, Answered, limit=ANSWER_LIMIT)
SET_REPLICAS = Act("deployments.set_replicas", SetReplicas, DeploymentObject, queue=Queue.KUBERNETES)
DELETE_SERVICES = Act("deployments.delete_services", DeploymentRef, ServicesMade, queue=Queue.KUBERNETES)
START_DEPLOYMENT_DELETION = Act("deployments.delete", DeploymentRef, DeploymentGone, queue=Queue.KUBERNETES)
WAIT_FOR_DEPLOYMENT_GONE = Wait("deployments.wait_until_gone", DeploymentRef, DeploymentGone, limit=GONE_LIMIT)
LIST_DEPLOYMENTS = Act("deployments.list", ListDeployments, DeploymentList, queue=Queue.KUBERNETES)
READ_DEPLOYMENT = Act("deployments.read", ReadDeployment, DeploymentDetail, queue=Queue.KUBERNETES)
