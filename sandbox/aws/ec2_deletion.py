"""What EC2 refuses to delete while something else needs it, and what takes a while to go.

Order of deletion: https://docs.aws.amazon.com/vpc/latest/userguide/delete-vpc.html
Error codes: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

from __future__ import annotations

from typing import Any

from sandbox import timings
from sandbox.aws import backends, interfaces
from sandbox.aws.call import AwsError, Call
from sandbox.aws.world import World

NOT_YOURS = "You do not have permission to access the specified resource."
"""What EC2 answers for an address that a NAT gateway or a load balancer still holds."""


class Deletion:
    """Handlers of EC2's deletions."""

    world: World

    def listen_to_deletions(self) -> None:
        self.world.on("ec2.nat-deleted", self._nat_deleted)
        self.world.on("ec2.endpoint-deleted", self._endpoint_deleted)

    def DeleteVpc(self, call: Call) -> Any:
        backend, vpc_id = backends.ec2(*call.place), call.params.get("VpcId", "")
        gateways = [g for g in backend.internet_gateways.values() if g.vpc and g.vpc.id == vpc_id]
        groups = [g for g in backend.groups.get(vpc_id, {}).values() if g.name != "default"]
        endpoints = [e for e in backend.vpc_end_points.values() if e.vpc_id == vpc_id and e.state != "deleted"]
        if gateways or groups or endpoints or any(interfaces.in_vpc(call.place, vpc_id)):
            raise _dependency(f"The vpc '{vpc_id}' has dependencies and cannot be deleted.")
        return call.forward()

    def TerminateInstances(self, call: Call) -> Any:
        """With an instance go its interfaces, which moto would leave attached to it for ever."""
        response = call.forward()
        if response.status < 400:
            gone, enis = set(call.params.get("InstanceIds") or []), backends.ec2(*call.place).enis
            for eni_id in [each.id for each in enis.values() if each.instance and each.instance.id in gone]:
                interfaces.remove(call.place, eni_id)
        return response

    def DeleteSubnet(self, call: Call) -> Any:
        subnet_id = call.params.get("SubnetId", "")
        if any(interfaces.in_subnet(call.place, subnet_id)):
            raise _dependency(f"The subnet '{subnet_id}' has dependencies and cannot be deleted.")
        response = call.forward()
        if response.status < 400:
            # moto keeps the association, and would then never let the route table go.
            for table in backends.ec2(*call.place).route_tables.values():
                for association in [a for a, target in table._associations.items() if target == subnet_id]:
                    del table._associations[association]
        return response

    def DeleteRouteTable(self, call: Call) -> Any:
        table_id = call.params.get("RouteTableId", "")
        table = backends.ec2(*call.place).route_tables.get(table_id)
        if table is not None and table.main_association_id is not None:
            raise _dependency(f"The routeTable '{table_id}' has dependencies and cannot be deleted.")
        return call.forward()

    def DisassociateRouteTable(self, call: Call) -> Any:
        association = call.params.get("AssociationId", "")
        if any(t.main_association_id == association for t in backends.ec2(*call.place).route_tables.values()):
            raise AwsError(
                "InvalidParameterValue", f"cannot disassociate the main route table association {association}"
            )
        return call.forward()

    def DeleteSecurityGroup(self, call: Call) -> Any:
        backend, group_id = backends.ec2(*call.place), call.params.get("GroupId", "")
        group = self.world.security_group(call.place, group_id) if group_id else None
        if group is not None and group.name == "default":
            raise AwsError(
                "CannotDelete", f'the specified group: "{group_id}" name: "default" cannot be deleted by a user'
            )
        others = [g for groups in backend.groups.values() for g in groups.values() if g.id != group_id]
        referenced = any(
            rule.source_group and rule.source_group.get("GroupId") == group_id
            for g in others
            for rule in (*g.ingress_rules, *g.egress_rules)
        )
        endpoint = any(group_id in (e.security_group_ids or []) for e in backend.vpc_end_points.values())
        if group_id and (referenced or endpoint or any(interfaces.with_group(call.place, group_id))):
            raise _dependency(f"resource {group_id} has a dependent object")
        return call.forward()

    def DeleteNetworkInterface(self, call: Call) -> Any:
        interfaces.settle(call.place)
        eni_id = call.params.get("NetworkInterfaceId", "")
        eni = backends.ec2(*call.place).enis.get(eni_id)
        if eni is not None and (eni.status == "in-use" or eni.instance is not None):
            raise AwsError("InvalidParameterValue", f"Network interface '{eni_id}' is currently in use.")
        response = call.forward()
        if eni is not None:
            eni.subnet.del_subnet_ip(eni.private_ip_address)
        return response

    # Internet gateways and public addresses

    def DetachInternetGateway(self, call: Call) -> Any:
        vpc_id = call.params.get("VpcId", "")
        gateway = backends.ec2(*call.place).internet_gateways.get(call.params.get("InternetGatewayId", ""))
        attached = gateway is not None and gateway.vpc is not None and gateway.vpc.id == vpc_id
        if attached and any(eni.public_ip for eni in interfaces.in_vpc(call.place, vpc_id)):
            raise _dependency(
                f"Network {vpc_id} has some mapped public address(es). Please unmap those public address(es) before "
                "detaching the gateway."
            )
        return call.forward()

    def DeleteInternetGateway(self, call: Call) -> Any:
        gateway_id = call.params.get("InternetGatewayId", "")
        gateway = backends.ec2(*call.place).internet_gateways.get(gateway_id)
        if gateway is not None and gateway.vpc is not None:
            raise _dependency(f"The internetGateway '{gateway_id}' has dependencies and cannot be deleted.")
        return call.forward()

    def ReleaseAddress(self, call: Call) -> Any:
        """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReleaseAddress.html"""
        address = _address(call)
        if address is not None and address.eni is not None:
            self._check_managed(call, address)
            raise AwsError("InvalidIPAddress.InUse", f"The address {address.public_ip} is in use.")
        return call.forward()

    def DisassociateAddress(self, call: Call) -> Any:
        address = _address(call)
        if address is not None and address.eni is not None:
            self._check_managed(call, address)
        return call.forward()

    def _check_managed(self, call: Call, address: Any) -> None:
        interfaces.settle(call.place)
        if address.eni.requester_managed:
            raise AwsError("AuthFailure", NOT_YOURS)

    # NAT gateways and endpoints

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

    def _nat_deleted(self, account: str, region: str, nat: str) -> None:
        gateway = backends.ec2(account, region).nat_gateways.get(nat)
        if gateway is not None:
            gateway.state = "deleted"
            interfaces.remove((account, region), gateway._eni.id)
            self.world.changed("ec2")

    def DeleteVpcEndpoints(self, call: Call) -> Any:
        """A gateway endpoint is gone at once, one with interfaces when these are."""
        backend, failed = backends.ec2(*call.place), []
        for endpoint_id in call.params.get("VpcEndpointIds") or []:
            endpoint = backend.vpc_end_points.get(endpoint_id)
            if endpoint is None:
                message = f"The Vpc Endpoint Id '{endpoint_id}' does not exist"
                error = {"Code": "InvalidVpcEndpoint.NotFound", "Message": message}
                failed.append({"ResourceId": endpoint_id, "Error": error})
                continue
            if not endpoint.network_interface_ids:
                self._endpoint_deleted(call.account, call.region, endpoint_id)
            elif endpoint.state != "deleting":
                endpoint.state = "deleting"
                self.world.clock.schedule(
                    timings.VPC_ENDPOINT_DELETE,
                    "ec2.endpoint-deleted",
                    account=call.account,
                    region=call.region,
                    endpoint=endpoint_id,
                )
        self.world.changed("ec2")
        return {"Unsuccessful": failed}

    def _endpoint_deleted(self, account: str, region: str, endpoint: str) -> None:
        backend = backends.ec2(account, region)
        gone = backend.vpc_end_points.pop(endpoint, None)
        if gone is None:
            return
        for eni_id in gone.network_interface_ids or []:
            interfaces.remove((account, region), eni_id)
        for table in backend.route_tables.values():
            for route in [r for r in table.routes if _leads_to(r, endpoint)]:
                table._routes.pop(route.id, None)
        self.world.changed("ec2")


def _dependency(message: str) -> AwsError:
    return AwsError("DependencyViolation", message)


def _address(call: Call) -> Any | None:
    """The Elastic IP that a request names, in any of the three ways."""
    p = call.params
    for address in backends.ec2(*call.place).addresses:
        named = (
            (p.get("AllocationId"), address.allocation_id),
            (p.get("AssociationId"), address.association_id),
            (p.get("PublicIp"), address.public_ip),
        )
        if any(wanted and wanted == held for wanted, held in named):
            return address
    return None


def _leads_to(route: Any, endpoint_id: str) -> bool:
    gateway = getattr(route, "gateway", None)
    return getattr(gateway, "id", None) == endpoint_id
