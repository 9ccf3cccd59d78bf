"""What limits each action: on which resources and under which conditions each of the three policies allows it.

Reads need no entry: the reference says which resources they have. What writes is listed here, by capability, and an
action may be in several policies, for other resources.
"""

from __future__ import annotations

from scripts.iam.grants import clusters, identity, network, workloads
from scripts.iam.grants.grant import (
    ACCOUNT,
    BUCKETS,
    CREATE_DELETE,
    NEW,
    OPERATE,
    OURS,
    POLICIES,
    READ,
    TLS_BUCKETS,
    Grant,
)

__all__ = [
    "ACCOUNT",
    "CREATE_DELETE",
    "GRANTS",
    "NEW",
    "OPERATE",
    "OURS",
    "POLICIES",
    "READ",
    "READ_BUCKETS",
    "READ_KINDS",
    "READ_RESOURCES",
    "Grant",
]

READ_KINDS = {
    "eks:ListTagsForResource": ("cluster",),
    "sagemaker:ListTags": ("cluster", "mlflow-app", "mlflow-tracking-server"),
}
"""Reads of many types of resources, and the types that the platform looks at."""
READ_RESOURCES: dict[str, tuple[str, ...]] = {
    "logs:DescribeLogStreams": ("logs:log-group:/aws/sagemaker/TrainingJobs:*",),
    "logs:GetLogEvents": ("logs:log-group:/aws/sagemaker/TrainingJobs:*",),
    "s3:GetObject": (
        f"s3:::{BUCKETS}/lifecycle/*",
        f"s3:::{BUCKETS}/training/*",
        f"s3:::{BUCKETS}/*.instantstart*.json",
        f"s3:::{BUCKETS}/*/config.json",
    ),
}
"""Reads that are limited further than to the account's resources of their types."""
READ_BUCKETS = (f"s3:::{BUCKETS}", f"s3:::{TLS_BUCKETS}")
"""What the platform may know of buckets without knowing their objects."""

GRANTS = (*network.GRANTS, *clusters.GRANTS, *identity.GRANTS, *workloads.GRANTS)
