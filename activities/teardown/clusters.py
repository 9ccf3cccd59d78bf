"""HyperPod and EKS clusters, node groups and Fargate profiles.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteCluster.html,
https://docs.aws.amazon.com/eks/latest/APIReference/API_DeleteCluster.html
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from activities.aws import AwsClients, pages
from activities.errors import fail, is_absent
from activities.teardown.lookup import find_clusters, gone
from contracts.problem import ProblemCode
from contracts.teardown import Part, Resource, Teardown
from contracts.words import number_of

NO_PERMISSION = "does not have permission to perform"
"""What a node's status says when the execution role cannot take its network interfaces down any more: the cluster then
stays in Deleting for ever. (alchemy-run/alchemy: AWS SageMaker Cluster)"""
EKS_CLUSTER, NODE_GROUP, FARGATE = "EKS cluster", "EKS node group", "Fargate profile"


class HyperPodDeleter:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def find(self, asked: Teardown) -> list[Resource]:
        return [
            Resource(
                part=Part.HYPERPOD,
                kind="HyperPod cluster",
                id=found["ClusterArn"],
                name=found["ClusterName"],
                detail=_nodes(found),
            )
            for found in find_clusters(self._aws, asked).hyperpod
        ]

    def delete(self, asked: Teardown, resource: Resource) -> None:
        """Conflicts (retried) while the cluster is Creating or Updating; one that is Deleting is left to it."""
        region = asked.scope.region
        try:
            found = self._aws.read.sagemaker(region).describe_cluster(ClusterName=resource.name)
        except Exception as error:
            if is_absent(error, "ResourceNotFound"):
                return
            raise
        if found["ClusterStatus"] != "Deleting":
            gone(self._aws.act.sagemaker(region).delete_cluster, "ResourceNotFound", ClusterName=resource.name)

    def check(self, asked: Teardown, left: Iterable[Resource]) -> None:
        """Raise NOT_READY where the deletion can never end, because the execution role is missing."""
        sagemaker = self._aws.read.sagemaker(asked.scope.region)
        for resource in left:
            try:
                nodes = list(pages(sagemaker, "list_cluster_nodes", "ClusterNodeSummaries", ClusterName=resource.name))
                found = sagemaker.describe_cluster(ClusterName=resource.name)
            except Exception as error:
                if is_absent(error, "ResourceNotFound"):
                    continue
                raise
            texts = [str(each.get("InstanceStatus", {}).get("Message") or "") for each in nodes]
            text = next((each for each in [*texts, found.get("FailureMessage") or ""] if NO_PERMISSION in each), None)
            if text is None:
                continue
            roles = {str(group.get("ExecutionRole")) for group in found.get("InstanceGroups", [])}
            fail(
                ProblemCode.NOT_READY,
                f"HyperPod cluster {resource.name} cannot finish its deletion: {text}",
                f"Make the execution role again ({', '.join(sorted(roles))}: trust sagemaker.amazonaws.com, policy "
                "AmazonSageMakerClusterInstanceRolePolicy, ec2:DeleteNetworkInterface), then retry: HyperPod goes on.",
                retryable=True,
            )


def _nodes(found: Any) -> str:
    count = sum(group.get("CurrentCount", 0) for group in found.get("InstanceGroups", []))
    return f"{found['ClusterStatus']}, {number_of(count, 'node')}"


class NodeGroupDeleter:
    """Managed node groups and Fargate profiles: EKS refuses to delete a cluster that has some."""

    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def find(self, asked: Teardown) -> list[Resource]:
        eks, found = self._aws.read.eks(asked.scope.region), []
        for cluster in find_clusters(self._aws, asked).eks:
            where: Any = {"clusterName": cluster["name"]}
            groups = pages(eks, "list_nodegroups", "nodegroups", **where)
            found += [self._group(eks, cluster["name"], name) for name in groups]
            profiles = pages(eks, "list_fargate_profiles", "fargateProfileNames", **where)
            found += [
                Resource(part=Part.NODE_GROUPS, kind=FARGATE, id=f"{cluster['name']}/{name}", name=name)
                for name in profiles
            ]
        return found

    def _group(self, eks: Any, cluster: str, name: str) -> Resource:
        detail = None
        try:
            group = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
            detail = f"{group['status']}, {group.get('scalingConfig', {}).get('desiredSize', 0)} nodes"
        except Exception as error:
            if not is_absent(error, "ResourceNotFoundException"):
                raise
        return Resource(part=Part.NODE_GROUPS, kind=NODE_GROUP, id=f"{cluster}/{name}", name=name, detail=detail)

    def delete(self, asked: Teardown, resource: Resource) -> None:
        """EKS deletes one Fargate profile of a cluster at a time, and refuses the next (retried)."""
        eks = self._aws.act.eks(asked.scope.region)
        cluster, _, name = resource.id.partition("/")
        if (resource.detail or "").startswith("DELETING"):
            return
        if resource.kind == NODE_GROUP:
            gone(eks.delete_nodegroup, "ResourceNotFoundException", clusterName=cluster, nodegroupName=name)
            return
        profile = self._profile(asked, cluster, name)
        if profile is not None and profile["status"] != "DELETING":
            gone(eks.delete_fargate_profile, "ResourceNotFoundException", clusterName=cluster, fargateProfileName=name)

    def _profile(self, asked: Teardown, cluster: str, name: str) -> Any | None:
        eks = self._aws.read.eks(asked.scope.region)
        try:
            return eks.describe_fargate_profile(clusterName=cluster, fargateProfileName=name)["fargateProfile"]
        except Exception as error:
            if is_absent(error, "ResourceNotFoundException"):
                return None
            raise

    def check(self, asked: Teardown, left: Iterable[Resource]) -> None:
        """Raise NOT_READY for a node group whose deletion failed, with EKS's issues."""
        eks = self._aws.read.eks(asked.scope.region)
        for resource in left:
            if not (resource.detail or "").startswith("DELETE_FAILED"):
                continue
            cluster, _, name = resource.id.partition("/")
            group = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
            issues = "; ".join(
                f"{each.get('code')}: {each.get('message')}" for each in group.get("health", {}).get("issues", [])
            )
            fail(
                ProblemCode.NOT_READY,
                f"The deletion of node group {name} failed: {issues or 'no reason given'}",
                "Mend what EKS names, then retry.",
                retryable=True,
            )


class ControlPlaneDeleter:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    def find(self, asked: Teardown) -> list[Resource]:
        return [
            Resource(
                part=Part.CONTROL_PLANE,
                kind=EKS_CLUSTER,
                id=found["arn"],
                name=found["name"],
                detail=f"{found['status']} (Kubernetes {found['version']})",
            )
            for found in find_clusters(self._aws, asked).eks
        ]

    def delete(self, asked: Teardown, resource: Resource) -> None:
        """Raises CONFLICT where deletion protection is on; a cluster in transition is busy (retried)."""
        region = asked.scope.region
        try:
            found: Any = self._aws.read.eks(region).describe_cluster(name=resource.name)["cluster"]
        except Exception as error:
            if is_absent(error, "ResourceNotFoundException"):
                return
            raise
        if found["status"] == "DELETING":
            return
        if found.get("deletionProtection"):
            fail(ProblemCode.CONFLICT, protection(resource.name), UNPROTECT)
        gone(self._aws.act.eks(region).delete_cluster, "ResourceNotFoundException", name=resource.name)


UNPROTECT = "Switch deletion protection off (aws eks update-cluster-config --no-deletion-protection), then retry."


def protection(name: str) -> str:
    return f"EKS cluster {name} is protected from deletion"
