"""What others have put on or into a cluster's network and clusters, and what therefore stands in the way."""

from __future__ import annotations

from typing import Any

from activities.aws import AwsClients, is_ours, pages, tag_map
from activities.teardown.balancers import ControllerMade, claim_of
from activities.teardown.clusters import UNPROTECT, protection
from activities.teardown.interfaces import GO_ON, InterfaceDeleter
from activities.teardown.lookup import Clusters, is_kept, why_kept
from activities.teardown.vpc import VpcReader
from contracts.teardown import Kept, Leftover, Level, Part, Teardown


class Leftovers(VpcReader):
    def __init__(self, aws: AwsClients) -> None:
        super().__init__(aws)
        self._interfaces, self._made = InterfaceDeleter(aws), ControllerMade(aws)

    def find(self, asked: Teardown, clusters: Clusters) -> list[Leftover]:
        """Everything that must be gone first. Reads only."""
        found = self._on_clusters(asked, clusters)
        if asked.spec.level is Level.NETWORK:
            for vpc in self.vpcs(asked):
                found += self._in_vpc(asked, vpc["VpcId"])
            found += self._on_groups(asked)
            found += self._on_tables(asked)
        if Part.INTERFACES.goes(asked.spec):
            found += self._interfaces.sort(asked).foreign
        if asked.spec.level.includes(Level.EKS) and not clusters.eks:
            found += self._orphans(asked)
        once: dict[tuple[str, str], Leftover] = {}
        for each in found:
            once.setdefault((each.kind, each.id), each)
        return list(once.values())

    def _on_clusters(self, asked: Teardown, clusters: Clusters) -> list[Leftover]:
        found = []
        for kind, name in clusters.untagged:
            if kind == "EKS cluster" and not asked.spec.level.includes(Level.EKS):
                continue
            found.append(
                Leftover(
                    kind=kind,
                    id=name,
                    detail=f"it does not carry the tag instantstart:cluster={asked.scope.cluster}",
                    remedy="Import the cluster with adopt, which tags it; or delete it by other means, then retry.",
                )
            )
        if not asked.spec.level.includes(Level.EKS):
            return found
        for name in clusters.guests:
            detail = "it runs on the cluster's EKS cluster and is not this cluster's"
            found.append(Leftover(kind="HyperPod cluster", id=name, detail=detail, remedy=f"Delete it, {GO_ON}"))
        for eks in clusters.eks:
            if eks.get("deletionProtection"):
                found.append(
                    Leftover(kind="EKS cluster", id=eks["name"], detail=protection(eks["name"]), remedy=UNPROTECT)
                )
        return found

    def _in_vpc(self, asked: Teardown, vpc_id: str) -> list[Leftover]:
        """What is in a VPC of ours and does not carry our tag; interfaces are looked at apart."""
        ec2, found = self.ec2(asked), []
        inside: Any = [{"Name": "vpc-id", "Values": [vpc_id]}]
        attached: Any = [{"Name": "attachment.vpc-id", "Values": [vpc_id]}]
        parts = (
            ("subnet", "SubnetId", pages(ec2, "describe_subnets", "Subnets", Filters=inside)),
            ("route table", "RouteTableId", pages(ec2, "describe_route_tables", "RouteTables", Filters=inside)),
            ("NAT gateway", "NatGatewayId", pages(ec2, "describe_nat_gateways", "NatGateways", Filter=inside)),
            ("VPC endpoint", "VpcEndpointId", pages(ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=inside)),
            (
                "internet gateway",
                "InternetGatewayId",
                pages(ec2, "describe_internet_gateways", "InternetGateways", Filters=attached),
            ),
        )
        for kind, key, listed in parts:
            for each in listed:
                if is_ours(tag_map(each.get("Tags")), asked.scope.cluster) or _is_main(each):
                    continue
                if str(each.get("State", "")).lower() in ("deleted", "deleting", "failed"):
                    continue
                found.append(_made_by_others(kind, each[key], f"in {vpc_id}", each))
        ours = {group["GroupId"] for group in self.cluster_groups(asked, {vpc_id})}
        for group in pages(ec2, "describe_security_groups", "SecurityGroups", Filters=inside):
            if group["GroupId"] not in ours and group["GroupName"] != "default":
                found.append(_made_by_others("security group", group["GroupId"], f"{group['GroupName']} in {vpc_id}"))
        return found

    def _on_groups(self, asked: Teardown) -> list[Leftover]:
        """Security groups of others whose rules refer to ours, which EC2 then does not delete."""
        ec2, found = self.ec2(asked), []
        owned = {vpc["VpcId"] for vpc in self.vpcs(asked)}
        groups = list(self.cluster_groups(asked, owned))
        ours = {group["GroupId"]: group["GroupName"] for group in groups}
        for vpc_id in sorted({group["VpcId"] for group in groups}):
            inside: Any = [{"Name": "vpc-id", "Values": [vpc_id]}]
            for group in pages(ec2, "describe_security_groups", "SecurityGroups", Filters=inside):
                rules = [*group.get("IpPermissions", []), *group.get("IpPermissionsEgress", [])]
                named = {pair.get("GroupId") for rule in rules for pair in rule.get("UserIdGroupPairs", [])}
                if group["GroupId"] in ours or not named & ours.keys():
                    continue
                shown = ", ".join(sorted(ours[each] for each in named & ours.keys()))
                found.append(
                    Leftover(
                        kind="security group",
                        id=group["GroupId"],
                        detail=f"{group['GroupName']}: its rules refer to {shown}",
                        remedy=f"Remove those rules, {GO_ON}",
                    )
                )
        return found

    def _on_tables(self, asked: Teardown) -> list[Leftover]:
        """Subnets of others that follow one of our route tables."""
        going, kept = self.subnets(asked)
        ours = {subnet["SubnetId"] for subnet in going} | {each.id for each in kept}
        found = []
        wanted: Any = [{"Name": "tag:instantstart:cluster", "Values": [asked.scope.cluster]}]
        for table in pages(self.ec2(asked), "describe_route_tables", "RouteTables", Filters=wanted):
            for link in table.get("Associations", []):
                subnet_id = link.get("SubnetId")
                if subnet_id and subnet_id not in ours:
                    detail = f"it follows the cluster's route table {table['RouteTableId']}"
                    found.append(
                        Leftover(
                            kind="subnet",
                            id=subnet_id,
                            detail=detail,
                            remedy=f"Associate the subnet with another route table, {GO_ON}",
                        )
                    )
        return found

    def _orphans(self, asked: Teardown) -> list[Leftover]:
        """What controllers of an EKS cluster that has gone have left: nobody deletes it any more."""
        found = []
        for balancer in self._made.load_balancers(asked)[0]:
            name, arn = balancer["LoadBalancerName"], balancer["LoadBalancerArn"]
            if not is_kept(asked, name, arn, balancer.get("DNSName")):
                found.append(
                    Leftover(
                        kind="load balancer",
                        id=name,
                        detail=f"{arn}, made for a Service or Ingress of the cluster",
                        remedy=f"Delete it, or name it in keep, {GO_ON}",
                    )
                )
        for volume in self._made.volumes(asked):
            if not is_kept(asked, volume["VolumeId"]):
                made_for = f"made for claim {claim_of(volume)}, " if claim_of(volume) else ""
                found.append(
                    Leftover(
                        kind="EBS volume",
                        id=volume["VolumeId"],
                        detail=f"{made_for}{volume['Size']} GiB, {volume['State']}",
                        remedy=f"Delete it if its data is not needed, or name it in keep, {GO_ON}",
                    )
                )
        return found

    def kept(self, asked: Teardown, clusters: Clusters) -> list[Kept]:
        """What stays of what controllers have made, because it was asked for."""
        ours, _ = self._made.load_balancers(asked)
        found = [
            Kept(kind="load balancer", id=each["LoadBalancerName"], why=why_kept(asked, each["LoadBalancerName"]))
            for each in ours
            if is_kept(asked, each["LoadBalancerName"], each["LoadBalancerArn"], each.get("DNSName"))
        ]
        return found + [
            Kept(kind="EBS volume", id=volume["VolumeId"], why=_why(asked, volume))
            for volume in self._made.volumes(asked)
            if is_kept(asked, volume["VolumeId"])
        ]


def _why(asked: Teardown, volume: Any) -> str:
    return why_kept(asked, volume["VolumeId"]) + (f"; made for claim {claim_of(volume)}" if claim_of(volume) else "")


def _is_main(found: Any) -> bool:
    return any(link.get("Main") for link in found.get("Associations", []) if isinstance(link, dict))


def _made_by_others(kind: str, identifier: str, where: str, found: Any = None) -> Leftover:
    name = tag_map((found or {}).get("Tags")).get("Name")
    shown = f"{name}, {where}" if name else where
    return Leftover(kind=kind, id=identifier, detail=shown, remedy=f"Delete it, or move it away, {GO_ON}")
