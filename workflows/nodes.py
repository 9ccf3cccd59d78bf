"""reboot-nodes, replace-nodes and delete-nodes: drained first where asked, accepted once, and watched to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar, TypeVar

from temporalio import workflow

from contracts.activity import Act
from contracts.catalogue import DELETE_NODES as DELETE
from contracts.catalogue import REBOOT_NODES as REBOOT
from contracts.catalogue import REPLACE_NODES as REPLACE
from contracts.nodes import (
    DELETE_BATCH,
    DELETE_LOGICAL_BATCH,
    DELETE_NODES,
    OBSERVE_NODES,
    REBOOT_NODES,
    REPAIR_BATCH,
    REPLACE_NODES,
    WAIT_FOR_NODES_BACK,
    WAIT_FOR_NODES_GONE,
    ActOnNodes,
    DeleteNodesSpec,
    NodeFailure,
    NodeIdentity,
    NodesAccepted,
    NodesBack,
    NodesSpec,
    ObservedNodes,
    ObserveNodes,
    RebootNodesSpec,
    ReplaceNodesSpec,
    WaitForNodesBack,
    WaitForNodesGone,
)
from contracts.operation import Outcome, Start
from contracts.problem import FieldError, ProblemCode, problem
from contracts.words import number_of
from workflows.drain import drain_steps, uncordon
from workflows.engine import Operation, Skipped, StagePlan, StageRun
from workflows.engine.failures import Aborted, refusal
from workflows.parts import control_plane_of, hyperpod_of
from workflows.plans import checks, checks_stage

Spec = TypeVar("Spec", bound=NodesSpec)

CHECKS = checks("nodes", "drain_timeout_minutes")
DRAIN = StagePlan("drain", "Drain the nodes", inputs=("drain_timeout_minutes",), skippable=True)
REQUEST, RETURN = "request", "return"
SHOWN = 4


class NodesOperation(Operation[Spec]):
    """What the three have in common. ``signature`` has the effect; ``stages`` are without the drain."""

    signature: ClassVar[Act[ActOnNodes, NodesAccepted]]
    verb: ClassVar[str]

    def __init__(self, start: Start[Spec]) -> None:
        super().__init__(start)
        self._observed: dict[str, NodeIdentity] = {}
        """Nodes as they were before the request, by the name that they were asked for by."""
        self._others: list[str] = []
        self._accepted: list[str] = []
        self._refused: list[NodeFailure] = []
        self._cordoned: list[str] = []

    @classmethod
    def planned_stages(cls, spec: Spec) -> tuple[StagePlan, ...]:
        before, *after = cls.stages
        return (before, *([DRAIN] if spec.drain else []), *after)

    def leases(self) -> tuple[str, ...]:
        return ("hyperpod/nodes",)

    async def runbook(self) -> dict[str, Any]:
        self._eks = control_plane_of(self).name
        self._hyperpod = hyperpod_of(self).name
        await checks_stage(self)
        try:
            if self.start.spec.drain:
                with suppress(Skipped):
                    await self.stage(DRAIN.name, self._drain)
            with suppress(Skipped):
                await self.stage(REQUEST, self._request)
            back = await self.stage(RETURN, self._return)
        except (Aborted, asyncio.CancelledError):
            # Whatever still has its instance is given back; what is going must get no more pods.
            await asyncio.shield(uncordon(self, self._eks, self._staying()))
            raise
        return self._result(back)

    async def _drain(self, run: StageRun) -> None:
        seen = await self._observe(run, self.spec.nodes)
        self._cordoned = [each.kubernetes_name for each in seen.nodes if each.kubernetes_name]
        await drain_steps(run, self, self._eks, self._cordoned, lambda: self.spec.drain_timeout_minutes)

    async def _request(self, run: StageRun) -> None:
        """Every node is asked for until it is accepted; one that was refused is looked at anew before it is asked for
        again. What may have been accepted is compared with what was seen before the first request."""
        again = [each.node for each in self._refused] if self._observed else self.spec.nodes
        if again:
            seen = await self._observe(run, again)
            self._observed |= {each.asked: each for each in seen.nodes}
            if not self._others:
                self._others = seen.others
        self._refused = []
        todo = [each for name, each in self._observed.items() if name not in self._accepted]
        under_way = 0
        for number, batch in enumerate(self._batches(todo), 1):
            request = ActOnNodes(scope=self.scope, name=self._hyperpod, eks_cluster=self._eks, nodes=batch)
            answer = await run.act(self.signature, request, key=str(number))
            self._accepted += answer.accepted
            self._refused += answer.failed
            under_way += len(answer.already)
        if self._refused:
            raise refusal(self._refusal())
        so = f", under way already for {under_way} of them" if under_way else ""
        run.detail(f"{self.verb} accepted for {number_of(len(self._accepted), 'node')}{so}")

    def _refusal(self) -> Any:
        positions = {name: position for position, name in enumerate(self.spec.nodes)}
        errors = [
            FieldError(
                field=f"/nodes/{positions.get(each.node, 0)}",
                detail=f"{each.node}: {each.code}: {each.message}",
                code=ProblemCode.NOT_READY,
            )
            for each in self._refused
        ]
        shown = "; ".join(error.detail for error in errors[:SHOWN]) + (" …" if len(errors) > SHOWN else "")
        return problem(
            ProblemCode.NOT_READY,
            f"{len(errors)} of {len(self._observed)} nodes were not accepted: {shown}",
            remedy="Retry when they can be; or skip, to go on with those that were accepted.",
            retryable=True,
            errors=errors,
        )

    def _batches(self, nodes: list[NodeIdentity]) -> Iterator[list[NodeIdentity]]:
        yield from _chunks(nodes, REPAIR_BATCH)

    async def _observe(self, run: StageRun, names: list[str]) -> ObservedNodes:
        request = ObserveNodes(scope=self.scope, name=self._hyperpod, eks_cluster=self._eks, nodes=names)
        return await run.act(OBSERVE_NODES, request)

    async def _return(self, run: StageRun) -> NodesBack | None:
        nodes = self._asked()
        if not nodes:
            run.detail("no node was accepted")
            return None
        back = await self._watch(run, nodes)
        await run.record(**back.recorded(self.record.hyperpod, self._touched(nodes)))
        await uncordon(self, self._eks, self._cordoned)
        run.detail(self._summary(back))
        return back

    async def _watch(self, run: StageRun, nodes: list[NodeIdentity]) -> NodesBack:
        return await run.wait(
            WAIT_FOR_NODES_BACK,
            WaitForNodesBack(
                scope=self.scope,
                name=self._hyperpod,
                eks_cluster=self._eks,
                action="reboot" if self.kind is REBOOT else "replace",
                nodes=nodes,
                others=self._others,
            ),
        )

    def _asked(self) -> list[NodeIdentity]:
        return [self._observed[name] for name in self._accepted]

    def _touched(self, nodes: list[NodeIdentity]) -> set[str]:
        """Instance groups that have another target count now."""
        return set()

    def _staying(self) -> list[str]:
        """Cordoned nodes that go on: all of a reboot, and of the others those that were not accepted."""
        return self._cordoned

    def _summary(self, back: NodesBack) -> str:
        return f"{number_of(len(back.outcomes), 'node')} back and Ready"

    def _result(self, back: NodesBack | None) -> dict[str, Any]:
        cluster = back.cluster if back is not None else self.record.hyperpod
        groups = {each.instance_group for each in self._observed.values()}
        return {
            "nodes": [each.model_dump(mode="json") for each in back.outcomes] if back is not None else [],
            "refused": [each.model_dump(mode="json") for each in self._refused],
            "instance_groups": [
                {"name": each.name, "current": each.current, "target": each.target}
                for each in (cluster.groups if cluster is not None else [])
                if each.name in groups
            ],
        }


@workflow.defn(name=REBOOT.name)
class RebootNodes(NodesOperation[RebootNodesSpec]):
    kind = REBOOT
    stages = (CHECKS, StagePlan(REQUEST, "Reboot", skippable=True), StagePlan(RETURN, "Nodes back"))
    signature = REBOOT_NODES
    verb = "reboot"

    @workflow.init
    def __init__(self, start: Start[RebootNodesSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[RebootNodesSpec]) -> Outcome:
        return await self.carry_out()


@workflow.defn(name=REPLACE.name)
class ReplaceNodes(NodesOperation[ReplaceNodesSpec]):
    kind = REPLACE
    stages = (CHECKS, StagePlan(REQUEST, "Replacement", skippable=True), StagePlan(RETURN, "New nodes"))
    signature = REPLACE_NODES
    verb = "replacement"

    @workflow.init
    def __init__(self, start: Start[ReplaceNodesSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[ReplaceNodesSpec]) -> Outcome:
        return await self.carry_out()

    def _staying(self) -> list[str]:
        return _not_accepted(self._cordoned, self._asked())

    def _summary(self, back: NodesBack) -> str:
        pairs = [f"{each.before} → {each.now}" for each in back.outcomes[:SHOWN]]
        return f"{number_of(len(back.outcomes), 'node')} replaced and Ready: {', '.join(pairs)}" + _more(back)


@workflow.defn(name=DELETE.name)
class DeleteNodes(NodesOperation[DeleteNodesSpec]):
    kind = DELETE
    stages = (CHECKS, StagePlan(REQUEST, "Deletion", skippable=True), StagePlan(RETURN, "Nodes gone"))
    signature = DELETE_NODES
    verb = "deletion"

    @workflow.init
    def __init__(self, start: Start[DeleteNodesSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteNodesSpec]) -> Outcome:
        return await self.carry_out()

    def _batches(self, nodes: list[NodeIdentity]) -> Iterator[list[NodeIdentity]]:
        """Logical IDs count more: a call that names any takes fewer."""
        yield from _chunks([each for each in nodes if each.instance_id], DELETE_BATCH)
        yield from _chunks([each for each in nodes if not each.instance_id], DELETE_LOGICAL_BATCH)

    async def _watch(self, run: StageRun, nodes: list[NodeIdentity]) -> NodesBack:
        request = WaitForNodesGone(scope=self.scope, name=self._hyperpod, eks_cluster=self._eks, nodes=nodes)
        return await run.wait(WAIT_FOR_NODES_GONE, request)

    def _touched(self, nodes: list[NodeIdentity]) -> set[str]:
        return {each.instance_group for each in nodes}

    def _staying(self) -> list[str]:
        return _not_accepted(self._cordoned, self._asked())

    def _summary(self, back: NodesBack) -> str:
        names = ", ".join(each.before for each in back.outcomes[:SHOWN])
        return f"{number_of(len(back.outcomes), 'node')} gone: {names}{_more(back)}"


def _chunks(nodes: list[NodeIdentity], size: int) -> Iterator[list[NodeIdentity]]:
    for start in range(0, len(nodes), size):
        yield nodes[start : start + size]


def _not_accepted(cordoned: list[str], accepted: list[NodeIdentity]) -> list[str]:
    going = {each.kubernetes_name for each in accepted}
    return [name for name in cordoned if name not in going]


def _more(back: NodesBack) -> str:
    return " …" if len(back.outcomes) > SHOWN else ""
