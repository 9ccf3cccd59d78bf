"""What is told of requests to Kubernetes APIs: a span, a count and a duration for each, by the template of its path.

Names of namespaces and objects are left out: a template has few forms, and says what was done to what.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from contracts import measures
from telemetry import metrics, tracing

_BARE = frozenset({"version", "healthz", "livez", "readyz", "openapi", "metrics"})


class Target(NamedTuple):
    """``template`` of a path, and the ``resource`` in it with its subresource, as ``pods/log``."""

    template: str
    resource: str


def target(path: str) -> Target:
    """What a request for ``path`` below a cluster's endpoint is about. (Kubernetes API concepts: resource URIs)"""
    parts = [part for part in path.partition("?")[0].split("/") if part]
    match parts:
        case ["api", version, *rest]:
            root = f"/api/{version}"
        case ["apis", group, version, *rest]:
            root = f"/apis/{group}/{version}"
        case [first, *_] if first in _BARE:
            return Target(f"/{first}", first)
        case ["api" | "apis", *_]:
            return Target("/" + "/".join(parts), "discovery")
        case _:
            return Target("/…", "other")
    if not rest:
        return Target(root, "discovery")
    inside = ""
    # ``/namespaces/{name}`` is a namespace itself, ``/namespaces/{name}/status`` its status.
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        inside, rest = "/namespaces/{namespace}", rest[2:]
    resource, *named = rest
    if not named:
        return Target(f"{root}{inside}/{resource}", resource)
    if len(named) == 1:
        return Target(f"{root}{inside}/{resource}/{{name}}", resource)
    # Behind ``proxy`` comes the path of a program, which may be anything.
    return Target(f"{root}{inside}/{resource}/{{name}}/{named[1]}", f"{resource}/{named[1]}")


def observed(ask: Callable[..., Any], endpoint: str) -> Callable[..., Any]:
    """``ask(method, url, …)``, an answer of which has a ``status``, telling of each request below ``endpoint``."""

    def asking(method: str, url: str, *arguments: Any, **more: Any) -> Any:
        with asked_for(url.removeprefix(endpoint), method) as noting:
            answer = ask(method, url, *arguments, **more)
            noting(int(answer.status))
            return answer

    return asking


@contextmanager
def asked_for(path: str, method: str = "GET") -> Iterator[Callable[[int], None]]:
    """Tells of the request that is made inside; what it gives is called with the answer's status."""
    about = target(path)
    span = tracing.begin(f"{method} {about.template}", {"http.request.method": method, "url.template": about.template})
    began = time.perf_counter()
    status, error = 0, None

    def noting(answered: int) -> None:
        nonlocal status
        status = answered

    try:
        yield noting
    except Exception as failed:
        status, error = int(getattr(failed, "status", 0) or 0), type(failed).__name__
        raise
    finally:
        result = "throttled" if status == 429 else f"{status // 100}xx" if status else "unanswered"
        metrics.count(measures.KUBERNETES_REQUESTS, method=method, resource=about.resource, result=result)
        seconds = time.perf_counter() - began
        metrics.observe(measures.KUBERNETES_SECONDS, seconds, method=method, resource=about.resource)
        failed_as = error or (str(status) if status >= 400 else None)
        tracing.end(span, {"http.response.status_code": status or None}, failed_as)
