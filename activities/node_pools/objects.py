"""Karpenter's objects in a cluster: read, applied and deleted.

https://karpenter.sh/docs/concepts/nodepools/
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.context import operation_id
from activities.errors import fail
from activities.instance_types import NEURON, NVIDIA
from activities.kubernetes import APPLY, REQUEST_TIMEOUT
from activities.node_groups.observe import list_nodes, see
from contracts.names import ANNOTATION_OPERATION, FIELD_MANAGER, LABEL_CLUSTER, ClusterNames
from contracts.node_pools import NodePool
from contracts.problem import ProblemCode

Object = dict[str, Any]

LABEL_POOL = "karpenter.sh/nodepool"


@dataclass(frozen=True)
class Kind:
    """A cluster-scoped custom resource."""

    group: str
    kind: str
    plural: str
    version: str = "v1"

    @property
    def place(self) -> dict[str, Any]:
        return {"group": self.group, "version": self.version, "plural": self.plural}


NODE_CLASS = Kind("karpenter.sagemaker.amazonaws.com", "HyperpodNodeClass", "hyperpodnodeclasses")
NODE_POOL = Kind("karpenter.sh", "NodePool", "nodepools")
NODE_CLAIM = Kind("karpenter.sh", "NodeClaim", "nodeclaims")


def get(api: client.ApiClient, kind: Kind, name: str) -> Object | None:
    try:
        found: Any = client.CustomObjectsApi(api).get_cluster_custom_object(
            **kind.place, name=name, _request_timeout=REQUEST_TIMEOUT
        )
    except ApiException as error:
        if error.status == 404:
            return None
        raise
    return dict(found)


def list_all(api: client.ApiClient, kind: Kind, selector: str | None = None) -> list[Object]:
    """Every object of the kind; none where the cluster does not know the kind (autoscaling was never on)."""
    given: dict[str, Any] = {"label_selector": selector} if selector else {}
    try:
        found: Any = client.CustomObjectsApi(api).list_cluster_custom_object(
            **kind.place, **given, _request_timeout=REQUEST_TIMEOUT
        )
    except ApiException as error:
        if error.status == 404:
            return []
        raise
    return list(found.get("items", []))


def apply(api: client.ApiClient, kind: Kind, cluster: str, name: str, spec: Object) -> Object:
    """Server-side apply with our field manager, labels and annotation. Returns the object as it is then."""
    client.CustomObjectsApi(api).patch_cluster_custom_object(
        **kind.place,
        name=name,
        body=manifest(f"{kind.group}/{kind.version}", kind.kind, cluster, name, spec),
        **APPLY,
    )
    # The client gives nothing back for the answer 201 (created).
    applied = get(api, kind, name)
    if applied is None:
        remedy = "Look who deletes it, then retry."
        fail(ProblemCode.CONFLICT, f"{kind.kind} {name} was deleted right after it was applied", remedy)
    return applied


def manifest(version: str, kind: str, cluster: str, name: str, spec: Object) -> Object:
    """A custom resource with our labels and annotation. ``version`` with its group."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {
                LABEL_CLUSTER: ClusterNames(cluster).label,
                "app.kubernetes.io/managed-by": FIELD_MANAGER,
            },
            "annotations": {ANNOTATION_OPERATION: operation_id()},
        },
        "spec": spec,
    }


def delete(api: client.ApiClient, kind: Kind, found: Object) -> None:
    """Delete just this object, and none that has taken its name meanwhile."""
    try:
        client.CustomObjectsApi(api).delete_cluster_custom_object(
            **kind.place,
            name=found["metadata"]["name"],
            body=client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=found["metadata"]["uid"])),
            _request_timeout=REQUEST_TIMEOUT,
        )
    except ApiException as error:
        if error.status not in (404, 409):
            raise


def is_ours(found: Object, cluster: str) -> bool:
    return (found["metadata"].get("labels") or {}).get(LABEL_CLUSTER) == ClusterNames(cluster).label


def class_of(pool: Object) -> str | None:
    """The HyperpodNodeClass that a node pool uses; None if it uses one of another kind."""
    reference = pool.get("spec", {}).get("template", {}).get("spec", {}).get("nodeClassRef", {})
    return reference.get("name") if reference.get("kind") == NODE_CLASS.kind else None


def groups_of(node_class: Object | None) -> list[str]:
    return list((node_class or {}).get("spec", {}).get("instanceGroups", []))


def not_ready(found: Object) -> str | None:
    """Why an object is not Ready, in its controller's words; None where it is."""
    conditions = found.get("status", {}).get("conditions", [])
    ready = next((each for each in conditions if each.get("type") == "Ready"), None)
    if ready is None:
        return "its controller has not looked at it yet"
    if ready.get("status") == "True":
        return None
    # The summary names what it depends on; that condition's own words say more.
    causes = [each for each in conditions if each is not ready and each.get("status") == "False"] or [ready]
    return "; ".join(f"{each.get('reason') or each.get('type')}: {each.get('message', '')}".strip() for each in causes)


def as_node_pool(
    api: client.ApiClient, pool: Object, node_class: Object | None, cluster: str, *, changed: bool = False
) -> NodePool:
    """A pool with its readiness, and the nodes that it has."""
    name, spec = pool["metadata"]["name"], pool.get("spec", {})
    limits, disruption = spec.get("limits", {}), spec.get("disruption", {})
    limit = next((limits[resource] for resource in (NVIDIA, NEURON) if resource in limits), None)
    seen = see(list_nodes(api, f"{LABEL_POOL}={name}"), {})
    reason = not_ready(pool)
    if node_class is None:
        reason = f"there is no HyperpodNodeClass {class_of(pool)}"
    elif (why := not_ready(node_class)) is not None:
        reason = f"HyperpodNodeClass {node_class['metadata']['name']}: {why}"
    return NodePool(
        name=name,
        node_class=class_of(pool),
        instance_groups=groups_of(node_class),
        ready=reason is None,
        reason=reason,
        nodes=seen.total,
        accelerators=seen.accelerators,
        gpu_limit=int(limit) if limit is not None and str(limit).isdigit() else None,
        consolidation=disruption.get("consolidationPolicy"),
        consolidate_after=disruption.get("consolidateAfter"),
        owned=is_ours(pool, cluster),
        changed=changed,
    )
