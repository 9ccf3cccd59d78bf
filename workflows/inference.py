"""A call to a model: one request, and no operation. Nothing changes in the cluster."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from contracts.catalogue import CALL_MODEL_WORKFLOW
from contracts.inference import CALL_MODEL, CallModel, ModelAnswer
from contracts.queues import task_queue

CONNECTING = timedelta(seconds=30)
"""What finding the service and its model may take beside the call itself."""
HEARTBEAT_TIMEOUT = timedelta(seconds=15)


@workflow.defn(name=CALL_MODEL_WORKFLOW)
class CallModelWorkflow:
    @workflow.run
    async def run(self, question: CallModel) -> ModelAnswer:
        answer: ModelAnswer = await workflow.execute_activity(
            CALL_MODEL.name,
            question,
            task_queue=task_queue(CALL_MODEL.queue, question.region),
            result_type=CALL_MODEL.output,
            start_to_close_timeout=timedelta(seconds=question.request.timeout_seconds) + CONNECTING,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            # What was streamed has been read: asking again would say something else. The rest may be asked anew.
            retry_policy=RetryPolicy(maximum_attempts=1 if question.request.stream else 3),
        )
        return answer
