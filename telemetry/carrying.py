"""How a trace goes through Temporal: in the headers of starts, updates, signals and activities.

Temporal's own interceptor. Its workflow spans have no duration and are made on the first execution only, so that a
workflow that is replayed after its worker was killed goes on in the same trace without a span twice.
"""

from __future__ import annotations

from typing import Any

from temporalio.contrib.opentelemetry import TracingInterceptor, TracingWorkflowInboundInterceptor
from temporalio.worker import WorkflowInterceptorClassInput

from telemetry.export import TraceParent


class _InWorkflow(TracingWorkflowInboundInterceptor):
    def __init__(self, next: Any) -> None:
        super().__init__(next)
        self.text_map_propagator = TraceParent()


class CarryTraces(TracingInterceptor):
    """Give to the client; the workers that use it have it too."""

    def __init__(self) -> None:
        super().__init__()
        self.text_map_propagator = TraceParent()

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[TracingWorkflowInboundInterceptor]:
        super().workflow_interceptor_class(input)
        return _InWorkflow
