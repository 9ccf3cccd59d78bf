"""What KEDA's scalers read: the value of a trigger's metric.

https://keda.sh/docs/2.17/scalers/prometheus/ , https://keda.sh/docs/2.17/scalers/cpu/
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from . import addresses
from .objects import dig
from .programs.exchange import Request
from .prometheus import PATH
from .queries import QueryError
from .resources import Json
from .serving import Unreachable

if TYPE_CHECKING:
    from .cluster import Cluster

WORKSPACES = "https://aps-workspaces."
CPU_METRIC, IDLE = "cpu_utilization", 10.0
"""A script may set this metric of a deployment: percent of what its pods request."""


class ScalerError(Exception):
    """Why a metric cannot be read."""


def read(cluster: Cluster, namespace: str, trigger: Json) -> float:
    """The value of a Prometheus trigger; 0 for types that are not simulated. Raises :class:`ScalerError`."""
    if trigger.get("type") != "prometheus":
        return 0.0
    metadata = trigger.get("metadata") or {}
    address, query = str(metadata.get("serverAddress", "")).rstrip("/"), str(metadata.get("query", ""))
    if address.startswith(WORKSPACES):
        try:
            data = cluster.prometheus.query(query)
        except QueryError as error:
            raise ScalerError(f"prometheus query api returned error. status: 400 response: {error}") from error
    else:
        data = _asked(cluster, namespace, address, query)
    result = data["result"] if data["resultType"] == "vector" else [{"value": data["result"]}]
    if len(result) > 1:
        raise ScalerError(f"prometheus query {query} returned multiple elements")
    if not result:
        if metadata.get("ignoreNullValues", "true") == "true":
            return 0.0
        raise ScalerError("prometheus metrics 'prometheus' target may be lost, the result is empty")
    return float(result[0]["value"][1])


def cpu(cluster: Cluster, pods: list[Json]) -> float:
    """The mean use of CPUs of some pods, in percent of what they request."""
    used = [cluster.serving.faults.metrics(cluster.serving.clusters, pod).get(CPU_METRIC, IDLE) for pod in pods]
    return sum(used) / len(used) if used else 0.0


def _asked(cluster: Cluster, namespace: str, address: str, query: str) -> Json:
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = f"{parts.path}{PATH}?{urlencode({'query': query})}"
    host, asking = parts.hostname or "", {"metadata": {"namespace": namespace}}
    found = addresses.resolve(cluster, host, port, asking)
    if not found:
        name, _, rest = host.partition(".")
        known = cluster.store.get(cluster.registry.type("services"), rest.partition(".")[0] or namespace, name)
        why = "connect: connection refused" if known else f"lookup {host} on 10.100.0.10:53: no such host"
        raise ScalerError(f'error requesting prometheus: Get "{address}{path}": dial tcp: {why}')
    pod, number = found[0]
    try:
        answer = cluster.serving.ask(pod, number, Request("GET", path))
    except Unreachable as error:
        raise ScalerError(f'error requesting prometheus: Get "{address}{path}": {error}') from error
    body = answer.body.decode(errors="replace")
    if answer.status != 200:
        raise ScalerError(f"prometheus query api returned error. status: {answer.status} response: {body}")
    return dict(dig(json.loads(body), "data", {}))
