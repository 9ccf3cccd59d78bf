"""What servers count, in the text format that Prometheus scrapes.

https://docs.vllm.ai/en/stable/usage/metrics/, https://docs.sglang.ai/references/production_metrics.html,
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .model import ROUTER, SGLANG, Server

_TOKEN_SECONDS = 0.02
Labels = tuple[tuple[str, str], ...]
_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Sample:
    """One value of a metric."""

    name: str
    value: float
    labels: Labels = ()

    def line(self) -> str:
        inner = ",".join(f'{key}="{value}"' for key, value in self.labels)
        return f"{self.name}{{{inner}}} {_number(self.value)}" if inner else f"{self.name} {_number(self.value)}"


@dataclass
class Counters:
    """What one run of a container has done. Kept in snapshots."""

    requests: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: dict[str, int] = field(default_factory=dict)
    """Requests by why they ended."""
    seconds: list[float] = field(default_factory=list)
    """How long each of the last requests took."""
    by_route: dict[str, int] = field(default_factory=dict)
    by_worker: dict[str, int] = field(default_factory=dict)
    ends: list[float] = field(default_factory=list)
    """When the requests in flight end, by the process's monotonic clock."""

    def add(self, prompt: int, generated: int, finish: str) -> None:
        self.requests += 1
        self.prompt_tokens += prompt
        self.generation_tokens += generated
        self.finished[finish] = self.finished.get(finish, 0) + 1
        self.seconds = [*self.seconds[-999:], 0.05 + generated * _TOKEN_SECONDS]

    def begin(self, seconds: float) -> None:
        """A request is in flight for so many real seconds."""
        if seconds > 0:
            self.ends = [*self._open(), time.monotonic() + seconds]

    @property
    def running(self) -> int:
        return len(self._open())

    def _open(self) -> list[float]:
        now = time.monotonic()
        return [end for end in self.ends if end > now]

    def dump(self) -> dict[str, Any]:
        return {**vars(self), "ends": []}


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.6g}"


def samples(server: Server, counters: Counters, workers: Mapping[str, bool], waiting: int = 0) -> list[Sample]:
    """What a server shows. ``workers``: of a router, whether each is healthy."""
    if server.engine == ROUTER:
        return _router(counters, workers)
    total = counters.requests
    if server.engine == SGLANG:
        labels: Labels = (("model_name", server.names[0]), ("engine_type", "unified"), ("tp_rank", "0"))
        values = {
            "sglang:num_running_reqs": counters.running,
            "sglang:num_queue_reqs": waiting,
            "sglang:token_usage": min(1.0, counters.running * 0.02),
            "sglang:gen_throughput": counters.running / _TOKEN_SECONDS,
            "sglang:prompt_tokens_total": counters.prompt_tokens,
            "sglang:generation_tokens_total": counters.generation_tokens,
            "sglang:num_requests_total": total,
        }
        found = [Sample(name, value, labels) for name, value in values.items()]
        return [*found, *_histogram("sglang:e2e_request_latency_seconds", counters.seconds, labels)]
    labels = (("engine", "0"), ("model_name", server.names[0]))
    values = {
        "vllm:num_requests_running": counters.running,
        "vllm:num_requests_waiting": waiting,
        "vllm:kv_cache_usage_perc": min(1.0, counters.running * 0.02),
        "vllm:prompt_tokens_total": counters.prompt_tokens,
        "vllm:generation_tokens_total": counters.generation_tokens,
    }
    found = [Sample(name, value, labels) for name, value in values.items()]
    for reason in ("stop", "length", "abort"):
        done = counters.finished.get(reason, 0)
        found.append(Sample("vllm:request_success_total", done, (*labels, ("finished_reason", reason))))
    first = [0.05] * len(counters.seconds)
    return [
        *found,
        *_histogram("vllm:time_to_first_token_seconds", first, labels),
        *_histogram("vllm:e2e_request_latency_seconds", counters.seconds, labels),
    ]


def _router(counters: Counters, workers: Mapping[str, bool]) -> list[Sample]:
    return [
        *(
            Sample("sgl_router_requests_total", done, (("route", route),))
            for route, done in sorted(counters.by_route.items() or {"/v1/chat/completions": 0}.items())
        ),
        *(
            Sample("sgl_router_processed_requests_total", done, (("worker", url),))
            for url, done in sorted(counters.by_worker.items())
        ),
        Sample("sgl_router_active_workers", sum(workers.values())),
        *(Sample("sgl_router_worker_health", int(healthy), (("worker", url),)) for url, healthy in workers.items()),
        Sample("sgl_router_running_requests", counters.running),
        Sample("sgl_router_job_queue_depth", 0),
    ]


def _histogram(name: str, seconds: list[float], labels: Labels) -> list[Sample]:
    return [
        *(
            Sample(f"{name}_bucket", sum(s <= limit for s in seconds), (*labels, ("le", _number(limit))))
            for limit in _BUCKETS
        ),
        Sample(f"{name}_bucket", len(seconds), (*labels, ("le", "+Inf"))),
        Sample(f"{name}_count", len(seconds), labels),
        Sample(f"{name}_sum", sum(seconds), labels),
    ]


def scripted(found: list[Sample], values: Mapping[str, float]) -> list[Sample]:
    """The samples with what a script sets in place of what was counted, and what it adds."""
    names = {sample.name for sample in found}
    kept = [Sample(s.name, values.get(s.name, s.value), s.labels) for s in found]
    return [*kept, *(Sample(name, value) for name, value in values.items() if name not in names)]


def exposition(found: list[Sample]) -> str:
    """The text that a scrape finds."""
    lines: list[str] = []
    seen: set[str] = set()
    for sample in found:
        family = sample.name
        for suffix in ("_bucket", "_count", "_sum"):
            family = family.removesuffix(suffix)
        if family not in seen:
            seen.add(family)
            kind = "histogram" if family != sample.name else "counter" if family.endswith("_total") else "gauge"
            lines += [f"# HELP {family} {family}", f"# TYPE {family} {kind}"]
        lines.append(sample.line())
    return "\n".join(lines) + "\n"
