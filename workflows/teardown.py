"""delete-cluster: workloads, nodes, clusters, roles and network, each after what uses it; then a look around."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError

from contracts.catalogue import DELETE_CLUSTER
from contracts.cluster import ABORT_HOLDERS, AbortedHolders, AbortHolders, RecordChange
from contracts.identity import (
    ENSURE_ACCESS_ENTRY,
    GET_CALLER,
    VERIFY_ACCESS,
    EnsureAccessEntry,
    GetCaller,
    VerifyAccess,
)
from contracts.lease import WHOLE_CLUSTER
from contracts.names import cluster_id
from contracts.operation import Outcome, Start
from contracts.problem import ProblemCode, problem
from contracts.queues import task_queue
from contracts.teardown import (
    DELETE_OBJECTS,
    DELETE_PART,
    END_WAITING,
    KUBERNETES_PARTS,
    SURVEY,
    SWEEP,
    WAIT_UNTIL_GONE,
    WAIT_UNTIL_SETTLED,
    DeleteClusterSpec,
    EndedWaiting,
    EndWaiting,
    Inventory,
    Kept,
    Known,
    Level,
    Part,
    Report,
    Resource,
    Teardown,
    TeardownPart,
)
from contracts.words import some
from workflows.drift_checks import end_drift_checks
from workflows.engine import Operation, Skipped, StagePlan, StageRun
from workflows.engine.failures import refusal
from workflows.plans import check, checks

INPUTS = ("keep", "delete_bucket", "delete_file_systems", "delete_dedicated_subnets")
ROUNDS = 5
"""So often is a part looked at again: something may appear in it while it goes, e.g. a network interface that a node
leaves behind."""

CHECKS = checks(*INPUTS)
WORKLOADS = StagePlan("workloads", "Load balancers and volumes of workloads", inputs=("keep",), skippable=True)
NODE_POOLS = StagePlan("node_pools", "Karpenter's node pools", skippable=True)
HYPERPOD = StagePlan("hyperpod", "HyperPod cluster")
NODE_GROUPS = StagePlan("node_groups", "EKS node groups")
CONTROL_PLANE = StagePlan("control_plane", "EKS cluster")
FILE_SYSTEMS = StagePlan("file_systems", "FSx file systems", inputs=("keep", "delete_file_systems"))
IDENTITY = StagePlan("identity", "Roles and what features have left", inputs=("keep",))
NETWORK = StagePlan("network", "Network", inputs=INPUTS)
BUCKET = StagePlan("bucket", "Bucket", inputs=("delete_bucket",))
SWEEPING = StagePlan("sweep", "Nothing is left", inputs=INPUTS)

PARTS: dict[str, tuple[Part, ...]] = {
    WORKLOADS.name: (Part.WORKLOADS,),
    NODE_POOLS.name: (Part.NODE_POOLS,),
    HYPERPOD.name: (Part.HYPERPOD,),
    NODE_GROUPS.name: (Part.NODE_GROUPS,),
    CONTROL_PLANE.name: (Part.CONTROL_PLANE,),
    FILE_SYSTEMS.name: (Part.FILE_SYSTEMS,),
    IDENTITY.name: (Part.FEATURES, Part.IDENTITY),
    NETWORK.name: (
        Part.EGRESS,
        Part.ADDRESSES,
        Part.INTERFACES,
        Part.SUBNETS,
        Part.GATEWAYS,
        Part.SECURITY_GROUPS,
        Part.VPC,
    ),
    BUCKET.name: (Part.BUCKET,),
}
GONE: dict[str, dict[str, Any]] = {
    HYPERPOD.name: {"hyperpod": None, "nodes": [], "node_pools": []},
    CONTROL_PLANE.name: {
        "control_plane": None,
        "kubernetes_version": None,
        "dependencies": [],
        "storage": [],
        "node_groups": [],
        "features": [],
        "drift": None,
    },
    IDENTITY.name: {"identity": None},
    NETWORK.name: {"network": None},
}
"""What the record loses with a stage."""


@workflow.defn(name=DELETE_CLUSTER.name)
class DeleteCluster(Operation[DeleteClusterSpec]):
    kind = DELETE_CLUSTER
    stages = (
        CHECKS,
        WORKLOADS,
        NODE_POOLS,
        HYPERPOD,
        NODE_GROUPS,
        CONTROL_PLANE,
        FILE_SYSTEMS,
        IDENTITY,
        NETWORK,
        BUCKET,
        SWEEPING,
    )

    @workflow.init
    def __init__(self, start: Start[DeleteClusterSpec]) -> None:
        super().__init__(start)
        self._known = Known()
        self._seen: dict[tuple[str, str], Resource] = {}
        """What was there at some time, by kind and ID."""
        self._kept: dict[tuple[str, str], Kept] = {}
        self._admitted = False
        """Whether the Kubernetes API has let the platform in."""

    @workflow.run
    async def run(self, start: Start[DeleteClusterSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (WHOLE_CLUSTER,)

    async def beforehand(self) -> None:
        """Abort who holds or waits for the cluster, where that is asked for; else the deletion queues behind them."""
        if not self.spec.abort_running:
            return
        self.progress.flush()
        aborted: AbortedHolders = await workflow.execute_activity(
            ABORT_HOLDERS.name,
            AbortHolders(cluster=self.start.cluster, by=self.start.origin.by, except_run=workflow.info().run_id),
            activity_id="abort-holders",
            task_queue=task_queue(ABORT_HOLDERS.queue, self.start.region),
            result_type=AbortedHolders,
            start_to_close_timeout=timedelta(seconds=60),
            retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=20)),
        )
        workflow.logger.info("aborted: %s", ", ".join(aborted.operations) or "nothing")

    async def runbook(self) -> dict[str, Any]:
        await self._checks_stage()
        for plan in (WORKLOADS, NODE_POOLS):
            try:
                await self._part_stage(plan)
            except Skipped:
                workflow.logger.info("%s: what is left of it shows at the end", plan.name)
        for plan in (HYPERPOD, NODE_GROUPS, CONTROL_PLANE, FILE_SYSTEMS, IDENTITY, NETWORK, BUCKET):
            await self._part_stage(plan)
        report = await self._sweep_stage()
        if self.spec.level.includes(Level.EKS):
            await self._end_waiting()
        if self.spec.level is Level.NETWORK:
            await self._retire()
        return report.model_dump(mode="json", exclude_none=True)

    async def _checks_stage(self) -> None:
        """Make the plan once more, and see what there is."""

        async def steps(run: StageRun) -> None:
            findings = await check(run, self)
            self._known = Known.of(self.record)
            found = await run.act(SURVEY, self._asked())
            self._known = found.known
            self._note(found)
            said = [f"{len(found.resources)} resources go", *findings.draft.warnings]
            run.detail("; ".join(said))

        await self.stage(CHECKS.name, steps)

    async def _part_stage(self, plan: StagePlan) -> None:
        """Delete the parts of a stage one after the other, each until it is gone."""

        async def steps(run: StageRun) -> None:
            parts = [part for part in PARTS[plan.name] if part.goes(self.spec)]
            run.observed = True
            if not parts:
                data = plan in (BUCKET, FILE_SYSTEMS)
                run.detail("stays, where there is one" if data else f"stays at level {self.spec.level.value}")
                return
            if parts[0] in KUBERNETES_PARTS and not await self._reachable(run):
                run.detail("no Kubernetes API answers: nothing can have been made through it")
                return
            gone = [label for part in parts for label in await self._delete(run, part)]
            if plan.name in GONE and (plan is not NETWORK or self.spec.level is Level.NETWORK):
                await run.record(**GONE[plan.name])
            elif plan is NETWORK:
                await self._forget_subnets(run)
            run.detail(some(gone, 6) or "nothing there")

        await self.stage(plan.name, steps)

    async def _forget_subnets(self, run: StageRun) -> None:
        """Take the dedicated subnets that went out of the record of a network that stays."""
        network = self.record.network
        gone = {each.id for each in self._seen.values() if each.part is Part.SUBNETS}
        if network is not None and any(each.subnet_id in gone for each in network.compute_subnets):
            left = [each for each in network.compute_subnets if each.subnet_id not in gone]
            await run.record(network=network.model_copy(update={"compute_subnets": left}))

    async def _reachable(self, run: StageRun) -> bool:
        """Whether there is an EKS cluster whose objects can be deleted. One whose making was cut short gets the
        platform's access entry first."""
        settled = await run.wait(WAIT_UNTIL_SETTLED, self._asked())
        for name in settled.active if not self._admitted else ():
            if self.record.origin == "created":
                caller = await run.act(GET_CALLER, GetCaller(region=self.scope.region))
                entry = EnsureAccessEntry(scope=self.scope, eks_cluster=name, principal_arn=caller.principal_arn)
                await run.act(ENSURE_ACCESS_ENTRY, entry, key=name)
            await run.act(VERIFY_ACCESS, VerifyAccess(scope=self.scope, eks_cluster=name), key=name)
        self._admitted = True
        return bool(settled.active)

    async def _delete(self, run: StageRun, part: Part) -> list[str]:
        """Delete a part until nothing of it is found any more; labels of what went."""
        labels: dict[str, None] = {}
        signature = DELETE_OBJECTS if part in KUBERNETES_PARTS else DELETE_PART
        for _ in range(ROUNDS):
            request = TeardownPart(**dict(self._asked()), part=part)
            deleted = await run.act(signature, request, key=part.value)
            self._seen |= {(each.kind, each.id): each for each in deleted.resources}
            self._retain(deleted.kept)
            if not deleted.resources:
                if part is Part.INTERFACES or part in KUBERNETES_PARTS:
                    await run.wait(WAIT_UNTIL_GONE, request, key=part.value)
                break
            labels |= dict.fromkeys(each.label for each in deleted.resources)
            await run.wait(WAIT_UNTIL_GONE, request, key=part.value)
        return list(labels)

    async def _sweep_stage(self) -> Report:
        """Look for everything once more; what is left blocks."""

        async def steps(run: StageRun) -> Report:
            if self.spec.level is Level.NETWORK:
                await end_drift_checks(run, self)
            found = await run.act(SWEEP, self._asked())
            self._note(found)
            left = {(each.kind, each.id) for each in found.resources}
            kept = {(each.kind, each.id) for each in found.kept} | {
                (each.kind, each.id) for each in self._kept.values()
            }
            staying = {identifier for _, identifier in kept}
            report = Report(
                level=self.spec.level,
                deleted=[
                    each
                    for key, each in self._seen.items()
                    if key not in left and each.id not in staying and each.name not in staying
                ],
                kept=list(self._kept.values()),
                remaining=found.resources,
                leftovers=found.leftovers,
            )
            if found.resources or found.leftovers:
                raise refusal(_remains(found))
            run.detail(f"{len(report.deleted)} resources deleted, {len(report.kept)} kept")
            return report

        return await self.stage(SWEEPING.name, steps)

    async def _end_waiting(self) -> None:
        """End what waits for an approval: nothing is there any more that it could be done to."""
        gone = f"cluster {self.start.cluster}" if self.spec.level is Level.NETWORK else "its EKS cluster"
        reason = f"{gone} is gone ({workflow.info().workflow_id})"
        ended: EndedWaiting = await workflow.execute_activity(
            END_WAITING.name,
            EndWaiting(cluster=self.start.cluster, by=self.start.origin.by, reason=reason),
            activity_id="end-waiting",
            task_queue=task_queue(END_WAITING.queue, self.start.region),
            result_type=EndedWaiting,
            start_to_close_timeout=timedelta(seconds=60),
            retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=20)),
        )
        workflow.logger.info("ended: %s", ", ".join(ended.operations) or "nothing")

    async def _retire(self) -> None:
        """The cluster is not there any more: its entity ends as soon as nobody needs it."""
        entity = workflow.get_external_workflow_handle(cluster_id(self.start.cluster))
        try:
            change = RecordChange(changes={}, by=workflow.info().workflow_id)
            # Shielded: a signal that is cancelled in the very task that it is answered in wedges the workflow.
            await asyncio.shield(entity.signal("retire", change))
        except ApplicationError:
            workflow.logger.warning("the entity of cluster %s is gone already", self.start.cluster)

    def _asked(self) -> Teardown:
        return Teardown(scope=self.scope, known=self._known, spec=self.spec)

    def _note(self, found: Inventory) -> None:
        self._seen |= {(each.kind, each.id): each for each in found.resources}
        self._kept |= {(each.kind, each.id): each for each in found.kept}

    def _retain(self, kept: list[Kept]) -> None:
        """Remember what stays although what made it goes: nothing else will tell that it was left on purpose."""
        if kept:
            self._kept |= {(each.kind, each.id): each for each in kept}
            retained = self._known.retained | {each.id: each.why for each in kept}
            self._known = self._known.model_copy(update={"retained": retained})

    def _report_what_exists(self) -> dict[str, Any]:
        """What a deletion that was ended early had begun to delete."""
        return {"deleted": self.made, "unknown": self.unknown}


def _remains(found: Inventory) -> Any:
    left = [f"{each.kind} {each.id} ({each.detail})" for each in found.leftovers]
    left += [each.label for each in found.resources if each.id not in {other.id for other in found.leftovers}]
    shown = "; ".join(left[:12]) + (f"; and {len(left) - 12} more" if len(left) > 12 else "")
    remedy = (
        found.leftovers[0].remedy
        if found.leftovers
        else "Retry: it is looked for again. What stays was made meanwhile."
    )
    return problem(
        ProblemCode.FOREIGN if found.leftovers else ProblemCode.CONFLICT,
        f"Still there ({len(left)}): {shown}",
        remedy=remedy,
        retryable=True,
    )
