"""EC2: moto's, with the limits, tokens, delays and dry runs that it lacks.

Error codes: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
Idempotency: https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import Any

from sandbox import timings
from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call, Response
from sandbox.aws.instance_types import catalogue
from sandbox.aws.overlay import Handler
from sandbox.aws.world import Place, World, paginate, token_digest

TOKENS = frozenset(
    {"CreateNatGateway", "CreateVpcEndpoint", "CreateRouteTable", "CreateVolume", "CreateNetworkInterface"}
)
"""Creations that take a ClientToken which moto ignores."""
DEFAULT_VPCS = 5
DEFAULT_ADDRESSES = 5


@dataclass
class Ec2State:
    """What the sandbox knows of EC2 beside moto's backends."""

    tokens: dict[tuple[Place, str, str], tuple[str, Response]] = field(default_factory=dict)
    """(place, operation, token) -> (digest of the request, the answer to repeat)."""
    born: dict[str, float] = field(default_factory=dict)
    """VPC or subnet -> when it was created, while it is not described yet."""


class Ec2:
    """Handlers of EC2's operations."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = Ec2State()
        world.on("ec2.nat-available", self._nat_available)
        world.on("ec2.nat-deleted", self._nat_deleted)

    def around(self, call: Call, handler: Handler) -> Any:
        """Dry runs and client tokens, for every operation."""
        if call.params.get("DryRun"):
            call.dry_run = True
            raise AwsError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412)
        token = call.params.get("ClientToken")
        if not token or call.operation not in TOKENS:
            return handler(call)
        key = (call.place, call.operation, token)
        digest = token_digest(call.params, "ClientToken")
        if known := self.state.tokens.get(key):
            if known[0] != digest:
                raise AwsError(
                    "IdempotentParameterMismatch",
                    f"The client token '{token}' was used before with a request that differs from this one.",
                )
            return known[1]
        response = handler(call)
        if isinstance(response, Response) and response.status < 400:
            self.state.tokens[key] = (digest, response)
        return response

    # Limits

    def CreateVpc(self, call: Call) -> Any:
        held = len(backends.ec2(*call.place).vpcs)
        if held >= (self.world.quota(call.region, "vpcs", DEFAULT_VPCS) or 0):
            raise AwsError("VpcLimitExceeded", "The maximum number of VPCs has been reached.")
        return self._created(call, lambda: set(backends.ec2(*call.place).vpcs))

    def CreateSubnet(self, call: Call) -> Any:
        return self._created(call, lambda: _subnet_ids(call.place))

    def AllocateAddress(self, call: Call) -> Any:
        held = len(backends.ec2(*call.place).addresses)
        if held >= (self.world.quota(call.region, "elastic-ips", DEFAULT_ADDRESSES) or 0):
            raise AwsError("AddressLimitExceeded", "The maximum number of addresses has been reached.")
        return call.forward()

    # What is described only after a while

    def DescribeVpcs(self, call: Call) -> Any:
        return self._described(call)

    def DescribeSubnets(self, call: Call) -> Any:
        return self._described(call)

    def _created(self, call: Call, ids: Any) -> Response:
        before = ids()
        response = call.forward()
        if self.world.knobs.visible_after > 0:
            for new in ids() - before:
                self.state.born[new] = self.world.clock.timestamp()
        return response

    def _described(self, call: Call) -> Response:
        if not self.state.born:
            return call.forward()
        oldest = self.world.clock.timestamp() - self.world.knobs.visible_after
        self.state.born = {i: t for i, t in self.state.born.items() if t > oldest}
        backend = backends.ec2(*call.place)
        hidden_vpcs = {i: backend.vpcs.pop(i) for i in list(backend.vpcs) if i in self.state.born}
        hidden_subnets = []
        for zone, subnets in backend.subnets.items():
            hidden_subnets += [(zone, i, subnets.pop(i)) for i in list(subnets) if i in self.state.born]
        try:
            return call.forward()
        finally:
            backend.vpcs.update(hidden_vpcs)
            for zone, subnet_id, subnet in hidden_subnets:
                backend.subnets[zone][subnet_id] = subnet

    # Dependencies

    def DeleteSubnet(self, call: Call) -> Any:
        subnet_id = call.params.get("SubnetId", "")
        if any(eni.subnet.id == subnet_id for eni in backends.ec2(*call.place).enis.values()):
            raise AwsError("DependencyViolation", f"The subnet '{subnet_id}' has dependencies and cannot be deleted.")
        return call.forward()

    def DeleteVpc(self, call: Call) -> Any:
        backend, vpc_id = backends.ec2(*call.place), call.params.get("VpcId", "")
        gateways = [g for g in backend.internet_gateways.values() if g.vpc and g.vpc.id == vpc_id]
        groups = [g for g in backend.groups.get(vpc_id, {}).values() if g.name != "default"]
        endpoints = [e for e in backend.vpc_end_points.values() if e.vpc_id == vpc_id and e.state != "deleted"]
        if gateways or groups or endpoints:
            raise AwsError("DependencyViolation", f"The vpc '{vpc_id}' has dependencies and cannot be deleted.")
        return call.forward()

    def DeleteSecurityGroup(self, call: Call) -> Any:
        backend, group_id = backends.ec2(*call.place), call.params.get("GroupId", "")
        used = any(group_id in [g.id for g in eni._group_set] for eni in backend.enis.values())
        others = [g for groups in backend.groups.values() for g in groups.values() if g.id != group_id]
        referenced = any(
            rule.source_group and rule.source_group.get("GroupId") == group_id
            for g in others
            for rule in (*g.ingress_rules, *g.egress_rules)
        )
        if group_id and (used or referenced):
            raise AwsError("DependencyViolation", f"resource {group_id} has a dependent object")
        return call.forward()

    # NAT gateways

    def CreateNatGateway(self, call: Call) -> Any:
        backend = backends.ec2(*call.place)
        before = set(backend.nat_gateways)
        response = call.forward()
        for new in set(backend.nat_gateways) - before:
            backend.nat_gateways[new].state = "pending"
            self.world.clock.schedule(
                timings.NAT_CREATE, "ec2.nat-available", account=call.account, region=call.region, nat=new
            )
        body = response.body.replace(b"<state>available</state>", b"<state>pending</state>")
        return Response(response.status, response.headers, body)

    def DeleteNatGateway(self, call: Call) -> Any:
        nat_id = call.params.get("NatGatewayId", "")
        nat = backends.ec2(*call.place).nat_gateways.get(nat_id)
        if nat is None or nat.state == "deleted":
            raise AwsError("NatGatewayNotFound", f"The Nat Gateway {nat_id} was not found")
        if nat.state != "deleting":
            nat.state = "deleting"
            self.world.changed("ec2")
            self.world.clock.schedule(
                timings.NAT_DELETE, "ec2.nat-deleted", account=call.account, region=call.region, nat=nat_id
            )
        return {"NatGatewayId": nat_id}

    def _nat_available(self, account: str, region: str, nat: str) -> None:
        gateway = backends.ec2(account, region).nat_gateways.get(nat)
        if gateway is not None and gateway.state == "pending":
            gateway.state = "available"
            self.world.changed("ec2")

    def _nat_deleted(self, account: str, region: str, nat: str) -> None:
        backend = backends.ec2(account, region)
        gateway = backend.nat_gateways.get(nat)
        if gateway is None:
            return
        gateway.state = "deleted"
        backend.enis.pop(gateway._eni.id, None)
        for address in backend.addresses:
            if address.eni is not None and address.eni.id == gateway._eni.id:
                address.eni = address.association_id = None
        self.world.changed("ec2")

    # VPC endpoints

    def CreateVpcEndpoint(self, call: Call) -> Any:
        backend = backends.ec2(*call.place)
        response = call.forward()
        for endpoint in backend.vpc_end_points.values():
            # AWS's default; without a type moto's DeleteVpcEndpoints fails.
            endpoint.vpc_endpoint_type = endpoint.vpc_endpoint_type or "Gateway"
        return response

    def DeleteVpcEndpoints(self, call: Call) -> Any:
        backend, failed = backends.ec2(*call.place), []
        for endpoint_id in call.params.get("VpcEndpointIds") or []:
            endpoint = backend.vpc_end_points.pop(endpoint_id, None)
            if endpoint is None:
                message = f"The Vpc Endpoint Id '{endpoint_id}' does not exist"
                error = {"Code": "InvalidVpcEndpoint.NotFound", "Message": message}
                failed.append({"ResourceId": endpoint_id, "Error": error})
                continue
            for eni_id in endpoint.network_interface_ids or []:
                backend.enis.pop(eni_id, None)
            for table in backend.route_tables.values():
                for route in [r for r in table.routes if _leads_to(r, endpoint_id)]:
                    table._routes.pop(route.id, None)
        self.world.changed("ec2")
        return {"Unsuccessful": failed}

    # Instance types

    def DescribeInstanceTypes(self, call: Call) -> Any:
        table = catalogue()
        wanted = call.params.get("InstanceTypes") or []
        if unknown := [t for t in wanted if t not in table]:
            raise AwsError(
                "InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
            )
        types = [table[name] for name in (wanted or sorted(table))]
        for condition in call.params.get("Filters") or []:
            types = [t for t in types if _matches(t, condition["Name"], condition.get("Values") or [])]
        page, token = paginate(types, call.params.get("NextToken"), call.params.get("MaxResults") or 100)
        return {"InstanceTypes": page, "NextToken": token} if token else {"InstanceTypes": page}

    def DescribeInstanceTypeOfferings(self, call: Call) -> Any:
        catalogue()
        return call.forward()


def _subnet_ids(place: Place) -> set[str]:
    return {i for subnets in backends.ec2(*place).subnets.values() for i in subnets}


def _leads_to(route: Any, endpoint_id: str) -> bool:
    gateway = getattr(route, "gateway", None)
    return getattr(gateway, "id", None) == endpoint_id


def _matches(instance_type: dict[str, Any], name: str, patterns: list[str]) -> bool:
    """A filter of DescribeInstanceTypes: ``network-info.efa-supported`` names NetworkInfo.EfaSupported."""
    values: list[Any] = [instance_type]
    for part in name.split("."):
        words = part.replace("vcpu", "v-cpu").split("-")
        key = "".join(w.capitalize() for w in words).replace("Vcpus", "VCpus").replace("Mib", "MiB")
        found: list[Any] = []
        for value in values:
            item = value.get(key, value.get(key + "s")) if isinstance(value, dict) else None
            found += item if isinstance(item, list) else [] if item is None else [item]
        values = found
    texts = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    return any(fnmatch.fnmatchcase(text, pattern) for text in texts for pattern in patterns)
