"""What the simulated EKS holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox.aws.eks.nodegroup_state import Nodegroup
from sandbox.aws.world import Place

ADMIN_POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@dataclass
class Update:
    id: str
    type: str
    created: datetime
    params: list[dict[str, str]]
    status: str = "InProgress"
    addon: str = ""
    nodegroup: str = ""
    errors: list[dict[str, Any]] = field(default_factory=list)

    def shape(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "status": self.status,
            "type": self.type,
            "params": self.params,
            "createdAt": self.created,
            "errors": self.errors,
        }


@dataclass
class Addon:
    name: str
    version: str
    arn: str
    created: datetime
    modified: datetime
    started: float
    """When the current CREATING or UPDATING began, in sandbox time."""
    status: str = "CREATING"
    issues: list[dict[str, Any]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    configuration: str = ""
    resolve_conflicts: str = ""
    service_account_role: str = ""
    namespace: str = ""
    associations: list[str] = field(default_factory=list)
    update: str = ""
    """The update in progress."""
    conflicts: list[str] = field(default_factory=list)
    """Others' objects that are in the way of an installation that must not overwrite them."""
    checking: bool = False
    """Whether a check of its health is on the clock."""

    def shape(self, cluster: str) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "addonName": self.name,
            "clusterName": cluster,
            "status": self.status,
            "addonVersion": self.version,
            "health": {"issues": self.issues},
            "addonArn": self.arn,
            "createdAt": self.created,
            "modifiedAt": self.modified,
            "tags": self.tags,
            "publisher": "eks",
            "owner": "aws",
        }
        if self.configuration:
            shape["configurationValues"] = self.configuration
        if self.service_account_role:
            shape["serviceAccountRoleArn"] = self.service_account_role
        if self.associations:
            shape["podIdentityAssociations"] = self.associations
        if self.namespace:
            shape["namespaceConfig"] = {"namespace": self.namespace}
        return shape


@dataclass
class Entry:
    """An access entry."""

    principal: str
    arn: str
    username: str
    type: str
    created: datetime
    modified: datetime
    groups: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Policy ARN -> its association."""

    def shape(self, cluster: str) -> dict[str, Any]:
        return {
            "clusterName": cluster,
            "principalArn": self.principal,
            "kubernetesGroups": self.groups,
            "accessEntryArn": self.arn,
            "createdAt": self.created,
            "modifiedAt": self.modified,
            "tags": self.tags,
            "username": self.username,
            "type": self.type,
        }


@dataclass
class Association:
    """A pod identity association."""

    id: str
    arn: str
    namespace: str
    service_account: str
    role: str
    created: datetime
    modified: datetime
    tags: dict[str, str] = field(default_factory=dict)
    owner: str = ""
    target_role: str = ""
    disable_session_tags: bool = False

    def shape(self, cluster: str) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "clusterName": cluster,
            "namespace": self.namespace,
            "serviceAccount": self.service_account,
            "roleArn": self.role,
            "associationArn": self.arn,
            "associationId": self.id,
            "tags": self.tags,
            "createdAt": self.created,
            "modifiedAt": self.modified,
            "disableSessionTags": self.disable_session_tags,
        }
        if self.owner:
            shape["ownerArn"] = self.owner
        if self.target_role:
            shape["targetRoleArn"] = self.target_role
        return shape


@dataclass
class Cluster:
    name: str
    arn: str
    account: str
    region: str
    version: str
    role: str
    creator: str
    creator_is_admin: bool
    authentication: str
    created: datetime
    vpc: dict[str, Any]
    network: dict[str, Any]
    logging: dict[str, Any]
    issuer: str
    status: str = "CREATING"
    endpoint: str = ""
    certificate_authority: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    token: str = ""
    extras: dict[str, Any] = field(default_factory=dict)
    """Members of the request that are kept and described as they are."""
    interfaces: list[str] = field(default_factory=list)
    """The control plane's network interfaces in the customer's subnets."""
    addons: dict[str, Addon] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    associations: dict[str, Association] = field(default_factory=dict)
    updates: dict[str, Update] = field(default_factory=dict)
    nodegroups: dict[str, Nodegroup] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return (self.account, self.region)

    @property
    def active_update(self) -> bool:
        return any(u.status == "InProgress" and not u.addon and not u.nodegroup for u in self.updates.values())

    def shape(self) -> dict[str, Any]:
        """``Cluster`` of the EKS API; endpoint, authority and issuer appear when the control plane is there."""
        shape: dict[str, Any] = {
            "name": self.name,
            "arn": self.arn,
            "createdAt": self.created,
            "version": self.version,
            "roleArn": self.role,
            "resourcesVpcConfig": self.vpc,
            "kubernetesNetworkConfig": self.network,
            "logging": self.logging,
            "status": self.status,
            "certificateAuthority": {},
            "platformVersion": f"eks.{9 if self.version < '1.34' else 5}",
            "tags": self.tags,
            "health": {"issues": []},
            "accessConfig": {
                "authenticationMode": self.authentication,
                "bootstrapClusterCreatorAdminPermissions": self.creator_is_admin,
            },
            "upgradePolicy": {"supportType": "EXTENDED"},
            "deletionProtection": False,
            **self.extras,
        }
        if self.token:
            shape["clientRequestToken"] = self.token
        if self.endpoint:
            shape["endpoint"] = self.endpoint
            shape["certificateAuthority"] = {"data": self.certificate_authority}
            shape["identity"] = {"oidc": {"issuer": self.issuer}}
        return shape


@dataclass
class EksState:
    clusters: dict[Place, dict[str, Cluster]] = field(default_factory=dict)
    tokens: dict[tuple[Place, str, str], tuple[str, dict[str, Any]]] = field(default_factory=dict)
    """(place, operation and resource, token) -> (digest of the request, what was answered)."""
