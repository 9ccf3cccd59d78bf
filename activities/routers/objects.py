"""Routers in a cluster: their objects, and the pods that they choose among."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

from kubernetes import client

from activities.deployments import objects as deployments
from activities.deployments.trouble import as_raw, is_ready
from activities.errors import fail
from activities.inference import proxy
from activities.inference.proxy import Upstream
from activities.kubernetes import read_or_none
from activities.nodes.sight import Raw, items, labels_of
from contracts.names import ANNOTATION_SPEC, LABEL_ROUTER
from contracts.problem import ProblemCode
from contracts.routers import RouterSpec, RouterTarget, Worker

WHAT = "router"


@dataclass(frozen=True)
class Part:
    """A kind of object that a router consists of, with the client's methods for it."""

    kind: str
    read: Any
    patch: Any
    delete: Any
    listing: Any

    def get(self, name: str, namespace: str) -> Raw | None:
        found = read_or_none(partial(self.read, _preload_content=False), name, namespace)
        return as_raw(found) if found is not None else None


def parts(api: client.ApiClient) -> dict[str, Part]:
    """In the order in which they are made; the other way round they go."""
    core, rbac, apps = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api), client.AppsV1Api(api)
    found = (
        ("ServiceAccount", core, "service_account"),
        ("Role", rbac, "role"),
        ("RoleBinding", rbac, "role_binding"),
        ("Deployment", apps, "deployment"),
        ("Service", core, "service"),
    )
    return {
        kind: Part(
            kind,
            getattr(methods, f"read_namespaced_{name}"),
            getattr(methods, f"patch_namespaced_{name}"),
            getattr(methods, f"delete_namespaced_{name}"),
            getattr(methods, f"list_namespaced_{name}"),
        )
        for kind, methods, name in found
    }


def routers(api: client.ApiClient, namespace: str | None = None) -> list[Raw]:
    """Every router of ours."""
    return deployments.labelled(api, LABEL_ROUTER, namespace)


def all_of(api: client.ApiClient, namespace: str, name: str) -> list[tuple[Part, Raw]]:
    """Everything that a router consists of and is still there."""
    return [
        (part, found)
        for part in parts(api).values()
        for found in items(partial(part.listing, namespace), label_selector=f"{LABEL_ROUTER}={name}")
    ]


def refuse_foreign(found: Raw | None, kind: str, cluster: str, pace: float) -> None:
    deployments.refuse_foreign(found, kind, cluster, pace, WHAT, LABEL_ROUTER)


def spec_of(found: Raw) -> RouterSpec | None:
    """What a router was made from; null where that is not kept, or not understood any more."""
    text = (found["metadata"].get("annotations") or {}).get(ANNOTATION_SPEC)
    if not text:
        return None
    try:
        return RouterSpec.model_validate_json(text)
    except ValueError:
        return None


def differences(before: RouterSpec | None, after: RouterSpec) -> list[str]:
    """Members of a specification that differ, in words."""
    if before is None:
        return ["what it was made from is not known any more"]
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return [
        f"{key} is {_short(old[key])}, asked is {_short(new[key])}"
        for key in new
        if key != "confirm_public" and old[key] != new[key]
    ]


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


def routers_to(api: client.ApiClient, namespace: str, labels: dict[str, str]) -> list[str]:
    """Routers of the namespace whose target has all of these labels: they would lose their servers."""
    found = []
    for each in routers(api, namespace):
        spec = spec_of(each)
        if spec is not None and labels.items() <= spec.target.labels.items():
            found.append(each["metadata"]["name"])
    return sorted(found)


def targets(api: client.ApiClient, namespace: str, target: RouterTarget) -> list[Raw]:
    """Pods that the router may choose among, ready or not; those on their way out are left out."""
    selector = ",".join(f"{key}={value}" for key, value in sorted(target.labels.items()))
    listing = partial(client.CoreV1Api(api).list_namespaced_pod, namespace)
    return [pod for pod in items(listing, label_selector=selector) if not pod["metadata"].get("deletionTimestamp")]


def ready(pods: list[Raw]) -> list[Raw]:
    return [pod for pod in pods if is_ready(pod)]


def workers_of(api: client.ApiClient, upstream: Upstream) -> list[Worker] | None:
    """The servers that a router sees; None where it does not say.

    (SGLang documentation: SGLang Model Gateway, worker management APIs; older ones know ``/list_workers``)
    """
    answer = proxy.get(api, upstream, "/workers")
    document = answer.document
    if answer.ok and isinstance(document, dict) and isinstance(document.get("workers"), list):
        listed = [each for each in document["workers"] if isinstance(each, dict) and each.get("url")]
        return [Worker(url=str(each["url"]), healthy=_truth(each.get("is_healthy"))) for each in listed]
    answer = proxy.get(api, upstream, "/list_workers")
    document = answer.document
    if answer.ok and isinstance(document, dict) and isinstance(document.get("urls"), list):
        return [Worker(url=str(url)) for url in document["urls"]]
    return None


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def required(api: client.ApiClient, namespace: str, name: str, cluster: str, pace: float) -> Raw:
    """A router of ours that is there. Raises NOT_FOUND, FOREIGN, and BUSY for one on its way out."""
    found = deployments.deployment(api, namespace, name)
    if found is None:
        remedy = "List the routers; create-router makes one."
        fail(ProblemCode.NOT_FOUND, f"There is no router {namespace}/{name}", remedy, field="/name")
    refuse_foreign(found, "Deployment", cluster, pace)
    return found


def is_router(found: Raw) -> bool:
    return LABEL_ROUTER in labels_of(found)
