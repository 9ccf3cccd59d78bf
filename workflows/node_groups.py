"""EKS managed node groups: created, scaled and deleted."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from contracts.catalogue import CREATE_NODE_GROUP, DELETE_NODE_GROUP, SCALE_NODE_GROUP
from contracts.cluster import replaced, without
from contracts.eks import ControlPlane
from contracts.network import ENSURE_COMPUTE_SUBNET, EnsureComputeSubnet, Network, Subnet
from contracts.node_groups import (
    DELETE_LAUNCH_TEMPLATE,
    DELETE_NODE_ROLE,
    ENSURE_DEVICE_PLUGINS,
    ENSURE_LAUNCH_TEMPLATE,
    ENSURE_NODE_GROUP,
    ENSURE_NODE_ROLE,
    LIST_NODE_GROUPS,
    PLACE_NODE_GROUP,
    SCALE_NODE_GROUP_TO,
    START_NODE_GROUP_DELETION,
    WAIT_FOR_NODE_GROUP,
    WAIT_FOR_NODE_GROUP_GONE,
    DeleteNodeGroupSpec,
    DeleteNodeRole,
    EnsureDevicePlugins,
    EnsureLaunchTemplate,
    EnsureNodeGroup,
    EnsureNodeRole,
    LaunchTemplate,
    ListNodeGroups,
    NodeGroup,
    NodeGroupRef,
    NodeGroupSpec,
    NodePlacement,
    PlaceNodeGroup,
    ScaleNodeGroup,
    ScaleNodeGroupSpec,
    WaitForNodeGroup,
)
from contracts.operation import Outcome, Start
from contracts.words import number_of
from workflows.engine import Operation, StagePlan, StageRun, together
from workflows.parts import control_plane_of, network_of
from workflows.plans import checks, checks_stage

EFA = "vpc.amazonaws.com/efa"
INPUTS = (
    "instance_types",
    "scaling",
    "capacity",
    "capacity_reservation_id",
    "availability_zones",
    "subnet_ids",
    "volume_gib",
    "efa",
    "labels",
    "taints",
)


@workflow.defn(name=CREATE_NODE_GROUP.name)
class CreateNodeGroup(Operation[NodeGroupSpec]):
    kind = CREATE_NODE_GROUP
    stages = (checks(*INPUTS), StagePlan("node_group", "Node group", inputs=INPUTS))

    @workflow.init
    def __init__(self, start: Start[NodeGroupSpec]) -> None:
        super().__init__(start)
        self._rounds = 0

    @workflow.run
    async def run(self, start: Start[NodeGroupSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        group = f"node-groups/{self.spec.name}"
        return (group,) if self.spec.subnet_ids else (group, "network/compute")

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        network = network_of(self)
        await checks_stage(self)

        async def steps(run: StageRun) -> NodeGroup:
            spec, scope = self.spec, self.scope
            placement = await run.act(PLACE_NODE_GROUP, PlaceNodeGroup(scope=scope, spec=spec, network=network))
            subnet_ids = list(spec.subnet_ids) or await self._subnets(run, network, placement)
            role = await run.act(ENSURE_NODE_ROLE, EnsureNodeRole(scope=scope))
            template = await self._template(run, control_plane, network)
            resources = [*filter(None, [placement.accelerator_resource]), *([EFA] if spec.efa else [])]
            if resources:
                plugins = EnsureDevicePlugins(scope=scope, eks_cluster=control_plane.name, resources=resources)
                await run.act(ENSURE_DEVICE_PLUGINS, plugins)
            made = await self._made(run, control_plane, role.arn, subnet_ids, template)
            await run.record_at_once(node_groups=replaced("node_groups", self.record.node_groups, made))
            ready = await run.wait(
                WAIT_FOR_NODE_GROUP,
                WaitForNodeGroup(
                    scope=scope,
                    eks_cluster=control_plane.name,
                    name=spec.name,
                    desired=spec.scaling.desired,
                    efa=spec.efa,
                ),
            )
            await record_node_groups(run, self, control_plane)
            run.detail(describe(ready))
            return ready

        return (await self.stage("node_group", steps)).model_dump(mode="json")

    async def _subnets(self, run: StageRun, network: Network, placement: NodePlacement) -> list[str]:
        """A compute subnet in each zone, one after the other: two at once would take the same block."""
        subnets: list[Subnet] = []
        for zone in placement.zones:
            subnets.append(
                await run.act(
                    ENSURE_COMPUTE_SUBNET,
                    EnsureComputeSubnet(
                        scope=self.scope,
                        vpc_id=network.vpc_id,
                        zone=zone,
                        addresses=placement.addresses,
                        nat_gateways=network.nat_gateways,
                        s3_endpoint_id=network.s3_endpoint_id,
                    ),
                    key=zone,
                )
            )
        known = self.record.network or network
        merged = {subnet.subnet_id: subnet for subnet in (*known.compute_subnets, *subnets)}
        await run.record(network=known.model_copy(update={"compute_subnets": list(merged.values())}))
        return [subnet.subnet_id for subnet in subnets]

    async def _template(self, run: StageRun, control_plane: ControlPlane, network: Network) -> LaunchTemplate:
        """EFA interfaces name their security groups: the cluster's own, by which nodes and control plane reach each
        other, and the one that lets EFA through."""
        groups = [control_plane.cluster_security_group_id, network.security_group_id]
        return await run.act(
            ENSURE_LAUNCH_TEMPLATE,
            EnsureLaunchTemplate(
                scope=self.scope, spec=self.spec, security_group_ids=[each for each in groups if each]
            ),
        )

    async def _made(
        self,
        run: StageRun,
        control_plane: ControlPlane,
        role_arn: str,
        subnet_ids: list[str],
        template: LaunchTemplate,
    ) -> NodeGroup:
        """The group, after one that never worked is out of its way."""
        while True:
            self._rounds += 1
            group = await run.act(
                ENSURE_NODE_GROUP,
                EnsureNodeGroup(
                    scope=self.scope,
                    eks_cluster=control_plane.name,
                    spec=self.spec,
                    role_arn=role_arn,
                    subnet_ids=subnet_ids,
                    launch_template=template,
                    round=self._rounds,
                ),
            )
            if not group.replacing:
                return group
            await run.wait(WAIT_FOR_NODE_GROUP_GONE, reference(self, control_plane, self.spec.name))


@workflow.defn(name=SCALE_NODE_GROUP.name)
class ScaleNodeGroupOperation(Operation[ScaleNodeGroupSpec]):
    kind = SCALE_NODE_GROUP
    stages = (
        checks("desired", "minimum", "maximum"),
        StagePlan("nodes", "Nodes", inputs=("desired", "minimum", "maximum")),
    )

    @workflow.init
    def __init__(self, start: Start[ScaleNodeGroupSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[ScaleNodeGroupSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"node-groups/{self.spec.node_group}",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        await checks_stage(self)

        async def steps(run: StageRun) -> NodeGroup:
            spec, scope = self.spec, self.scope
            scale = ScaleNodeGroup(scope=scope, eks_cluster=control_plane.name, spec=spec)
            scaled = await run.act(SCALE_NODE_GROUP_TO, scale)
            await run.record_at_once(node_groups=replaced("node_groups", self.record.node_groups, scaled))
            ready = await run.wait(
                WAIT_FOR_NODE_GROUP,
                WaitForNodeGroup(
                    scope=scope, eks_cluster=control_plane.name, name=spec.node_group, desired=spec.desired
                ),
            )
            await record_node_groups(run, self, control_plane)
            run.detail(describe(ready))
            return ready

        return (await self.stage("nodes", steps)).model_dump(mode="json")


@workflow.defn(name=DELETE_NODE_GROUP.name)
class DeleteNodeGroup(Operation[DeleteNodeGroupSpec]):
    kind = DELETE_NODE_GROUP
    stages = (
        checks(),
        StagePlan("node_group", "Node group"),
        StagePlan("leftovers", "Launch template and role"),
    )

    @workflow.init
    def __init__(self, start: Start[DeleteNodeGroupSpec]) -> None:
        super().__init__(start)

    @workflow.run
    async def run(self, start: Start[DeleteNodeGroupSpec]) -> Outcome:
        return await self.carry_out()

    def leases(self) -> tuple[str, ...]:
        return (f"node-groups/{self.spec.node_group}",)

    async def runbook(self) -> dict[str, Any]:
        control_plane = control_plane_of(self)
        group = reference(self, control_plane, self.spec.node_group)
        await checks_stage(self)

        async def delete(run: StageRun) -> None:
            await run.act(START_NODE_GROUP_DELETION, group)
            await run.record_at_once(node_groups=without("node_groups", self.record.node_groups, group.name))
            await run.wait(WAIT_FOR_NODE_GROUP_GONE, group)
            await record_node_groups(run, self, control_plane)
            run.detail(f"{group.name} and its nodes are gone")

        async def clean_up(run: StageRun) -> dict[str, Any]:
            template, role = await together(
                run.act(DELETE_LAUNCH_TEMPLATE, group),
                run.act(DELETE_NODE_ROLE, DeleteNodeRole(scope=self.scope, eks_cluster=control_plane.name)),
            )
            kept = [f"{each.name} is kept: {each.kept}" for each in (template, role) if each.kept]
            run.detail("; ".join(kept) or "nothing of it is left")
            return {"node_group": group.name, "kept": kept}

        await self.stage("node_group", delete)
        return await self.stage("leftovers", clean_up)


async def record_node_groups(run: StageRun, operation: Operation[Any], control_plane: ControlPlane) -> None:
    """Put all node groups into the cluster's record as they are now: another operation may have changed another one
    meanwhile."""
    question = ListNodeGroups(scope=operation.scope, eks_cluster=control_plane.name)
    found = await run.act(LIST_NODE_GROUPS, question)
    await run.record(node_groups=found.node_groups)


def reference(operation: Operation[Any], control_plane: ControlPlane, name: str) -> NodeGroupRef:
    return NodeGroupRef(scope=operation.scope, eks_cluster=control_plane.name, name=name)


def describe(group: NodeGroup) -> str:
    """``ng-1: 2 of 2 nodes Ready with 2 accelerators``."""
    accelerators = f" with {number_of(group.accelerators, 'accelerator')}" if group.accelerators else ""
    return f"{group.name}: {group.ready} of {group.desired} nodes Ready{accelerators}"
