"""Draining as a part of operations: cordoned, evicted within the disruption budgets, and a choice where that lasts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from contracts.drain import (
    CORDON_NODES,
    DRAIN_NODES,
    UNCORDON_NODES,
    Cordoned,
    CordonNodes,
    DrainAnswer,
    DrainNodes,
)
from contracts.problem import ProblemCode
from contracts.queues import task_queue
from contracts.words import number_of
from workflows.engine import Operation, StageRun
from workflows.engine.failures import Aborted, problem_of

UNCORDON_PATIENCE = timedelta(minutes=5)
"""What an operation that ends lets the Kubernetes API take to give its nodes back."""


async def drain_steps(
    run: StageRun, operation: Operation[Any], eks_cluster: str, nodes: list[str], minutes: Callable[[], int]
) -> None:
    """Drain the nodes (Kubernetes names). Pods that do not leave in ``minutes`` are a decision: wait on, go on without
    them, or stop. Raises Aborted for the last; the nodes are cordoned then still."""
    if not nodes:
        run.detail("none of the nodes is in Kubernetes")
        return
    cordon = CordonNodes(scope=operation.scope, eks_cluster=eks_cluster, nodes=nodes)
    await run.act(CORDON_NODES, cordon)
    while True:
        wait = DrainNodes(scope=operation.scope, eks_cluster=eks_cluster, nodes=nodes, timeout_minutes=minutes())
        try:
            drained = await run.wait(DRAIN_NODES, wait)
        except ActivityError as error:
            found = problem_of(error)
            if found.code is not ProblemCode.NOT_READY:
                raise
            answer = await run.decide(
                f"{found.detail}. Wait on, go on without them, or stop?",
                schema=DrainAnswer.model_json_schema(),
                options={"choice": ["wait", "go-on", "stop"]},
                default=None,
                parse=DrainAnswer.model_validate,
            )
            if answer.choice == "wait":
                continue
            if answer.choice == "stop":
                raise Aborted(f"stopped while draining: {found.detail}") from error
            run.detail(f"went on although {found.detail}")
            return
        run.detail(f"{number_of(drained.evicted, 'pod')} moved away from {number_of(len(nodes), 'node')}")
        return


async def uncordon(operation: Operation[Any], eks_cluster: str, nodes: list[str]) -> None:
    """Let pods come again to those of the nodes that are still there. Also where the operation was ended: no abort
    keeps it from that. A failure is logged; it does not hold the operation."""
    if not nodes:
        return
    try:
        await workflow.execute_activity(
            UNCORDON_NODES.name,
            CordonNodes(scope=operation.scope, eks_cluster=eks_cluster, nodes=nodes),
            activity_id="uncordon",
            task_queue=task_queue(UNCORDON_NODES.queue, operation.start.region),
            result_type=Cordoned,
            start_to_close_timeout=UNCORDON_NODES.limit,
            schedule_to_close_timeout=UNCORDON_PATIENCE,
            retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=20)),
        )
    except ActivityError as error:
        workflow.logger.warning("nodes %s stay cordoned: %s", ", ".join(nodes), problem_of(error).detail)
