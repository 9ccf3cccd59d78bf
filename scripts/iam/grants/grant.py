"""A statement of a policy, and the words that statements are made of. Patterns of names come from
``contracts/names.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from contracts.names import IAM_PATH, TAG_CLUSTER, ClusterNames

READ, OPERATE, CREATE_DELETE = POLICIES = ("read", "operate", "create-delete")

Conditions = Mapping[str, Mapping[str, Any]]

ACCOUNT = "{account}"
"""Where a bucket's name has the account's number."""

_ANY = ClusterNames("*")
ROLES = f"iam::role{IAM_PATH}{_ANY.role('*', '*').split('*')[0]}*"
"""Long names are cut and end in a hash, so that the pattern does not name the purpose."""
EKS = _ANY.eks_cluster
BUCKETS, TLS_BUCKETS = _ANY.bucket(ACCOUNT, "*"), _ANY.tls_bucket(ACCOUNT, "*")


def with_tag(key: str) -> Conditions:
    """What bears this tag, whatever its value."""
    return {"Null": {f"aws:ResourceTag/{key}": "false"}}


OURS = with_tag(TAG_CLUSTER)
NEW: Conditions = {"Null": {f"aws:RequestTag/{TAG_CLUSTER}": "false"}}
HERE: Conditions = {"StringEquals": {"aws:ResourceAccount": "${aws:PrincipalAccount}"}}


@dataclass(frozen=True)
class Grant:
    """A statement. ``resources``: ``service:type/id`` (region and account are filled in), ``iam::…`` (no region),
    ``s3:::…``, or ``*``."""

    policy: str
    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    why: str
    """Why the resources and conditions are these."""
    conditions: Conditions = field(default_factory=dict)


def each(service: str, *names: str) -> tuple[str, ...]:
    """Actions of a service."""
    return tuple(f"{service}:{name}" for name in names)


def ec2(*kinds: str) -> tuple[str, ...]:
    """Everything of these types in EC2."""
    return tuple(f"ec2:{kind}/*" for kind in kinds)


def eks(*kinds: str) -> tuple[str, ...]:
    """What is in a cluster that the platform has named, by its types."""
    return tuple(f"eks:{kind}/{EKS}" for kind in kinds)


def created_by(*operations: str) -> Conditions:
    """Tags that EC2 gives as one of these operations makes something."""
    return {**NEW, "StringEquals": {"ec2:CreateAction": list(operations)}}


def tagged_by(*operations: str) -> Conditions:
    """Tags that SageMaker gives as one of these operations makes something."""
    return {**NEW, "StringEquals": {"sagemaker:TaggingAction": list(operations)}}


def passed_to(*services: str) -> Conditions:
    """Roles that are handed to these services."""
    return {"StringEquals": {"iam:PassedToService": [f"{service}.amazonaws.com" for service in services]}}


def linked_to(*services: str) -> Conditions:
    """Roles of these services' own."""
    return {"StringEquals": {"iam:AWSServiceName": [f"{service}.amazonaws.com" for service in services]}}
