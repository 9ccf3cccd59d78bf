"""IAM roles: found by name, compared, completed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from temporalio import activity

from activities.aws import AwsClients, is_ours, pages, partition, tag_list, tag_map, tags_of
from activities.errors import fail, is_absent
from activities.identity import policies
from activities.identity.policies import Document, canonical
from contracts.identity import (
    ENSURE_CLUSTER_ROLE,
    ENSURE_EXECUTION_ROLE,
    GET_CALLER,
    Caller,
    EnsureRole,
    GetCaller,
    Role,
    role_name_of,
)
from contracts.names import IAM_PATH, ClusterNames
from contracts.network import Scope
from contracts.problem import ProblemCode

INLINE_POLICY = "instantstart"


class RoleActivities:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=GET_CALLER.name)
    def get_caller(self, request: GetCaller) -> Caller:
        """Who the platform is."""
        return caller_of(self._aws, request.region)

    @activity.defn(name=ENSURE_CLUSTER_ROLE.name)
    def ensure_cluster_role(self, request: EnsureRole) -> Role:
        """The role that the EKS control plane takes."""
        scope = request.scope
        return ensure_role(
            self._aws,
            scope,
            purpose="cluster",
            trust=policies.trust("eks.amazonaws.com"),
            managed=[policies.CLUSTER_POLICY],
        )

    @activity.defn(name=ENSURE_EXECUTION_ROLE.name)
    def ensure_execution_role(self, request: EnsureRole) -> Role:
        """The role that HyperPod's nodes run with."""
        scope = request.scope
        bucket = ClusterNames(scope.cluster).bucket(request.account, scope.region)
        return ensure_role(
            self._aws,
            scope,
            purpose="hyperpod-execution",
            trust=policies.trust("sagemaker.amazonaws.com"),
            managed=[policies.EXECUTION_POLICY],
            inline=policies.execution_policy(partition(scope.region), bucket),
        )


def caller_of(aws: AwsClients, region: str) -> Caller:
    """Who the platform is. An assumed-role session is traced to its role with iam:GetRole, because its ARN leaves out
    the role's path, which an access entry needs."""
    identity = aws.read.sts(region).get_caller_identity()
    arn = identity["Arn"]
    if name := role_name_of(arn):
        arn = aws.read.iam(region).get_role(RoleName=name)["Role"]["Arn"]
    return Caller(account=identity["Account"], principal_arn=arn, partition=arn.split(":")[1])


def ensure_role(
    aws: AwsClients,
    scope: Scope,
    *,
    purpose: str,
    trust: Document,
    managed: list[str],
    inline: Document | None = None,
) -> Role:
    """A role with the given trust, AWS managed policies (by name) and inline policy.

    A role of ours that differs is corrected; more policies than asked are left alone. Raises FOREIGN for one that is
    not ours.
    """
    name = ClusterNames(scope.cluster).role(purpose, scope.region)
    read, act = aws.read.iam(scope.region), aws.act.iam(scope.region)
    role, changed = _get_role(read, name), False
    if role is None:
        role = act.create_role(
            Path=IAM_PATH,
            RoleName=name,
            AssumeRolePolicyDocument=json.dumps(trust),
            Description=f"InstantStart cluster {scope.cluster}: {purpose}",
            Tags=tag_list(tags_of(scope, f"role-{purpose}")),
        )["Role"]
        changed = True
    elif not is_ours(tag_map(role.get("Tags")), scope.cluster):
        fail(
            ProblemCode.FOREIGN,
            f"IAM role {name} exists and does not carry the tag instantstart:cluster={scope.cluster}",
            "Rename or delete it, or choose another tag for the cluster.",
        )
    elif canonical(_document(role["AssumeRolePolicyDocument"])) != canonical(trust):
        act.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trust))
        changed = True
    attached = {
        policy["PolicyArn"] for policy in pages(read, "list_attached_role_policies", "AttachedPolicies", RoleName=name)
    }
    for policy in managed:
        arn = f"arn:{partition(scope.region)}:iam::aws:policy/{policy}"
        if arn not in attached:
            act.attach_role_policy(RoleName=name, PolicyArn=arn)
            changed = True
    if inline is not None and _inline(read, name) != canonical(inline):
        act.put_role_policy(RoleName=name, PolicyName=INLINE_POLICY, PolicyDocument=json.dumps(inline))
        changed = True
    return Role(name=name, arn=role["Arn"], changed=changed)


@dataclass(frozen=True)
class RoleSight:
    """A role as it is. ``difference`` says in which way it is not as it must be."""

    name: str
    arn: str
    ours: bool
    difference: str | None = None


def look_at_role(
    aws: AwsClients,
    scope: Scope,
    *,
    purpose: str,
    trust: Document,
    managed: list[str],
    inline: Document | None = None,
) -> RoleSight | None:
    """The role that :func:`ensure_role` would make; None if there is none."""
    name = ClusterNames(scope.cluster).role(purpose, scope.region)
    read = aws.read.iam(scope.region)
    role = _get_role(read, name)
    if role is None:
        return None
    attached = {
        each["PolicyName"] for each in pages(read, "list_attached_role_policies", "AttachedPolicies", RoleName=name)
    }
    difference = None
    if canonical(_document(role["AssumeRolePolicyDocument"])) != canonical(trust):
        difference = "its trust policy differs"
    elif missing := sorted(set(managed) - attached):
        difference = f"it lacks the policy {', '.join(missing)}"
    elif inline is not None and _inline(read, name) != canonical(inline):
        difference = "its permissions differ"
    return RoleSight(name, role["Arn"], is_ours(tag_map(role.get("Tags")), scope.cluster), difference)


def trusted_service_account(aws: AwsClients, scope: Scope, purpose: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a role of ours trusts by OIDC; None if there is none."""
    role = _get_role(aws.read.iam(scope.region), ClusterNames(scope.cluster).role(purpose, scope.region))
    if role is None or not is_ours(tag_map(role.get("Tags")), scope.cluster):
        return None
    found = re.search(
        r"system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)", canonical(_document(role["AssumeRolePolicyDocument"]))
    )
    return (found.group(1), found.group(2)) if found else None


def remove_role(aws: AwsClients, scope: Scope, purpose: str) -> bool | None:
    """Take a role of ours away with all its policies. False: there is none; None: it is not ours, and stays."""
    name = ClusterNames(scope.cluster).role(purpose, scope.region)
    read, act = aws.read.iam(scope.region), aws.act.iam(scope.region)
    role = _get_role(read, name)
    if role is None:
        return False
    if not is_ours(tag_map(role.get("Tags")), scope.cluster):
        return None
    for policy in list(pages(read, "list_attached_role_policies", "AttachedPolicies", RoleName=name)):
        act.detach_role_policy(RoleName=name, PolicyArn=policy["PolicyArn"])
    for policy in list(pages(read, "list_role_policies", "PolicyNames", RoleName=name)):
        act.delete_role_policy(RoleName=name, PolicyName=policy)
    act.delete_role(RoleName=name)
    return True


def _get_role(iam: Any, name: str) -> Any | None:
    try:
        return iam.get_role(RoleName=name)["Role"]
    except Exception as error:
        if is_absent(error, "NoSuchEntity"):
            return None
        raise


def _inline(iam: Any, name: str) -> str | None:
    """Our inline policy in canonical form; None where the role has none."""
    try:
        found = iam.get_role_policy(RoleName=name, PolicyName=INLINE_POLICY)
    except Exception as error:
        if is_absent(error, "NoSuchEntity"):
            return None
        raise
    return canonical(_document(found["PolicyDocument"]))


def _document(document: Any) -> Document | str:
    """IAM sends documents URL-encoded; botocore decodes them for some operations."""
    return unquote(document) if isinstance(document, str) else document
