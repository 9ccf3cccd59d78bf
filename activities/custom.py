"""Custom resources in namespaces: read, listed, applied and deleted.

https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.errors import fail
from activities.features.foreign import CONTROLLERS
from activities.kubernetes import APPLY, PAGE, REQUEST_TIMEOUT, listed, read_or_none
from activities.node_pools.objects import is_ours, manifest
from contracts.features import Feature
from contracts.names import FIELD_MANAGER
from contracts.problem import ProblemCode

Object = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A custom resource of a namespace."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def place(self) -> dict[str, Any]:
        return {"group": self.group, "version": self.version, "plural": self.plural}

    @property
    def definition(self) -> str:
        return f"{self.plural}.{self.group}"


def get(api: client.ApiClient, kind: Kind, namespace: str, name: str) -> Object | None:
    """None where there is none, or the cluster does not know the kind."""
    try:
        found: Any = client.CustomObjectsApi(api).get_namespaced_custom_object(
            **kind.place, namespace=namespace, name=name, _request_timeout=REQUEST_TIMEOUT
        )
    except ApiException as error:
        if error.status == 404:
            return None
        raise
    return dict(found)


def list_all(api: client.ApiClient, kind: Kind, namespace: str | None = None) -> list[Object]:
    """Every object of the kind, by namespace and name; none where the cluster does not know the kind."""
    custom, found = client.CustomObjectsApi(api), list[Object]()
    given: dict[str, Any] = {"limit": PAGE, "_request_timeout": REQUEST_TIMEOUT, **kind.place}
    while True:
        try:
            page: Any = (
                custom.list_cluster_custom_object(**given)
                if namespace is None
                else custom.list_namespaced_custom_object(namespace=namespace, **given)
            )
        except ApiException as error:
            if error.status == 404:
                return []
            raise
        found += page.get("items", [])
        if not (mark := (page.get("metadata") or {}).get("continue")):
            return sorted(found, key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"]))
        given["_continue"] = mark


def apply(api: client.ApiClient, kind: Kind, cluster: str, namespace: str, name: str, spec: Object) -> Object:
    """Server-side apply with our field manager, labels and annotation. Returns the object as it is then.

    It is ours, so that what a controller has set of the same fields (a number of replicas) gives way.
    """
    return put(api, kind, namespace, name, manifest(f"{kind.group}/{kind.version}", kind.kind, cluster, name, spec))


def put(api: client.ApiClient, kind: Kind, namespace: str, name: str, body: Object) -> Object:
    """Server-side apply of a whole object with our field manager. Returns it as it is then."""
    client.CustomObjectsApi(api).patch_namespaced_custom_object(
        **kind.place, namespace=namespace, name=name, body=body, force=True, **APPLY
    )
    # The client gives nothing back for the answer 201 (created).
    return required(api, kind, namespace, name)


def merge(api: client.ApiClient, kind: Kind, namespace: str, name: str, patch: Object) -> None:
    """Change just the members of a patch; null takes one away. (RFC 7396)"""
    client.CustomObjectsApi(api).patch_namespaced_custom_object(
        **kind.place,
        namespace=namespace,
        name=name,
        body=patch,
        field_manager=FIELD_MANAGER,
        _content_type="application/merge-patch+json",
        _request_timeout=REQUEST_TIMEOUT,
    )


def required(api: client.ApiClient, kind: Kind, namespace: str, name: str) -> Object:
    """An object that was applied just now. Raises CONFLICT where it is not there any more."""
    applied = get(api, kind, namespace, name)
    if applied is None:
        remedy = "Look who deletes it, then retry."
        fail(ProblemCode.CONFLICT, f"{kind.kind} {namespace}/{name} was deleted right after it was applied", remedy)
    return applied


def delete(api: client.ApiClient, kind: Kind, found: Object) -> None:
    """Delete just this object, and none that has taken its name meanwhile."""
    metadata = found["metadata"]
    try:
        client.CustomObjectsApi(api).delete_namespaced_custom_object(
            **kind.place,
            namespace=metadata["namespace"],
            name=metadata["name"],
            body=client.V1DeleteOptions(
                preconditions=client.V1Preconditions(uid=metadata["uid"]), propagation_policy="Foreground"
            ),
            _request_timeout=REQUEST_TIMEOUT,
        )
    except ApiException as error:
        if error.status not in (404, 409):
            raise


def refuse_foreign(found: Object | None, kind: Kind, cluster: str, pace: float) -> None:
    """Raises FOREIGN for an object that is not ours, BUSY (retried) for one on its way out."""
    if found is None:
        return
    name = f"{kind.kind} {found['metadata']['namespace']}/{found['metadata']['name']}"
    if not is_ours(found, cluster):
        remedy = "Choose another name, or delete that one."
        fail(ProblemCode.FOREIGN, f"A {name} exists that InstantStart has not made", remedy, field="/name")
    if "deletionTimestamp" in found["metadata"]:
        remedy = "The platform tries again when it is gone."
        fail(ProblemCode.BUSY, f"{name} is being deleted", remedy, retry=True, delay=2 * pace)


def changed(before: Object | None, after: Object) -> bool:
    """Whether what is asked differs from what was there."""
    return before is None or before["metadata"].get("generation") != after["metadata"].get("generation")


def owned_by(found: Any, uid: str) -> bool:
    """Whether a typed object has this owner."""
    return any(owner.uid == uid for owner in found.metadata.owner_references or ())


def missing_controller(api: client.ApiClient, feature: Feature, kind: Kind) -> str | None:
    """Why a kind would not be looked after: its definition is not there, or no controller of the feature runs; None
    where all is well. Whoever installed it, and in whatever namespace."""
    read = client.ApiextensionsV1Api(api).read_custom_resource_definition
    if read_or_none(read, kind.definition) is None:
        return f"the cluster does not know {kind.kind}"
    names = CONTROLLERS[feature]
    found = [
        each
        for each in listed(client.AppsV1Api(api).list_deployment_for_all_namespaces)
        if each.metadata.name in names or (each.metadata.labels or {}).get("app.kubernetes.io/name") in names
    ]
    if not found:
        return f"there is no Deployment {' or '.join(names)}"
    if not any(each.status.available_replicas for each in found):
        return f"Deployment {found[0].metadata.namespace}/{found[0].metadata.name} has no available pod"
    return None
