"""How busy a model server is, by its own metrics.

(vLLM: production metrics; SGLang: production metrics; Prometheus: text-based exposition format)
"""

from __future__ import annotations

import math
import re

from kubernetes import client
from urllib3.exceptions import HTTPError

from activities.inference import proxy
from activities.inference.proxy import Upstream

UNDER_WAY = (
    *("vllm:num_requests_running", "vllm:num_requests_waiting"),
    *("sglang:num_running_reqs", "sglang:num_queue_reqs"),
)
"""Requests that a server has begun, or will."""
SECONDS = 10.0
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{.*\})?\s+(?P<value>\S+)")


def of_pod(api: client.ApiClient, namespace: str, pod: str, port: int) -> float | None:
    """Requests under way in a pod; None where its server does not say."""
    try:
        answer = proxy.get(api, Upstream(namespace, pod, port, "pods"), "/metrics", SECONDS)
    except (HTTPError, OSError):
        return None
    return under_way(answer.text) if answer.ok else None


def under_way(exposition: str) -> float | None:
    """The requests under way that a server's metrics name, over all its engines; None where they name none."""
    found = None
    for line in exposition.splitlines():
        sample = _SAMPLE.match(line)
        if sample is None or sample["name"] not in UNDER_WAY:
            continue
        try:
            value = float(sample["value"])
        except ValueError:
            continue
        if math.isfinite(value):
            found = (found or 0.0) + value
    return found
