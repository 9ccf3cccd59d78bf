"""The policy documents of a cluster's roles and of its bucket."""

from __future__ import annotations

import json
from typing import Any

Document = dict[str, Any]

CLUSTER_POLICY = "AmazonEKSClusterPolicy"
EXECUTION_POLICY = "AmazonSageMakerClusterInstanceRolePolicy"
ADMIN_ACCESS_POLICY = "AmazonEKSClusterAdminPolicy"

NODE_ACTIONS = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeInstances",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeTags",
    "ec2:DescribeVpcs",
    "ec2:DetachNetworkInterface",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
    "eks-auth:AssumeRoleForPodIdentity",
]
"""What a HyperPod node on EKS needs beside the managed policy: interfaces for the VPC CNI, images, Pod Identity.
(SageMaker Developer Guide: IAM for HyperPod, IAM role for SageMaker HyperPod, EKS)"""


def trust(service: str, *actions: str) -> Document:
    """Who may take the role: an AWS service."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": service},
                "Action": list(actions) if len(actions) > 1 else (actions[0] if actions else "sts:AssumeRole"),
            }
        ],
    }


def pod_identity_trust() -> Document:
    """(EKS User Guide: EKS Pod Identity, IAM role for the association)"""
    return trust("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")


def execution_policy(partition: str, bucket: str) -> Document:
    arn = f"arn:{partition}:s3:::{bucket}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Sid": "Node", "Effect": "Allow", "Action": NODE_ACTIONS, "Resource": "*"},
            {
                "Sid": "TagInterfaces",
                "Effect": "Allow",
                "Action": "ec2:CreateTags",
                "Resource": f"arn:{partition}:ec2:*:*:network-interface/*",
            },
            {"Sid": "ListLifecycleScripts", "Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn},
            {"Sid": "ReadLifecycleScripts", "Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{arn}/*"},
        ],
    }


def mountpoint_policy(partition: str, bucket: str) -> Document:
    """What Mountpoint for Amazon S3 needs of one bucket. (its CONFIGURATION.md: IAM permissions)"""
    arn = f"arn:{partition}:s3:::{bucket}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Sid": "ListBucket", "Effect": "Allow", "Action": "s3:ListBucket", "Resource": arn},
            {
                "Sid": "ReadAndWrite",
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"],
                "Resource": f"{arn}/*",
            },
        ],
    }


def tls_only(partition: str, bucket: str) -> Document:
    """A bucket policy that refuses plain HTTP. (Security Hub control S3.5)"""
    arn = f"arn:{partition}:s3:::{bucket}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "OnlyTls",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "s3:*",
                "Resource": [arn, f"{arn}/*"],
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            }
        ],
    }


def canonical(document: Document | str) -> str:
    """A policy in one form: lists of one are the element itself, and the order of lists and keys does not matter."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in sorted(value.items())}
        if isinstance(value, list):
            items = sorted((plain(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
            return items[0] if len(items) == 1 else items
        return value

    return json.dumps(plain(json.loads(document) if isinstance(document, str) else document), sort_keys=True)
