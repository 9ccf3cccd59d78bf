"""From a path to what answers it: https://kubernetes.io/docs/reference/using-api/#api-groups"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import discovery, handlers, openapi, proxy, reviews, subresources
from .errors import ApiError, no_such_resource
from .identity import authorize
from .replies import Reply, Stream, reply, text
from .requests import Call
from .resources import ResourceType

if TYPE_CHECKING:
    from .cluster import Cluster

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def _verb(call: Call, name: str) -> str:
    if not name and call.method == "GET":
        return "watch" if call.flag("watch") else "list"
    if not name and call.method == "DELETE":
        return "deletecollection"
    return _VERBS.get(call.method, call.method.lower())


def route(cluster: Cluster, call: Call) -> Reply | Stream:
    """Answer a request. Runs under the store's lock."""
    parts = [part for part in call.path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        return _resource(cluster, call, "", parts[1], parts[2:])
    if len(parts) >= 4 and parts[0] == "apis":
        return _resource(cluster, call, parts[1], parts[2], parts[3:])
    authorize(call.principal, call.method, call.path, _VERBS.get(call.method, "get"), "", "", "")
    return _meta(cluster, call, parts)


def _meta(cluster: Cluster, call: Call, parts: list[str]) -> Reply:
    """Everything that is about the API and not about objects."""
    store = cluster.store
    match parts:
        case ["healthz" | "livez" | "readyz", *_]:
            return text("ok")
        case ["version"]:
            return reply(cluster.version())
        case ["api" | "apis"] if "as=APIGroupDiscoveryList" in call.headers.get("accept", ""):
            return reply(discovery.aggregated(store, parts[0] == "api"), content_type=discovery.AGGREGATED)
        case ["api"]:
            address = {"clientCIDR": "0.0.0.0/0", "serverAddress": call.headers.get("host", "")}
            return reply({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]})
        case ["apis"]:
            named = [discovery.group(name, vs) for name, vs in discovery.groups(store).items() if name]
            return reply({"kind": "APIGroupList", "apiVersion": "v1", "groups": named})
        case ["apis", group] if group in (known := discovery.groups(store)):
            return reply({"kind": "APIGroup", "apiVersion": "v1", **discovery.group(group, known[group])})
        case ["api", "v1"]:
            return reply(discovery.resource_list("", "v1", discovery.groups(store)[""]["v1"]))
        case ["apis", group, version]:
            kinds = discovery.groups(store).get(group, {}).get(version)
            if kinds is not None:
                return reply(discovery.resource_list(group, version, kinds))
        case ["openapi", "v2"]:
            return reply(openapi.v2(store, cluster.git_version))
        case ["openapi", "v3"]:
            return reply(openapi.v3_index(store))
        case ["openapi", "v3", "api", version]:
            return reply(openapi.v3(store, "", version, cluster.git_version))
        case ["openapi", "v3", "apis", group, version]:
            return reply(openapi.v3(store, group, version, cluster.git_version))
        case []:
            paths = ["/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            return reply({"paths": paths})
    raise no_such_resource()


def _resource(cluster: Cluster, call: Call, group: str, version: str, rest: list[str]) -> Reply | Stream:
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2 and (group or rest[2] not in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    plural, name, sub = (*rest, "", "")[:3]
    proxied = not group and namespace is not None and sub == "proxy" and plural in ("services", "pods")
    if len(rest) > 3 and not proxied:
        raise no_such_resource()
    shown = f"{plural}/{sub}" if sub else plural
    authorize(call.principal, call.method, call.path, _verb(call, name), group, shown, namespace or "")
    if proxied:
        call.proxied = True
        forward = proxy.to_service if plural == "services" else proxy.to_pod
        return forward(cluster, call, namespace or "", name, "/".join(rest[3:]))
    if (group, plural) in discovery.REVIEWS and version == "v1" and call.method == "POST":
        return reviews.answer(cluster, call, group, plural)
    if (group, plural, call.method) == ("", "bindings", "POST"):
        pods = cluster.registry.type("pods")
        return subresources.bind(cluster, call, pods, namespace, call.body_object["metadata"]["name"])
    kind = cluster.store.type(group, version, plural)
    if kind is None or (namespace is not None and not kind.namespaced):
        raise no_such_resource()
    if name:
        return _object(cluster, call, kind, namespace, name, sub)
    match call.method:
        case "GET":
            return handlers.list_objects(cluster, call, kind, namespace)
        case "POST":
            return handlers.create(cluster, call, kind, namespace)
        case "DELETE":
            return handlers.delete_collection(cluster, call, kind, namespace)
    raise ApiError(405, "the server does not allow this method on the requested resource")


def _object(
    cluster: Cluster, call: Call, kind: ResourceType, namespace: str | None, name: str, sub: str
) -> Reply | Stream:
    if sub:
        if sub not in kind.subresources:
            raise no_such_resource()
        special = subresources.handle(cluster, call, kind, namespace, name, sub)
        if special is not None:
            return special
    match call.method:
        case "GET" if call.flag("watch"):
            call.query["fieldSelector"] = f"metadata.name={name}"
            return handlers.list_objects(cluster, call, kind, namespace)
        case "GET":
            return handlers.get(cluster, call, kind, namespace, name)
        case "PUT":
            return handlers.replace(cluster, call, kind, namespace, name, sub)
        case "PATCH":
            return handlers.patch(cluster, call, kind, namespace, name, sub)
        case "DELETE" if not sub:
            return handlers.delete(cluster, call, kind, namespace, name)
    raise ApiError(405, "the server does not allow this method on the requested resource")
