"""Fake workflows that answer which training runs a cluster has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from temporalio import workflow

from contracts.problem import ProblemCode
from contracts.recipes.progress import Reported
from contracts.training import TrainingSpec
from contracts.training_activities import ListTraining, ReadTraining
from contracts.training_parts import Restarts, Submission, TrainingState
from contracts.training_views import TrainingRunDetail, TrainingRunList, TrainingRunView
from tests.api.fake_readings import refuse

RUN = TrainingRunView(
    namespace="default",
    name="qwen3-sft",
    submission=Submission.HYPERPOD,
    recipe="pytorch",
    state=TrainingState.RUNNING,
    detail="2 of 2 pods run",
    instance_type="ml.g5.12xlarge",
    nodes=2,
    gpus=8,
    pods_ready=2,
    pods_total=2,
    restarts=Restarts(job=1, job_limit=5),
    reported=Reported(step=1200, loss=1.23),
    started_at=datetime(2026, 11, 1, tzinfo=UTC),
)
SPEC: dict[str, Any] = {
    "name": "qwen3-sft",
    "recipe": {"kind": "pytorch", "script_path": "/s3/code/train.py"},
    "instance_types": ["ml.g5.12xlarge"],
    "gpus_per_node": 4,
    "nodes": 2,
    "image": "registry/trainer:1.0",
}


@workflow.defn(name="list-training")
class ListTrainingOf:
    """One, in every namespace that is asked for."""

    @workflow.run
    async def run(self, asked: ListTraining) -> TrainingRunList:
        view = RUN.model_copy(update={"namespace": asked.namespace or RUN.namespace})
        return TrainingRunList(runs=[view], read_at=workflow.now())


@workflow.defn(name="read-training")
class ReadTrainingOf:
    @workflow.run
    async def run(self, asked: ReadTraining) -> TrainingRunDetail:
        if asked.name != RUN.name:
            raise refuse(ProblemCode.NOT_FOUND, f"there is no training run {asked.namespace}/{asked.name}")
        view = RUN.model_copy(update={"namespace": asked.namespace})
        return TrainingRunDetail(run=view, spec=TrainingSpec.model_validate(SPEC), read_at=workflow.now())


TRAINING: list[Any] = [ListTrainingOf, ReadTrainingOf]
