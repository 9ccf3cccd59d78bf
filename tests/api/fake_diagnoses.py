"""Fake workflows of diagnoses: the answer tells what was asked, and nodes that were rebooted are only said to be."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.diagnostics import Diagnose, Diagnosis, Source, SourceRead
from contracts.operation import MEMO_PROGRESS, Phase, Progress
from contracts.problem import ProblemCode
from tests.api.fake_readings import refuse


@workflow.defn(name="diagnose")
class DiagnoseOf:
    """The question is in ``read``; a subject called ``nowhere`` is not there."""

    @workflow.run
    async def run(self, asked: Diagnose) -> Diagnosis:
        if asked.subject.name == "nowhere":
            raise refuse(ProblemCode.NOT_FOUND, f"cluster {asked.cluster} has no {asked.subject.title}")
        told = SourceRead(source=Source.STAGE, what=asked.model_dump_json(), ok=True)
        return Diagnosis(subject=asked.subject, timeline=asked.stages, read=[told], read_at=workflow.now())


@workflow.defn(name="reboot-nodes")
class RebootNodesOf:
    """Succeeds at once, with what it was started with as its result."""

    @workflow.run
    async def run(self, result: dict[str, Any]) -> None:
        progress = Progress(version=1, phase=Phase.SUCCEEDED, result=result, plan_hash="x", updated_at=workflow.now())
        workflow.upsert_memo({MEMO_PROGRESS: progress})


DIAGNOSES = [DiagnoseOf, RebootNodesOf]
