"""Which service accounts of a cluster may report, and where to: read from Pod Identity and IAM."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from activities.aws import AwsClients, is_ours, pages
from activities.errors import is_absent
from activities.experiments.policies import PREFIX, reported_to
from activities.identity.policies import Document
from contracts.names import TAG_RESOURCE, ClusterNames, experiments_role_purpose
from contracts.network import Scope
from contracts.tracking_servers import Connection

ASSOCIATION = "pod-identity-experiments"
"""What our associations are to the cluster, in their tag."""


def association_of(aws: AwsClients, scope: Scope, eks_cluster: str, namespace: str, account: str) -> Any | None:
    """The Pod Identity association of a service account, described; None if there is none."""
    eks = aws.read.eks(scope.region)
    where: Any = {"clusterName": eks_cluster}
    who: Any = {"namespace": namespace, "serviceAccount": account}
    for each in pages(eks, "list_pod_identity_associations", "associations", **where, **who):
        which: Any = {**where, "associationId": each["associationId"]}
        return eks.describe_pod_identity_association(**which)["association"]
    return None


def servers_of(aws: AwsClients, scope: Scope, namespace: str, account: str) -> dict[str, Document]:
    """The servers that a service account's role lets it report to, by ARN, each with its policy; none where there is no
    role."""
    iam, name = aws.read.iam(scope.region), role_of(scope, namespace, account)
    found = {}
    try:
        for policy in list(pages(iam, "list_role_policies", "PolicyNames", RoleName=name)):
            if policy.startswith(PREFIX):
                held: Any = iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
                document: Document = json.loads(unquote(held)) if isinstance(held, str) else held
                found[reported_to(document)] = document
    except Exception as error:
        if is_absent(error, "NoSuchEntity"):
            return {}
        raise
    return found


def role_of(scope: Scope, namespace: str, account: str) -> str:
    """The name of the role that a service account reports with."""
    return ClusterNames(scope.cluster).role(experiments_role_purpose(namespace, account), scope.region)


def connections(aws: AwsClients, scope: Scope, eks_cluster: str) -> list[Connection]:
    """All service accounts that the platform connected, by namespace. None where the cluster is gone."""
    eks = aws.read.eks(scope.region)
    try:
        listed = list(pages(eks, "list_pod_identity_associations", "associations", clusterName=eks_cluster))
    except Exception as error:
        if is_absent(error, "ResourceNotFoundException"):
            return []
        raise
    found = []
    for each in listed:
        which: Any = {"clusterName": eks_cluster, "associationId": each["associationId"]}
        association: Any = eks.describe_pod_identity_association(**which)["association"]
        if not is_ours(association.get("tags", {}), scope.cluster):
            continue
        if association["tags"].get(TAG_RESOURCE) != ASSOCIATION:
            continue
        namespace, account = association["namespace"], association["serviceAccount"]
        found.append(
            Connection(
                namespace=namespace,
                service_account=account,
                role_arn=association["roleArn"],
                servers=sorted(servers_of(aws, scope, namespace, account)),
            )
        )
    return sorted(found, key=lambda each: (each.namespace, each.service_account))
