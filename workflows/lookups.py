"""Questions that the gateway asks of an account and waits for: seconds long, nothing changes."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from contracts.catalogue import CHECK_CLUSTER_WORKFLOW, LOOK_UP_OPTIONS_WORKFLOW
from contracts.options import CHECK_CLUSTER, LOOK_UP_OPTIONS, CheckCluster, Findings, LookUpOptions, Options
from contracts.queues import task_queue

_PATIENCE = timedelta(seconds=20)
_RETRY = RetryPolicy(maximum_attempts=4)


@workflow.defn(name=LOOK_UP_OPTIONS_WORKFLOW)
class LookUpOptionsWorkflow:
    @workflow.run
    async def run(self, question: LookUpOptions) -> Options:
        options: Options = await workflow.execute_activity(
            LOOK_UP_OPTIONS.name,
            question,
            task_queue=task_queue(LOOK_UP_OPTIONS.queue, question.region),
            result_type=Options,
            schedule_to_close_timeout=_PATIENCE,
            retry_policy=_RETRY,
        )
        return options


@workflow.defn(name=CHECK_CLUSTER_WORKFLOW)
class CheckClusterWorkflow:
    @workflow.run
    async def run(self, question: CheckCluster) -> Findings:
        findings: Findings = await workflow.execute_activity(
            CHECK_CLUSTER.name,
            question,
            task_queue=task_queue(CHECK_CLUSTER.queue, question.region),
            result_type=Findings,
            schedule_to_close_timeout=_PATIENCE,
            retry_policy=_RETRY,
        )
        return findings
