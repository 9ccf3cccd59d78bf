"""Who the pods of features are in AWS: roles, Pod Identity associations, service accounts.

API: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreatePodIdentityAssociation.html
"""

from __future__ import annotations

from typing import Any

from kubernetes import client

from activities.aws import is_ours, pages, tags_of, token
from activities.context import attempt, operation_id
from activities.errors import fail, is_absent
from activities.features.kinds import PartHandler
from activities.features.policies import PURPOSES, arn_of, role_wanted, training_account
from activities.identity.roles import RoleSight, ensure_role, look_at_role, remove_role
from activities.kubernetes import REQUEST_TIMEOUT, listed, read_or_none
from contracts.features import Feature, PartDone, PartKind, PartSight, PartState
from contracts.names import ANNOTATION_OPERATION, FIELD_MANAGER
from contracts.problem import ProblemCode

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"


class RolePart(PartHandler):
    kind = PartKind.ROLE

    def _found(self) -> RoleSight | None:
        wanted = role_wanted(self.ground, self.feature, self.options)
        return look_at_role(
            self.ground.aws,
            self.ground.scope,
            purpose=wanted.purpose,
            trust=wanted.trust,
            managed=wanted.managed,
            inline=wanted.inline,
        )

    def look(self) -> PartSight:
        if other := self._other_cluster_role():
            return self.seen(PartState.PRESENT, f"{other} is used", ours=False)
        found = self._found()
        if found is None:
            return self.seen(PartState.ABSENT)
        if not found.ours:
            return self.seen(PartState.WRONG, f"IAM role {found.name} belongs to others", ours=False)
        if found.difference is not None:
            return self.seen(PartState.WRONG, f"IAM role {found.name}: {found.difference}")
        return self.seen(PartState.PRESENT)

    def ensure(self) -> PartDone:
        if other := self._other_cluster_role():
            return self.kept(f"{other} is used")
        wanted = role_wanted(self.ground, self.feature, self.options)
        made = ensure_role(
            self.ground.aws,
            self.ground.scope,
            purpose=wanted.purpose,
            trust=wanted.trust,
            managed=wanted.managed,
            inline=wanted.inline,
        )
        return self.done(made.changed)

    def remove(self) -> PartDone:
        removed = remove_role(self.ground.aws, self.ground.scope, PURPOSES[self.feature])
        return self.kept("it is not ours") if removed is None else self.done(removed)

    def _other_cluster_role(self) -> str | None:
        """A role that the HyperPod cluster scales with already, and that is not the one that we would make."""
        if self.feature is not Feature.AUTOSCALING or self.ground.hyperpod is None:
            return None
        enabled = (self.ground.hyperpod.get("AutoScaling") or {}).get("Mode") == "Enable"
        arn = self.ground.hyperpod.get("ClusterRole")
        return arn if enabled and arn and arn != role_arn(self) else None


def role_arn(part: PartHandler) -> str:
    """The ARN of the role of the part's feature."""
    return arn_of(part.ground, part.feature)


class PodIdentityPart(PartHandler):
    """A role given to a service account of a Helm release; add-ons bring their own."""

    kind = PartKind.POD_IDENTITY

    def _found(self) -> Any | None:
        eks = self.ground.aws.read.eks(self.ground.region)
        where: Any = {"clusterName": self.ground.site.eks_cluster}
        who: Any = {"namespace": self.part.namespace, "serviceAccount": self.part.service_account}
        for each in pages(eks, "list_pod_identity_associations", "associations", **where, **who):
            which: Any = {**where, "associationId": each["associationId"]}
            return eks.describe_pod_identity_association(**which)["association"]
        return None

    def look(self) -> PartSight:
        found = self._found()
        if found is None:
            return self.seen(PartState.ABSENT)
        ours = is_ours(found.get("tags", {}), self.ground.scope.cluster)
        if ours and found["roleArn"] != role_arn(self):
            return self.seen(PartState.WRONG, f"{self._account} has role {found['roleArn']}")
        return self.seen(PartState.PRESENT, ours=ours)

    @property
    def _account(self) -> str:
        return f"service account {self.part.namespace}/{self.part.service_account}"

    def ensure(self) -> PartDone:
        found, act = self._found(), self.ground.aws.act.eks(self.ground.region)
        where: Any = {"clusterName": self.ground.site.eks_cluster}
        if found is None:
            act.create_pod_identity_association(
                **where,
                namespace=self.part.namespace or "",
                serviceAccount=self.part.service_account or "",
                roleArn=role_arn(self),
                tags=tags_of(self.ground.scope, f"pod-identity-{self.part.name}"),
                clientRequestToken=token(f"pod-identity-{self.part.name}/{attempt()}"),
            )
            return self.done(True)
        if found["roleArn"] == role_arn(self):
            return self.done(False)
        if not is_ours(found.get("tags", {}), self.ground.scope.cluster):
            fail(
                ProblemCode.FOREIGN,
                f"The {self._account} already has role {found['roleArn']}",
                "Delete that Pod Identity association, then retry.",
            )
        act.update_pod_identity_association(**where, associationId=found["associationId"], roleArn=role_arn(self))
        return self.done(True)

    def remove(self) -> PartDone:
        found, act = self._found(), self.ground.aws.act.eks(self.ground.region)
        if found is None:
            return self.done(False)
        if not is_ours(found.get("tags", {}), self.ground.scope.cluster):
            return self.kept("it is not ours")
        try:
            act.delete_pod_identity_association(
                clusterName=self.ground.site.eks_cluster, associationId=found["associationId"]
            )
        except Exception as error:
            if not is_absent(error, "ResourceNotFoundException"):
                raise
        return self.done(True)


class ServiceAccountPart(PartHandler):
    """The training pods' service account, which takes the feature's role by the cluster's OIDC issuer."""

    kind = PartKind.SERVICE_ACCOUNT

    def _own(self) -> list[Any]:
        """Those that we made for the feature, in any namespace."""
        core = client.CoreV1Api(self.ground.api)
        found = listed(core.list_service_account_for_all_namespaces, label_selector=self._selector)
        return [each for each in found if not each.metadata.deletion_timestamp]

    @property
    def _labels(self) -> dict[str, str]:
        return {**self.ground.labels, "app.kubernetes.io/component": self.part.name}

    @property
    def _selector(self) -> str:
        return ",".join(f"{key}={value}" for key, value in self._labels.items())

    def _read(self) -> Any | None:
        namespace, name = training_account(self.ground, self.options)
        return read_or_none(client.CoreV1Api(self.ground.api).read_namespaced_service_account, name, namespace)

    def look(self) -> PartSight:
        found = self._read()
        if found is None:
            return self.seen(PartState.ABSENT)
        namespace, name = training_account(self.ground, self.options)
        settings = {"namespace": namespace, "service_account": name}
        ours = self.ground.made(found)
        if (found.metadata.annotations or {}).get(ROLE_ANNOTATION) != role_arn(self):
            if not ours:
                return self.seen(PartState.ABSENT)
            detail = f"service account {namespace}/{name} does not name the role"
            return self.seen(PartState.WRONG, detail, settings=settings)
        return self.seen(PartState.PRESENT, settings=settings)

    def ensure(self) -> PartDone:
        namespace, name = training_account(self.ground, self.options)
        core, found = client.CoreV1Api(self.ground.api), self._read()
        changed = self._remove_others(namespace, name)
        if read_or_none(core.read_namespace, namespace) is None:
            fail(
                ProblemCode.NOT_FOUND,
                f"There is no namespace {namespace} in the cluster",
                f"Make it (kubectl create namespace {namespace}), or choose another one.",
                field="/tiered_checkpointing/namespace",
            )
        if found is None:
            body: Any = {
                "metadata": {
                    "name": name,
                    "labels": self._labels,
                    "annotations": {ROLE_ANNOTATION: role_arn(self), ANNOTATION_OPERATION: operation_id()},
                }
            }
            core.create_namespaced_service_account(
                namespace, body, field_manager=FIELD_MANAGER, _request_timeout=REQUEST_TIMEOUT
            )
            return self.done(True)
        annotation = (found.metadata.annotations or {}).get(ROLE_ANNOTATION)
        if annotation == role_arn(self):
            return self.done(changed)
        if annotation and not self.ground.made(found):
            fail(
                ProblemCode.FOREIGN,
                f"Service account {namespace}/{name} already takes role {annotation}",
                "Choose another service account, or remove that annotation, then retry.",
                field="/tiered_checkpointing/service_account",
            )
        core.patch_namespaced_service_account(
            name,
            namespace,
            {"metadata": {"annotations": {ROLE_ANNOTATION: role_arn(self)}}},
            field_manager=FIELD_MANAGER,
            _request_timeout=REQUEST_TIMEOUT,
        )
        return self.done(True)

    def remove(self) -> PartDone:
        changed = self._remove_others("", "")
        found = self._read()
        if found is not None and (found.metadata.annotations or {}).get(ROLE_ANNOTATION) == role_arn(self):
            if self.ground.made(found):
                return self.done(True)
            # Somebody's own service account: only the annotation is ours.
            client.CoreV1Api(self.ground.api).patch_namespaced_service_account(
                found.metadata.name,
                found.metadata.namespace,
                {"metadata": {"annotations": {ROLE_ANNOTATION: None}}},
                _request_timeout=REQUEST_TIMEOUT,
            )
            changed = True
        return self.done(changed)

    def _remove_others(self, namespace: str, name: str) -> bool:
        """Delete ours but the one that is named."""
        core = client.CoreV1Api(self.ground.api)
        others = [each for each in self._own() if (each.metadata.namespace, each.metadata.name) != (namespace, name)]
        for each in others:
            core.delete_namespaced_service_account(
                each.metadata.name, each.metadata.namespace, _request_timeout=REQUEST_TIMEOUT
            )
        return bool(others)
