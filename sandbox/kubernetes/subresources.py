"""Scale, logs, eviction, binding, tokens and the other subresources that are no plain part of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import errors, eviction, patches, podlogs, selectors
from .errors import ApiError
from .objects import clone, dig, json_path, rfc3339
from .replies import Reply, Stream, object_reply, reply, success
from .requests import Call
from .resources import Json, ResourceType

if TYPE_CHECKING:
    from .cluster import Cluster


def handle(
    cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str, sub: str
) -> Reply | Stream | None:
    """Answer a request for a special subresource; None if it is one that is written like the object."""
    match sub:
        case "scale":
            return scale(cluster, call, kind, namespace, name)
        case "log":
            return podlogs.log(cluster, call, kind, namespace, name)
        case "eviction":
            return evict(cluster, call, kind, namespace, name)
        case "binding":
            return bind(cluster, call, kind, namespace, name)
        case "token":
            return token(cluster, call, kind, namespace, name)
        case "finalize":
            return finalize(cluster, call, kind, namespace, name)
        case "exec" | "attach" | "portforward" | "proxy":
            raise ApiError(400, "Upgrade request required")
    return None


def _set_path(obj: Json, path: str, value: Any) -> None:
    *parents, last = path.strip(".").split(".")
    for key in parents:
        obj = obj.setdefault(key, {})
    obj[last] = value


def scale(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str) -> Reply:
    """autoscaling/v1 Scale"""
    obj = cluster.registry.require(kind, namespace, name)
    spec_path = kind.scale_paths.get("specReplicasPath", ".spec.replicas")
    status_path = kind.scale_paths.get("statusReplicasPath", ".status.replicas")

    def form(of: Json) -> Json:
        meta = of["metadata"]
        keys = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        status: Json = {"replicas": json_path(of, status_path) or 0}
        if kind.custom:
            label_path = kind.scale_paths.get("labelSelectorPath")
            selector = json_path(of, label_path) if label_path else None
        else:
            selector = selectors.to_text(dig(of, "spec.selector"))
        if selector:
            status["selector"] = selector
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {k: meta[k] for k in keys if k in meta},
            "spec": {"replicas": json_path(of, spec_path) or 0},
            "status": status,
        }

    if call.method == "GET":
        return reply(form(obj))
    if call.method == "PATCH":
        json_patch = call.content_type == "application/json-patch+json"
        wanted = patches.json_patch(form(obj), call.body) if json_patch else patches.merge_patch(form(obj), call.body)
    elif call.method == "PUT":
        wanted = call.body_object
    else:
        raise _method_not_allowed()
    replicas = dig(wanted, "spec.replicas", 0)
    if type(replicas) is not int or replicas < 0:
        message = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise errors.invalid(kind, name, [errors.invalid_value("spec.replicas", message)])
    new = clone(obj)
    _set_path(new, spec_path, replicas)
    new["metadata"]["resourceVersion"] = dig(wanted, "metadata.resourceVersion") or obj["metadata"]["resourceVersion"]
    return reply(form(cluster.registry.update(kind, obj, new, call.write(subresource=""))))


def _method_not_allowed() -> ApiError:
    return ApiError(405, "the server does not allow this method on the requested resource")


def evict(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str) -> Reply:
    """Delete a pod unless a disruption budget forbids it: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/"""
    if call.method != "POST":
        raise _method_not_allowed()
    pod = cluster.registry.require(kind, namespace, name)
    options = dig(call.body_object, "deleteOptions", {})
    budget = eviction.forbidding_budget(cluster, pod)
    if budget is not None:
        name = budget["metadata"]["name"]
        counts = eviction.budget_status(cluster, budget)
        message = (
            f"The disruption budget {name} needs {counts['desiredHealthy']} healthy pods and has "
            f"{counts['currentHealthy']} currently"
        )
        raise ApiError(
            429,
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"causes": [errors.cause("DisruptionBudget", "", message)], "retryAfterSeconds": 10},
            headers={"retry-after": "10"},
        )
    dry_run = call.dry_run or "All" in (options.get("dryRun") or [])
    cluster.registry.delete(kind, pod, options, dry_run)
    return success(code=201)


def bind(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str) -> Reply:
    """What a scheduler does: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/binding-v1/"""
    pod = cluster.registry.require(kind, namespace, name)
    node = dig(call.body_object, "target.name")
    if dig(pod, "spec.nodeName"):
        message = f"pod {name} is already assigned to node {pod['spec']['nodeName']!r}"
        raise ApiError(409, message, details={"name": name, "kind": "pods/binding"})
    cluster.registry.modify(kind, namespace, name, lambda o: o["spec"].update(nodeName=node))
    return success(code=201)


def token(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str) -> Reply:
    """authentication.k8s.io/v1 TokenRequest"""
    account = cluster.registry.require(kind, namespace, name)
    body = call.body_object
    seconds = int(dig(body, "spec.expirationSeconds", 3600))
    audiences = dig(body, "spec.audiences") or [cluster.issuer]
    expires = cluster.now() + seconds
    issued = cluster.tokens.issue(namespace or "", name, account["metadata"]["uid"], audiences, expires)
    return reply(
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": name, "namespace": namespace, "creationTimestamp": cluster.registry.timestamp()},
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": dig(body, "spec.boundObjectRef"),
            },
            "status": {"token": issued, "expirationTimestamp": rfc3339(expires)},
        },
        201,
    )


def finalize(cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str) -> Reply:
    """Replace a namespace's finalizers."""
    old = cluster.registry.require(kind, namespace, name)
    new = clone(old)
    new["spec"] = dig(call.body_object, "spec", {})
    return object_reply(call, kind, cluster.registry.update(kind, old, new, call.write(subresource="*")), cluster.now())
