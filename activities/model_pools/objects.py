"""A pool in a cluster: its Deployment, its pods, the Services that lead to them, and who is listed behind those."""

from __future__ import annotations

import json
from functools import partial

from kubernetes import client
from pydantic import ValidationError

from activities.deployments import objects
from activities.deployments.trouble import as_raw, is_ready
from activities.errors import fail
from activities.kubernetes import read_or_none
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw, items, labels_of
from contracts.inference import LABEL_SERVES, Serves
from contracts.model_pools import ModelPoolSpec, Wish
from contracts.names import ANNOTATION_ASSIGNMENTS, ANNOTATION_SPEC, LABEL_BUSINESS, LABEL_MODEL_POOL
from contracts.pool_moves import UNASSIGNED, PoolPod
from contracts.problem import ProblemCode
from contracts.words import number_of

LABEL_SERVICE = "kubernetes.io/service-name"
"""On an EndpointSlice: the Service whose endpoints it lists. (Kubernetes: EndpointSlices)"""
WHAT = "model pool"


def pools(api: client.ApiClient, namespace: str | None = None) -> list[Raw]:
    """Every pool of ours."""
    return objects.labelled(api, LABEL_MODEL_POOL, namespace)


def is_pool(found: Raw, cluster: str) -> bool:
    return is_ours(found, cluster) and LABEL_MODEL_POOL in labels_of(found)


def refuse_foreign(found: Raw | None, kind: str, cluster: str, pace: float) -> None:
    objects.refuse_foreign(found, kind, cluster, pace, WHAT, LABEL_MODEL_POOL)


def required(api: client.ApiClient, namespace: str, name: str, cluster: str, pace: float) -> Raw:
    """A pool of ours that is there. Raises NOT_FOUND, FOREIGN, and BUSY for one on its way out."""
    found = objects.deployment(api, namespace, name)
    if found is None:
        remedy = "List the model pools; create-model-pool makes one."
        fail(ProblemCode.NOT_FOUND, f"There is no model pool {namespace}/{name}", remedy, field="/name")
    refuse_foreign(found, "Deployment", cluster, pace)
    return found


def spec_of(found: Raw) -> ModelPoolSpec | None:
    """What a pool was made from; null where that is not kept, or not understood any more."""
    text = (found["metadata"].get("annotations") or {}).get(ANNOTATION_SPEC)
    if not text:
        return None
    try:
        return ModelPoolSpec.model_validate_json(text)
    except ValueError:
        return None


def known_spec(found: Raw) -> ModelPoolSpec:
    """As :func:`spec_of`. Raises CONFLICT where it cannot be told."""
    spec = spec_of(found)
    if spec is None:
        metadata = found["metadata"]
        detail = f"what {WHAT} {metadata['namespace']}/{metadata['name']} was made from is not known any more"
        remedy = f"Put its annotation {ANNOTATION_SPEC} back, or delete the pool and make it anew."
        fail(ProblemCode.CONFLICT, detail, remedy, field="/name")
    return spec


def wish_of(found: Raw) -> tuple[Wish, str | None]:
    """How the pool's pods are to be handed out; or why that cannot be read. People may have written it."""
    text = (found["metadata"].get("annotations") or {}).get(ANNOTATION_ASSIGNMENTS)
    if not text:
        return Wish(), None
    try:
        wish = Wish.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(str(step) for step in first["loc"])
        return Wish(), f"annotation {ANNOTATION_ASSIGNMENTS} is not understood: {where}: {first['msg']}"
    size = found["spec"].get("replicas", 1)
    if wish.total > size:
        asked = number_of(wish.total, "pod")
        return Wish(), f"annotation {ANNOTATION_ASSIGNMENTS} asks for {asked}, and the pool has {size}"
    return wish, None


def as_annotation(wish: Wish) -> str:
    return json.dumps(wish.model_dump(mode="json", exclude_defaults=True), sort_keys=True)


def pods_of(api: client.ApiClient, namespace: str, name: str) -> list[Raw]:
    listing = partial(client.CoreV1Api(api).list_namespaced_pod, namespace)
    return list(items(listing, label_selector=f"{LABEL_MODEL_POOL}={name}"))


def pod(api: client.ApiClient, namespace: str, name: str) -> Raw | None:
    read = partial(client.CoreV1Api(api).read_namespaced_pod, _preload_content=False)
    found = read_or_none(read, name, namespace)
    return as_raw(found) if found is not None else None


def as_pool_pod(found: Raw) -> PoolPod:
    metadata = found["metadata"]
    phase = (found.get("status") or {}).get("phase")
    return PoolPod(
        name=metadata["name"],
        uid=metadata["uid"],
        business=business_of(found),
        ready=is_ready(found),
        ending=bool(metadata.get("deletionTimestamp")) or phase in ("Failed", "Succeeded"),
    )


def business_of(found: Raw) -> str:
    return labels_of(found).get(LABEL_BUSINESS) or UNASSIGNED


def services_of(api: client.ApiClient, namespace: str, name: str) -> list[Raw]:
    """Services of ours that lead to the pool's pods."""
    listing = partial(client.CoreV1Api(api).list_namespaced_service, namespace)
    selector = f"{LABEL_MODEL_POOL}={name},{LABEL_SERVES}={Serves.POOL_SERVICE.value}"
    return list(items(listing, label_selector=selector))


def listed_behind(api: client.ApiClient, namespace: str, services: list[str], pod_name: str) -> list[str]:
    """Those of ``services`` that send requests to the pod: an EndpointSlice lists it as ready.

    (Kubernetes: EndpointSlices, conditions)
    """
    listing = partial(client.DiscoveryV1Api(api).list_namespaced_endpoint_slice, namespace)
    if not services:
        return []
    found = set()
    for each in items(listing, label_selector=f"{LABEL_SERVICE} in ({','.join(sorted(services))})"):
        for endpoint in each.get("endpoints") or ():
            target = endpoint.get("targetRef") or {}
            # Unknown is to be taken for ready.
            is_there = (endpoint.get("conditions") or {}).get("ready") is not False
            if target.get("kind") == "Pod" and target.get("name") == pod_name and is_there:
                found.add(labels_of(each)[LABEL_SERVICE])
    return sorted(found)
