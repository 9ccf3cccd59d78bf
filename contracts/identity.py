"""IAM: the roles of a cluster, and who may use its Kubernetes API."""

from __future__ import annotations

import re

from contracts.activity import Act, Queue
from contracts.model import Ensured, Model
from contracts.network import Scope


def role_name_of(arn: str) -> str | None:
    """The role's name in the ARN of an assumed-role session; None for any other ARN.

    ``arn:aws:sts::111122223333:assumed-role/operator/alice`` names the role but not its path, which an access entry
    needs: ask IAM for the role's own ARN. (IAM User Guide: assumed-role session principals)
    """
    match = re.fullmatch(r"arn:[\w-]+:sts::\d{12}:assumed-role/([^/]+)/[^/]+", arn)
    return match.group(1) if match else None


class EnsureRole(Model):
    scope: Scope
    account: str


class Role(Ensured):
    name: str
    arn: str


class GetCaller(Model):
    region: str


class Caller(Model):
    """Who the platform is in AWS. ``principal_arn`` is a role's or user's own ARN, never a session's."""

    account: str
    principal_arn: str
    partition: str = "aws"


class EnsureOidcProvider(Model):
    scope: Scope
    eks_cluster: str


class OidcProvider(Ensured):
    arn: str


class EnsureAccessEntry(Model):
    scope: Scope
    eks_cluster: str
    principal_arn: str


class AccessEntry(Ensured):
    principal_arn: str
    policy_arn: str


class VerifyAccess(Model):
    scope: Scope
    eks_cluster: str


class VerifiedAccess(Model):
    """The Kubernetes API answered, and the platform may administer it."""

    kubernetes_version: str
    username: str
    nodes: int


class Identity(Model):
    """The roles of a cluster, as its record keeps them."""

    account: str
    platform_principal_arn: str
    cluster_role_arn: str
    execution_role_arn: str | None = None
    """Null in an imported cluster without HyperPod, like the two that follow."""
    bucket: str | None = None
    lifecycle_scripts_uri: str | None = None


class EnsureBucket(Model):
    scope: Scope
    account: str


class Bucket(Ensured):
    name: str


class EnsureLifecycleScripts(Model):
    scope: Scope
    bucket: str


class LifecycleScripts(Ensured):
    uri: str
    on_create: str


GET_CALLER = Act("identity.get_caller", GetCaller, Caller)
ENSURE_CLUSTER_ROLE = Act("identity.ensure_cluster_role", EnsureRole, Role)
ENSURE_EXECUTION_ROLE = Act("identity.ensure_execution_role", EnsureRole, Role)
ENSURE_OIDC_PROVIDER = Act("identity.ensure_oidc_provider", EnsureOidcProvider, OidcProvider)
ENSURE_ACCESS_ENTRY = Act("identity.ensure_access_entry", EnsureAccessEntry, AccessEntry)
ENSURE_BUCKET = Act("identity.ensure_bucket", EnsureBucket, Bucket)
ENSURE_LIFECYCLE_SCRIPTS = Act("identity.ensure_lifecycle_scripts", EnsureLifecycleScripts, LifecycleScripts)
VERIFY_ACCESS = Act("identity.verify_access", VerifyAccess, VerifiedAccess, queue=Queue.KUBERNETES)
