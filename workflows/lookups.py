"""Questions that the gateway asks of an account and waits for: seconds long, nothing changes."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from contracts.catalogue import (
    LOOK_UP_OPTIONS_WORKFLOW,
    MAKE_PLAN_WORKFLOW,
    READ_INSTANCE_GROUPS_WORKFLOW,
    READ_NODES_WORKFLOW,
    READ_SOFTWARE_WORKFLOW,
)
from contracts.hyperpod import HyperPodCluster
from contracts.instance_groups import READ_GROUPS, ReadGroups
from contracts.node_views import READ_NODES, NodesRead, ReadNodes
from contracts.options import LOOK_UP_OPTIONS, LookUpOptions, Options
from contracts.plans import MAKE_PLAN, MakePlan, PlanFindings
from contracts.queues import task_queue
from contracts.software import READ_SOFTWARE, ReadSoftware, SoftwareRead

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


@workflow.defn(name=MAKE_PLAN_WORKFLOW)
class MakePlanWorkflow:
    @workflow.run
    async def run(self, question: MakePlan) -> PlanFindings:
        findings: PlanFindings = await workflow.execute_activity(
            MAKE_PLAN.name,
            question,
            task_queue=task_queue(MAKE_PLAN.queue, question.record.region),
            result_type=PlanFindings,
            schedule_to_close_timeout=_PATIENCE,
            retry_policy=_RETRY,
        )
        return findings


@workflow.defn(name=READ_INSTANCE_GROUPS_WORKFLOW)
class ReadInstanceGroupsWorkflow:
    @workflow.run
    async def run(self, question: ReadGroups) -> HyperPodCluster:
        found: HyperPodCluster = await workflow.execute_activity(
            READ_GROUPS.name,
            question,
            task_queue=task_queue(READ_GROUPS.queue, question.scope.region),
            result_type=HyperPodCluster,
            schedule_to_close_timeout=_PATIENCE,
            retry_policy=_RETRY,
        )
        return found


@workflow.defn(name=READ_NODES_WORKFLOW)
class ReadNodesWorkflow:
    @workflow.run
    async def run(self, question: ReadNodes) -> NodesRead:
        found: NodesRead = await workflow.execute_activity(
            READ_NODES.name,
            question,
            task_queue=task_queue(READ_NODES.queue, question.region),
            result_type=NodesRead,
            schedule_to_close_timeout=_PATIENCE,
            retry_policy=_RETRY,
        )
        return found


@workflow.defn(name=READ_SOFTWARE_WORKFLOW)
class ReadSoftwareWorkflow:
    @workflow.run
    async def run(self, question: ReadSoftware) -> SoftwareRead:
        found: SoftwareRead = await workflow.execute_activity(
            READ_SOFTWARE.name,
            question,
            task_queue=task_queue(READ_SOFTWARE.queue, question.region),
            result_type=SoftwareRead,
            schedule_to_close_timeout=_PATIENCE,
            retry_policy=_RETRY,
        )
        return found
