"""What is read of AWS for a diagnosis. Every call only reads.

API: sagemaker:DescribeCluster, ListClusterNodes, ListClusterEvents, DescribeClusterEvent; eks:DescribeCluster,
ListAddons, DescribeAddon; ec2:DescribeSubnets, DescribeSecurityGroups; iam:GetRole; servicequotas:ListServiceQuotas
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from activities.aws import AwsClients, pages
from activities.diagnostics import aws_entries
from activities.diagnostics.reading import Reading
from activities.errors import code_of, is_absent
from activities.hyperpod.groups import Specification, groups_of
from activities.hyperpod.shortfall import event_text
from activities.nodes.sight import members
from activities.options import cluster_quotas
from contracts.diagnostics import Source, TimelineEntry

MOST_EVENTS = 60
MOST_TEXTS = 15
"""Events of which the failure message is asked for, one call each: the newest that are no mere information."""
NO_EVENTS = frozenset({"ValidationException"})
"""Only clusters with Continuous provisioning have events. (SageMaker API: ListClusterEvents)"""


class AwsCollectors:
    """Reads of one cluster. ``nodes``: only what concerns these instances' Kubernetes names; None: everything."""

    def __init__(self, aws: AwsClients, region: str, nodes: set[str] | None) -> None:
        self._aws, self._region, self._nodes = aws, region, nodes

    def of_hyperpod(self, cluster: Specification, since: datetime, reading: Reading) -> None:
        """Ask for everything that SageMaker, EC2 and IAM tell of a HyperPod cluster and its nodes."""
        reading.add(Source.CLUSTER, "HyperPod cluster", aws_entries.of_cluster(cluster))
        reading.ask(Source.HYPERPOD_EVENT, "HyperPod events", lambda: self._events(cluster, since))
        reading.ask(Source.INSTANCE, "members of the cluster", lambda: self._members(cluster))
        if self._nodes is not None:
            reading.ask(Source.NETWORK, "security groups", lambda: self._security_groups(cluster))
            return
        reading.ask(Source.NETWORK, "subnets and security groups", lambda: self._network(cluster))
        short = [group for group in groups_of(cluster) if _lacks(group)]
        if short:
            reading.ask(Source.QUOTA, "quotas of cluster usage", lambda: self._quotas(cluster))
            reading.ask(Source.IDENTITY, "execution roles", lambda: self._roles(short))

    def of_eks(self, name: str, reading: Reading) -> None:
        """Ask for the health of the control plane and of its add-ons."""
        reading.ask(Source.CLUSTER, "EKS cluster", lambda: self._control_plane(name))
        reading.ask(Source.ADDON, "EKS add-ons", lambda: self._addons(name))

    def _events(self, cluster: Specification, since: datetime) -> Iterator[TimelineEntry]:
        name = cluster["ClusterName"]
        try:
            events: list[Any] = self._aws.read.sagemaker(self._region).list_cluster_events(
                ClusterName=name,
                EventTimeAfter=since,
                SortBy="EventTime",
                SortOrder="Descending",
                MaxResults=MOST_EVENTS,
            )["Events"]
        except Exception as error:
            if code_of(error) in NO_EVENTS:
                return
            raise
        asked = 0
        for event in events:
            if not self._concerns(event.get("InstanceId")):
                continue
            text = str(event.get("Description") or "")
            if event.get("EventLevel") in aws_entries.LEVELS and asked < MOST_TEXTS:
                text, asked = event_text(self._aws, self._region, name, event), asked + 1
            yield aws_entries.of_event(event, text)

    def _concerns(self, instance: str | None) -> bool:
        """Events without an instance are the cluster's and its groups': of a job or a node they tell nothing."""
        return self._nodes is None or aws_entries.kubernetes_name(instance) in self._nodes

    def _members(self, cluster: Specification) -> Iterator[TimelineEntry | None]:
        for member in members(self._aws, self._region, cluster):
            if self._concerns(member.get("InstanceId")):
                yield aws_entries.of_member(member)

    def _network(self, cluster: Specification) -> Iterator[TimelineEntry | None]:
        subnets = sorted({subnet for vpc in _networks(cluster) for subnet in vpc.get("Subnets") or ()})
        if subnets:
            found = self._aws.read.ec2(self._region).describe_subnets(SubnetIds=subnets)["Subnets"]
            yield from (aws_entries.of_subnet(dict(subnet)) for subnet in found)
        yield from self._security_groups(cluster)

    def _security_groups(self, cluster: Specification) -> Iterator[TimelineEntry]:
        groups = sorted({group for vpc in _networks(cluster) for group in vpc.get("SecurityGroupIds") or ()})
        if groups:
            found = self._aws.read.ec2(self._region).describe_security_groups(GroupIds=groups)["SecurityGroups"]
            for group in found:
                yield from aws_entries.of_security_group(dict(group))

    def _quotas(self, cluster: Specification) -> Iterator[TimelineEntry | None]:
        wanted: Counter[str] = Counter()
        for group in groups_of(cluster):
            wanted[str(group.get("InstanceType") or "")] += int(group.get("TargetCount") or 0)
        allowed = cluster_quotas(self._aws, self._region)
        for kind, number in wanted.items():
            if kind in allowed:
                yield aws_entries.of_quota(f"'{kind} for cluster usage'", allowed[kind], number)

    def _roles(self, groups: Iterable[Specification]) -> Iterator[TimelineEntry]:
        for arn in sorted({str(group["ExecutionRole"]) for group in groups if group.get("ExecutionRole")}):
            try:
                self._aws.read.iam(self._region).get_role(RoleName=arn.rpartition("/")[2])
            except Exception as error:
                if not is_absent(error, "NoSuchEntity"):
                    raise
                yield TimelineEntry(
                    source=Source.IDENTITY,
                    severity="error",
                    subject=f"role {arn}",
                    text="execution role does not exist",
                )

    def _control_plane(self, name: str) -> list[TimelineEntry]:
        found = self._aws.read.eks(self._region).describe_cluster(name=name)["cluster"]
        return aws_entries.of_control_plane(dict(found))

    def _addons(self, name: str) -> Iterator[TimelineEntry]:
        eks = self._aws.read.eks(self._region)
        for addon in pages(eks, "list_addons", "addons", clusterName=name):
            found = eks.describe_addon(clusterName=name, addonName=addon)["addon"]
            yield from aws_entries.of_addon(dict(found))


def _networks(cluster: Specification) -> Iterator[Any]:
    if vpc := cluster.get("VpcConfig"):
        yield vpc
    yield from (vpc for group in groups_of(cluster) if (vpc := group.get("OverrideVpcConfig")))


def _lacks(group: Specification) -> bool:
    return int(group.get("CurrentCount") or 0) < int(group.get("TargetCount") or 0)
