"""Ways out of the VPC: internet gateway, NAT gateways, and the gateway endpoint of S3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from temporalio import activity

from activities.aws import (
    AwsClients,
    filters,
    find_settled,
    owned_filters,
    pages,
    tag_specifications,
    tags_of,
    token,
)
from activities.errors import code_of, fail
from activities.network.lookup import (
    EVERYWHERE,
    default_target,
    has_default_route,
    has_role,
    only_one,
    route_tables_of,
    table_of,
)
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.names import ClusterNames
from contracts.network import (
    ENSURE_INTERNET_GATEWAY,
    ENSURE_NAT_GATEWAY,
    ENSURE_S3_ENDPOINT,
    WAIT_FOR_NAT_GATEWAYS,
    EnsureInternetGateway,
    EnsureNatGateway,
    EnsureS3Endpoint,
    InternetGateway,
    NatGateway,
    NatGateways,
    S3Endpoint,
    Scope,
    WaitForNatGateways,
)
from contracts.problem import ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import (
        AddressTypeDef,
        FilterTypeDef,
        InternetGatewayTypeDef,
        NatGatewayTypeDef,
        RouteTableTypeDef,
    )


class GatewayActivities:
    def __init__(self, aws: AwsClients, settings: Settings) -> None:
        self._aws, self._settle, self._poll = aws, settings.settle_seconds, settings.poll_seconds

    @activity.defn(name=ENSURE_INTERNET_GATEWAY.name)
    def ensure_internet_gateway(self, request: EnsureInternetGateway) -> InternetGateway:
        """An internet gateway on the VPC (any that is attached), and a route table to it for the public subnets."""
        scope, act = request.scope, self._aws.act.ec2(request.scope.region)
        gateway, changed = self._gateway(scope, filters(attachment__vpc_id=request.vpc_id)), False
        if gateway is None:
            ours = owned_filters(scope.cluster, "internet-gateway")
            gateway = find_settled(lambda: self._gateway(scope, ours), self._settle)
            if gateway is None:
                tags = tags_of(scope, "internet-gateway", ClusterNames(scope.cluster).network("igw"))
                specifications = tag_specifications("internet-gateway", tags)
                gateway = act.create_internet_gateway(TagSpecifications=specifications)["InternetGateway"]
            try:
                act.attach_internet_gateway(InternetGatewayId=gateway["InternetGatewayId"], VpcId=request.vpc_id)
            except Exception as error:
                # An earlier attempt's answer was lost. If it is attached elsewhere, the look below finds none.
                if code_of(error) != "Resource.AlreadyAssociated":
                    raise
            changed = True
        gateway_id = gateway["InternetGatewayId"]
        table = self._public_table(scope, request.vpc_id)
        if table is None:
            table, changed = self._make_table(scope, request.vpc_id), True
        table_id = table["RouteTableId"]
        changed |= ensure_default_route(self._aws, scope, table, GatewayId=gateway_id)
        for subnet_id in request.public_subnet_ids:
            changed |= self._lead_out(request, subnet_id, table_id, gateway_id)
        return InternetGateway(internet_gateway_id=gateway_id, route_table_id=table_id, changed=changed)

    def _gateway(self, scope: Scope, wanted: list[FilterTypeDef]) -> InternetGatewayTypeDef | None:
        ec2 = self._aws.read.ec2(scope.region)
        found = list(pages(ec2, "describe_internet_gateways", "InternetGateways", Filters=wanted))
        return only_one(found, "internet gateway", "InternetGatewayId")

    def _public_table(self, scope: Scope, vpc_id: str) -> RouteTableTypeDef | None:
        wanted = [*owned_filters(scope.cluster, "public-routes"), *filters(vpc_id=vpc_id)]
        found = list(pages(self._aws.read.ec2(scope.region), "describe_route_tables", "RouteTables", Filters=wanted))
        return only_one(found, "public route table", "RouteTableId")

    def _make_table(self, scope: Scope, vpc_id: str) -> RouteTableTypeDef:
        tags = tags_of(scope, "public-routes", ClusterNames(scope.cluster).network("public"))
        return self._aws.act.ec2(scope.region).create_route_table(
            VpcId=vpc_id, TagSpecifications=tag_specifications("route-table", tags), ClientToken=token("public-routes")
        )["RouteTable"]

    def _lead_out(self, request: EnsureInternetGateway, subnet_id: str, table_id: str, gateway_id: str) -> bool:
        """Associate a subnet with the public route table, unless its own leads to the gateway already."""
        scope = request.scope
        current = table_of(route_tables_of(self._aws.read.ec2(scope.region), request.vpc_id), subnet_id)
        if current is None:
            self._aws.act.ec2(scope.region).associate_route_table(RouteTableId=table_id, SubnetId=subnet_id)
            return True
        if current["RouteTableId"] != table_id and default_target(current) != gateway_id:
            fail(
                ProblemCode.CONFLICT,
                f"Public subnet {subnet_id} follows route table {current['RouteTableId']}, which does not lead to "
                f"{gateway_id}",
                f"Add a route for 0.0.0.0/0 to {gateway_id}, or disassociate the route table; then retry.",
            )
        return False

    @activity.defn(name=ENSURE_NAT_GATEWAY.name)
    def ensure_nat_gateway(self, request: EnsureNatGateway) -> NatGateway:
        """A NAT gateway with an Elastic IP of its own in a public subnet; one that failed is replaced.

        Does not wait until it is available. The address comes first and is tagged, so that none is ever lost.
        """
        scope, ec2 = request.scope, self._aws.read.ec2(request.scope.region)
        subnet = ec2.describe_subnets(SubnetIds=[request.subnet_id])["Subnets"][0]
        known = self._nat_gateways(scope, request.resource)
        living = [nat for nat in known if nat["State"] in ("pending", "available")]
        nat = only_one(living, f"NAT gateway {request.resource}", "NatGatewayId")
        changed = nat is None
        if nat is None:
            if any(each["State"] == "deleting" for each in known):
                remedy = "The platform tries again when it is gone."
                fail(ProblemCode.BUSY, "The former NAT gateway is being deleted", remedy, retry=True, delay=self._poll)
            address = self._address(scope, request.resource)
            failed = ",".join(sorted(each["NatGatewayId"] for each in known))
            tags = tags_of(scope, request.resource, ClusterNames(scope.cluster).network(request.resource))
            # The token names the failed ones: the one that replaces them is another request.
            nat = self._aws.act.ec2(scope.region).create_nat_gateway(
                SubnetId=request.subnet_id,
                AllocationId=address,
                TagSpecifications=tag_specifications("natgateway", tags),
                ClientToken=token(f"{request.resource}/{failed}"),
            )["NatGateway"]
        elif nat["SubnetId"] != request.subnet_id:
            fail(
                ProblemCode.CONFLICT,
                f"NAT gateway {nat['NatGatewayId']} ({request.resource}) is in {nat['SubnetId']}, not "
                f"{request.subnet_id}",
                "Ask for the subnet that it is in, or delete it first.",
            )
        addresses = nat.get("NatGatewayAddresses", [])
        return NatGateway(
            nat_gateway_id=nat["NatGatewayId"],
            allocation_id=next((each["AllocationId"] for each in addresses if each.get("AllocationId")), ""),
            subnet_id=request.subnet_id,
            zone=subnet["AvailabilityZone"],
            changed=changed,
        )

    def _nat_gateways(self, scope: Scope, resource: str) -> list[NatGatewayTypeDef]:
        """Ours, those that failed or are being deleted too; deleted ones stay visible for an hour and are left out."""
        ec2, wanted = self._aws.read.ec2(scope.region), owned_filters(scope.cluster, resource)
        found = pages(ec2, "describe_nat_gateways", "NatGateways", Filter=wanted)
        return [nat for nat in found if nat["State"] != "deleted" and has_role(nat, scope.cluster, resource)]

    def _address(self, scope: Scope, resource: str) -> str:
        """Allocation ID of the Elastic IP for a NAT gateway: ours that nothing uses, else a new one."""
        ec2, role = self._aws.read.ec2(scope.region), f"{resource}-address"

        def find() -> AddressTypeDef | None:
            found = ec2.describe_addresses(Filters=owned_filters(scope.cluster, role))["Addresses"]
            return next((address for address in found if not address.get("AssociationId")), None)

        found = find_settled(find, self._settle)
        if found is not None:
            return found["AllocationId"]
        tags = tags_of(scope, role, ClusterNames(scope.cluster).network(role))
        made = self._aws.act.ec2(scope.region).allocate_address(
            Domain="vpc", TagSpecifications=tag_specifications("elastic-ip", tags)
        )
        return made["AllocationId"]

    @activity.defn(name=WAIT_FOR_NAT_GATEWAYS.name)
    async def wait_for_nat_gateways(self, request: WaitForNatGateways) -> NatGateways:
        """Until all are available. Raises NOT_READY when one failed: retrying the stage that made it replaces it."""

        def look(memory: Memory) -> Seen[NatGateways]:
            ec2 = self._aws.read.ec2(request.scope.region)
            found = pages(ec2, "describe_nat_gateways", "NatGateways", NatGatewayIds=request.nat_gateway_ids)
            states: dict[str, str] = {}
            for nat in found:
                states[nat["NatGatewayId"]] = nat["State"]
                if nat["State"] in ("failed", "deleting", "deleted"):
                    fail(
                        ProblemCode.NOT_READY,
                        f"NAT gateway {nat['NatGatewayId']} is {nat['State']}: "
                        f"{nat.get('FailureMessage') or nat.get('FailureCode') or 'no reason given'}",
                        "Mend what the message names and retry; a failed NAT gateway is replaced.",
                        retryable=True,
                    )
            ready = sum(state == "available" for state in states.values())
            detail = f"{ready} of {len(request.nat_gateway_ids)} NAT gateways available"
            done = ready == len(set(request.nat_gateway_ids))
            return Seen(detail, NatGateways(states=states) if done else None)

        limit = WAIT_FOR_NAT_GATEWAYS.limit
        return await wait_until(look, what="available NAT gateways", limit=limit, poll_seconds=self._poll)

    @activity.defn(name=ENSURE_S3_ENDPOINT.name)
    def ensure_s3_endpoint(self, request: EnsureS3Endpoint) -> S3Endpoint:
        """A gateway endpoint for S3 on the VPC (any that exists), with the given route tables among its own."""
        scope, ec2 = request.scope, self._aws.read.ec2(request.scope.region)
        service = f"com.amazonaws.{scope.region}.s3"
        wanted = filters(vpc_id=request.vpc_id, service_name=service, vpc_endpoint_type="Gateway")
        found = [
            endpoint
            for endpoint in pages(ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=wanted)
            if str(endpoint.get("State", "available")).lower() in ("available", "pending")
        ]
        if not found:
            made = self._aws.act.ec2(scope.region).create_vpc_endpoint(
                VpcEndpointType="Gateway",
                VpcId=request.vpc_id,
                ServiceName=service,
                RouteTableIds=request.route_table_ids,
                TagSpecifications=tag_specifications(
                    "vpc-endpoint", tags_of(scope, "s3-endpoint", ClusterNames(scope.cluster).network("s3"))
                ),
                ClientToken=token("s3-endpoint"),
            )["VpcEndpoint"]
            return S3Endpoint(vpc_endpoint_id=made["VpcEndpointId"])
        endpoint_id = str(found[0]["VpcEndpointId"])
        return S3Endpoint(
            vpc_endpoint_id=endpoint_id,
            changed=add_route_tables(self._aws, scope, endpoint_id, request.route_table_ids),
        )


def ensure_default_route(aws: AwsClients, scope: Scope, table: RouteTableTypeDef, **target: str) -> bool:
    """Lead everything that a route table has no better route for to ``target`` (``NatGatewayId`` or ``GatewayId``).

    A route whose target is gone is replaced; one that leads to another living gateway is left and refused by CONFLICT.
    """
    act: Any = aws.act.ec2(scope.region)
    (wanted,) = target.values()
    current = default_target(table)
    if current == wanted:
        return False
    if current is not None:
        fail(
            ProblemCode.CONFLICT,
            f"Route table {table['RouteTableId']} leads 0.0.0.0/0 to {current}, not to {wanted}",
            "Correct or remove that route, then retry.",
        )
    change = act.replace_route if has_default_route(table) else act.create_route
    try:
        change(RouteTableId=table["RouteTableId"], DestinationCidrBlock=EVERYWHERE, **target)
    except Exception as error:
        # Made by an earlier attempt and not visible yet when the table was read: look again.
        if code_of(error) != "RouteAlreadyExists":
            raise
        seen = aws.read.ec2(scope.region).describe_route_tables(RouteTableIds=[table["RouteTableId"]])["RouteTables"][0]
        if default_target(seen) != wanted:
            raise
    return True


def add_route_tables(aws: AwsClients, scope: Scope, endpoint_id: str, table_ids: Sequence[str]) -> bool:
    """Whether route tables had to be associated with a gateway endpoint."""
    endpoint = aws.read.ec2(scope.region).describe_vpc_endpoints(VpcEndpointIds=[endpoint_id])["VpcEndpoints"][0]
    missing = [table for table in table_ids if table not in endpoint.get("RouteTableIds", [])]
    if not missing:
        return False
    aws.act.ec2(scope.region).modify_vpc_endpoint(VpcEndpointId=endpoint_id, AddRouteTableIds=missing)
    return True
