"""What a container's probes find, and when: computed from what becomes of it, without a timer for each attempt.

https://kubernetes.io/docs/concepts/configuration/liveness-readiness-startup-probes/ . Attempts are made after
``initialDelaySeconds`` and then every ``periodSeconds``; they take no time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sandbox.kubernetes.objects import dig
from sandbox.kubernetes.programs import openai
from sandbox.kubernetes.programs.model import ROUTER
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.serving import Outlook

STARTUP, READINESS, LIVENESS = "Startup", "Readiness", "Liveness"
_ROUTER_PATHS = ("/health", "/liveness", "/readiness", "/list_workers", "/workers")


@dataclass(frozen=True)
class Verdict:
    """What the probes have found until now."""

    started: bool
    ready: bool
    killer: str = ""
    """The probe because of which the container is to be killed."""
    failing: str = ""
    """The probe that has failed at least once and is not satisfied."""
    failure: str = ""
    """What its attempt says."""
    next: float | None = None
    """When something changes."""


@dataclass(frozen=True)
class _Probe:
    """One probe over one run."""

    begin: float
    period: float
    failures: int
    successes: int
    passes_from: float
    broken_from: float

    @classmethod
    def of(cls, spec: Json, begin: float, outlook: Outlook, passes: bool) -> _Probe:
        return cls(
            begin,
            spec.get("periodSeconds") or 10,
            spec.get("failureThreshold") or 3,
            spec.get("successThreshold") or 1,
            outlook.serves_from if passes else math.inf,
            math.inf if outlook.broken_from is None else outlook.broken_from,
        )

    @property
    def satisfied(self) -> float:
        """When it first has enough successes; infinite for never."""
        if math.isinf(self.passes_from):
            return math.inf
        late = max(self.passes_from - self.begin, 0.0)
        first = self.begin + math.ceil(late / self.period) * self.period
        return first + (self.successes - 1) * self.period if first < self.broken_from else math.inf

    @property
    def exhausted(self) -> float:
        """When it has failed too often, begun in vain; infinite if it is satisfied before."""
        last = self.begin + (self.failures - 1) * self.period
        return last if self.satisfied > last else math.inf

    @property
    def lost(self) -> float:
        """When it has failed too often after it was satisfied."""
        return self.broken_from + self.failures * self.period


def verdict(container: Json, begun: float, outlook: Outlook, now: float) -> Verdict:
    """Judge a container that has run since ``begun``."""
    startup, readiness, liveness = (
        _spec(container, name) for name in ("startupProbe", "readinessProbe", "livenessProbe")
    )
    up = begun
    if startup:
        probe = _probe(container, startup, begun, begun, outlook)
        up = probe.satisfied if probe.satisfied < probe.exhausted else math.inf
        if now < up:
            if now >= probe.exhausted:
                return Verdict(False, False, STARTUP, STARTUP, _says(container, startup, outlook, now))
            tried = now >= probe.begin
            following = [t for t in (probe.begin, up, probe.exhausted) if t > now]
            said = _says(container, startup, outlook, now) if tried else ""
            return Verdict(False, False, failing=STARTUP if tried else "", failure=said, next=_first(following))
    times: list[float] = []
    if liveness:
        probe = _probe(container, liveness, begun, up, outlook)
        killed = min(probe.exhausted, probe.lost)
        if now >= killed:
            return Verdict(True, False, LIVENESS, LIVENESS, _says(container, liveness, outlook, now))
        times.append(killed)
    if not readiness:
        return Verdict(True, True, next=_first([t for t in times if t > now]))
    probe = _probe(container, readiness, begun, up, outlook)
    ready = probe.satisfied <= now < probe.lost
    times += [probe.begin, probe.satisfied, probe.lost]
    failing = not ready and now >= probe.begin
    return Verdict(
        True,
        ready,
        failing=READINESS if failing else "",
        failure=_says(container, readiness, outlook, now) if failing else "",
        next=_first([t for t in times if t > now]),
    )


def _spec(container: Json, name: str) -> Json:
    return container.get(name) or {}


def _first(times: list[float]) -> float | None:
    finite = [t for t in times if not math.isinf(t)]
    return min(finite) if finite else None


def _probe(container: Json, spec: Json, begun: float, earliest: float, outlook: Outlook) -> _Probe:
    begin = max(begun + (spec.get("initialDelaySeconds") or 0), earliest)
    return _Probe.of(spec, begin, outlook, _passes(container, spec, outlook))


def _port(container: Json, spec: Json) -> int:
    """The number of the port that a probe asks."""
    asked = dig(spec, "httpGet.port") or dig(spec, "tcpSocket.port") or dig(spec, "grpc.port") or 0
    if isinstance(asked, int) or str(asked).isdigit():
        return int(asked)
    ports = container.get("ports") or []
    return next((int(p["containerPort"]) for p in ports if p.get("name") == asked), 0)


def _passes(container: Json, spec: Json, outlook: Outlook) -> bool:
    """Whether a probe is satisfied by a server that answers. One of an unknown program always is, and a command."""
    server = outlook.server
    if server is None or spec.get("exec"):
        return not outlook.known or server is not None
    if (
        dig(spec, "httpGet.scheme") == "HTTPS"
        or not server.reachable
        or _port(container, spec) not in (server.port, server.metrics_port)
    ):
        return False
    if path := dig(spec, "httpGet.path"):
        return path in _ROUTER_PATHS if server.engine == ROUTER else openai.serves(server, path)
    return not spec.get("grpc")


def _says(container: Json, spec: Json, outlook: Outlook, now: float) -> str:
    """What a failed attempt says."""
    port, path = _port(container, spec), dig(spec, "httpGet.path", "/")
    if spec.get("exec"):
        return "command failed"
    listens = outlook.server is not None and outlook.server.reachable and port == outlook.server.port
    address = f"{{ip}}:{port}"
    if listens and outlook.serves_from <= now:
        if dig(spec, "httpGet.scheme") == "HTTPS":
            return f'Get "https://{address}{path}": http: server gave HTTP response to HTTPS client'
        if outlook.answers(now):
            code = 401 if outlook.server and outlook.server.keyed and path.startswith("/v1") else 404
            return f"HTTP probe failed with statuscode: {code}"
        return (
            f'Get "http://{address}{path}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
        )
    refused = f"dial tcp {address}: connect: connection refused"
    return f'Get "http://{address}{path}": {refused}' if spec.get("httpGet") else refused
