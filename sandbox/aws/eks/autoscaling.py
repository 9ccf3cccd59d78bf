"""The Auto Scaling groups behind node groups: instances are launched, join, are drained and end.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html and
https://docs.aws.amazon.com/eks/latest/userguide/delete-managed-node-group.html
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from sandbox import timings
from sandbox.aws import backends
from sandbox.aws.eks.base import Base
from sandbox.aws.eks.nodegroup_state import DRAINING, JOINED, LAUNCHING, Instance, Nodegroup
from sandbox.aws.eks.state import Cluster
from sandbox.aws.instance_types import facts, offered_zones
from sandbox.aws.world import World
from sandbox.dataplane import NodeFacts

IMAGE = "ami-0123456789abcdef0"
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
CAPACITY_WORDS = {"SPOT": "Spot", "ON_DEMAND": "On-Demand", "CAPACITY_BLOCK": "Capacity Block"}

Problem = tuple[str, str]
"""The code and the message of a health issue."""


class AutoScaling(Base):
    """What happens to a node group's instances, on the clock."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.on("eks.instance-joined", self._joined)
        world.on("eks.nodegroup-check", self._checked)

    def reconcile(self, cluster: Cluster, group: Nodegroup) -> None:
        """Launch what is missing, drain what is too much, and look again while anything is on its way."""
        for instance in self.lost(cluster, group):
            self._terminate(cluster, group, instance)
        desired = 0 if group.status == "DELETING" else group.scaling["desiredSize"]
        for instance in self._surplus(group, desired):
            self.drain(cluster, group, instance)
        for instance in [i for i in group.instances.values() if i.state == DRAINING]:
            self._advance_drain(cluster, group, instance)
        if group.status not in ("DELETING", "CREATE_FAILED"):
            self._fill(cluster, group, desired)

    @staticmethod
    def lost(cluster: Cluster, group: Nodegroup) -> list[Instance]:
        """Instances that somebody terminated behind the group's back: it replaces them."""
        ec2 = backends.ec2(*cluster.place)
        running = {i.id for r in ec2.reservations.values() for i in r.instances if i._state.name != "terminated"}
        return [i for i in group.instances.values() if i.id not in running]

    def settled(self, cluster: Cluster, group: Nodegroup) -> bool:
        """Whether as many nodes are Ready as are wanted, and no other is left."""
        return len(group.instances) == group.scaling["desiredSize"] and all(
            i.state == JOINED and self.world.dataplane.node_ready(cluster.arn, i.node) for i in group.instances.values()
        )

    def check_in(self, cluster: Cluster, group: Nodegroup, seconds: float = timings.NODEGROUP_CHECK) -> None:
        """Look at the group again in so many seconds."""
        if not group.checking:
            group.checking = True
            self._at(seconds, "eks.nodegroup-check", cluster, group)

    def after_check(self, cluster: Cluster, group: Nodegroup) -> None:
        """What a look at the instances means for the group: its operations decide."""
        raise NotImplementedError

    def pods_stay(self, cluster: Cluster, group: Nodegroup, instance: Instance) -> None:
        """An instance cannot be drained, and must not be ended by force: what wanted it decides."""
        raise NotImplementedError

    def drain(self, cluster: Cluster, group: Nodegroup, instance: Instance) -> None:
        """Let an instance's pods be evicted; it ends when they are gone, or after a quarter of an hour."""
        if instance.state == LAUNCHING:
            self._terminate(cluster, group, instance)
        elif instance.state != DRAINING:
            instance.state = DRAINING
            instance.drain_until = self.world.clock.timestamp() + timings.NODE_DRAIN_LIMIT
            self.world.dataplane.drain_node(cluster.arn, instance.node)

    def show(self, cluster: Cluster, group: Nodegroup, instance: Instance) -> None:
        """Let the node be seen in Kubernetes, or seen as it is now."""
        fact = facts(instance.type)
        # Without the driver's image the device plugin finds nothing.
        driver = "STANDARD" not in group.ami_type
        labels = {
            "eks.amazonaws.com/nodegroup": group.name,
            "eks.amazonaws.com/nodegroup-image": IMAGE,
            "eks.amazonaws.com/capacityType": group.capacity_type,
            "node.kubernetes.io/instance-type": instance.type,
            "topology.kubernetes.io/zone": instance.zone,
            "topology.kubernetes.io/region": cluster.region,
            **group.labels,
        }
        if group.launch_template:
            labels["eks.amazonaws.com/sourceLaunchTemplateId"] = group.launch_template["id"]
            labels["eks.amazonaws.com/sourceLaunchTemplateVersion"] = group.launch_template["version"]
        self.world.dataplane.add_node(
            cluster.arn,
            NodeFacts(
                name=instance.node,
                instance_id=instance.id,
                instance_type=instance.type,
                zone=instance.zone,
                zone_id=instance.zone_id,
                region=cluster.region,
                internal_ip=instance.ip,
                vcpus=fact.vcpus,
                memory_mib=fact.memory_mib,
                disk_gib=group.disk or fact.disk_gib,
                architecture=fact.architecture,
                gpus=fact.gpus if driver else 0,
                neuron_devices=fact.neuron_devices if driver else 0,
                efa_interfaces=min(group.efa_interfaces, fact.efa_interfaces),
                labels=labels,
                taints=tuple((t["key"], t.get("value") or "", EFFECTS[t["effect"]]) for t in group.taints),
                provider_id=f"aws:///{instance.zone}/{instance.id}",
            ),
        )

    def _joined(self, account: str, region: str, name: str, nodegroup: str, instance: str) -> None:
        cluster, group = self._held(account, region, name, nodegroup)
        held = group.instances.get(instance) if group is not None else None
        if cluster is None or group is None or held is None or held.state != LAUNCHING:
            return
        held.state = JOINED
        self.show(cluster, group, held)
        self.check_in(cluster, group)

    def _checked(self, account: str, region: str, name: str, nodegroup: str) -> None:
        cluster, group = self._held(account, region, name, nodegroup)
        if cluster is None or group is None:
            return
        group.checking = False
        self.reconcile(cluster, group)
        self.after_check(cluster, group)

    def _held(self, account: str, region: str, name: str, nodegroup: str) -> tuple[Cluster | None, Nodegroup | None]:
        cluster = self.find((account, region), name)
        return cluster, cluster.nodegroups.get(nodegroup) if cluster is not None else None

    @staticmethod
    def _surplus(group: Nodegroup, desired: int) -> list[Instance]:
        """The instances to end: where most are, the oldest first
        (https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-termination-policies.html)."""
        live, chosen = group.live, []
        while len(live) > desired:
            zones = Counter(i.zone for i in live)
            instance = min(live, key=lambda i: (-zones[i.zone], i.launched, i.id))
            live.remove(instance)
            chosen.append(instance)
        return chosen

    def _fill(self, cluster: Cluster, group: Nodegroup, desired: int) -> None:
        now = self.world.clock.timestamp()
        if len(group.live) >= desired:
            group.retry_at = 0.0
            self._set_problem(group, None)
            return
        if now < group.retry_at:
            return
        while len(group.live) < desired:
            if problem := self._launch(cluster, group):
                self._set_problem(group, problem)
                group.retry_at = now + timings.CAPACITY_RETRY
                return
        self._set_problem(group, None)

    @staticmethod
    def _set_problem(group: Nodegroup, problem: Problem | None) -> None:
        kept = [i for i in group.issues if i["code"] not in ("AsgInstanceLaunchFailures", "InsufficientFreeAddresses")]
        if problem is not None:
            kept.append({"code": problem[0], "message": problem[1], "resourceIds": [group.group]})
        group.issues = kept

    def _launch(self, cluster: Cluster, group: Nodegroup) -> Problem | None:
        """Launch one instance in the emptiest subnet, or say what keeps it from there."""
        placed = Counter(i.subnet for i in group.live)
        subnets = [s for i in group.subnets if (s := self.world.subnet(cluster.place, i)) is not None]
        if not subnets:
            return "AsgInstanceLaunchFailures", "The subnets of the node group do not exist."
        problem: Problem | None = None
        for instance_type in group.types:
            for subnet in sorted(subnets, key=lambda s: (placed[s.id], group.subnets.index(s.id))):
                problem = self._obstacle(cluster, group, subnet, instance_type)
                if problem is None:
                    self._start(cluster, group, subnet, instance_type)
                    return None
        return problem

    def _obstacle(self, cluster: Cluster, group: Nodegroup, subnet: Any, instance_type: str) -> Problem | None:
        zone, zone_id = subnet.availability_zone, subnet._availability_zone.zone_id
        prefix = f"Could not launch {CAPACITY_WORDS[group.capacity_type]} Instances. "
        if zone not in offered_zones(cluster.region, instance_type):
            return "AsgInstanceLaunchFailures", (
                f"{prefix}Unsupported - Your requested instance type ({instance_type}) is not supported in your "
                f"requested Availability Zone ({zone}). Launching EC2 instance failed."
            )
        free = self.world.free(zone, zone_id, instance_type)
        if group.capacity_type != "CAPACITY_BLOCK" and free is not None and free <= 0:
            code = "UnfulfillableCapacity" if group.capacity_type == "SPOT" else "InsufficientInstanceCapacity"
            return "AsgInstanceLaunchFailures", (
                f"{prefix}{code} - We currently do not have sufficient {instance_type} capacity in the Availability "
                f"Zone you requested ({zone}). Launching EC2 instance failed."
            )
        if subnet.available_ip_address_count < facts(instance_type).addresses:
            return "InsufficientFreeAddresses", (
                "One or more of the subnets associated with your node group does not have enough available IP "
                f"addresses for new nodes: {subnet.id}"
            )
        return None

    def _start(self, cluster: Cluster, group: Nodegroup, subnet: Any, instance_type: str) -> None:
        ec2 = backends.ec2(*cluster.place)
        reservation = ec2.run_instances(
            IMAGE,
            1,
            None,
            [],
            instance_type=instance_type,
            is_instance_type_default=False,
            subnet_id=subnet.id,
            security_group_ids=list(group.security_groups),
            region_name=cluster.region,
            lifecycle="spot" if group.capacity_type == "SPOT" else None,
            tags={"instance": self._instance_tags(cluster, group)},
        )
        machine = reservation.instances[0]
        reserved = group.capacity_type == "CAPACITY_BLOCK"
        zone_id = subnet._availability_zone.zone_id
        if not reserved:
            self.world.take(subnet.availability_zone, zone_id, instance_type)
        ip = machine.private_ip
        domain = "ec2" if cluster.region == "us-east-1" else f"{cluster.region}.compute"
        addresses = facts(instance_type).addresses - 1
        subnet._available_ip_addresses -= addresses
        group.instances[machine.id] = Instance(
            id=machine.id,
            node=f"ip-{ip.replace('.', '-')}.{domain}.internal",
            type=instance_type,
            subnet=subnet.id,
            zone=subnet.availability_zone,
            zone_id=zone_id,
            ip=ip,
            launched=self.world.clock.timestamp(),
            release=group.release,
            addresses=addresses,
            reserved=reserved,
        )
        self.world.changed("ec2")
        self._at(timings.EC2_BOOT, "eks.instance-joined", cluster, group, instance=machine.id)

    @staticmethod
    def _instance_tags(cluster: Cluster, group: Nodegroup) -> dict[str, str]:
        return {
            "eks:cluster-name": cluster.name,
            "eks:nodegroup-name": group.name,
            f"kubernetes.io/cluster/{cluster.name}": "owned",
            "aws:autoscaling:groupName": group.group,
        }

    def _advance_drain(self, cluster: Cluster, group: Nodegroup, instance: Instance) -> None:
        left = self.world.dataplane.drain_node(cluster.arn, instance.node)
        over = self.world.clock.timestamp() >= instance.drain_until
        if over and left and group.wanted.get("force") is False:
            instance.state = JOINED
            self.world.dataplane.uncordon_node(cluster.arn, instance.node)
            self.pods_stay(cluster, group, instance)
        elif over or left == 0:
            self._terminate(cluster, group, instance)

    def _terminate(self, cluster: Cluster, group: Nodegroup, instance: Instance) -> None:
        if instance.state != LAUNCHING:
            self.world.dataplane.remove_node(cluster.arn, instance.node)
        ec2 = backends.ec2(*cluster.place)
        machine = next((i for r in ec2.reservations.values() for i in r.instances if i.id == instance.id), None)
        if machine is not None and machine._state.name != "terminated":
            interfaces = [nic.id for nic in machine.nics.values()]
            machine.terminate()
            for interface in interfaces:
                ec2.enis.pop(interface, None)
        if (subnet := self.world.subnet(cluster.place, instance.subnet)) is not None:
            subnet.del_subnet_ip(instance.ip)
            subnet._available_ip_addresses += instance.addresses
        if not instance.reserved:
            self.world.take(instance.zone, instance.zone_id, instance.type, -1)
        del group.instances[instance.id]
        self.world.changed("ec2")

    def _at(self, seconds: float, event: str, cluster: Cluster, group: Nodegroup, **payload: Any) -> None:
        place = {"account": cluster.account, "region": cluster.region, "name": cluster.name}
        self.world.clock.schedule(seconds, event, **place, nodegroup=group.name, **payload)
