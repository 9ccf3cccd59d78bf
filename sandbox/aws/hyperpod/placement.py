"""Where an instance goes: subnets, zones, capacity, training plans, addresses, and its network interface."""

from __future__ import annotations

from typing import Any

from sandbox.aws import backends, interfaces
from sandbox.aws.hyperpod.base import Base
from sandbox.aws.hyperpod.state import Cluster, Group, Node
from sandbox.aws.instance_types import facts
from sandbox.aws.world import Place

CAPACITY = "We currently do not have sufficient capacity for the requested instance type(s). Please try again."
NOT_OFFERED = "The requested instance type {type} is not supported in your requested Availability Zone ({zone})."
NO_ADDRESSES = "The subnet {subnet} does not have enough free addresses to satisfy the request."
PLAN_ZONE = (
    "We currently do not have sufficient capacity in the training plan: its capacity is in {plan_zone}, the instance "
    "group's subnets are in {zones}."
)
PLAN_WAITS = "Training plan {arn} is in {status} status; instances start when it is Active."
PLAN_FULL = "We currently do not have sufficient capacity in training plan {arn}: all {count} instances are in use."
EFA_INTERFACES = 4
"""UNVERIFIED: from so many EFA interfaces on, HyperPod is taken to run its EFA health check."""


class Placement(Base):
    """Finding room for nodes, and giving it back."""

    def place(self, cluster: Cluster, group: Group, node: Node) -> str:
        """Reserve room for the node. What keeps it from there, or nothing."""
        vpc = group.spec.get("OverrideVpcConfig") or cluster.settings.get("VpcConfig") or {}
        subnets = [s for i in vpc.get("Subnets") or [] if (s := self.world.subnet(cluster.place, i)) is not None]
        if node.zones:
            subnets = [s for s in subnets if s.availability_zone in node.zones or _zone_id(s) in node.zones]
        if not subnets:
            return "The subnets of the instance group do not exist."
        if arn := group.spec.get("TrainingPlanArn"):
            subnets, problem = self._plan_subnets(cluster, arn, subnets)
            if problem:
                return problem
        problem = CAPACITY
        for instance_type in node.types or group.types:
            for subnet in sorted(subnets, key=lambda s: -s.available_ip_address_count):
                problem = self._obstacle(cluster, group, subnet, instance_type)
                if not problem:
                    self._occupy(cluster, group, node, subnet, instance_type, vpc.get("SecurityGroupIds") or [])
                    return ""
        return problem

    def release(self, cluster: Cluster, node: Node) -> None:
        """Give back all that an instance held."""
        if not node.instance_id:
            return
        if node.joined:
            self.world.dataplane.remove_node(cluster.eks_arn, node.name)
            node.joined = False
        interfaces.remove(cluster.place, node.interface)
        if (subnet := self.world.subnet(cluster.place, node.subnet)) is not None:
            subnet._available_ip_addresses += node.addresses
        if not node.plan:
            self.world.take(node.zone, node.zone_id, node.instance_type, -1)
        self.world.changed("ec2")

    def efa_blocked(self, cluster: Cluster, node: Node) -> bool:
        """Whether the security groups keep EFA traffic between the nodes out."""
        if facts(node.instance_type).efa_interfaces < EFA_INTERFACES:
            return False
        groups = [self.world.security_group(cluster.place, g) for g in node.security_groups]
        return not any(g is not None and has_self_reference(g) for g in groups)

    def network_in_use(self, place: Place) -> tuple[set[str], set[str]]:
        """The subnets and the security groups that nodes of HyperPod clusters are in."""
        nodes = [n for c in self.state.clusters.get(place, {}).values() for n in c.nodes.values() if n.instance_id]
        return {n.subnet for n in nodes}, {g for n in nodes for g in n.security_groups}

    def zones_of(self, cluster: Cluster, group: Group) -> set[str]:
        """Names and ids of the zones that a group's subnets are in."""
        vpc = group.spec.get("OverrideVpcConfig") or cluster.settings.get("VpcConfig") or {}
        subnets = [s for i in vpc.get("Subnets") or [] if (s := self.world.subnet(cluster.place, i)) is not None]
        return {s.availability_zone for s in subnets} | {_zone_id(s) for s in subnets}

    def _plan_subnets(self, cluster: Cluster, arn: str, subnets: list[Any]) -> tuple[list[Any], str]:
        plan = self.plan(cluster.place, arn)
        if plan is None or plan.status != "Active":
            return [], PLAN_WAITS.format(arn=arn, status=plan.status if plan else "Failed")
        if self.plan_in_use(arn) >= plan.count:
            return [], PLAN_FULL.format(arn=arn, count=plan.count)
        matching = [s for s in subnets if s.availability_zone == plan.zone]
        if not matching:
            zones = ", ".join(sorted({_zone_id(s) for s in subnets}))
            return [], PLAN_ZONE.format(plan_zone=plan.zone_id, zones=zones)
        return matching, ""

    def _obstacle(self, cluster: Cluster, group: Group, subnet: Any, instance_type: str) -> str:
        zone, zone_id = subnet.availability_zone, _zone_id(subnet)
        if not group.spec.get("TrainingPlanArn"):
            if not self.world.offered(cluster.region, zone, instance_type):
                return NOT_OFFERED.format(type=instance_type.removeprefix("ml."), zone=zone)
            free = self.world.free(zone, zone_id, instance_type)
            if free is not None and free <= 0:
                return CAPACITY
        if subnet.available_ip_address_count < facts(instance_type).addresses:
            return NO_ADDRESSES.format(subnet=subnet.id)
        return ""

    def _occupy(
        self, cluster: Cluster, group: Group, node: Node, subnet: Any, instance_type: str, security_groups: list[str]
    ) -> None:
        node.instance_type, node.subnet = instance_type, subnet.id
        node.zone, node.zone_id = subnet.availability_zone, _zone_id(subnet)
        node.plan = group.spec.get("TrainingPlanArn") or ""
        if not node.plan:
            self.world.take(node.zone, node.zone_id, instance_type)
        ec2 = backends.ec2(*cluster.place)
        node.ip = subnet.get_available_subnet_ip(None)
        interface = ec2.create_network_interface(
            subnet, node.ip, [], security_groups, f"SageMaker HyperPod {cluster.name}/{group.name}"
        )
        node.interface, node.security_groups = interface.id, list(security_groups)
        node.addresses = facts(instance_type).addresses - 1
        subnet._available_ip_addresses -= node.addresses
        self.world.changed("ec2")


def _zone_id(subnet: Any) -> str:
    return str(subnet._availability_zone.zone_id)


def has_self_reference(group: Any) -> bool:
    """Whether a security group lets all traffic in from itself and out to itself, as EFA needs
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html)."""

    def open_to_itself(rules: list[Any]) -> bool:
        return any(
            str(r.ip_protocol) == "-1" and r.source_group and r.source_group.get("GroupId") == group.id for r in rules
        )

    return open_to_itself(group.ingress_rules) and open_to_itself(group.egress_rules)
