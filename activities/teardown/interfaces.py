"""Network interfaces in a cluster's network: whose they are, and whether they go by themselves.

Requester-managed interfaces: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/requester-managed-eni.html
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from activities.aws import AwsClients, is_ours, pages, tag_map
from activities.eks import describe as describe_eks
from activities.errors import fail
from activities.teardown.balancers import ControllerMade
from activities.teardown.lookup import gone, is_kept
from activities.teardown.vpc import VpcReader, tagged
from contracts.problem import ProblemCode
from contracts.teardown import Leftover, Part, Resource, Teardown

VPC_CNI = "aws-K8S-"
"""A node's interfaces for pods. The VPC CNI leaves them behind where a node ends before they are detached.
(EKS User Guide: delete a cluster; amazon-vpc-cni-k8s issue 608)"""
NAT_GATEWAY, ENDPOINT, LOAD_BALANCER, CONTROL_PLANE = (
    "Interface for NAT Gateway ",
    "VPC Endpoint Interface ",
    "ELB ",
    "Amazon EKS ",
)
GO_ON = "then retry."


@dataclass
class Sorted:
    """The interfaces of a network by what becomes of them."""

    going: list[str] = field(default_factory=list)
    """They go with something that goes, or that has gone: ``eni-… (description)``."""
    orphans: list[Resource] = field(default_factory=list)
    """Nobody uses them any more; they are ours to delete."""
    foreign: list[Leftover] = field(default_factory=list)


class InterfaceDeleter(VpcReader):
    def __init__(self, aws: AwsClients) -> None:
        super().__init__(aws)
        self.aws, self.made = aws, ControllerMade(aws)

    def find(self, asked: Teardown) -> list[Resource]:
        return self.sort(asked).orphans

    def delete(self, asked: Teardown, resource: Resource) -> None:
        act = self._aws.act.ec2(asked.scope.region)
        gone(act.delete_network_interface, "InvalidNetworkInterfaceID.NotFound", NetworkInterfaceId=resource.id)

    def rest(self, asked: Teardown) -> list[str]:
        """What is still in the network and goes by itself. Raises FOREIGN for what does not. Orphans are not waited
        for: somebody must delete them."""
        found = self.sort(asked)
        if found.foreign:
            refuse(found.foreign)
        return found.going

    def sort(self, asked: Teardown) -> Sorted:
        """The interfaces that hold on to VPCs, subnets or security groups that go."""
        ec2, found = self.ec2(asked), Sorted()
        vpc_ids = [vpc["VpcId"] for vpc in self.vpcs(asked)] if Part.VPC.goes(asked.spec) else []
        subnet_ids = [subnet["SubnetId"] for subnet in self.subnets(asked)[0]]
        held: dict[str, Any] = {}
        places = [("vpc-id", vpc_ids), ("subnet-id", subnet_ids)]
        if Part.SECURITY_GROUPS.goes(asked.spec):
            group_ids = [group["GroupId"] for group in self.cluster_groups(asked, set(vpc_ids))]
            places.append(("group-id", group_ids))
        for name, values in places:
            if values:
                wanted: Any = [{"Name": name, "Values": values}]
                for each in pages(ec2, "describe_network_interfaces", "NetworkInterfaces", Filters=wanted):
                    held[each["NetworkInterfaceId"]] = each
        if held:
            self._sort(asked, held.values(), found)
        return found

    def _sort(self, asked: Teardown, interfaces: Iterable[Any], found: Sorted) -> None:
        context = _Context(self, asked)
        reported: set[str] = set()
        for each in interfaces:
            text, eni_id = each.get("Description", ""), each["NetworkInterfaceId"]
            if each["Status"] == "available" and context.is_nodes(each):
                found.orphans.append(
                    Resource(part=Part.INTERFACES, kind="network interface", id=eni_id, name="", detail=text or None)
                )
            elif (leftover := context.foreign(each)) is None:
                found.going.append(f"{eni_id} ({text})" if text else eni_id)
            elif leftover.id not in reported:
                reported.add(leftover.id)
                found.foreign.append(leftover)


class _Context:
    """What is around a network's interfaces, looked up once."""

    def __init__(self, reader: InterfaceDeleter, asked: Teardown) -> None:
        self._asked = asked
        ec2, self._names = reader.ec2(asked), asked.known.eks_clusters
        gateways = pages(ec2, "describe_nat_gateways", "NatGateways", Filter=tagged(asked))
        self._gateways = {each["NatGatewayId"] for each in gateways}
        endpoints = pages(ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=tagged(asked))
        self._endpoints = {each["VpcEndpointId"] for each in endpoints}
        ours, others = reader.made.load_balancers(asked)
        self._balancers = {each["LoadBalancerName"]: each for each in (*ours, *others)}
        self._served = {each["LoadBalancerName"] for each in ours}
        self._ec2, self._aws = ec2, reader.aws
        self._file_systems = {
            eni_id: each
            for each in pages(reader.aws.read.fsx(asked.scope.region), "describe_file_systems", "FileSystems")
            for eni_id in each.get("NetworkInterfaceIds") or ()
        }
        self._others: dict[str, bool] = {}
        self._alive: bool | None = None

    def is_nodes(self, interface: Any) -> bool:
        """Whether it is one that a node of the cluster has left behind. (VPC CNI: tags of its interfaces)"""
        tags = tag_map(interface.get("TagSet"))
        owner = tags.get("cluster.k8s.amazonaws.com/name")
        return interface.get("Description", "").startswith(VPC_CNI) and owner in (None, *self._names)

    def foreign(self, interface: Any) -> Leftover | None:
        """What it belongs to, where that is not the cluster's; None where it goes by itself."""
        text, eni_id = interface.get("Description", ""), interface["NetworkInterfaceId"]
        if text.startswith(LOAD_BALANCER):
            return self._balancer(text.removeprefix(LOAD_BALANCER), eni_id)
        if text.startswith(NAT_GATEWAY):
            nat_id = text.removeprefix(NAT_GATEWAY)
            return None if nat_id in self._gateways else _leftover("NAT gateway", nat_id, f"it holds {eni_id}")
        if text.startswith(ENDPOINT):
            endpoint = text.removeprefix(ENDPOINT)
            return None if endpoint in self._endpoints else _leftover("VPC endpoint", endpoint, f"it holds {eni_id}")
        if text.startswith(CONTROL_PLANE):
            name = text.removeprefix(CONTROL_PLANE)
            return _leftover("EKS cluster", name, f"it holds {eni_id}") if self._is_others(name) else None
        if "sagemaker" in text.lower() or text.startswith(VPC_CNI):
            return None
        if (file_system := self._file_systems.get(eni_id)) is not None:
            return self._file_system(file_system)
        attachment = interface.get("Attachment", {})
        if instance_id := attachment.get("InstanceId"):
            return self._instance(instance_id, eni_id)
        if is_ours(tag_map(interface.get("TagSet")), self._asked.scope.cluster):
            return None
        what = f"“{text}”, {interface['Status']}" if text else str(interface["Status"])
        return _leftover("network interface", eni_id, f"{what}, in {interface['SubnetId']}")

    def _file_system(self, found: Any) -> Leftover | None:
        """None for one of the cluster that goes: its interfaces go with it."""
        name, detail = found["FileSystemId"], f"{found['StorageCapacity']} GiB, {found['Lifecycle']}"
        if not is_ours(tag_map(found.get("Tags")), self._asked.scope.cluster):
            return _leftover("FSx file system", name, detail)
        if is_kept(self._asked, name, found["ResourceARN"]):
            return _leftover("FSx file system", name, "keep names it, and the network that it is in would go")
        if Part.FILE_SYSTEMS.goes(self._asked.spec):
            return None
        return Leftover(
            kind="FSx file system",
            id=name,
            detail=f"it holds data ({detail}), and the network that it is in would go",
            remedy="Send delete_file_systems true if its data is not needed, or keep the network (level eks).",
        )

    def _is_others(self, eks_cluster: str) -> bool:
        """Whether an EKS cluster is there and is not the cluster's. Interfaces of one that has gone go, too."""
        if eks_cluster not in self._others:
            found = describe_eks(self._aws, self._asked.scope.region, eks_cluster)
            self._others[eks_cluster] = found is not None and not is_ours(
                found.get("tags", {}), self._asked.scope.cluster
            )
        return self._others[eks_cluster]

    def _balancer(self, text: str, eni_id: str) -> Leftover | None:
        """``app/<name>/<id>``; a classic load balancer has its name alone."""
        kind, _, rest = text.partition("/")
        if not rest:
            return _leftover("classic load balancer", kind, f"it holds {eni_id}")
        name = rest.split("/")[0]
        if name not in self._balancers:
            return None
        arn = self._balancers[name]["LoadBalancerArn"]
        if is_kept(self._asked, arn, name, self._balancers[name].get("DNSName")):
            return _leftover("load balancer", name, "keep names it, and the network that it is in would go")
        if name in self._served and self._eks_is_there():
            return None
        return _leftover("load balancer", name, f"{arn} holds {eni_id}")

    def _eks_is_there(self) -> bool:
        """Whether the cluster whose controller made a load balancer is there to delete it."""
        if self._alive is None:
            wanted: Any = [{"Name": "description", "Values": [f"{CONTROL_PLANE}{name}" for name in self._names]}]
            found = pages(self._ec2, "describe_network_interfaces", "NetworkInterfaces", Filters=wanted)
            self._alive = any(True for _ in found)
        return self._alive

    def _instance(self, instance_id: str, eni_id: str) -> Leftover | None:
        wanted: Any = [{"Name": "instance-id", "Values": [instance_id]}]
        for reservation in pages(self._ec2, "describe_instances", "Reservations", Filters=wanted):
            for instance in reservation["Instances"]:
                tags = tag_map(instance.get("Tags"))
                if any(
                    tags.get("eks:cluster-name") == name or f"kubernetes.io/cluster/{name}" in tags
                    for name in self._names
                ):
                    return None
                shown = f"{tags['Name']}, " if tags.get("Name") else ""
                return _leftover("EC2 instance", instance_id, f"{shown}{instance['State']['Name']}, holds {eni_id}")
        return None


def _leftover(kind: str, identifier: str, detail: str) -> Leftover:
    return Leftover(kind=kind, id=identifier, detail=detail, remedy=f"Delete it, {GO_ON}")


def refuse(leftovers: list[Leftover]) -> None:
    """Raise FOREIGN that names everything that stands in the way."""
    shown = "; ".join(f"{each.kind} {each.id} ({each.detail})" for each in leftovers)
    fail(
        ProblemCode.FOREIGN,
        f"Not made by the platform, and in the way: {shown}",
        leftovers[0].remedy if len(leftovers) == 1 else f"Delete them, {GO_ON}",
        retryable=True,
    )
