"""How a simulated SGLang router finds its workers and chooses among them.

https://docs.sglang.ai/advanced_features/router.html: pods of the selector that are Ready, on the discovery port; or
addresses that it was given, which are looked up as names of Services here.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from . import addresses
from .controllers.base import is_ready
from .objects import dig
from .programs import Server
from .programs.exchange import Answer, Request, as_json, as_text
from .programs.metrics import Counters
from .programs.openai import COMPLETIONS
from .resources import Json
from .selectors import matches_labels, parse

if TYPE_CHECKING:
    from .serving import Serving

Worker = tuple[str, Json, int]
"""URL, pod, port."""

_NONE = "No available workers (all circuits open or unhealthy)"


def find(serving: Serving, router: Json, server: Server) -> list[Worker]:
    """The workers that a router sees, in order of their URLs."""
    discovery = server.discovery
    if discovery is None:
        return []
    found: list[Worker] = []
    cluster = serving.cluster
    if discovery.selector:
        requirements = parse(discovery.selector)
        for pod in list(cluster.store.objects(cluster.registry.type("pods")).values()):
            if (
                discovery.namespace in (None, pod["metadata"]["namespace"])
                and matches_labels(requirements, pod["metadata"].get("labels"))
                and is_ready(pod)
            ):
                found.append((f"http://{pod['status']['podIP']}:{discovery.port}", pod, discovery.port))
    for url in discovery.urls:
        host, port = urlsplit(url).hostname or "", urlsplit(url).port or 80
        found += [(url, pod, number) for pod, number in addresses.resolve(cluster, host, port, router)[:1]]
    return sorted(found, key=lambda worker: worker[0])


def _healthy(serving: Serving, worker: Worker) -> bool:
    listener = serving.listener(worker[1], worker[2])
    return listener is not None and listener[3].answers(serving.cluster.now())


def health(serving: Serving, router: Json, server: Server) -> dict[str, bool]:
    """Every worker by its URL, and whether it answers."""
    return {worker[0]: _healthy(serving, worker) for worker in find(serving, router, server)}


def route(serving: Serving, router: Json, server: Server, request: Request, counters: Counters) -> Answer:
    """Answer a request to a router: itself, or by a worker."""
    path = request.path.split("?")[0].rstrip("/") or "/"
    if request.method == "GET":
        workers = health(serving, router, server)
        match path:
            case "/health" | "/liveness":
                return as_text("OK")
            case "/readiness":
                up = sum(workers.values())
                content = {"status": "ready" if up else "not ready", "healthy_workers": up}
                return as_json({**content, "total_workers": len(workers)}, status=200 if up else 503)
            case "/list_workers":
                return as_json({"urls": list(workers)})
            case "/workers":
                listed = [{"url": url, "is_healthy": up, "worker_type": "regular"} for url, up in workers.items()]
                return as_json({"workers": listed, "total": len(listed)})
    chosen = _choose(serving, router, server, request, path)
    if path in COMPLETIONS:
        counters.by_route[path] = counters.by_route.get(path, 0) + 1
    if chosen is None:
        return as_text(_NONE, status=503)
    if path in COMPLETIONS:
        counters.by_worker[chosen[0]] = counters.by_worker.get(chosen[0], 0) + 1
    return serving.ask(chosen[1], chosen[2], request)


def _choose(serving: Serving, router: Json, server: Server, request: Request, path: str) -> Worker | None:
    up = [worker for worker in find(serving, router, server) if _healthy(serving, worker)]
    if not up:
        return None
    policy = server.discovery.policy if server.discovery else ""
    if policy in ("cache_aware", "prefix_hash", "consistent_hashing", "manual") and path in COMPLETIONS:
        # Equal beginnings go to the worker that has them in its cache.
        digest = hashlib.sha256(request.body[:256]).digest()
        return up[digest[0] % len(up)]
    return up[serving.turn(f"{dig(router, 'metadata.uid')}/workers", len(up))]
