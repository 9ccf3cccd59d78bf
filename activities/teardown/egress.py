"""NAT gateways, VPC endpoints, and the Elastic IPs that they leave."""

from __future__ import annotations

from typing import Any

from activities.aws import pages
from activities.context import attempt
from activities.errors import GONE_ATTEMPTS, fail
from activities.teardown.lookup import gone, is_kept
from activities.teardown.vpc import VpcReader, resource, tagged
from contracts.problem import ProblemCode
from contracts.teardown import Part, Resource, Teardown

NAT, ENDPOINT, ADDRESS = "NAT gateway", "VPC endpoint", "Elastic IP"


class EgressDeleter(VpcReader):
    def find(self, asked: Teardown) -> list[Resource]:
        ec2 = self.ec2(asked)
        gateways = pages(ec2, "describe_nat_gateways", "NatGateways", Filter=tagged(asked))
        endpoints = pages(ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=tagged(asked))
        found = [
            resource(Part.EGRESS, NAT, nat["NatGatewayId"], nat, nat["State"])
            for nat in gateways
            # A deleted gateway stays visible for about an hour, one that failed likewise.
            if nat["State"] not in ("deleted", "failed")
        ]
        return found + [
            resource(Part.EGRESS, ENDPOINT, each["VpcEndpointId"], each, each["ServiceName"])
            for each in endpoints
            if str(each.get("State", "")).lower() != "deleted"
        ]

    def delete(self, asked: Teardown, resource: Resource) -> None:
        act = self._aws.act.ec2(asked.scope.region)
        if resource.kind == NAT:
            if resource.detail != "deleting":
                gone(act.delete_nat_gateway, "NatGatewayNotFound", NatGatewayId=resource.id)
            return
        answer = act.delete_vpc_endpoints(VpcEndpointIds=[resource.id])
        for failed in answer.get("Unsuccessful", []):
            error = failed.get("Error", {})
            if error.get("Code") != "InvalidVpcEndpoint.NotFound":
                fail(
                    ProblemCode.BUSY,
                    f"VPC endpoint {resource.id} was not deleted: {error.get('Code')}: {error.get('Message')}",
                    "The platform tries again.",
                    retry=True,
                )


class AddressDeleter(VpcReader):
    def find(self, asked: Teardown) -> list[Resource]:
        found: Any = self.ec2(asked).describe_addresses(Filters=tagged(asked))["Addresses"]
        return [
            Resource(
                part=Part.ADDRESSES,
                kind=ADDRESS,
                id=each["AllocationId"],
                name=each.get("PublicIp", ""),
                detail=each.get("AssociationId"),
            )
            for each in found
            if not is_kept(asked, each["AllocationId"], each.get("PublicIp"))
        ]

    def delete(self, asked: Teardown, resource: Resource) -> None:
        """Raises FOREIGN for one that somebody has put to another use, after some attempts: EC2 may still show the NAT
        gateway's use."""
        if resource.detail:
            again = attempt() < GONE_ATTEMPTS
            fail(
                ProblemCode.FOREIGN,
                f"Elastic IP {resource.name} ({resource.id}) of the cluster is in use ({resource.detail})",
                "Disassociate the address, or name it in keep, then retry.",
                retry=again,
                delay=min(attempt(), 5),
                retryable=True,
            )
        act = self._aws.act.ec2(asked.scope.region)
        gone(act.release_address, "InvalidAllocationID.NotFound", AllocationId=resource.id)
