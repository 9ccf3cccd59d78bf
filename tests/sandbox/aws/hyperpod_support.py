"""What the tests of HyperPod share: making clusters of several groups, and looking at them."""

from __future__ import annotations

from typing import Any

from aws_support import Api, Network


class HyperPodCluster:
    """Makes and looks at one cluster, ``hp``, on the EKS cluster ``eks_arn``."""

    def __init__(self, api: Api, network: Network, eks_arn: str, execution_role: str) -> None:
        self.api, self.network = api, network
        self.eks_arn, self.execution_role = eks_arn, execution_role
        self.sagemaker = api.client("sagemaker")

    def group(self, name: str = "workers", count: int = 2, **members: Any) -> dict[str, Any]:
        """A group's specification; a member that is None is left out."""
        spec = {
            "InstanceGroupName": name,
            "InstanceType": "ml.g5.8xlarge",
            "InstanceCount": count,
            "ExecutionRole": self.execution_role,
            **members,
        }
        return {member: value for member, value in spec.items() if value is not None}

    def create(self, *groups: dict[str, Any], wait: float = 500, **settings: Any) -> None:
        """Create the cluster, Continuous unless ``settings`` say otherwise, and let so many seconds pass."""
        settings = {
            "InstanceGroups": list(groups),
            "NodeProvisioningMode": "Continuous",
            "VpcConfig": self.network.vpc_config,
            "Orchestrator": {"Eks": {"ClusterArn": self.eks_arn}},
            **settings,
        }
        self.sagemaker.create_cluster(
            ClusterName="hp", **{name: value for name, value in settings.items() if value is not None}
        )
        self.api.advance(wait)

    def update(self, *groups: dict[str, Any], **members: Any) -> None:
        if groups:
            members["InstanceGroups"] = list(groups)
        self.sagemaker.update_cluster(ClusterName="hp", **members)

    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = self.sagemaker.describe_cluster(ClusterName="hp")
        return described

    def described(self, name: str = "workers") -> dict[str, Any]:
        groups: list[dict[str, Any]] = self.describe()["InstanceGroups"]
        return next(g for g in groups if g["InstanceGroupName"] == name)

    def counts(self, name: str = "workers") -> tuple[int, int]:
        """How many instances the group has and should have."""
        group = self.described(name)
        return group["CurrentCount"], group["TargetCount"]

    def nodes(self, group: str = "") -> list[dict[str, Any]]:
        pages = self.sagemaker.get_paginator("list_cluster_nodes").paginate(
            ClusterName="hp",
            IncludeNodeLogicalIds=True,
            **({"InstanceGroupNameContains": group} if group else {}),
        )
        return [node for page in pages for node in page["ClusterNodeSummaries"]]

    def statuses(self) -> list[str]:
        return sorted(node["InstanceStatus"]["Status"] for node in self.nodes())

    def failures(self) -> list[str]:
        """The failure messages of the cluster's events, newest first."""
        found = []
        for event in self.sagemaker.list_cluster_events(ClusterName="hp", MaxResults=100)["Events"]:
            detail = self.sagemaker.describe_cluster_event(ClusterName="hp", EventId=event["EventId"])["EventDetails"]
            for metadata in detail.get("EventDetails", {}).get("EventMetadata", {}).values():
                if metadata.get("FailureMessage"):
                    found.append(metadata["FailureMessage"])
        return found

    def operations(self) -> list[tuple[str, str]]:
        """Type and status of the cluster's operations, newest first."""
        summaries = self.sagemaker.list_cluster_operations(ClusterName="hp")["ClusterOperationSummaries"]
        return [(o["Type"], o["Status"]) for o in summaries]
