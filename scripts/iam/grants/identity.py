"""Roles, policies, profiles and identity providers: what the platform makes, hands on and takes away."""

from __future__ import annotations

from contracts.names import IAM_PATH
from scripts.iam.grants.grant import (
    CREATE_DELETE,
    NEW,
    OPERATE,
    OURS,
    ROLES,
    Grant,
    each,
    linked_to,
    passed_to,
)

PROFILES_OF_NODES = ("iam::instance-profile/eks-*", "iam::instance-profile/karpenter/*")
"""Instance profiles of EKS (AWS managed policy AWSServiceRoleForAmazonEKSNodegroup) and of Karpenter, which has them in
a path, and had them by the cluster's name before (karpenter-provider-aws, pkg/providers/instanceprofile): that of a
cluster that the platform made begins as those of EKS do."""

GRANTS = (
    Grant(
        OPERATE,
        "MakeRoles",
        each("iam", "CreateRole", "TagRole"),
        (ROLES,),
        "roles of features, drivers, node groups, tracking servers and training jobs, in the platform's path",
        NEW,
    ),
    Grant(
        OPERATE,
        "OurRoles",
        each("iam", "DeleteRole", "DeleteRolePolicy", "DetachRolePolicy", "PutRolePolicy", "UpdateAssumeRolePolicy"),
        (ROLES,),
        "the platform's path and names",
    ),
    Grant(
        OPERATE,
        "ManagedPolicies",
        each("iam", "AttachRolePolicy"),
        (ROLES,),
        "no other policy than those that the source names",
        {"ArnEquals": {"iam:PolicyARN": "{managed}"}},
    ),
    Grant(
        OPERATE,
        "PassOurRoles",
        each("iam", "PassRole"),
        (ROLES,),
        "to the services that take them",
        passed_to("ec2", "hyperpod.sagemaker", "pods.eks", "sagemaker"),
    ),
    Grant(
        OPERATE,
        "LinkServices",
        each("iam", "CreateServiceLinkedRole"),
        ("iam::role/aws-service-role/*",),
        "once in an account, with its first node group and file system",
        linked_to("eks-nodegroup", "fsx"),
    ),
    Grant(
        OPERATE,
        "TakeRolesForCopies",
        each("sts", "AssumeRole"),
        ("iam::any:role/instantstart-experiments-*",),
        "roles of other accounts that are there for copies",
    ),
    Grant(
        CREATE_DELETE,
        "PassClusterRole",
        each("iam", "PassRole"),
        (ROLES,),
        "the control plane's role",
        passed_to("eks"),
    ),
    Grant(
        CREATE_DELETE,
        "LinkClusterServices",
        each("iam", "CreateServiceLinkedRole"),
        ("iam::role/aws-service-role/*",),
        "once in an account, with its first clusters",
        linked_to("eks", "hyperpod.sagemaker"),
    ),
    Grant(
        CREATE_DELETE,
        "MakeOidcProvider",
        each(
            "iam",
            "AddClientIDToOpenIDConnectProvider",
            "CreateOpenIDConnectProvider",
            "TagOpenIDConnectProvider",
        ),
        ("iam::oidc-provider/oidc.eks.*",),
        "issuers of EKS only",
    ),
    Grant(
        CREATE_DELETE,
        "DeleteOurOidcProviders",
        each("iam", "DeleteOpenIDConnectProvider"),
        ("iam::oidc-provider/oidc.eks.*",),
        "only what bears the tag",
        OURS,
    ),
    Grant(
        CREATE_DELETE,
        "DeleteOurPolicies",
        each("iam", "DeletePolicy", "DeletePolicyVersion"),
        (f"iam::policy{IAM_PATH}*",),
        "the platform's path",
    ),
    Grant(
        CREATE_DELETE,
        "DeleteOurProfiles",
        each("iam", "DeleteInstanceProfile", "RemoveRoleFromInstanceProfile"),
        (f"iam::instance-profile{IAM_PATH}*",),
        "the platform's path",
    ),
    Grant(
        CREATE_DELETE,
        "FreeOurRoles",
        each("iam", "RemoveRoleFromInstanceProfile"),
        PROFILES_OF_NODES,
        "EKS and Karpenter make profiles for the roles of their nodes, with names of their own; these stay",
    ),
)
