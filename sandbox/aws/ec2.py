"""EC2: moto's, with the limits, tokens, delays and dry runs that it lacks.

Error codes: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
Idempotency: https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import Any

from sandbox import timings
from sandbox.aws import backends, interfaces
from sandbox.aws.call import AwsError, Call, Response
from sandbox.aws.ec2_deletion import Deletion
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


class Ec2(Deletion):
    """Handlers of EC2's operations."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = Ec2State()
        world.on("ec2.nat-available", self._nat_available)
        self.listen_to_deletions()

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

    def _nat_available(self, account: str, region: str, nat: str) -> None:
        gateway = backends.ec2(account, region).nat_gateways.get(nat)
        if gateway is not None and gateway.state == "pending":
            gateway.state = "available"
            self.world.changed("ec2")

    # VPC endpoints

    def CreateVpcEndpoint(self, call: Call) -> Any:
        backend = backends.ec2(*call.place)
        response = call.forward()
        for endpoint in backend.vpc_end_points.values():
            # AWS's default; without a type moto's DeleteVpcEndpoints fails.
            endpoint.vpc_endpoint_type = endpoint.vpc_endpoint_type or "Gateway"
        return response

    # What is described

    def DescribeNetworkInterfaces(self, call: Call) -> Any:
        interfaces.settle(call.place)
        return call.forward()

    def DescribeNatGateways(self, call: Call) -> Any:
        """moto ignores ids that do not exist, and filters of tag keys."""
        for nat_id in call.params.get("NatGatewayIds") or []:
            if nat_id not in backends.ec2(*call.place).nat_gateways:
                raise AwsError("NatGatewayNotFound", f"NatGateway {nat_id} was not found")
        wanted = [f for f in call.params.get("Filter") or [] if f["Name"] == "tag-key"]
        if not wanted:
            return call.forward()
        gateways = backends.ec2(*call.place).nat_gateways
        others = {
            i: gateways.pop(i)
            for i, gateway in list(gateways.items())
            if not all({t["key"] for t in gateway.get_tags()} & set(f["Values"]) for f in wanted)
        }
        try:
            return call.forward()
        finally:
            gateways.update(others)

    def DescribeCapacityReservations(self, call: Call) -> Any:
        """There are none: capacity is what the knobs and training plans say."""
        if asked := call.params.get("CapacityReservationIds"):
            raise AwsError(
                "InvalidCapacityReservationId.NotFound", f"The capacity reservation ID '{asked[0]}' does not exist"
            )
        return {"CapacityReservations": []}

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
