"""Training runs: what is asked for.

How a job is submitted and kept alive (``submission``) and which framework it runs (``recipe``) are two decisions.
HyperPodPyTorchJob: SageMaker Developer Guide, sagemaker-eks-operator-usage; what keeps it alive is in
``contracts/training_resilience.py``, how runs are seen in ``contracts/training_views.py``, what is done to them and
known at their end in ``contracts/training_activities.py``.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from pydantic import Field, JsonValue, field_validator, model_validator

from contracts import training_sagemaker
from contracts.capacity import RESERVED_LABEL_PREFIXES, check_labels
from contracts.command_lint import secrets_in
from contracts.commands import Severity, of_words
from contracts.credentials import CredentialName
from contracts.deployment_parts import DEFAULT_CLAIM, DEFAULT_MOUNT, ServerResources
from contracts.deployments import TOKEN_VARIABLE
from contracts.endpoint_parts import EnvironmentName, PlainEnvironment
from contracts.experiments import ExperimentTarget
from contracts.feature_catalogue import training_conflicts
from contracts.model import fault
from contracts.names import LABEL_DOMAIN
from contracts.objects import ImageName
from contracts.ray_parts import RayOptions, version_conflict
from contracts.recipes import Recipe
from contracts.recipes.launch import Launch
from contracts.recipes.shape import Shape
from contracts.sagemaker_parts import SageMakerOptions
from contracts.training_parts import (
    LOCAL,
    QueuePlace,
    Submission,
    TrainingMount,
    TrainingName,
)
from contracts.training_resilience import MOST_RULES, ElasticPolicy, LogRule, RecoveryBudget

MOST_NODES = 5000
MOST_GPUS = 16
RESERVED_LABELS = (*RESERVED_LABEL_PREFIXES, LABEL_DOMAIN, "app.kubernetes.io/", "training.sagemaker.amazonaws.com/")
ASK_FOR_GPUS = "Say how many GPUs each node is to use: gpus_per_node (0: none)."
ASK_FOR_TYPES = "Say which instance type the job is to run on; the cluster's groups say which there are."
OWN = "/opt/instantstart"
"""Where a job's containers find our entry script and the recipe's files."""
LAUNCHER_VARIABLES = frozenset(
    {
        *("RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"),
        *("MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "NPROC_PER_NODE"),
    }
)
"""Variables that the launcher sets for each process: given by hand they would be the same everywhere."""


class TrainingSpec(TrainingName):
    """A training run: what runs, on what, and how it is kept alive."""

    submission: Submission | None = None
    """Null: the path that the recipe usually takes."""
    recipe: Recipe
    instance_types: list[str] = Field(
        min_length=1, max_length=20, examples=[["ml.g5.12xlarge"]], json_schema_extra={"x-if-missing": ASK_FOR_TYPES}
    )
    """Of the nodes. A job has nodes of one type: its EFA interfaces and GPUs are those of the type."""
    nodes: int = Field(1, ge=1, le=MOST_NODES, strict=True)
    gpus_per_node: int = Field(
        ge=0, le=MOST_GPUS, strict=True, examples=[4], json_schema_extra={"x-if-missing": ASK_FOR_GPUS}
    )
    """As many processes are started on each node. It has no default: it is what is paid for. 0: one process, on
    CPUs."""
    efa_per_node: int | None = Field(None, ge=0, le=32)
    """EFA interfaces of each node; null: all that the type has, for more than one node."""
    image: ImageName | None = Field(None, max_length=500, pattern=r"^\S+$")
    """Null: the recipe's, of a pinned version."""
    env: PlainEnvironment = Field(default_factory=dict, max_length=200)
    """Plain values; they win over the recipe's. Secrets are stored as credentials."""
    secret_env: dict[EnvironmentName, CredentialName] = Field(default_factory=dict, max_length=50)
    """Variable to the name of the credential that it holds."""
    credential: CredentialName | None = None
    """Credential with a Hugging Face token, as HF_TOKEN."""
    storage: list[TrainingMount] | None = Field(None, max_length=20)
    """Null: the claim ``s3-claim`` at ``/s3``, to read and write."""
    shm_gib: int | None = Field(None, ge=1, le=2048)
    """Of /dev/shm, in memory; null: reckoned from the GPUs."""
    resources: ServerResources = Field(default_factory=ServerResources)
    """Of one node's pod. What is left out is reckoned from its GPUs."""
    labels: dict[str, str] = Field(default_factory=dict, max_length=50)
    local_cache: bool = True
    """Mount the nodes' own NVMe disks at ``/local``: caches are kept there."""
    recovery: RecoveryBudget = Field(default_factory=RecoveryBudget)
    log_monitoring: list[LogRule] = Field(default_factory=list, max_length=MOST_RULES)
    elastic: ElasticPolicy | None = None
    spares: int = Field(0, ge=0, le=MOST_NODES)
    """Nodes that the queue keeps free for the job, to take the place of one that fails."""
    queue: QueuePlace | None = None
    """Null: the job is not queued; its pods wait for nodes by themselves."""
    tiered_checkpointing: bool = False
    """Checkpoints in the nodes' memory first. (SageMaker Developer Guide: managed tiered checkpointing)"""
    checkpointless: bool = False
    """Recover from the state of the other replicas. (SageMaker Developer Guide: checkpointless training)"""
    checkpoint_path: str | None = Field(None, max_length=1024, pattern=r"^/[^\s]*$", examples=["/s3/checkpoints/run"])
    """Where checkpoints go to, as the container sees it: told to the program as CHECKPOINT_PATH."""
    experiment: ExperimentTarget | None = None
    """Where metrics are reported to."""
    keep_logs: bool = True
    """Keep the logs of all pods in the cluster's bucket."""
    deadline_hours: float | None = Field(None, gt=0, le=24 * 28)
    """After so long the job is ended; null: never, and on SageMaker after a day."""
    ray: RayOptions | None = None
    """Of the submission ray. Null: its defaults."""
    sagemaker: SageMakerOptions | None = None
    """Of the submission sagemaker. Null: its defaults."""

    @field_validator("instance_types")
    @classmethod
    def _types(cls, types: list[str]) -> list[str]:
        for each in types:
            if not each.startswith("ml.") or len(each) > 64 or each.count(".") != 2:
                raise ValueError(f"{each!r} is no instance type of HyperPod, as ml.p5.48xlarge is one")
        if len(set(types)) > 1:
            raise ValueError("a job has nodes of one type: name one, or submit a run for each")
        return types[:1]

    @field_validator("labels")
    @classmethod
    def _labels(cls, labels: dict[str, str]) -> dict[str, str]:
        if reserved := sorted(key for key in labels if key.startswith(RESERVED_LABELS)):
            raise ValueError(f"{reserved[0]} is not free to choose")
        return check_labels(labels)

    @model_validator(mode="after")
    def _consistent(self) -> TrainingSpec:
        self._check_submission()
        self._check_environment()
        launch = self.launch()
        if told := secrets_in(of_words(launch.argv)):
            raise fault("/recipe", f"{told[0].message}. {told[0].remedy}")
        if self.image is None and launch.image is None:
            raise fault("/image", f"the recipe {self.recipe.kind} has no image of its own, so one must be named")
        if broken := [each for each in self.recipe.findings(self.shape()) if each.severity is Severity.ERROR]:
            found = broken[0]
            raise fault(found.field, f"{found.message}. {found.remedy or ''}".strip())
        self._check_resilience()
        self._check_places()
        self._check_ray(launch)
        if self.path is Submission.SAGEMAKER:
            training_sagemaker.check(self, launch)
        return self

    def _check_submission(self) -> None:
        allowed = self.recipe.submissions
        if self.path not in allowed:
            raise fault("/submission", f"the recipe {self.recipe.kind} is submitted by {' or '.join(allowed)}")
        if self.path not in AVAILABLE:
            raise fault("/submission", f"runs are submitted by {' or '.join(sorted(AVAILABLE))} only")
        for other in (Submission.RAY, Submission.SAGEMAKER):
            if getattr(self, other.value) is not None and self.path is not other:
                raise fault(f"/{other.value}", f"only runs with submission {other.value} have that")

    def _check_environment(self) -> None:
        given = {TOKEN_VARIABLE} if self.credential else set()
        for pointer, names in (("/env", set(self.env)), ("/secret_env", set(self.secret_env))):
            if wrong := sorted(names & LAUNCHER_VARIABLES):
                raise fault(f"{pointer}/{wrong[0]}", f"{wrong[0]} is set by the launcher for each process")
        if twice := sorted((set(self.env) | given) & set(self.secret_env)):
            raise fault(f"/secret_env/{twice[0]}", f"{twice[0]} is given twice")
        if twice := sorted(set(self.env) & given):
            raise fault(f"/env/{twice[0]}", f"{twice[0]} is given twice: the credential holds it")

    def _check_resilience(self) -> None:
        names = [rule.name for rule in self.log_monitoring]
        for position, name in enumerate(names):
            if name in names[:position]:
                raise fault(f"/log_monitoring/{position}/name", f"there is another rule called {name}")
        elastic = self.elastic is not None
        conflicts = training_conflicts(
            checkpointless=self.checkpointless, tiered_checkpointing=self.tiered_checkpointing, elastic=elastic
        )
        if conflicts:
            raise fault("/checkpointless", conflicts[0])
        if self.tiered_checkpointing and self.experiment is not None and self.experiment.tracking_server is not None:
            # Each comes with a service account of its own, and a pod has one.
            detail = "a run with tiered checkpointing cannot report to a tracking server of SageMaker as well"
            raise fault("/experiment/tracking_server", f"{detail}; name an MLflow in tracking_uri, or leave one out")
        if elastic and self.tiered_checkpointing:
            raise fault("/tiered_checkpointing", "elastic training does not work with managed tiered checkpointing")
        if self.elastic is not None and not self.elastic.admits(self.nodes):
            raise fault("/nodes", f"{self.nodes} is no number of nodes that /elastic admits")
        if self.spares and self.queue is None:
            raise fault("/spares", "spare nodes are kept by a queue: name one in queue (task governance)")
        if self.path is not Submission.HYPERPOD:
            only = {
                "log_monitoring": bool(self.log_monitoring),
                "elastic": elastic,
                "spares": bool(self.spares),
                "checkpointless": self.checkpointless,
            }
            if wrong := sorted(name for name, asked in only.items() if asked):
                raise fault(f"/{wrong[0]}", "only HyperPod's training operator does that (submission hyperpod)")

    def _check_places(self) -> None:
        taken = ["", "/dev/shm", LOCAL, OWN, "/tmp"]
        for position, mount in enumerate(self.storage or ()):
            place = mount.mount_path.rstrip("/")
            inside = any(PurePosixPath(place).is_relative_to(own) for own in (LOCAL, OWN))
            if place in taken or inside:
                raise fault(f"/storage/{position}/mount_path", f"{place or '/'} is taken")
            taken.append(place)
        if self.checkpoint_path is not None:
            self._check_checkpoints(PurePosixPath(self.checkpoint_path))

    def _check_checkpoints(self, path: PurePosixPath) -> None:
        if ".." in path.parts:
            raise fault("/checkpoint_path", "a folder is told without ..")
        mounts = self.mounts
        found = [each for each in mounts if path.is_relative_to(each.mount_path)]
        if not found and not (self.local_cache and path.is_relative_to(LOCAL)):
            places = ", ".join(each.mount_path for each in mounts) or "no storage"
            raise fault("/checkpoint_path", f"what is not on shared storage ({places}) goes with the pod")
        if found and found[-1].read_only:
            raise fault("/checkpoint_path", f"{found[-1].mount_path} is mounted to be read only")

    def _check_ray(self, launch: Launch) -> None:
        options = self.ray or RayOptions()
        if conflict := version_conflict(options.ray_version, self.image or launch.image):
            raise fault("/ray/ray_version", conflict)

    @property
    def path(self) -> Submission:
        """How it is submitted: as asked, else as the recipe usually is."""
        return self.submission or Submission(self.recipe.submissions[0])

    @property
    def instance_type(self) -> str:
        return self.instance_types[0]

    @property
    def mounts(self) -> list[TrainingMount]:
        """Shared storage, its default resolved."""
        if self.storage is not None:
            return self.storage
        return [TrainingMount(claim=DEFAULT_CLAIM, mount_path=DEFAULT_MOUNT)]

    @property
    def processes_per_node(self) -> int:
        return max(self.gpus_per_node, 1)

    @property
    def lease(self) -> str:
        return f"training/{self.namespace}/{self.name}"

    @property
    def credentials(self) -> dict[str, str]:
        """The stored credentials that it uses, each by the pointer of its field."""
        used = {f"/secret_env/{key}": name for key, name in self.secret_env.items()}
        if self.credential is not None:
            used["/credential"] = self.credential
        return used

    def shape(self, efa: int | None = None) -> Shape:
        """The hardware as recipes reckon with it. ``efa``: interfaces of a node, where they were looked up."""
        return Shape(
            nodes=self.nodes,
            gpus_per_node=self.gpus_per_node,
            efa_per_node=(self.efa_per_node or 0) if efa is None else efa,
            instance_type=self.instance_type,
        )

    def launch(self, efa: int | None = None) -> Launch:
        """What its containers are started with."""
        return self.recipe.launch(self.shape(efa), self.path)


AVAILABLE: frozenset[Submission] = frozenset(Submission)
"""Paths of submission that there are."""


class StopTrainingSpec(TrainingName):
    """The job goes, with its pods; logs and checkpoints stay."""

    reason: str | None = Field(None, max_length=300)


class SuspendTrainingSpec(TrainingName):
    """Its pods go and the job waits; what it did since its last checkpoint is lost."""

    reason: str | None = Field(None, max_length=300)


class ResumeTrainingSpec(TrainingName):
    """A suspended job goes on, from its last checkpoint."""

    reason: str | None = Field(None, max_length=300)


def without_secrets(spec: TrainingSpec) -> dict[str, JsonValue]:
    """A specification as it may be written down: it names credentials and never holds what they hold. Nothing of it is
    left out: a recipe is told from others by a member that has a default."""
    document: dict[str, Any] = spec.model_dump(mode="json")
    return document
