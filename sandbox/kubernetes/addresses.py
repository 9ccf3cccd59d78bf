"""From a Service to the pods behind it, by its EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .objects import dig
from .resources import Json

if TYPE_CHECKING:
    from .cluster import Cluster

SERVICE_NAME = "kubernetes.io/service-name"


def ready_pods(cluster: Cluster, service: Json, port_name: str) -> list[tuple[Json, int]]:
    """The pods of a Service's ready endpoints with the number that a port of the given name has there."""
    meta = service["metadata"]
    kind, pods = cluster.registry.type("endpointslices", "discovery.k8s.io"), cluster.registry.type("pods")
    found: list[tuple[Json, int]] = []
    for (namespace, _), held in list(cluster.store.objects(kind).items()):
        if namespace != meta["namespace"] or dig(held, "metadata.labels", {}).get(SERVICE_NAME) != meta["name"]:
            continue
        number = next((p["port"] for p in held.get("ports") or [] if (p.get("name") or "") == port_name), None)
        for endpoint in held.get("endpoints") or []:
            target = endpoint.get("targetRef") or {}
            pod = cluster.store.get(pods, namespace, target.get("name", ""))
            if number is not None and pod is not None and dig(endpoint, "conditions.ready"):
                found.append((pod, number))
    return found


def resolve(cluster: Cluster, host: str, port: int, asking: Json) -> list[tuple[Json, int]]:
    """The pods behind a name of a Service, as a pod knows it, or behind a pod's address."""
    namespace = asking["metadata"]["namespace"]
    parts = host.split(".")
    if host.replace(".", "").isdigit():
        pods = cluster.store.objects(cluster.registry.type("pods")).values()
        return [(pod, port) for pod in pods if dig(pod, "status.podIP") == host]
    where = parts[1] if len(parts) > 1 else namespace
    service = cluster.store.get(cluster.registry.type("services"), where, parts[0])
    if service is None:
        return []
    named = next((p for p in dig(service, "spec.ports", []) if p["port"] == port), None)
    return [] if named is None else ready_pods(cluster, service, named.get("name") or "")
