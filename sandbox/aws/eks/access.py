"""Who may use an EKS cluster: access entries with their policies, and pod identity associations.

https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html
"""

from __future__ import annotations

import re
from typing import Any

from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks.base import Base
from sandbox.aws.eks.clusters import access_entry_arn, default_username
from sandbox.aws.eks.state import Addon, Association, Cluster, Entry
from sandbox.aws.world import hex_id, paginate

PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/.+")
POLICY_PREFIX = "arn:aws:eks::aws:cluster-access-policy/"
POLICIES = (
    "AmazonEKSAdminPolicy",
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
    "AmazonSagemakerHyperpodClusterPolicy",
    "AmazonSagemakerHyperpodControllerPolicy",
    "AmazonSagemakerHyperpodSystemNamespacePolicy",
    "AmazonSagemakerHyperpodSpacePolicy",
)
TYPES = ("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX")


class Access(Base):
    """Handlers of the operations on access entries and pod identity associations."""

    def CreateAccessEntry(self, call: Call) -> Any:
        cluster = self._with_entries(call)
        what = f"{cluster.name}/{call.params['principalArn']}"
        return self.once(call, what, lambda: self._create_entry(call, cluster))

    def DescribeAccessEntry(self, call: Call) -> Any:
        cluster = self._with_entries(call)
        return {"accessEntry": self._entry(call, cluster).shape(cluster.name)}

    def ListAccessEntries(self, call: Call) -> Any:
        cluster = self._with_entries(call)
        policy = call.params.get("associatedPolicyArn")
        found = sorted(e.principal for e in cluster.entries.values() if not policy or policy in e.policies)
        page, token = paginate(found, call.params.get("nextToken"), call.params.get("maxResults") or 100)
        return {"accessEntries": page, "nextToken": token}

    def UpdateAccessEntry(self, call: Call) -> Any:
        cluster = self._with_entries(call)
        entry = self._entry(call, cluster)
        if call.params.get("kubernetesGroups") is not None:
            _check_groups(call.params["kubernetesGroups"])
            entry.groups = call.params["kubernetesGroups"]
        if call.params.get("username"):
            entry.username = call.params["username"]
        entry.modified = self.world.now()
        self.publish_access(cluster)
        return {"accessEntry": entry.shape(cluster.name)}

    def DeleteAccessEntry(self, call: Call) -> Any:
        cluster = self._with_entries(call)
        entry = self._entry(call, cluster)
        del cluster.entries[entry.principal]
        prefix = f"CreateAccessEntry/{cluster.name}/{entry.principal}"
        for token in [k for k in self.state.tokens if k[0] == cluster.place and k[1] == prefix]:
            del self.state.tokens[token]
        self.publish_access(cluster)
        return {}

    def AssociateAccessPolicy(self, call: Call) -> Any:
        cluster = self._with_entries(call)
        entry = self._entry(call, cluster)
        arn, scope = call.params["policyArn"], call.params["accessScope"]
        if arn.removeprefix(POLICY_PREFIX) not in POLICIES:
            raise AwsError("InvalidParameterException", f"The policyArn {arn} does not exist or is not supported.")
        if entry.type != "STANDARD":
            raise AwsError(
                "InvalidRequestException", f"Access policies cannot be associated with entries of type {entry.type}."
            )
        if scope.get("type") == "namespace" and not scope.get("namespaces"):
            raise AwsError("InvalidParameterException", "Namespaces are required for the access scope type namespace.")
        if scope.get("type") == "cluster" and scope.get("namespaces"):
            raise AwsError("InvalidParameterException", "Namespaces cannot be given for the access scope type cluster.")
        now = self.world.now()
        known = entry.policies.get(arn)
        entry.policies[arn] = {
            "policyArn": arn,
            "accessScope": {"type": scope.get("type"), "namespaces": scope.get("namespaces") or []},
            "associatedAt": known["associatedAt"] if known else now,
            "modifiedAt": now,
        }
        self.publish_access(cluster)
        return {
            "clusterName": cluster.name,
            "principalArn": entry.principal,
            "associatedAccessPolicy": entry.policies[arn],
        }

    def DisassociateAccessPolicy(self, call: Call) -> Any:
        cluster = self._with_entries(call)
        entry = self._entry(call, cluster)
        if entry.policies.pop(call.params["policyArn"], None) is None:
            raise AwsError("ResourceNotFoundException", "The specified access policy is not associated with the entry.")
        self.publish_access(cluster)
        return {}

    def ListAssociatedAccessPolicies(self, call: Call) -> Any:
        cluster = self._with_entries(call)
        entry = self._entry(call, cluster)
        return {
            "clusterName": cluster.name,
            "principalArn": entry.principal,
            "associatedAccessPolicies": list(entry.policies.values()),
        }

    def ListAccessPolicies(self, call: Call) -> Any:
        return {"accessPolicies": [{"name": name, "arn": POLICY_PREFIX + name} for name in POLICIES]}

    def CreatePodIdentityAssociation(self, call: Call) -> Any:
        cluster = self.active_cluster(call)
        what = f"{cluster.name}/{call.params['namespace']}/{call.params['serviceAccount']}"
        return self.once(call, what, lambda: self._create_association(call, cluster))

    def DescribePodIdentityAssociation(self, call: Call) -> Any:
        cluster = self.cluster(call)
        return {"association": self._association(call, cluster).shape(cluster.name)}

    def ListPodIdentityAssociations(self, call: Call) -> Any:
        cluster, p = self.cluster(call), call.params
        found = [
            a
            for a in cluster.associations.values()
            if p.get("namespace") in (None, a.namespace) and p.get("serviceAccount") in (None, a.service_account)
        ]
        page, token = paginate(found, p.get("nextToken"), p.get("maxResults") or 100)
        keys = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId", "ownerArn")
        shapes = [a.shape(cluster.name) for a in page]
        return {"associations": [{k: s[k] for k in keys if k in s} for s in shapes], "nextToken": token}

    def UpdatePodIdentityAssociation(self, call: Call) -> Any:
        cluster = self.cluster(call)
        association = self._association(call, cluster)
        if call.params.get("roleArn"):
            association.role = call.params["roleArn"]
        if call.params.get("targetRoleArn") is not None:
            association.target_role = call.params["targetRoleArn"]
        association.modified = self.world.now()
        return {"association": association.shape(cluster.name)}

    def DeletePodIdentityAssociation(self, call: Call) -> Any:
        cluster = self.cluster(call)
        association = self._association(call, cluster)
        del cluster.associations[association.id]
        what = f"CreatePodIdentityAssociation/{cluster.name}/{association.namespace}/{association.service_account}"
        for token in [k for k in self.state.tokens if k[0] == cluster.place and k[1] == what]:
            del self.state.tokens[token]
        return {"association": association.shape(cluster.name)}

    def associate_addon(self, cluster: Cluster, addon: Addon, service_account: str, role: str) -> str:
        association = self._new_association(cluster, addon.namespace, service_account, role)
        association.owner = addon.arn
        return association.arn

    def admit(self, cluster: Cluster, principal_arn: str, kind: str) -> bool:
        """Add an entry on AWS's own behalf, as HyperPod does for its nodes; whether it is new."""
        if principal_arn in cluster.entries:
            return False
        self._add_entry(cluster, principal_arn, kind, "", [], {})
        self.publish_access(cluster)
        return True

    def _with_entries(self, call: Call) -> Cluster:
        cluster = self.active_cluster(call)
        if cluster.authentication == "CONFIG_MAP":
            raise AwsError(
                "InvalidRequestException",
                "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this "
                "operation.",
                clusterName=cluster.name,
            )
        return cluster

    def _create_entry(self, call: Call, cluster: Cluster) -> dict[str, Any]:
        p = call.params
        principal_arn, kind = p["principalArn"], p.get("type") or "STANDARD"
        if not PRINCIPAL.fullmatch(principal_arn):
            raise AwsError(
                "InvalidParameterException",
                f"The specified principalArn is invalid: invalid principal. Sessions and root users cannot have access "
                f"entries: {principal_arn}",
                clusterName=cluster.name,
            )
        if kind not in TYPES:
            raise AwsError("InvalidParameterException", f"The access entry type {kind} is not supported.")
        if principal_arn in cluster.entries:
            raise AwsError(
                "ResourceInUseException",
                "The specified access entry resource is already in use on this cluster.",
                clusterName=cluster.name,
            )
        groups = p.get("kubernetesGroups") or []
        _check_groups(groups)
        entry = self._add_entry(cluster, principal_arn, kind, p.get("username") or "", groups, p.get("tags") or {})
        self.publish_access(cluster)
        return {"accessEntry": entry.shape(cluster.name)}

    def _add_entry(
        self, cluster: Cluster, principal_arn: str, kind: str, username: str, groups: list[str], tags: dict[str, str]
    ) -> Entry:
        now = self.world.now()
        if kind in ("EC2_LINUX", "HYPERPOD_LINUX"):
            username, groups = "system:node:{{SessionName}}", ["system:nodes"]
        entry = Entry(
            principal=principal_arn,
            arn=access_entry_arn(cluster, principal_arn),
            username=username or default_username(principal_arn),
            type=kind,
            created=now,
            modified=now,
            groups=groups,
            tags=tags,
        )
        cluster.entries[principal_arn] = entry
        return entry

    def _entry(self, call: Call, cluster: Cluster) -> Entry:
        principal_arn = call.params["principalArn"]
        if principal_arn not in cluster.entries:
            raise AwsError(
                "ResourceNotFoundException",
                f"The specified principalArn could not be found. You should refer to the principalArn: {principal_arn}",
                clusterName=cluster.name,
            )
        return cluster.entries[principal_arn]

    def _create_association(self, call: Call, cluster: Cluster) -> dict[str, Any]:
        p = call.params
        for held in cluster.associations.values():
            if (held.namespace, held.service_account) == (p["namespace"], p["serviceAccount"]):
                raise AwsError(
                    "ResourceInUseException", f"Association already exists: {held.id}", clusterName=cluster.name
                )
        if problem := self.world.role_problem(p["roleArn"], "pods.eks.amazonaws.com", propagation=0):
            raise AwsError("InvalidParameterException", f"Role {p['roleArn']} cannot be used for pods: {problem}")
        association = self._new_association(cluster, p["namespace"], p["serviceAccount"], p["roleArn"])
        association.tags = p.get("tags") or {}
        association.target_role = p.get("targetRoleArn") or ""
        association.disable_session_tags = bool(p.get("disableSessionTags"))
        return {"association": association.shape(cluster.name)}

    def _new_association(self, cluster: Cluster, namespace: str, service_account: str, role: str) -> Association:
        now, identifier = self.world.now(), "a-" + hex_id(17)
        arn = f"arn:aws:eks:{cluster.region}:{cluster.account}:podidentityassociation/{cluster.name}/{identifier}"
        association = Association(identifier, arn, namespace, service_account, role, now, now)
        cluster.associations[identifier] = association
        return association

    def _association(self, call: Call, cluster: Cluster) -> Association:
        identifier = call.params["associationId"]
        if identifier not in cluster.associations:
            raise AwsError("ResourceNotFoundException", f"No association found with id: {identifier}")
        return cluster.associations[identifier]


def _check_groups(groups: list[str]) -> None:
    if bad := [g for g in groups if g.startswith(("system:", "eks:", "aws:", "amazon:", "iam:"))]:
        raise AwsError(
            "InvalidParameterException", f"The kubernetes group name {bad[0]} is invalid, it cannot start with system:"
        )
