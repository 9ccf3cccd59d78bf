"""Instance groups of a HyperPod cluster that exists: added, scaled, changed and deleted."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

from contracts.availability import offer_errors, plans_to_come
from contracts.capacity import InstanceGroupSpec
from contracts.catalogue import (
    ADD_INSTANCE_GROUP,
    DELETE_INSTANCE_GROUP,
    SCALE_INSTANCE_GROUP,
    UPDATE_INSTANCE_GROUP,
)
from contracts.eks import ControlPlane
from contracts.hyperpod import (
    LIST_NODES,
    WAIT_FOR_GROUPS_GONE,
    WAIT_FOR_HYPERPOD,
    HyperPodCluster,
    ListNodes,
    NodeCount,
    NodesReady,
    WaitForGroupsGone,
    WaitForHyperPod,
    brought_up_to_date,
)
from contracts.instance_groups import (
    ADD_GROUP,
    ADD_NODES,
    DELETE_GROUP,
    PLAN_SCALING,
    READ_GROUPS,
    REMOVE_NODES,
    SET_COUNT,
    UPDATE_GROUP,
    WAIT_FOR_UPDATE,
    AddGroup,
    AddNodes,
    DeleteGroup,
    DeleteInstanceGroupSpec,
    EndOperation,
    KeepWhatCame,
    PlanScaling,
    ReadGroups,
    RemoveNodes,
    Road,
    ScaleInstanceGroupSpec,
    SetCount,
    TakeFewer,
    UpdateGroup,
    UpdateInstanceGroupSpec,
    WaitForUpdate,
)
from contracts.model import fingerprint
from contracts.network import Network, NetworkSpec
from contracts.operation import Outcome, Start
from contracts.options import LOOK_UP_OPTIONS, LookUpOptions
from contracts.problem import Problem, invalid
from contracts.words import number_of
from workflows.capacity import place
from workflows.drain import drain_steps, uncordon
from workflows.engine import Operation, Skipped, StagePlan, StageRun
from workflows.engine.failures import Aborted, refusal
from workflows.hyperpod import place_group, record_subnets
from workflows.parts import control_plane_of, hyperpod_of, network_of
from workflows.plans import checks, checks_stage
from workflows.shortfall import Shortfall, ask, respecified, shortage_in

GROUP_INPUTS = tuple(name for name in InstanceGroupSpec.model_fields if name != "name")
"""What a retry may correct: everything but the name, which is the operation's own."""
DRAIN_MINUTES = 30
"""After so long, pods that do not leave are a decision."""
UPDATE_INPUTS = ("min_count", "labels", "taints", "deep_health_checks", "volume_gib")


class Grouped:
    """The parts of the cluster that every kind here acts on, by what its record says."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.control_plane: ControlPlane = control_plane_of(operation)
        self.hyperpod: HyperPodCluster = hyperpod_of(operation)
        self.operation = operation

    def at(self, group: str) -> dict[str, Any]:
        """Where a group is, for the activities' arguments."""
        return {"scope": self.operation.scope, "hyperpod_cluster": self.hyperpod.name, "group": group}

    async def ready(self, run: StageRun, group: str, count: int) -> NodesReady:
        """Wait until the group is what was asked, node by node, and keep that."""
        ready = await run.wait(
            WAIT_FOR_HYPERPOD,
            WaitForHyperPod(
                scope=self.operation.scope,
                name=self.hyperpod.name,
                eks_cluster=self.control_plane.name,
                groups=[group],
                targets={group: count},
            ),
        )
        await run.record(**ready.recorded(self.operation.record.hyperpod, [group]))
        return ready

    async def keep(self, run: StageRun, group: str, seen: HyperPodCluster) -> None:
        """Put what was seen of the group into the record."""
        await run.record(hyperpod=brought_up_to_date(self.operation.record.hyperpod, seen, [group]))

    async def current(self, run: StageRun, group: str) -> int:
        """How many instances the group has now; the record is brought up to date on the way."""
        found = await run.act(READ_GROUPS, ReadGroups(scope=self.operation.scope, hyperpod_cluster=self.hyperpod.name))
        await self.keep(run, group, found)
        return next((each.current for each in found.groups if each.name == group), 0)


def result_of(ready: NodesReady, group: str) -> dict[str, Any]:
    """What is there now of the group; its nodes as far as they are kept one by one."""
    found = next((each for each in ready.cluster.groups if each.name == group), None)
    return {
        "group": found.model_dump(mode="json") if found else None,
        "nodes": [node.model_dump(mode="json") for node in ready.nodes if node.instance_group == group],
    }


def _said(ready: NodesReady, group: str) -> str:
    count = next((each for each in ready.counts if each.group == group), NodeCount(group=group, nodes=0, ready=0))
    return f"{group}: {count.ready} of {count.nodes} nodes Ready"


@workflow.defn(name=ADD_INSTANCE_GROUP.name)
class AddInstanceGroup(Operation[InstanceGroupSpec]):
    kind = ADD_INSTANCE_GROUP
    stages = (checks(*GROUP_INPUTS), StagePlan("instance_group", "Instance group", inputs=GROUP_INPUTS))

    @workflow.init
    def __init__(self, start: Start[InstanceGroupSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[InstanceGroupSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return ("hyperpod", "network/compute")

    async def runbook(self) -> dict[str, Any]:
        await checks_stage(self)
        parts = Grouped(self)
        network = network_of(self)

        async def steps(run: StageRun) -> NodesReady:
            while True:
                try:
                    return await self._make(run, parts, network)
                except ActivityError as error:
                    self.check_cancelled()
                    found = shortage_in(error)
                    if found is None:
                        raise
                await self._decide(run, parts, found)

        return result_of(await self.stage("instance_group", steps), self.spec.name)

    async def _make(self, run: StageRun, parts: Grouped, network: Network) -> NodesReady:
        spec, identity, scope = self.spec, self.record.identity, self.scope
        options = await run.act(
            LOOK_UP_OPTIONS, LookUpOptions(region=scope.region, instance_types=sorted(spec.instance_types))
        )
        if errors := offer_errors(spec, options, ""):
            raise refusal(invalid(errors))
        prefix = NetworkSpec().compute_subnet_prefix
        placed = await place_group(run, self, spec, options, network, prefix, parts.hyperpod.name)
        await record_subnets(run, self, network, [placed.subnet])
        wanted = AddGroup(
            scope=scope,
            hyperpod_cluster=parts.hyperpod.name,
            group=placed,
            execution_role_arn=identity.execution_role_arn if identity else None,
            lifecycle_scripts_uri=identity.lifecycle_scripts_uri if identity else None,
            security_group_id=network.security_group_id,
        )
        ensured = await run.act(ADD_GROUP, wanted)
        while ensured.cluster.replacing:
            # What has no node is made anew elsewhere, but only after it is gone.
            await run.wait(
                WAIT_FOR_GROUPS_GONE,
                WaitForGroupsGone(scope=scope, name=parts.hyperpod.name, groups=ensured.cluster.replacing),
            )
            ensured = await run.act(ADD_GROUP, wanted)
        await parts.keep(run, spec.name, ensured.cluster)
        ready = await parts.ready(run, spec.name, spec.count)
        run.detail("; ".join([_said(ready, spec.name), *plans_to_come([placed.spec], options)]))
        return ready

    async def _decide(self, run: StageRun, parts: Grouped, found: Problem) -> None:
        current = await parts.current(run, self.spec.name)
        options = await run.act(LOOK_UP_OPTIONS, LookUpOptions(region=self.scope.region), key="everything")
        short = Shortfall(
            group=self.spec.name,
            count=self.spec.count,
            current=current,
            problem=found,
            spec=place(self.spec, options),
            options=options,
            spot_possible=parts.hyperpod.provisioning != "Classic",
        )
        remedy = await ask(run, short)
        if isinstance(remedy, EndOperation):
            raise Aborted(f"ended by the answer to: {found.detail}")
        self.spec = respecified(place(self.spec, options), remedy, options, current)
        self.progress.plan_hash = fingerprint(self.spec)


@workflow.defn(name=SCALE_INSTANCE_GROUP.name)
class ScaleInstanceGroup(Operation[ScaleInstanceGroupSpec]):
    kind = SCALE_INSTANCE_GROUP
    stages = (checks("count"), StagePlan("scaling", "Scaling", inputs=("count",)))

    @workflow.init
    def __init__(self, start: Start[ScaleInstanceGroupSpec]) -> None:
        super().__init__(start)
        self._decisions = 0

    @workflow.run
    async def run(self, start: Start[ScaleInstanceGroupSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return ("hyperpod",)

    async def runbook(self) -> dict[str, Any]:
        await checks_stage(self)
        parts = Grouped(self)

        async def steps(run: StageRun) -> NodesReady:
            while True:
                try:
                    return await self._reach(run, parts)
                except ActivityError as error:
                    self.check_cancelled()
                    found = shortage_in(error)
                    if found is None:
                        raise
                await self._decide(run, parts, found)

        return result_of(await self.stage("scaling", steps), self.spec.group)

    async def _reach(self, run: StageRun, parts: Grouped) -> NodesReady:
        group, count = self.spec.group, self.spec.count
        at = parts.at(group)
        plan = await run.act(PLAN_SCALING, PlanScaling(**at, eks_cluster=parts.control_plane.name, count=count))
        run.detail(f"{group}: {plan.target} → {count}")
        match plan.road:
            case Road.ADD:
                # Each decision has tokens of its own: the same step up may be asked for twice in one run.
                self._decisions += 1
                step = f"{run.name}/{self._decisions}"
                await run.act(ADD_NODES, AddNodes(**at, base=plan.target, count=count - plan.target, step=step))
            case Road.REMOVE:
                run.detail(f"{group}: {plan.target} → {count}; {', '.join(plan.nodes[:5])} go")
                await run.act(REMOVE_NODES, RemoveNodes(**at, nodes=plan.nodes))
            case Road.UPDATE:
                await run.act(SET_COUNT, SetCount(**at, count=count))
        ready = await parts.ready(run, group, count)
        run.detail(_said(ready, group))
        return ready

    async def _decide(self, run: StageRun, parts: Grouped, found: Problem) -> None:
        current = await parts.current(run, self.spec.group)
        short = Shortfall(group=self.spec.group, count=self.spec.count, current=current, problem=found)
        remedy = await ask(run, short)
        match remedy:
            case EndOperation():
                raise Aborted(f"ended by the answer to: {found.detail}")
            case KeepWhatCame():
                self.spec = self.spec.model_copy(update={"count": current})
            case TakeFewer(count=count):
                self.spec = self.spec.model_copy(update={"count": count})
        self.progress.plan_hash = fingerprint(self.spec)


@workflow.defn(name=UPDATE_INSTANCE_GROUP.name)
class UpdateInstanceGroup(Operation[UpdateInstanceGroupSpec]):
    kind = UPDATE_INSTANCE_GROUP
    stages = (checks(*UPDATE_INPUTS), StagePlan("update", "Changes to the group", inputs=UPDATE_INPUTS))

    @workflow.init
    def __init__(self, start: Start[UpdateInstanceGroupSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[UpdateInstanceGroupSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return ("hyperpod",)

    async def runbook(self) -> dict[str, Any]:
        await checks_stage(self)
        parts = Grouped(self)

        async def steps(run: StageRun) -> dict[str, Any]:
            at = parts.at(self.spec.group)
            updated = await run.act(UPDATE_GROUP, UpdateGroup(**at, changes=self.spec))
            settled = await run.wait(
                WAIT_FOR_UPDATE, WaitForUpdate(**at, eks_cluster=parts.control_plane.name, changes=self.spec)
            )
            await parts.keep(run, self.spec.group, settled.cluster)
            changed = ", ".join(updated.changed_members) or "nothing had to be changed"
            on = f"; on {number_of(settled.nodes, 'node')}" if settled.nodes else ""
            run.detail(f"{self.spec.group}: {changed}{on}")
            return {"group": settled.group.model_dump(mode="json"), "changed": updated.changed_members}

        return await self.stage("update", steps)


@workflow.defn(name=DELETE_INSTANCE_GROUP.name)
class DeleteInstanceGroup(Operation[DeleteInstanceGroupSpec]):
    kind = DELETE_INSTANCE_GROUP
    stages = (
        checks(),
        StagePlan("drain", "Draining of the nodes", skippable=True),
        StagePlan("deletion", "Deletion of the group"),
    )

    @workflow.init
    def __init__(self, start: Start[DeleteInstanceGroupSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteInstanceGroupSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return ("hyperpod",)

    async def runbook(self) -> dict[str, Any]:
        await checks_stage(self)
        parts = Grouped(self)
        # Skipped: somebody said that the pods may go with their nodes.
        with suppress(Skipped):
            await self.stage("drain", lambda run: self._drain(run, parts))
        return await self.stage("deletion", lambda run: self._delete(run, parts))

    async def _drain(self, run: StageRun, parts: Grouped) -> None:
        if not self.spec.drain:
            run.observed = True
            run.detail("not asked for: pods go with their nodes")
            return
        listed = await run.act(LIST_NODES, self._list(parts, names_of=self.spec.group))
        nodes = listed.names
        if not nodes:
            run.observed = True
            run.detail(f"{self.spec.group} has no nodes")
            return
        eks_cluster = parts.control_plane.name
        try:
            await drain_steps(run, self, eks_cluster, nodes, lambda: DRAIN_MINUTES)
        except Aborted:
            await uncordon(self, eks_cluster, nodes)
            raise

    async def _delete(self, run: StageRun, parts: Grouped) -> dict[str, Any]:
        group = self.spec.group
        await run.act(DELETE_GROUP, DeleteGroup(**parts.at(group), eks_cluster=parts.control_plane.name))
        await run.wait(
            WAIT_FOR_GROUPS_GONE, WaitForGroupsGone(scope=self.scope, name=parts.hyperpod.name, groups=[group])
        )
        left = await run.act(LIST_NODES, self._list(parts), key="left")
        nodes = [node for node in left.nodes if node.instance_group != group]
        counts = [each for each in left.counts if each.group != group]
        cluster = brought_up_to_date(self.record.hyperpod, left.cluster, [group])
        await run.record(hyperpod=cluster, nodes=nodes, node_counts=counts)
        names = [each.name for each in left.cluster.groups]
        run.detail(f"{group} is gone; left: {', '.join(names)}")
        return {"deleted": group, "groups": names}

    def _list(self, parts: Grouped, names_of: str | None = None) -> ListNodes:
        return ListNodes(
            scope=self.scope, name=parts.hyperpod.name, eks_cluster=parts.control_plane.name, names_of=names_of
        )
