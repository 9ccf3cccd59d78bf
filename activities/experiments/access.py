"""Letting pods report: a service account, its Pod Identity association, and a role for exactly the servers that it was
connected to.

API: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html
"""

from __future__ import annotations

import json
from typing import Any

from kubernetes import client
from temporalio import activity

from activities.aws import AwsClients, is_ours, tags_of, token
from activities.context import attempt, operation_id
from activities.errors import fail, is_absent
from activities.experiments import servers
from activities.experiments.connections import ASSOCIATION, association_of, role_of, servers_of
from activities.experiments.policies import MOST_SERVERS, policy_name, reporting_policy, reporting_trust
from activities.identity.policies import Document, canonical
from activities.identity.roles import ensure_role, remove_role
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients, listed, read_or_none
from contracts.catalogue import INSTALL_DEPENDENCIES
from contracts.experiments import (
    ENSURE_EXPERIMENT_ACCESS,
    REMOVE_EXPERIMENT_ACCESS,
    ConnectExperiments,
    DisconnectExperiments,
    ExperimentsConnected,
    ExperimentsDisconnected,
)
from contracts.feature_catalogue import POD_IDENTITY_AGENT
from contracts.names import (
    ANNOTATION_OPERATION,
    FIELD_MANAGER,
    LABEL_CLUSTER,
    LABEL_EXPERIMENTS,
    ClusterNames,
    experiments_role_purpose,
)
from contracts.network import Scope
from contracts.problem import ProblemCode
from contracts.words import number_of

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
ENDED = ("Succeeded", "Failed")


class AccessToExperiments:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws, self._kubernetes = aws, kubernetes

    @activity.defn(name=ENSURE_EXPERIMENT_ACCESS.name)
    def ensure_access(self, request: ConnectExperiments) -> ExperimentsConnected:
        """Pods that run as the service account may report to the server, beside those that they may already.

        Raises NOT_FOUND for a namespace or server that there is none of, NOT_READY where the cluster gives pods no
        roles, FOREIGN or CONFLICT where the service account has another role already.
        """
        scope, namespace, account = request.scope, request.namespace, request.service_account
        view = servers.find(self._aws, scope.region, request.tracking_server)
        self._check_agent(scope, request.eks_cluster)
        changed = self._ensure_account(request)
        known = servers_of(self._aws, scope, namespace, account)
        if len({*known, view.arn}) > MOST_SERVERS:
            detail = f"service account {namespace}/{account} reports to {len(known)} tracking servers already"
            fail(ProblemCode.CONFLICT, detail, "Disconnect it from one of them, or use another service account.")
        caller = self._aws.read.sts(scope.region).get_caller_identity()["Account"]
        eks_arn = self._aws.read.eks(scope.region).describe_cluster(name=request.eks_cluster)["cluster"]["arn"]
        role = ensure_role(
            self._aws,
            scope,
            purpose=experiments_role_purpose(namespace, account),
            trust=reporting_trust(caller, eks_arn, namespace, account),
            managed=[],
        )
        wanted = reporting_policy(view.arn, view.artifacts)
        allowed = view.arn not in known or canonical(known[view.arn]) != canonical(wanted)
        if allowed:
            self._aws.act.iam(scope.region).put_role_policy(
                RoleName=role.name, PolicyName=policy_name(view.arn), PolicyDocument=json.dumps(wanted)
            )
        associated = self._ensure_association(request, role.arn)
        return ExperimentsConnected(
            service_account=account,
            namespace=namespace,
            role_arn=role.arn,
            tracking_uri=view.arn,
            region=view.arn.split(":")[3],
            changed=changed or role.changed or allowed or associated,
        )

    def _check_agent(self, scope: Scope, eks_cluster: str) -> None:
        try:
            self._aws.read.eks(scope.region).describe_addon(clusterName=eks_cluster, addonName=POD_IDENTITY_AGENT)
        except Exception as error:
            if not is_absent(error, "ResourceNotFoundException"):
                raise
            detail = f"EKS cluster {eks_cluster} has no add-on {POD_IDENTITY_AGENT}: pods get no roles"
            fail(ProblemCode.NOT_READY, detail, f"Install it ({INSTALL_DEPENDENCIES.name}), then retry.")

    def _ensure_account(self, request: ConnectExperiments) -> bool:
        scope, namespace, name = request.scope, request.namespace, request.service_account
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            core = client.CoreV1Api(api)
            if read_or_none(core.read_namespace, namespace) is None:
                remedy = f"Make it (kubectl create namespace {namespace}), or name another one."
                detail = f"there is no namespace {namespace} in the cluster"
                fail(ProblemCode.NOT_FOUND, detail, remedy, field="/namespace")
            found: Any = read_or_none(core.read_namespaced_service_account, name, namespace)
            if found is not None:
                # The SDKs prefer the annotation's role to the association's.
                if other := (found.metadata.annotations or {}).get(ROLE_ANNOTATION):
                    detail = f"service account {namespace}/{name} already takes role {other} by its annotation"
                    remedy = "Name another service account, or remove that annotation."
                    fail(ProblemCode.CONFLICT, detail, remedy, field="/service_account")
                return False
            body: Any = {
                "metadata": {
                    "name": name,
                    "labels": {
                        "app.kubernetes.io/managed-by": FIELD_MANAGER,
                        LABEL_CLUSTER: ClusterNames(scope.cluster).label,
                        LABEL_EXPERIMENTS: "true",
                    },
                    "annotations": {ANNOTATION_OPERATION: operation_id()},
                }
            }
            core.create_namespaced_service_account(
                namespace, body, field_manager=FIELD_MANAGER, _request_timeout=REQUEST_TIMEOUT
            )
        return True

    def _ensure_association(self, request: ConnectExperiments, role_arn: str) -> bool:
        scope, namespace, account = request.scope, request.namespace, request.service_account
        found = association_of(self._aws, scope, request.eks_cluster, namespace, account)
        act = self._aws.act.eks(scope.region)
        if found is None:
            act.create_pod_identity_association(
                clusterName=request.eks_cluster,
                namespace=namespace,
                serviceAccount=account,
                roleArn=role_arn,
                tags=tags_of(scope, ASSOCIATION),
                clientRequestToken=token(f"{ASSOCIATION}/{namespace}/{account}/{attempt()}"),
            )
            return True
        if found["roleArn"] == role_arn:
            return False
        if not is_ours(found.get("tags", {}), scope.cluster):
            detail = f"service account {namespace}/{account} already has role {found['roleArn']}"
            remedy = "Name another service account, or delete that Pod Identity association."
            fail(ProblemCode.FOREIGN, detail, remedy, field="/service_account")
        act.update_pod_identity_association(
            clusterName=request.eks_cluster, associationId=found["associationId"], roleArn=role_arn
        )
        return True

    @activity.defn(name=REMOVE_EXPERIMENT_ACCESS.name)
    def remove_access(self, request: DisconnectExperiments) -> ExperimentsDisconnected:
        """Pods may report to the server no more; with the last server goes what connected them, as far as it is ours
        and nothing runs as the service account."""
        scope, namespace, account = request.scope, request.namespace, request.service_account
        purpose = experiments_role_purpose(namespace, account)
        known = servers_of(self._aws, scope, namespace, account)
        gone = set(known) if request.tracking_server is None else self._named(request.tracking_server, known)
        if left := set(known) - gone:
            for arn in gone:
                self._forbid(scope, role_of(scope, namespace, account), arn)
            return self._disconnected(request, left, [], bool(gone))
        changed = self._remove_association(request)
        kept: list[str] = []
        if (removed := remove_role(self._aws, scope, purpose)) is None:
            kept.append("the IAM role: it is not the platform's")
        account_gone = self._remove_account(request, kept)
        return self._disconnected(request, set(), kept, changed or bool(removed) or account_gone)

    @staticmethod
    def _named(reference: str, known: dict[str, Document]) -> set[str]:
        """Which of the servers are meant: one that is gone can still be named. An app goes by its ARN."""
        return {arn for arn in known if reference in (arn, arn.rpartition("/")[2])}

    def _forbid(self, scope: Scope, role: str, arn: str) -> None:
        try:
            self._aws.act.iam(scope.region).delete_role_policy(RoleName=role, PolicyName=policy_name(arn))
        except Exception as error:
            if not is_absent(error, "NoSuchEntity"):
                raise

    @staticmethod
    def _disconnected(
        request: DisconnectExperiments, left: set[str], kept: list[str], changed: bool
    ) -> ExperimentsDisconnected:
        return ExperimentsDisconnected(
            service_account=request.service_account,
            namespace=request.namespace,
            left=sorted(left),
            kept=kept,
            changed=changed,
        )

    def _remove_association(self, request: DisconnectExperiments) -> bool:
        scope = request.scope
        found = association_of(self._aws, scope, request.eks_cluster, request.namespace, request.service_account)
        if found is None or not is_ours(found.get("tags", {}), scope.cluster):
            return False
        try:
            self._aws.act.eks(scope.region).delete_pod_identity_association(
                clusterName=request.eks_cluster, associationId=found["associationId"]
            )
        except Exception as error:
            if not is_absent(error, "ResourceNotFoundException"):
                raise
        return True

    def _remove_account(self, request: DisconnectExperiments, kept: list[str]) -> bool:
        namespace, name = request.namespace, request.service_account
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            core = client.CoreV1Api(api)
            found: Any = read_or_none(core.read_namespaced_service_account, name, namespace)
            if found is None:
                return False
            if (found.metadata.labels or {}).get(LABEL_EXPERIMENTS) is None:
                kept.append(f"service account {namespace}/{name}: it is not the platform's")
                return False
            pods = listed(core.list_namespaced_pod, namespace=namespace)
            users = [
                each.metadata.name
                for each in pods
                if each.spec.service_account_name == name and each.status.phase not in ENDED
            ]
            if users:
                kept.append(
                    f"service account {namespace}/{name}: used by {number_of(len(users), 'pod')}, {users[0]} for one"
                )
                return False
            core.delete_namespaced_service_account(name, namespace, _request_timeout=REQUEST_TIMEOUT)
        return True
