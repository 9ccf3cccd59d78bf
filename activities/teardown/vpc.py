"""Subnets, route tables, gateways, security groups and the VPC.

API: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/OperationList-query-vpc.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from activities.aws import AwsClients, is_ours, pages, tag_map
from activities.teardown.lookup import gone, is_kept
from contracts.names import TAG_CLUSTER, TAG_INSTANCE_GROUP, TAG_RESOURCE
from contracts.teardown import Kept, Level, Part, Resource, Teardown

NOT_FOUND = {
    "subnet": "InvalidSubnetID.NotFound",
    "route table": "InvalidRouteTableID.NotFound",
    "internet gateway": "InvalidInternetGatewayID.NotFound",
    "security group": "InvalidGroup.NotFound",
    "VPC": "InvalidVpcID.NotFound",
}


def tagged(asked: Teardown) -> list[Any]:
    """EC2's filter for everything that carries the cluster's tag."""
    return [{"Name": f"tag:{TAG_CLUSTER}", "Values": [asked.scope.cluster]}]


def resource(part: Part, kind: str, identifier: str, found: Any, detail: str | None = None) -> Resource:
    name = tag_map(found.get("Tags")).get("Name", "")
    shown = f"{name} ({identifier})" if name else ""
    return Resource(part=part, kind=kind, id=identifier, name=shown, detail=detail)


class VpcReader:
    """Reads of EC2 for deletion."""

    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def ec2(self, asked: Teardown) -> Any:
        return self._aws.read.ec2(asked.scope.region)

    def vpcs(self, asked: Teardown) -> list[Any]:
        """VPCs that were made for the cluster. A reused one does not carry its tag."""
        return list(pages(self.ec2(asked), "describe_vpcs", "Vpcs", Filters=tagged(asked)))

    def subnets(self, asked: Teardown) -> tuple[list[Any], list[Kept]]:
        """Subnets of the cluster that go, and those that stay."""
        owned = {vpc["VpcId"] for vpc in self.vpcs(asked)}
        going, kept = [], []
        for subnet in pages(self.ec2(asked), "describe_subnets", "Subnets", Filters=tagged(asked)):
            subnet_id, dedicated = subnet["SubnetId"], is_dedicated(subnet)
            whole = asked.spec.level is Level.NETWORK
            if whole and subnet["VpcId"] in owned:
                going.append(subnet)
            elif is_kept(asked, subnet_id):
                kept.append(Kept(kind="subnet", id=subnet_id, why="named in keep"))
            elif dedicated and not asked.spec.delete_dedicated_subnets:
                why = "dedicated to an instance group; delete_dedicated_subnets deletes it"
                kept.append(Kept(kind="dedicated subnet", id=subnet_id, why=why))
            elif whole or dedicated:
                going.append(subnet)
        return going, kept

    def cluster_groups(self, asked: Teardown, vpc_ids: set[str]) -> Iterator[Any]:
        """Security groups of the cluster: with our tag, and those that EKS or controllers in it have made."""
        seen: set[str] = set()
        wanted = [tagged(asked)]
        for name in asked.known.eks_clusters:
            wanted += [
                [{"Name": f"tag:{key}", "Values": values}]
                for key, values in (
                    ("aws:eks:cluster-name", [name]),
                    ("elbv2.k8s.aws/cluster", [name]),
                    (f"kubernetes.io/cluster/{name}", ["owned"]),
                )
            ]
        for filters in wanted:
            for group in pages(self.ec2(asked), "describe_security_groups", "SecurityGroups", Filters=filters):
                ours = is_ours(tag_map(group.get("Tags")), asked.scope.cluster)
                if group["GroupId"] not in seen and (ours or not vpc_ids or group["VpcId"] in vpc_ids):
                    seen.add(group["GroupId"])
                    yield group


def is_dedicated(found: Any) -> bool:
    """Whether a compute subnet, or its route table, belongs to one instance group alone."""
    tags = tag_map(found.get("Tags"))
    return TAG_INSTANCE_GROUP in tags or tags.get(TAG_RESOURCE, "").startswith("compute-group-")


class SubnetDeleter(VpcReader):
    """Subnets, then the route tables that no subnet which stays follows."""

    def find(self, asked: Teardown) -> list[Resource]:
        going, kept = self.subnets(asked)
        found = [resource(Part.SUBNETS, "subnet", subnet["SubnetId"], subnet, subnet["CidrBlock"]) for subnet in going]
        gone_ids, kept_ids = {subnet["SubnetId"] for subnet in going}, {each.id for each in kept}
        for table in pages(self.ec2(asked), "describe_route_tables", "RouteTables", Filters=tagged(asked)):
            links = {str(link.get("SubnetId")) for link in table.get("Associations", []) if link.get("SubnetId")}
            whole = asked.spec.level is Level.NETWORK and not links & kept_ids
            if whole or (links and links <= gone_ids) or (not links and _is_dedicated_table(asked, table)):
                found.append(resource(Part.SUBNETS, "route table", table["RouteTableId"], table))
        return found

    def delete(self, asked: Teardown, resource: Resource) -> None:
        act = self._aws.act.ec2(asked.scope.region)
        if resource.kind == "subnet":
            gone(act.delete_subnet, NOT_FOUND["subnet"], SubnetId=resource.id)
        else:
            gone(act.delete_route_table, NOT_FOUND["route table"], RouteTableId=resource.id)


def _is_dedicated_table(asked: Teardown, table: Any) -> bool:
    """A table whose subnet an earlier attempt has deleted already."""
    return asked.spec.delete_dedicated_subnets and is_dedicated(table)


class GatewayDeleter(VpcReader):
    def find(self, asked: Teardown) -> list[Resource]:
        return [
            resource(Part.GATEWAYS, "internet gateway", gateway["InternetGatewayId"], gateway)
            for gateway in pages(
                self.ec2(asked), "describe_internet_gateways", "InternetGateways", Filters=tagged(asked)
            )
        ]

    def delete(self, asked: Teardown, resource: Resource) -> None:
        """Detach it, then delete it. EC2 refuses (retried) while the VPC has public addresses in use."""
        act = self._aws.act.ec2(asked.scope.region)
        wanted: Any = [{"Name": "internet-gateway-id", "Values": [resource.id]}]
        for gateway in pages(self.ec2(asked), "describe_internet_gateways", "InternetGateways", Filters=wanted):
            for attachment in gateway.get("Attachments", []):
                vpc_id = attachment["VpcId"]
                gone(act.detach_internet_gateway, "Gateway.NotAttached", InternetGatewayId=resource.id, VpcId=vpc_id)
        gone(act.delete_internet_gateway, NOT_FOUND["internet gateway"], InternetGatewayId=resource.id)


class SecurityGroupDeleter(VpcReader):
    """Groups may refer to each other: the rules among those that go are taken out first."""

    def find(self, asked: Teardown) -> list[Resource]:
        vpc_ids = {vpc["VpcId"] for vpc in self.vpcs(asked)}
        return [
            Resource(part=Part.SECURITY_GROUPS, kind="security group", id=each["GroupId"], name=_named(each))
            for each in self.cluster_groups(asked, vpc_ids)
        ]

    def delete(self, asked: Teardown, resource: Resource) -> None:
        ec2, act = self.ec2(asked), self._aws.act.ec2(asked.scope.region)
        others = {each.id for each in self.find(asked)} - {resource.id}
        wanted: Any = [{"Name": "group-id", "Values": [resource.id]}]
        for group in pages(ec2, "describe_security_groups", "SecurityGroups", Filters=wanted):
            for rules, revoke in (
                ("IpPermissions", act.revoke_security_group_ingress),
                ("IpPermissionsEgress", act.revoke_security_group_egress),
            ):
                crossing = list(_crossing(group.get(rules, []), others))
                if crossing:
                    gone(revoke, "InvalidPermission.NotFound", GroupId=resource.id, IpPermissions=crossing)

    def finish(self, asked: Teardown, resource: Resource) -> None:
        """Delete the group, now that no other of the cluster refers to it."""
        act = self._aws.act.ec2(asked.scope.region)
        gone(act.delete_security_group, NOT_FOUND["security group"], GroupId=resource.id)


def _named(group: Any) -> str:
    return f"{group['GroupName']} ({group['GroupId']})"


def _crossing(rules: list[Any], others: set[str]) -> Iterator[Any]:
    """The rules that let members of other groups in or out, with these alone."""
    for rule in rules:
        pairs = [
            {"GroupId": pair["GroupId"]} for pair in rule.get("UserIdGroupPairs", []) if pair.get("GroupId") in others
        ]
        if pairs:
            kept = {key: rule[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in rule}
            yield {**kept, "UserIdGroupPairs": pairs}


class VpcDeleter(VpcReader):
    def find(self, asked: Teardown) -> list[Resource]:
        return [resource(Part.VPC, "VPC", vpc["VpcId"], vpc, vpc["CidrBlock"]) for vpc in self.vpcs(asked)]

    def delete(self, asked: Teardown, resource: Resource) -> None:
        act = self._aws.act.ec2(asked.scope.region)
        gone(act.delete_vpc, NOT_FOUND["VPC"], VpcId=resource.id)
