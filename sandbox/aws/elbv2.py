"""Elastic Load Balancing: moto's, with the network interfaces that a load balancer keeps in its subnets.

The interfaces go some time after the load balancer, and keep the subnets and security groups until then:
https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-delete.html
"""

from __future__ import annotations

from typing import Any

import moto.backends

from sandbox import timings
from sandbox.aws import backends, interfaces
from sandbox.aws.call import Call
from sandbox.aws.world import Place, World


def backend(place: Place) -> Any:
    return moto.backends.get_backend("elbv2")[place[0]][place[1]]


class Elbv2:
    """Handlers of Elastic Load Balancing's operations, and the same for controllers in a cluster."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.on("elbv2.interfaces-gone", self._interfaces_gone)

    def CreateLoadBalancer(self, call: Call) -> Any:
        before = set(backend(call.place).load_balancers)
        response = call.forward()
        for arn in set(backend(call.place).load_balancers) - before:
            self._attach(call.place, backend(call.place).load_balancers[arn])
        return response

    def DeleteLoadBalancer(self, call: Call) -> Any:
        held = backend(call.place).load_balancers.get(call.params.get("LoadBalancerArn", ""))
        response = call.forward()
        if held is not None and response.status < 400:
            self._detach(call.place, held)
        return response

    def create(
        self, place: Place, name: str, kind: str, scheme: str, subnets: list[str], groups: list[str], tags: Any
    ) -> Any:
        """A load balancer, as CreateLoadBalancer makes it."""
        made = backend(place).create_load_balancer(
            name=name,
            security_groups=groups,
            subnet_ids=subnets,
            scheme=scheme,
            loadbalancer_type=kind,
            tags=[{"Key": k, "Value": v} for k, v in tags.items()],
        )
        made.dns_name = f"{name}-{_identifier(made)}.elb.{place[1]}.amazonaws.com"
        self._attach(place, made)
        self.world.changed("elbv2")
        return made

    def delete(self, place: Place, load_balancer: Any) -> None:
        backend(place).delete_load_balancer(load_balancer.arn)
        self._detach(place, load_balancer)
        self.world.changed("elbv2")

    def _attach(self, place: Place, load_balancer: Any) -> None:
        ec2 = backends.ec2(*place)
        for subnet in load_balancer.subnets:
            ec2.create_network_interface(
                subnet,
                subnet.get_available_subnet_ip(None),
                [],
                load_balancer.security_groups or [],
                _description(load_balancer),
                public_ip_auto_assign=load_balancer.scheme == "internet-facing",
            )
        interfaces.settle(place)
        self.world.changed("ec2")

    def _detach(self, place: Place, load_balancer: Any) -> None:
        self.world.clock.schedule(
            timings.LOAD_BALANCER_INTERFACES,
            "elbv2.interfaces-gone",
            account=place[0],
            region=place[1],
            description=_description(load_balancer),
        )

    def _interfaces_gone(self, account: str, region: str, description: str) -> None:
        held = backends.ec2(account, region).enis.values()
        for eni_id in [eni.id for eni in held if eni.description == description]:
            interfaces.remove((account, region), eni_id)
        self.world.changed("ec2")


def _identifier(load_balancer: Any) -> str:
    return str(load_balancer.arn.rsplit("/", 1)[-1])


def _description(load_balancer: Any) -> str:
    kind = {"network": "net", "gateway": "gwy"}.get(load_balancer.type, "app")
    return f"{interfaces.LOAD_BALANCER}{kind}/{load_balancer.name}/{_identifier(load_balancer)}"
