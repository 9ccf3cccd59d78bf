"""A diagnosis, asked for and waited for: seconds long, nothing changes."""

from __future__ import annotations

from temporalio import workflow

from contracts.catalogue import DIAGNOSE_WORKFLOW
from contracts.diagnostics import DIAGNOSE, Diagnose, Diagnosis
from workflows.lookups import answer


@workflow.defn(name=DIAGNOSE_WORKFLOW)
class DiagnoseWorkflow:
    @workflow.run
    async def run(self, question: Diagnose) -> Diagnosis:
        return await answer(DIAGNOSE, question, question.region)
