"""Credentials as Secrets: stored, listed without their values, and deleted."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from temporalio import activity

from activities.context import operation_id
from activities.credentials.opening import opened
from activities.credentials.uses import users_of
from activities.errors import fail
from activities.kubernetes import APPLY, REQUEST_TIMEOUT, KubernetesClients, read_or_none, time_of
from activities.nodes.sight import Raw, items
from activities.settings import Settings
from contracts.credentials import (
    DELETE_CREDENTIAL,
    LIST_CREDENTIALS,
    STORE_CREDENTIAL,
    Credential,
    CredentialGone,
    CredentialList,
    CredentialView,
    DeleteCredential,
    ListCredentials,
    StoreCredential,
)
from contracts.names import (
    ANNOTATION_OPERATION,
    FIELD_MANAGER,
    LABEL_CLUSTER,
    LABEL_CREDENTIAL,
    ClusterNames,
    credential_secret,
)
from contracts.problem import ProblemCode

KEY = "token"
"""Where in the Secret the token is."""
_WITHOUT_VALUES = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
"""Kubernetes then sends names, labels and times, and no data.
(https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables)"""


class CredentialActivities:
    def __init__(self, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._kubernetes, self._settings = kubernetes, settings

    @activity.defn(name=STORE_CREDENTIAL.name)
    def store_credential(self, request: StoreCredential) -> Credential:
        """The Secret of the credential, with the token that was sealed.

        Raises INVALID or UNAVAILABLE where it cannot be opened, NOT_FOUND for a namespace that does not exist, FOREIGN
        for a Secret of the name that is not ours.
        """
        scope, spec = request.scope, request.spec
        token = opened(self._settings, scope.cluster, spec)
        name = credential_secret(spec.name)
        with self._kubernetes.connect(scope.region, request.eks_cluster) as api:
            core = client.CoreV1Api(api)
            check_namespace(core, spec.namespace)
            there: Any = read_or_none(core.read_namespaced_secret, name, spec.namespace)
            if there is not None and not is_ours(there.metadata.labels, scope.cluster):
                fail(ProblemCode.FOREIGN, *foreign(spec.namespace, name), field="/name")
            changed = there is None or token_in(there) != token
            if changed:
                core.patch_namespaced_secret(name, spec.namespace, _manifest(request, name, token), **APPLY)
        return Credential(name=spec.name, namespace=spec.namespace, secret=name, changed=changed)

    @activity.defn(name=DELETE_CREDENTIAL.name)
    def delete_credential(self, request: DeleteCredential) -> CredentialGone:
        """Delete the Secret. Absent is done. Raises FOREIGN for one that is not ours."""
        name = credential_secret(request.name)
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            core = client.CoreV1Api(api)
            there: Any = read_or_none(core.read_namespaced_secret, name, request.namespace)
            if there is None:
                return CredentialGone(name=request.name, namespace=request.namespace, changed=False)
            if not is_ours(there.metadata.labels, request.scope.cluster):
                fail(ProblemCode.FOREIGN, *foreign(request.namespace, name), field="/name")
            only = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=there.metadata.uid))
            try:
                core.delete_namespaced_secret(name, request.namespace, body=only, _request_timeout=REQUEST_TIMEOUT)
            except ApiException as error:
                # 409: another one has taken its name meanwhile.
                if error.status not in (404, 409):
                    raise
        return CredentialGone(name=request.name, namespace=request.namespace)

    @activity.defn(name=LIST_CREDENTIALS.name)
    def list_credentials(self, request: ListCredentials) -> CredentialList:
        """Every credential of ours, with what refers to it. No value is read."""
        with self._kubernetes.connect(request.scope.region, request.eks_cluster) as api:
            found = credentials_of(api, request.scope.cluster)
            users = users_of(api, [(each.namespace, each.secret) for each in found])
        return CredentialList(
            credentials=[
                each.model_copy(update={"used_by": users[each.namespace, each.secret]})
                for each in sorted(found, key=lambda each: (each.namespace, each.name))
            ],
            read_at=time_of(api),
        )


def credentials_of(api: client.ApiClient, cluster: str) -> list[CredentialView]:
    """The cluster's credentials, without their values and users."""
    listing = partial(client.CoreV1Api(api).list_secret_for_all_namespaces, _headers=_WITHOUT_VALUES)
    selector = f"{LABEL_CLUSTER}={ClusterNames(cluster).label},{LABEL_CREDENTIAL}"
    return [_view(each) for each in items(listing, label_selector=selector)]


def read_token(api: client.ApiClient, namespace: str, name: str) -> str | None:
    """The token of a credential, whoever made its Secret; None where there is none. Never log or return it."""
    found: Any = read_or_none(client.CoreV1Api(api).read_namespaced_secret, credential_secret(name), namespace)
    return None if found is None else token_in(found)


def token_in(secret: Any) -> str | None:
    """None where the Secret has no token that could be one."""
    data = (secret.data or {}).get(KEY)
    if data is None:
        return None
    try:
        return base64.b64decode(data).decode().strip() or None
    except ValueError:
        return None


def check_namespace(core: client.CoreV1Api, name: str) -> None:
    """Raises NOT_FOUND for a namespace that does not exist, or is on its way out."""
    found: Any = read_or_none(core.read_namespace, name)
    if found is None or found.metadata.deletion_timestamp:
        state = "is being deleted" if found is not None else "does not exist"
        remedy = f"Make it (kubectl create namespace {name}), or name another one."
        fail(ProblemCode.NOT_FOUND, f"Namespace {name} {state}", remedy, field="/namespace")


def is_ours(labels: dict[str, str] | None, cluster: str) -> bool:
    return (labels or {}).get(LABEL_CLUSTER) == ClusterNames(cluster).label


def foreign(namespace: str, name: str) -> tuple[str, str]:
    """Detail and remedy for a Secret that is not ours."""
    return (
        f"A Secret {namespace}/{name} exists that InstantStart has not made for this cluster",
        "Choose another name, or delete that one.",
    )


def _view(found: Raw) -> CredentialView:
    meta = found["metadata"]
    return CredentialView(
        name=meta["labels"][LABEL_CREDENTIAL],
        namespace=meta["namespace"],
        secret=meta["name"],
        key=KEY,
        created_at=meta["creationTimestamp"],
    )


def _manifest(request: StoreCredential, name: str, token: str) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": name,
            "namespace": request.spec.namespace,
            "labels": {
                LABEL_CLUSTER: ClusterNames(request.scope.cluster).label,
                LABEL_CREDENTIAL: request.spec.name,
                "app.kubernetes.io/managed-by": FIELD_MANAGER,
            },
            "annotations": {ANNOTATION_OPERATION: operation_id()},
        },
        "data": {KEY: base64.b64encode(token.encode()).decode()},
    }
