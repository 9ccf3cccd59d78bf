"""The servers in a cluster's pods: which program each container runs, when it answers, and what it has answered."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from . import environment, podfaults, workers
from .objects import dig, parse_time
from .podfaults import PodFaults
from .programs import Program, Server, identify, metrics, openai, ray
from .programs.exchange import Answer, Request, as_json, as_text
from .programs.metrics import Counters, Sample
from .programs.model import PROMETHEUS, RAY, ROUTER
from .resources import Json

if TYPE_CHECKING:
    from .cluster import Cluster

HANGS = 3600.0
"""Real seconds for which a server that hangs keeps its clients waiting."""
_CRASH_SECONDS = 2.0
_SCRIPTED = frozenset({"sandbox/run-seconds", "sandbox/exit-code", "sandbox/log"})
_OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 22.06 GiB "
    "of which 1.03 GiB is free. Including non-PyTorch memory, this process has 21.02 GiB memory in use."
)
_CRASH = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


class Unreachable(Exception):
    """Nothing answers at an address; the message is what a dialer says."""


@dataclass(frozen=True)
class Outlook:
    """What becomes of one run of a container, in sandbox time."""

    serves_from: float
    """When its server answers; for a container without one, its start."""
    broken_from: float | None = None
    """Since when it no longer answers."""
    ends_at: float | None = None
    exit_code: int = 0
    reason: str = ""
    lines: tuple[tuple[float, str], ...] = ()
    last_words: tuple[str, ...] = ()
    server: Server | None = None
    known: bool = False
    """Whether the program is one that is known here."""

    def answers(self, now: float) -> bool:
        return self.serves_from <= now and (self.broken_from is None or now < self.broken_from)


class Serving:
    """Callers hold the store's lock."""

    def __init__(self, cluster: Cluster, faults: PodFaults) -> None:
        self.cluster, self.faults = cluster, faults
        self._programs: dict[str, Program | None] = {}
        self._counters: dict[str, Counters] = {}
        self._turns: dict[str, int] = {}

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names under which rules know this cluster."""
        return self.cluster.identifier, self.cluster.name

    def program(self, pod: Json, container: Json, status: Json) -> Program | None:
        """What a container runs since its last start."""
        run = run_name(pod, status)
        if run not in self._programs:
            # What an annotation says of a container's run goes before what its command line says.
            scripted = not _SCRIPTED.isdisjoint(pod["metadata"].get("annotations") or {})
            spec = next(each for each in pod["spec"]["containers"] if each["name"] == container["name"])
            around = environment.surroundings(self.cluster, pod, spec)
            found = identify(spec, around)
            self._programs[run] = None if scripted and found is not None and found.trainer is not None else found
        return self._programs[run]

    def forget(self, name: str) -> None:
        """The pod of this uid is gone, or a run of that name is over."""
        holders: tuple[dict[str, Any], ...] = (self._programs, self._counters, self._turns)
        for held in holders:
            for key in [key for key in held if key == name or key.startswith(f"{name}/")]:
                del held[key]

    def image_fault(self, pod: Json, image: str) -> str | None:
        """Why an image cannot be pulled, by a script."""
        uid = pod["metadata"]["uid"]
        rule = self.faults.pick(podfaults.IMAGE_PULL, self.clusters, pod, image, uid)
        return None if rule is None else rule.message or f"{image}: not found"

    def hangs(self, pod: Json) -> bool:
        """Whether a container of the pod hangs: it does not hear a signal either."""
        for container, status in _containers(pod):
            if not dig(status, "state.running"):
                continue
            if self._trains(pod, container, status):
                if self.cluster.training.stands_still(pod, container, status):
                    return True
            elif self._pick(podfaults.HANG, pod, container, status):
                return True
        return False

    def _trains(self, pod: Json, container: Json, status: Json) -> bool:
        program = self.program(pod, container, status)
        return program is not None and program.trainer is not None

    def outlook(self, pod: Json, container: Json, status: Json, ends_after: float | None, exit_code: int) -> Outlook:
        """What becomes of a container that runs. ``ends_after``, ``exit_code``: of one that is no known program."""
        started = parse_time(dig(status, "state.running.startedAt"))
        program = self.program(pod, container, status)
        scripts, run = self.cluster.scripts, run_name(pod, status)
        if (program is None or program.trainer is None) and scripts.runs(run, pod, container):
            end = scripts.ended(run, pod, container)
            code = end.exit_code if end is not None else 0
            over = self.cluster.now() if end is not None else None
            found = Outlook(started, ends_at=over, exit_code=code, reason="Error" if code else "Completed", known=True)
        elif program is None:
            ends = None if ends_after is None else started + ends_after
            found = Outlook(started, ends_at=ends, exit_code=exit_code, reason="Error" if exit_code else "Completed")
        elif program.trainer is not None:
            ends, code, why = self.cluster.training.end_of(pod, container, status, started)
            found = Outlook(started, ends_at=ends, exit_code=code, reason=why, known=True)
        else:
            found = _of_program(program, started, self._factor(pod, container, status, started))
        return self._spoil(found, pod, container, status, started)

    def _pick(self, fault: str, pod: Json, container: Json, status: Json) -> podfaults.PodFault | None:
        return self.faults.pick(fault, self.clusters, pod, container.get("image", ""), run_name(pod, status))

    def _factor(self, pod: Json, container: Json, status: Json, started: float) -> float:
        slow = self._pick(podfaults.SLOW, pod, container, status)
        return slow.factor if slow is not None and slow.since <= started else 1.0

    def _spoil(self, found: Outlook, pod: Json, container: Json, status: Json, started: float) -> Outlook:
        """What scripts do to a run."""
        # A training that hangs is one of many processes, and counts as one.
        if not self._trains(pod, container, status) and (rule := self._pick(podfaults.HANG, pod, container, status)):
            found = replace(found, broken_from=max(rule.since, started))
        if rule := self._pick(podfaults.CRASH_LOOP, pod, container, status):
            words = (rule.message or _CRASH,)
            found = _ended(found, max(rule.since, started + _CRASH_SECONDS), 1, "Error", words)
        rule = self._pick(podfaults.OOM, pod, container, status)
        if rule is not None:
            ends = started + max(_CRASH_SECONDS, (found.serves_from - started) * rule.after)
            if rule.since <= ends:
                found = _ended(found, ends, 137, "OOMKilled", (rule.message or _OUT_OF_MEMORY,))
        return found

    # What is asked of servers

    def listener(self, pod: Json, port: int) -> tuple[Json, Json, Server, Outlook] | None:
        """The container of a pod whose server listens on a port: itself, its status, the server, its outlook."""
        for container, status in _containers(pod):
            if not dig(status, "state.running"):
                continue
            found = self.outlook(pod, container, status, None, 0)
            server = found.server
            if server is not None and server.reachable and port in (server.port, server.metrics_port):
                return container, status, server, found
        return None

    def ask(self, pod: Json, port: int, request: Request) -> Answer:
        """The answer of whatever listens on a port of a pod. Raises :class:`Unreachable`."""
        found, now = self.listener(pod, port), self.cluster.now()
        if found is None or found[3].serves_from > now or dig(pod, "status.phase") != "Running":
            raise Unreachable(f"dial tcp {dig(pod, 'status.podIP', '')}:{port}: connect: connection refused")
        container, status, server, outlook = found
        if not outlook.answers(now):
            return Answer(503, latency=HANGS)
        counters = self._counters.setdefault(run_name(pod, status), Counters())
        if server.engine == ROUTER:
            answer = self._route(pod, server, port, request, counters)
        elif server.engine == PROMETHEUS:
            answer = self.cluster.prometheus.respond(request)
        elif server.engine == RAY:
            answer = ray.respond(server, request)
        else:
            text = metrics.exposition(self.samples(pod, server, counters))
            answer = openai.respond(server, request, counters, now, text)
            answer = self._retouched(answer, request, pod, container, counters)
        counters.begin(answer.seconds)
        return answer

    def _route(self, pod: Json, server: Server, port: int, request: Request, counters: Counters) -> Answer:
        own = self.samples(pod, server, counters)
        if port == server.metrics_port:
            if request.path.split("?")[0] != "/metrics":
                return as_text("", status=404)
            return as_text(metrics.exposition(own))
        return workers.route(self, pod, server, request, counters)

    def _retouched(self, answer: Answer, request: Request, pod: Json, container: Json, counters: Counters) -> Answer:
        """A completion as a script wants it."""
        path = request.path.split("?")[0]
        if request.method != "POST" or path not in openai.COMPLETIONS:
            return answer
        occasion = f"{pod['metadata']['uid']}/{counters.requests}/{request.path}"
        rule = self.faults.pick(podfaults.ANSWER, self.clusters, pod, container.get("image", ""), occasion)
        if rule is None:
            return answer
        if rule.status is not None:
            message = rule.message or "EngineCore encountered an issue. See stack trace (above) for the root cause."
            error = {"message": message, "type": "Internal Server Error", "param": None, "code": rule.status}
            answer = as_json({"error": error}, status=rule.status)
        return replace(answer, latency=rule.latency, pace=rule.pace)

    def samples(self, pod: Json, server: Server, counters: Counters) -> list[Sample]:
        """The metrics of one server, with what scripts set."""
        healthy = workers.health(self, pod, server) if server.engine == ROUTER else {}
        return metrics.scripted(metrics.samples(server, counters, healthy), self.faults.metrics(self.clusters, pod))

    def scrape(self, pod: Json) -> list[Sample]:
        """The metrics of all servers of a pod, as a Prometheus would find them: none while nothing answers."""
        found: list[Sample] = []
        for container, status in _containers(pod):
            if dig(status, "state.running"):
                outlook = self.outlook(pod, container, status, None, 0)
                server = outlook.server
                counts = server is not None and server.engine not in (PROMETHEUS, RAY)
                if server is not None and counts and outlook.answers(self.cluster.now()):
                    counters = self._counters.get(run_name(pod, status), Counters())
                    found += self.samples(pod, server, counters)
        return found

    def turn(self, name: str, among: int) -> int:
        """Whose turn it is, of so many that take turns."""
        self._turns[name] = self._turns.get(name, -1) + 1
        return self._turns[name] % among

    def dump(self) -> dict[str, Any]:
        return {run: counters.dump() for run, counters in self._counters.items()}

    def load(self, dumped: dict[str, Any]) -> None:
        self._programs, self._turns = {}, {}
        self._counters = {run: Counters(**counters) for run, counters in dumped.items()}


def run_name(pod: Json, status: Json) -> str:
    """One start of a container."""
    return f"{pod['metadata']['uid']}/{status['name']}/{status.get('restartCount', 0)}"


def _containers(pod: Json) -> list[tuple[Json, Json]]:
    statuses = {status["name"]: status for status in dig(pod, "status.containerStatuses", [])}
    return [(c, statuses[c["name"]]) for c in pod["spec"]["containers"] if c["name"] in statuses]


def _of_program(program: Program, started: float, factor: float) -> Outlook:
    lines = tuple((started + after * factor, text) for after, text in program.lines)
    if program.exit is not None:
        ends = started + program.exit.after
        # One that fails never answers: its server would come after its end.
        return Outlook(math.inf, None, ends, program.exit.code, "Error", lines, program.exit.lines, known=True)
    return Outlook(started + program.loads * factor, lines=lines, server=program.server, known=True)


def _ended(found: Outlook, at: float, code: int, reason: str, words: tuple[str, ...]) -> Outlook:
    if found.ends_at is not None and found.ends_at <= at:
        return found
    lines = tuple(line for line in found.lines if line[0] <= at)
    return replace(found, ends_at=at, exit_code=code, reason=reason, lines=lines, last_words=words)


def stamped(text: str, at: float) -> str:
    """A line of a program with its time filled in."""
    moment = datetime.fromtimestamp(at, UTC)
    return re.sub(
        r"\{(at|date)\}",
        lambda found: moment.strftime("%m-%d %H:%M:%S" if found[1] == "at" else "%Y-%m-%d %H:%M:%S"),
        text,
    )
