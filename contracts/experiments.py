"""Experiments: where a training run reports to, who may report, and copies of experiments in other accounts.

SageMaker Developer Guide: managed MLflow (https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow.html); MLflow's
environment variables and REST API: https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.model import Ensured, Model, fault
from contracts.names import EXPERIMENTS_ACCOUNT, experiments_target, sync_target
from contracts.network import Scope
from contracts.objects import DEFAULT_NAMESPACE, ObjectName
from contracts.recipes.secrets import secret_in
from contracts.tracking_servers import ServerReference

SYNC_LIMIT = timedelta(hours=24)
MOST_TAGS = 50
LONGEST_TAG = 1000
RESERVED_TAGS = "mlflow."
"""MLflow's own tags begin so."""
TAG_PREFIX = "instantstart."
"""Tags that the platform gives to a run begin so."""

_TAG = re.compile(r"[\w.\-/ :]{1,250}", re.ASCII)
_ROLE = r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$"
_EXTERNAL_ID = r"^[A-Za-z0-9_+=,.@:/-]+$"
"""(sts:AssumeRole ExternalId)"""


def _experiment_name(name: str) -> str:
    if name != name.strip() or not name.isprintable():
        raise ValueError("an experiment's name neither begins nor ends with a space and has no control characters")
    return name


ExperimentName = Annotated[
    str, AfterValidator(_experiment_name), Field(min_length=1, max_length=256, examples=["qwen-finetuning"])
]


class ExperimentTarget(Model):
    """Where a run reports its metrics to: a tracking server of SageMaker, or any MLflow by its address."""

    tracking_server: ServerReference | None = None
    tracking_uri: str | None = Field(
        None, max_length=1000, pattern=r"^https?://[^\s@?#]+$", examples=["http://mlflow.mlflow.svc:5000"]
    )
    """Of an MLflow that the pods reach without credentials. No user, password or query in it."""
    experiment: ExperimentName
    """Made by MLflow where there is none of the name."""
    run_name: str | None = Field(None, min_length=1, max_length=250)
    """Null: MLflow makes one up."""
    tags: dict[str, str] = Field(default_factory=dict, max_length=MOST_TAGS)

    @model_validator(mode="after")
    def _one_place(self) -> ExperimentTarget:
        if (self.tracking_server is None) == (self.tracking_uri is None):
            raise fault("/tracking_server", "name either tracking_server or tracking_uri")
        return self

    @field_validator("tags")
    @classmethod
    def _tags(cls, tags: dict[str, str]) -> dict[str, str]:
        for key, value in tags.items():
            if not _TAG.fullmatch(key) or key.startswith(RESERVED_TAGS):
                raise ValueError(f"{key!r} is no name for a tag: letters, digits, spaces and ._-/: only, not mlflow.…")
            if len(value) > LONGEST_TAG:
                raise ValueError(f"the tag {key!r} has more than {LONGEST_TAG} characters")
        if found := secret_in(tags):
            raise fault(
                found[0], f"{found[1]} is a secret, which everybody who may read the run would see; leave it out"
            )
        return tags

    def environment(self, tracking_uri: str, tags: dict[str, str] | None = None) -> dict[str, str]:
        """The variables that let MLflow in a container report there. ``tracking_uri``: what
        :data:`ENSURE_EXPERIMENT_ACCESS` answered with, or the target's own; ``tags`` come beside the target's.

        ``MLFLOW_RUN_CONTEXT`` holds tags for MLflow itself (its SystemEnvironmentContext), ``MLFLOW_TAGS`` the same for
        Hugging Face's callback, which also reads ``MLFLOW_RUN_NAME`` where the recipe's script hands it on.
        """
        found = {"MLFLOW_TRACKING_URI": tracking_uri, "MLFLOW_EXPERIMENT_NAME": self.experiment}
        if self.run_name is not None:
            found["MLFLOW_RUN_NAME"] = self.run_name
        if everything := {**(tags or {}), **self.tags}:
            text = json.dumps(everything, sort_keys=True)
            found |= {"MLFLOW_RUN_CONTEXT": text, "MLFLOW_TAGS": text}
        return found


class RunFacts(Model):
    """What the platform tells MLflow of a run that it starts, each as a tag ``instantstart.NAME``."""

    cluster: str
    namespace: str
    training: str
    """The training run's name."""
    operation: str | None = None
    recipe: str | None = None
    instance_type: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    efa_per_node: int | None = None

    @property
    def tags(self) -> dict[str, str]:
        return {f"{TAG_PREFIX}{name}": str(value) for name, value in self.model_dump(exclude_none=True).items()}


class ConnectExperimentsSpec(Model):
    """Let pods of a namespace report to a tracking server."""

    tracking_server: ServerReference
    namespace: ObjectName = DEFAULT_NAMESPACE
    service_account: ObjectName = EXPERIMENTS_ACCOUNT
    """Made where there is none; pods that run as it may report."""

    @property
    def target(self) -> str:
        return experiments_target(self.namespace, self.service_account)


class DisconnectExperimentsSpec(Model):
    """Let them no more."""

    namespace: ObjectName = DEFAULT_NAMESPACE
    service_account: ObjectName = EXPERIMENTS_ACCOUNT
    tracking_server: ServerReference | None = None
    """Only from this one; null: from all, and what connected them goes, too."""

    @property
    def target(self) -> str:
        return experiments_target(self.namespace, self.service_account)


class ConnectExperiments(Model):
    """``tracking_server`` by name (of the scope's region) or ARN."""

    scope: Scope
    eks_cluster: str
    namespace: str
    service_account: str = EXPERIMENTS_ACCOUNT
    tracking_server: str


class ExperimentsConnected(Ensured):
    """What pods need to report: ``service_account`` to run as, ``tracking_uri`` for MLflow (the server's ARN, which
    MLflow understands with the plugin ``sagemaker-mlflow``)."""

    service_account: str
    role_arn: str
    tracking_uri: str
    region: str
    namespace: str = DEFAULT_NAMESPACE


class DisconnectExperiments(Model):
    scope: Scope
    eks_cluster: str
    namespace: str
    service_account: str
    tracking_server: str | None = None


class ExperimentsDisconnected(Ensured):
    """``left`` are the servers that the service account still reports to."""

    service_account: str
    namespace: str
    left: list[str] = Field(default_factory=list)
    kept: list[str] = Field(default_factory=list)
    """What was not taken away, each with why."""


class TryConnection(Model):
    """Whether a tracking server can be reached, and by whom."""

    scope: Scope
    eks_cluster: str | None = None
    tracking_server: str
    namespace: str | None = None
    service_account: str = EXPERIMENTS_ACCOUNT


class ConnectionTestRequest(Model):
    """What to test: the platform's own way to the server, and, with ``namespace``, that of the pods there."""

    tracking_server: ServerReference
    namespace: ObjectName | None = None
    service_account: ObjectName = EXPERIMENTS_ACCOUNT


class ConnectionStep(Model):
    """One step on the way to a server. Steps after the first that failed were not taken."""

    name: Literal["server", "status", "address", "http", "signature", "permission", "identity"]
    passed: bool
    detail: str
    remedy: str | None = None
    milliseconds: int | None = None


class ConnectionTest(Model):
    tracking_server: str
    passed: bool
    steps: list[ConnectionStep]
    tested_at: datetime


class SyncExperimentsSpec(Model):
    """Copy an experiment's runs to another tracking server, also one in another account. Runs that were copied before
    are brought up to date; nothing is deleted there."""

    source: ServerReference
    experiment: ExperimentName
    destination: str = Field(
        max_length=400,
        pattern=r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:(mlflow-tracking-server|mlflow-app)/[A-Za-z0-9-]+$",
        examples=["arn:aws:sagemaker:us-west-2:444455556666:mlflow-tracking-server/shared"],
    )
    destination_experiment: ExperimentName | None = None
    """Null: of the same name; it is made where there is none."""
    role_arn: str | None = Field(
        None, max_length=600, pattern=_ROLE, examples=["arn:aws:iam::444455556666:role/experiments-writer"]
    )
    """Taken to write there. Null: the platform's own permissions do."""
    external_id: str | None = Field(None, min_length=2, max_length=1224, pattern=_EXTERNAL_ID)
    """What the role's trust policy asks for (``sts:ExternalId``). No secret."""

    @model_validator(mode="after")
    def _elsewhere(self) -> SyncExperimentsSpec:
        same_name = self.destination_experiment in (None, self.experiment)
        if self.source == self.destination and same_name:
            raise fault("/destination", "source and destination are the same experiment of the same server")
        if self.external_id is not None and self.role_arn is None:
            raise fault("/external_id", "an external id is for the role that is taken: give role_arn, too")
        return self

    @property
    def target(self) -> str:
        """What the operation is about: from where to where."""
        wanted = self.destination_experiment or self.experiment
        return sync_target(self.experiment, self.source, self.destination, wanted)


class SyncExperiments(Model):
    scope: Scope
    spec: SyncExperimentsSpec


class PreparedSync(Model):
    """Both ends as they were found."""

    source_arn: str
    source_experiment_id: str
    destination_experiment_id: str
    changed: bool = True
    """The destination's experiment was made."""


class CarrySync(Model):
    scope: Scope
    spec: SyncExperimentsSpec
    prepared: PreparedSync


class ExperimentsSynced(Model):
    """What a finished copy has done."""

    runs: int
    """Of the source."""
    created: int
    updated: int
    unchanged: int
    metrics: int
    """Points written."""
    seconds: float = 0.0
    """Of the worker that finished it."""


ENSURE_EXPERIMENT_ACCESS = Act(
    "experiments.ensure_access", ConnectExperiments, ExperimentsConnected, queue=Queue.KUBERNETES
)
REMOVE_EXPERIMENT_ACCESS = Act(
    "experiments.remove_access", DisconnectExperiments, ExperimentsDisconnected, queue=Queue.KUBERNETES
)
TRY_CONNECTION = Act("experiments.try_connection", TryConnection, ConnectionTest, queue=Queue.KUBERNETES, attempts=3)
PREPARE_SYNC = Act("experiments.prepare_sync", SyncExperiments, PreparedSync)
SYNC_EXPERIMENTS = Wait("experiments.sync", CarrySync, ExperimentsSynced, limit=SYNC_LIMIT)
