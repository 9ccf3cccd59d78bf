"""The role of the Mountpoint for Amazon S3 CSI driver, given to it by EKS Pod Identity.

API: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html
"""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.aws import AwsClients, is_ours, pages, partition, tags_of, token
from activities.errors import fail
from activities.identity.policies import mountpoint_policy, pod_identity_trust
from activities.identity.roles import ensure_role
from contracts.dependencies import ENSURE_STORAGE_ROLE, EnsureStorageRole, StorageRole
from contracts.problem import ProblemCode

NAMESPACE = "kube-system"
SERVICE_ACCOUNT = "s3-csi-driver-sa"
"""(EKS User Guide: Mountpoint for Amazon S3 CSI driver)"""


class StorageRoleActivities:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=ENSURE_STORAGE_ROLE.name)
    def ensure_storage_role(self, request: EnsureStorageRole) -> StorageRole:
        """A role that may read and write the bucket, associated with the driver's service account.

        Raises FOREIGN where the service account has another role that we did not give it.
        """
        scope = request.scope
        role = ensure_role(
            self._aws,
            scope,
            purpose="s3-csi",
            trust=pod_identity_trust(),
            managed=[],
            inline=mountpoint_policy(partition(scope.region), request.bucket),
        )
        read, act = self._aws.read.eks(scope.region), self._aws.act.eks(scope.region)
        where: Any = {"clusterName": request.eks_cluster}
        who: Any = {"namespace": NAMESPACE, "serviceAccount": SERVICE_ACCOUNT}
        found = list(pages(read, "list_pod_identity_associations", "associations", **where, **who))
        if not found:
            act.create_pod_identity_association(
                **where,
                **who,
                roleArn=role.arn,
                tags=tags_of(scope, "pod-identity-s3-csi"),
                clientRequestToken=token("pod-identity-s3-csi"),
            )
            return StorageRole(arn=role.arn)
        which: Any = {**where, "associationId": found[0]["associationId"]}
        association = read.describe_pod_identity_association(**which)["association"]
        if association["roleArn"] == role.arn:
            return StorageRole(arn=role.arn, changed=role.changed)
        if not is_ours(association.get("tags", {}), scope.cluster):
            fail(
                ProblemCode.FOREIGN,
                f"Service account {NAMESPACE}/{SERVICE_ACCOUNT} already has role {association['roleArn']}",
                "Delete that Pod Identity association, or give its role access to the bucket and skip this stage.",
            )
        act.update_pod_identity_association(
            **which, roleArn=role.arn, clientRequestToken=token("pod-identity-s3-csi/2")
        )
        return StorageRole(arn=role.arn)
