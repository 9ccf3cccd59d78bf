"""Training runs of a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field
from starlette.responses import Response

from api.auth import Reader
from api.managed import NAMESPACE, STARTS, Start, Tag, asking, known, with_control_plane
from api.problems import ProblemError, parse
from api.services import Parts, Services, reply
from contracts import catalogue
from contracts.catalogue import LIST_TRAINING_WORKFLOW, READ_TRAINING_WORKFLOW
from contracts.model import Model
from contracts.names import operation_id
from contracts.problem import ProblemCode
from contracts.training import ResumeTrainingSpec, StopTrainingSpec, SuspendTrainingSpec, TrainingSpec
from contracts.training_activities import ListTraining, ReadTraining
from contracts.training_views import TrainingRunDetail, TrainingRunList

router = APIRouter(prefix="/api/v1/clusters/{tag}/training-runs", tags=["training"])

Name = Annotated[str, Path(description="The run's name.", examples=["qwen3-sft"], max_length=63)]
Namespace = Annotated[str, Query(description="The run's namespace.", **NAMESPACE)]
OneNamespace = Annotated[str | None, Query(description="Only runs of this namespace; of all without it.", **NAMESPACE)]


class Why(Model):
    """Why something is done to a run, for those who look at it later."""

    reason: str | None = Field(None, max_length=300, examples=["loss has diverged"])


@router.get("", operation_id="list_training_runs", response_model=TrainingRunList, summary="List training runs")
async def list_training_runs(services: Parts, principal: Reader, tag: Tag, namespace: OneNamespace = None) -> Response:
    """The training runs whose job is in the cluster, as they are now: state and what is in the way, pods, restarts of
    their budget. Runs whose job is gone are among the operations (kind run-training)."""
    record = await known(services, tag)
    if record.control_plane is None:
        return reply(TrainingRunList(read_at=datetime.now(UTC)))
    question = ListTraining(
        scope=asking(record, principal.name, LIST_TRAINING_WORKFLOW),
        eks_cluster=record.control_plane.name,
        namespace=namespace,
    )
    return reply(await services.lookups.read(LIST_TRAINING_WORKFLOW, tag, question, TrainingRunList))


@router.post("", operation_id="run_training", summary="Submit a training run", **STARTS)
async def run_training(start: Start, tag: Tag, body: TrainingSpec) -> Response:
    """A training run from its recipe, watched for as long as its job lives."""
    return await start.on(catalogue.RUN_TRAINING, tag, body)


@router.get("/{name}", operation_id="get_training_run", response_model=TrainingRunDetail, summary="Get a training run")
async def get_training_run(
    services: Parts, principal: Reader, tag: Tag, name: Name, namespace: Namespace = "default"
) -> Response:
    """One run: what it was made from, its pods, those in trouble first, and why it waits, where it does. A run whose
    job is gone is shown as it was written down at its end."""
    return reply(await _read(services, principal.name, tag, name, namespace))


@router.post("/{name}/stop", operation_id="stop_training", summary="Stop a training run", **STARTS)
async def stop_training(
    start: Start, tag: Tag, name: Name, body: Why | None = None, namespace: Namespace = "default"
) -> Response:
    """End its job, until no pod of it is left. Logs and checkpoints stay; the run's operation ends as stopped."""
    spec = parse(StopTrainingSpec, _named(name, namespace, body))
    run = operation_id(catalogue.RUN_TRAINING.name, tag, spec.target)
    if await start.services.temporal.find(run) is None:
        # Nobody remembers such a run: there may be a job of that name all the same.
        try:
            await _read(start.services, start.principal.name, tag, name, namespace)
        except ProblemError as error:
            # Where it cannot be asked now, the operation looks for itself.
            if error.body.code is ProblemCode.NOT_FOUND:
                raise
    return await start.on(catalogue.STOP_TRAINING, tag, spec)


@router.post("/{name}/suspend", operation_id="suspend_training", summary="Suspend a training run", **STARTS)
async def suspend_training(
    start: Start, tag: Tag, name: Name, body: Why | None = None, namespace: Namespace = "default"
) -> Response:
    """Its pods go and the job waits: what it computed since its last checkpoint is lost."""
    spec = parse(SuspendTrainingSpec, _named(name, namespace, body))
    return await start.on(catalogue.SUSPEND_TRAINING, tag, spec)


@router.post("/{name}/resume", operation_id="resume_training", summary="Resume a training run", **STARTS)
async def resume_training(
    start: Start, tag: Tag, name: Name, body: Why | None = None, namespace: Namespace = "default"
) -> Response:
    """Let a suspended job go on, from its last checkpoint."""
    spec = parse(ResumeTrainingSpec, _named(name, namespace, body))
    return await start.on(catalogue.RESUME_TRAINING, tag, spec)


async def _read(services: Services, by: str, tag: str, name: str, namespace: str) -> TrainingRunDetail:
    record, control_plane = await with_control_plane(services, tag, "training runs")
    question = parse(
        ReadTraining,
        {
            "scope": asking(record, by, READ_TRAINING_WORKFLOW),
            "eks_cluster": control_plane.name,
            "name": name,
            "namespace": namespace,
            "bucket": record.identity.bucket if record.identity is not None else None,
        },
    )
    return await services.lookups.read(READ_TRAINING_WORKFLOW, tag, question, TrainingRunDetail)


def _named(name: str, namespace: str, body: Why | None) -> dict[str, str | None]:
    return {"name": name, "namespace": namespace, "reason": body.reason if body is not None else None}
