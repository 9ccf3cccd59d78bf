"""The network stages: what an EKS control plane and HyperPod nodes live in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.network import (
    ENSURE_INTERNET_GATEWAY,
    ENSURE_NAT_GATEWAY,
    ENSURE_S3_ENDPOINT,
    ENSURE_SECURITY_GROUP,
    ENSURE_SUBNET,
    ENSURE_VPC,
    PLAN_NETWORK,
    WAIT_FOR_NAT_GATEWAYS,
    EnsureInternetGateway,
    EnsureNatGateway,
    EnsureS3Endpoint,
    EnsureSecurityGroup,
    EnsureSubnet,
    EnsureVpc,
    NatGateway,
    Network,
    NetworkPlan,
    NetworkSpec,
    PlanNetwork,
    Scope,
    Subnet,
    Vpc,
    WaitForNatGateways,
)
from workflows.engine import Operation, StagePlan, StageRun, together

NETWORK = StagePlan("network", "Network", inputs=("network",))
EGRESS = StagePlan("egress", "NAT gateways")


async def network_stage(operation: Operation[Any], spec: Callable[[], NetworkSpec]) -> Network:
    """VPC, subnets, internet gateway, security group and S3 endpoint."""

    async def steps(run: StageRun) -> Network:
        network = await build_network(run, operation.scope, spec())
        run.detail(f"{network.vpc_id} {network.vpc_cidrs[0]} in {' and '.join(network.zones)}")
        known = operation.record.network
        if known is not None and known.vpc_id == network.vpc_id:
            network = network.model_copy(
                update={"nat_gateways": known.nat_gateways, "compute_subnets": known.compute_subnets}
            )
        await run.record(network=network)
        return network

    return await operation.stage(NETWORK.name, steps)


async def egress_stage(operation: Operation[Any], network: Network) -> Network:
    """NAT gateways, one in each public subnet, until they are available."""

    async def steps(run: StageRun) -> Network:
        gateways = await together(*(_nat_gateway(run, operation.scope, n, s) for n, s in _numbered(network)))
        waited = WaitForNatGateways(scope=operation.scope, nat_gateway_ids=[each.nat_gateway_id for each in gateways])
        await run.wait(WAIT_FOR_NAT_GATEWAYS, waited)
        run.detail(f"{len(gateways)} NAT gateways available")
        known = operation.record.network or network
        complete = known.model_copy(update={"nat_gateways": gateways})
        await run.record(network=complete)
        return complete

    return await operation.stage(EGRESS.name, steps)


async def build_network(run: StageRun, scope: Scope, spec: NetworkSpec) -> Network:
    plan = await run.act(PLAN_NETWORK, PlanNetwork(cluster=scope.cluster, region=scope.region, spec=spec))
    vpc = await run.act(ENSURE_VPC, EnsureVpc(scope=scope, plan=plan, vpc_id=spec.vpc_id))
    subnets, security_group = await together(
        _subnets(run, scope, plan, vpc),
        run.act(ENSURE_SECURITY_GROUP, EnsureSecurityGroup(scope=scope, vpc_id=vpc.vpc_id)),
    )
    public, control_plane = subnets[:2], subnets[2:]
    gateway = await run.act(
        ENSURE_INTERNET_GATEWAY,
        EnsureInternetGateway(
            scope=scope, vpc_id=vpc.vpc_id, public_subnet_ids=[subnet.subnet_id for subnet in public]
        ),
    )
    endpoint = await run.act(
        ENSURE_S3_ENDPOINT,
        EnsureS3Endpoint(scope=scope, vpc_id=vpc.vpc_id, route_table_ids=[gateway.route_table_id]),
    )
    return Network(
        vpc_id=vpc.vpc_id,
        vpc_cidrs=vpc.cidrs,
        owned=vpc.owned,
        service_cidr=plan.service_cidr,
        zones=plan.zones,
        public_subnet_ids=[subnet.subnet_id for subnet in public],
        control_plane_subnet_ids=[subnet.subnet_id for subnet in control_plane],
        internet_gateway_id=gateway.internet_gateway_id,
        security_group_id=security_group.security_group_id,
        s3_endpoint_id=endpoint.vpc_endpoint_id,
    )


async def _subnets(run: StageRun, scope: Scope, plan: NetworkPlan, vpc: Vpc) -> list[Subnet]:
    """Two public subnets, then two for the control plane's interfaces."""
    wanted = [
        EnsureSubnet(
            scope=scope,
            vpc_id=vpc.vpc_id,
            name=f"{scope.cluster}-{role}-{zone}",
            resource=f"{role}-{number}",
            cidr=cidr,
            zone=zone,
            public=role == "public",
        )
        for role, cidrs in (("public", plan.public_subnet_cidrs), ("control-plane", plan.control_plane_subnet_cidrs))
        for number, (cidr, zone) in enumerate(zip(cidrs, plan.zones, strict=True), start=1)
    ]
    return await together(*(run.act(ENSURE_SUBNET, each, key=each.resource) for each in wanted))


def _numbered(network: Network) -> list[tuple[int, str]]:
    return list(enumerate(network.public_subnet_ids, start=1))


async def _nat_gateway(run: StageRun, scope: Scope, number: int, subnet_id: str) -> NatGateway:
    resource = f"nat-{number}"
    wanted = EnsureNatGateway(scope=scope, resource=resource, subnet_id=subnet_id)
    return await run.act(ENSURE_NAT_GATEWAY, wanted, key=resource)
