"""The role of a cluster's node group nodes, shared by all groups of the cluster and gone with the last of them."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.aws import AwsClients, is_ours, pages, tag_map
from activities.errors import is_absent
from activities.identity import policies
from activities.identity.roles import ensure_role
from activities.node_groups.observe import describe_all
from contracts.identity import Role
from contracts.names import ClusterNames
from contracts.node_groups import DELETE_NODE_ROLE, ENSURE_NODE_ROLE, CleanedUp, DeleteNodeRole, EnsureNodeRole

PURPOSE = "node"
POLICIES = [
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
]
"""(EKS User Guide: Amazon EKS node IAM role)"""


class NodeRoleActivities:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=ENSURE_NODE_ROLE.name)
    def ensure_node_role(self, request: EnsureNodeRole) -> Role:
        """The role that the cluster's EKS node groups give their instances. Raises FOREIGN for one that is not ours."""
        trust = policies.trust("ec2.amazonaws.com")
        return ensure_role(self._aws, request.scope, purpose=PURPOSE, trust=trust, managed=POLICIES)

    @activity.defn(name=DELETE_NODE_ROLE.name)
    def delete_node_role(self, request: DeleteNodeRole) -> CleanedUp:
        """Delete the role and its access entry, unless a node group of the cluster has it or it is not ours.

        EKS gives managed groups' roles an access entry, and one that outlives its role keeps a later role of the name
        out of the cluster.
        """
        scope = request.scope
        name = ClusterNames(scope.cluster).role(PURPOSE, scope.region)
        read, act = self._aws.read.iam(scope.region), self._aws.act.iam(scope.region)
        role = _get(read, name)
        if role is None:
            return CleanedUp(name=name, changed=False)
        if not is_ours(tag_map(role.get("Tags")), scope.cluster):
            return CleanedUp(name=name, kept="it is not ours", changed=False)
        users = [
            group["nodegroupName"]
            for group in describe_all(self._aws, scope.region, request.eks_cluster)
            if group.get("nodeRole") == role["Arn"]
        ]
        if users:
            return CleanedUp(name=name, kept=f"{', '.join(users)} has it", changed=False)
        self._delete_access_entry(request, role["Arn"])
        try:
            for policy in pages(read, "list_attached_role_policies", "AttachedPolicies", RoleName=name):
                act.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
            act.delete_role(RoleName=name)
        except Exception as error:
            if not is_absent(error, "NoSuchEntity"):
                raise
        return CleanedUp(name=name)

    def _delete_access_entry(self, request: DeleteNodeRole, arn: str) -> None:
        try:
            self._aws.act.eks(request.scope.region).delete_access_entry(
                clusterName=request.eks_cluster, principalArn=arn
            )
        except Exception as error:
            if not is_absent(error, "ResourceNotFoundException"):
                raise


def _get(iam: Any, name: str) -> Any | None:
    try:
        return iam.get_role(RoleName=name)["Role"]
    except Exception as error:
        if is_absent(error, "NoSuchEntity"):
            return None
        raise
