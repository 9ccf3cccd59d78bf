"""Which scripts may run, what happens to them, and the runs of one cluster."""

from __future__ import annotations

import re
import tempfile
import threading
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.admin import Admin, AdminError, AdminRequest
from sandbox.buckets import Buckets
from sandbox.kubernetes.podfaults import workload
from sandbox.kubernetes.resources import Json

from .plan import Plan, digest, planned
from .process import Ended, Misfortune, Process

if TYPE_CHECKING:
    from sandbox.kubernetes.cluster import Cluster

ACTIONS = ("full", "kill")


@dataclass
class ScriptFault:
    """What happens to runs of a workload."""

    action: str
    """``full``: its storage has no room; ``kill``: it is killed."""
    workload: str = ".*"
    """Regular expression for the whole name of the Job, or of a bare pod."""
    after_files: int = 0
    """So many files on its storage are written before."""
    times: int | None = 1

    @classmethod
    def parse(cls, data: dict[str, Any]) -> ScriptFault:
        """A rule from JSON. Raises ValueError for what it does not know."""
        known = {each.name for each in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise ValueError(f"unknown fields: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        if data.get("action") not in ACTIONS:
            raise ValueError(f"action must be one of {', '.join(ACTIONS)}, not {data.get('action')!r}")
        re.compile(data.get("workload", ""))
        return cls(**data)


class ScriptRunner:
    """What the runs of all clusters of a sandbox share."""

    def __init__(self) -> None:
        self.known: frozenset[str] = frozenset()
        """Digests of the scripts that may run."""
        self.buckets: Buckets | None = None
        self._kept: Path | None = None
        self._faults: list[ScriptFault] = []
        self._lock = threading.Lock()

    def allow(self, programs: list[Path], kept: Path | None) -> None:
        """Run these scripts, wherever a container has them. ``kept``: where directories of file systems are."""
        self.known = frozenset(digest(path.read_bytes()) for path in programs)
        self._kept = kept

    def kept(self, cluster: str) -> Path:
        with self._lock:
            if self._kept is None:
                self._kept = Path(tempfile.mkdtemp(prefix="sandbox-volumes-"))
            return self._kept / cluster

    def misfortune(self, pod: Json) -> Misfortune | None:
        """What is to happen to the next run of a pod."""
        with self._lock:
            for rule in self._faults:
                if rule.times == 0 or not re.fullmatch(rule.workload, workload(pod)):
                    continue
                if rule.times is not None:
                    rule.times -= 1
                return Misfortune(rule.action, rule.after_files)
        return None

    def register(self, admin: Admin, path: str) -> None:
        """The admin API's route for what happens to scripts."""

        def rules(request: AdminRequest) -> list[dict[str, Any]]:
            if request.method == "POST":
                if not isinstance(request.body, list):
                    raise AdminError("what happens to scripts is a list of rules")
                parsed = [ScriptFault.parse(each) for each in request.body]
                with self._lock:
                    self._faults = parsed
            with self._lock:
                return [asdict(each) for each in self._faults]

        admin.route("GET", path, rules)
        admin.route("POST", path, rules)
        admin.on_reset(self._faults.clear)


class Scripts:
    """The runs of one cluster. Callers hold the store's lock."""

    def __init__(self, cluster: Cluster, runner: ScriptRunner) -> None:
        self._cluster, self._runner = cluster, runner
        self._plans: dict[str, Plan | None] = {}
        self._processes: dict[str, Process] = {}
        self._ended: dict[str, Ended] = {}

    def runs(self, run: str, pod: Json, container: Json) -> bool:
        """Whether a run of a container is that of a script."""
        if not self._runner.known:
            return False
        if run not in self._plans:
            self._plans[run] = planned(self._cluster, pod, container, self._runner.known)
        return self._plans[run] is not None

    def ended(self, run: str, pod: Json, container: Json) -> Ended | None:
        """How a run ended; None while it goes on. The first question begins it, also after a restore."""
        plan = self._plans.get(run)
        if plan is not None and run not in self._processes and run not in self._ended:
            process = self._process(run, pod, container, plan)
            self._processes[run] = process
            process.start()
        return self._ended.get(run)

    def message(self, run: str) -> str:
        """What a run has left as its termination message."""
        found = self._ended.get(run)
        return found.message if found is not None else ""

    def forget(self, uid: str) -> None:
        """The pod is gone, and what ran there."""
        for run in [run for run in self._processes if run.startswith(uid)]:
            self._processes.pop(run).kill()
        for held in (self._plans, self._ended):
            for run in [run for run in held if run.startswith(uid)]:
                held.pop(run)

    def stop(self) -> None:
        """The cluster is gone."""
        for process in self._processes.values():
            process.kill()

    def _process(self, run: str, pod: Json, container: Json, plan: Plan) -> Process:
        meta, cluster = pod["metadata"], self._cluster

        def on_line(line: str) -> None:
            with cluster.store.lock:
                if run in self._plans:
                    cluster.logs.write(meta["uid"], container["name"], cluster.now(), line)

        def on_end(ended: Ended) -> None:
            with cluster.store.lock:
                if run in self._plans:
                    self._ended[run] = ended
                    self._processes.pop(run, None)
                    cluster.controllers.enqueue("kubelet", (meta["namespace"], meta["name"]))

        kept, misfortune = self._runner.kept(cluster.identifier), self._runner.misfortune(pod)
        return Process(plan, self._runner.buckets, kept, misfortune, on_line, on_end)
