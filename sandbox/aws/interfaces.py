"""Network interfaces that AWS services keep in a VPC: who they belong to, and what holds on to a subnet or a group.

Requester-managed interfaces: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/requester-managed-eni.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sandbox.aws import backends
from sandbox.aws.world import Place

NAT_GATEWAY = "Interface for NAT Gateway "
LOAD_BALANCER = "ELB "

_OWNERS = {
    NAT_GATEWAY: ("nat_gateway", "amazon-aws"),
    LOAD_BALANCER: ("interface", "amazon-elb"),
    "Amazon EKS ": ("interface", "amazon-eks"),
    "SageMaker HyperPod ": ("interface", "amazon-sagemaker"),
    "VPC Endpoint Interface ": ("vpc_endpoint", "amazon-vpce"),
    "Amazon FSx ": ("interface", "amazon-fsx"),
}
"""How the description of a service's interface begins -> (type, requester)."""


def settle(place: Place) -> None:
    """Give the interfaces of services what EC2 says of them: managed by their requester and in use."""
    ec2 = backends.ec2(*place)
    for gateway in ec2.nat_gateways.values():
        if not gateway._eni.description:
            gateway._eni.description = f"{NAT_GATEWAY}{gateway.id}"
    for endpoint in ec2.vpc_end_points.values():
        for eni_id in endpoint.network_interface_ids or []:
            if eni_id in ec2.enis:
                ec2.enis[eni_id].description = f"VPC Endpoint Interface {endpoint.id}"
    for eni in ec2.enis.values():
        if eni.requester_managed or eni.status != "available":
            continue
        for prefix, (kind, requester) in _OWNERS.items():
            if eni.description.startswith(prefix):
                eni.requester_managed, eni.requester_id = True, requester
                eni.status = "in-use"
                if kind != "interface":
                    eni.interface_type = kind


def in_vpc(place: Place, vpc_id: str) -> Iterator[Any]:
    return (eni for eni in backends.ec2(*place).enis.values() if eni.subnet.vpc_id == vpc_id)


def in_subnet(place: Place, subnet_id: str) -> Iterator[Any]:
    return (eni for eni in backends.ec2(*place).enis.values() if eni.subnet.id == subnet_id)


def with_group(place: Place, group_id: str) -> Iterator[Any]:
    return (eni for eni in backends.ec2(*place).enis.values() if any(g.id == group_id for g in eni._group_set))


def remove(place: Place, eni_id: str) -> None:
    """Delete an interface, whoever uses it, and give its address back to the subnet."""
    ec2 = backends.ec2(*place)
    eni = ec2.enis.pop(eni_id, None)
    if eni is None:
        return
    eni.subnet.del_subnet_ip(eni.private_ip_address)
    for address in ec2.addresses:
        if address.eni is not None and address.eni.id == eni_id:
            address.eni = address.association_id = None
