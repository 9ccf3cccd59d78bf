"""The trainings of a cluster: which pods carry out which, what scripts do to them, and what they print.

The pods of a HyperPodPyTorchJob train together, and its operator says when (``controllers/training.py``). A container
of any other pod trains alone, from its start.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sandbox.kubernetes import podfaults
from sandbox.kubernetes.objects import dig
from sandbox.kubernetes.podfaults import PodFault
from sandbox.kubernetes.programs.crashes import CONTAINER, CRASHES, TIMEOUT_SECONDS
from sandbox.kubernetes.programs.training import Trainer
from sandbox.kubernetes.resources import Json

from .attempts import DONE, Attempt, Fall, Run
from .judge import Verdict, judge
from .reader import Bookmark, read

if TYPE_CHECKING:
    from sandbox.kubernetes.cluster import Cluster

KIND = "HyperPodPyTorchJob"
_START_SECONDS = 3.0
"""What fails at the start does so after the imports."""


class Runs:
    """Callers hold the store's lock."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._runs: dict[str, Run] = {}
        self._marks: dict[str, Bookmark] = {}
        self._verdicts: dict[str, Verdict | None] = {}
        """By job; forgotten when anything changes."""

    def get(self, key: str) -> Run | None:
        return self._runs.get(key)

    def begin(self, key: str, trainer: Trainer, pods: list[Json], first_step: int = 0) -> Attempt:
        """The processes start, on these pods in the order of their ranks."""
        run = self._runs.setdefault(key, Run(key, trainer))
        run.trainer = trainer
        members = {pod["metadata"]["uid"]: rank for rank, pod in enumerate(pods)}
        number = run.last.number + 1 if run.last is not None else 0
        attempt = Attempt.start(number, self._cluster.now(), first_step, members)
        run.add(attempt)
        self._apply(run)
        return attempt

    def end(self, key: str, how: str, told: str = "") -> None:
        """The attempt that goes on is over."""
        run = self._runs.get(key)
        attempt = run.current if run is not None else None
        if attempt is not None:
            attempt.ended, attempt.how, attempt.told = self._cluster.now(), how, told

    def verdict(self, key: str, rules: list[Json]) -> Verdict | None:
        """The first rule about the log that the attempt which goes on will break, if nothing changes."""
        run = self._runs.get(key)
        attempt = run.current if run is not None else None
        if run is None or attempt is None or not rules:
            return None
        if key not in self._verdicts:
            self._verdicts[key] = judge(run.trainer, attempt, rules)
        return self._verdicts[key]

    def forget(self, name: str) -> None:
        """A job is gone, or a pod, or a run of a container."""
        holders: tuple[dict[str, Any], ...] = (self._runs, self._marks, self._verdicts)
        for held in holders:
            for key in [key for key in held if key == name or key.startswith(f"{name}/")]:
                del held[key]

    def trainer(self, pod: Json) -> Trainer | None:
        """What the first container of a pod that trains runs."""
        for container in pod["spec"]["containers"]:
            program = self._cluster.serving.program(pod, container, _status(pod, container["name"]))
            if program is not None and program.trainer is not None:
                return program.trainer
        return None

    def end_of(self, pod: Json, container: Json, status: Json, started: float) -> tuple[float | None, int, str]:
        """When a container that trains ends by itself, with which exit code, and the reason."""
        run = self._of(pod, container["name"], status)
        if run is None:
            if job_uid(pod):
                return None, 0, ""
            program = self._cluster.serving.program(pod, container, status)
            if program is None or program.trainer is None:
                return None, 0, ""
            run = self._alone(_run_name(pod, container["name"], status), program.trainer, pod, started)
        attempt = run.last
        if attempt is None or pod["metadata"]["uid"] not in attempt.members:
            return None, 0, ""
        done, fall = attempt.done_at(run.trainer), attempt.fall
        if fall is not None and fall.at <= done:
            crash = CRASHES[fall.cause]
            alone = job_uid(pod) is None
            if alone or (crash.scope == CONTAINER and attempt.members[pod["metadata"]["uid"]] == fall.rank):
                code = crash.exit_code if crash.exit_code > 0 else 1
                return fall.at, code, crash.reason
            return None, 0, ""
        if math.isinf(done) or (attempt.ended is not None and attempt.how != DONE):
            return None, 0, ""
        return done, 0, "Completed"

    def _alone(self, key: str, trainer: Trainer, pod: Json, started: float) -> Run:
        run = self._runs[key] = Run(key, trainer)
        run.add(Attempt.start(0, started, 0, {pod["metadata"]["uid"]: 0}))
        self._apply(run)
        return run

    def _of(self, pod: Json, container: str, status: Json) -> Run | None:
        return self._runs.get(job_uid(pod) or _run_name(pod, container, status))

    def fell(self, pod: Json, cause: str) -> None:
        """What a pod that trains alone needs is gone: it fails soon."""
        for run in self._runs.values():
            attempt = run.current
            if run.key.startswith(f"{pod['metadata']['uid']}/") and attempt is not None and attempt.fall is None:
                attempt.fall = Fall(self._cluster.now() + _START_SECONDS, cause, 0)

    def stands_still(self, pod: Json, container: Json, status: Json) -> bool:
        """Whether the training of a pod hangs."""
        run = self._of(pod, container["name"], status)
        attempt = run.current if run is not None else None
        now = self._cluster.now()
        return attempt is not None and attempt.stepping_from <= now and attempt.pace(now) == 0.0

    def print_due(self, pod: Json, container: str) -> float | None:
        """Write what a container has printed by now; when it prints next, if that is known."""
        status = _status(pod, container)
        if not status:
            return None
        run = self._of(pod, container, status)
        if run is None:
            return None
        name = _run_name(pod, container, status)
        program = self._cluster.serving.program(pod, {"name": container}, status)
        if program is None or program.trainer is None:
            return None
        meta = pod["metadata"]
        mark = self._marks.setdefault(name, Bookmark())
        lines, due = read(run, meta["uid"], meta["name"], mark, self._cluster.now())
        if lines:
            self._cluster.logs.extend(meta["uid"], container, lines)
        return due

    # What scripts do to trainings

    def refresh(self) -> None:
        """Other rules are in force."""
        for run in list(self._runs.values()):
            self._apply(run)

    def _apply(self, run: Run) -> None:
        """Bring what is to come of an attempt into line with the rules; what was stays."""
        self._verdicts.pop(run.key, None)
        attempt = run.current
        if attempt is None:
            return
        trainer, now = run.trainer, self._cluster.now()
        if attempt.fall is not None and attempt.fall.at <= now:
            return
        turn = max(now, attempt.stepping_from)
        pace_now = attempt.pace(turn)
        attempt.phases = [phase for phase in attempt.phases if phase[0] < turn] or [(turn, 1.0)]
        members = self._members(attempt)
        slow = self._pick(podfaults.SLOW_STEPS, run, attempt, members)
        pace, since = 1.0, turn
        if slow is not None:
            pace, since = 1.0 / max(slow[0].factor, 0.01), self._when(slow[0], run, attempt, turn)
        if pace_now != 1.0 or attempt.pace(turn) != 1.0:
            _set(attempt, turn, 1.0)
        _set(attempt, since, pace)
        fall: Fall | None = None
        if (hang := self._pick(podfaults.HANG, run, attempt, members)) is not None:
            at = self._when(hang[0], run, attempt, turn)
            _set(attempt, at, 0.0)
            attempt.phases = [phase for phase in attempt.phases if phase[0] <= at]
            if attempt.nodes * trainer.processes > 1:
                other = (hang[1] + 1) % attempt.nodes
                fall = Fall(at + TIMEOUT_SECONDS, "nccl_timeout", other)
        if (crash := self._pick(podfaults.CRASH, run, attempt, members)) is not None:
            rule, rank = crash
            at = self._when(rule, run, attempt, turn)
            if CRASHES[rule.cause].at_start:
                at = max(rule.since, attempt.begun + _START_SECONDS)
            if fall is None or at < fall.at:
                fall = Fall(at, rule.cause, rank, rule.message)
        attempt.fall = fall
        attempt.outliers = [
            (since, min(until, turn), value) for since, until, value in attempt.outliers if since < turn
        ]
        if (odd := self._pick(podfaults.OUTLIER, run, attempt, members)) is not None:
            attempt.outliers.append((self._when(odd[0], run, attempt, turn), math.inf, odd[0].value))

    def _members(self, attempt: Attempt) -> list[tuple[Json, int]]:
        held = ((self._cluster.store.by_uid(uid), rank) for uid, rank in attempt.members.items())
        return [(pod, rank) for pod, rank in held if pod is not None]

    def _pick(
        self, fault: str, run: Run, attempt: Attempt, members: list[tuple[Json, int]]
    ) -> tuple[PodFault, int] | None:
        faults, serving = self._cluster.serving.faults, self._cluster.serving
        if not faults.any(fault):
            return None
        for pod, rank in reversed(members):
            image = pod["spec"]["containers"][0].get("image", "")
            rule = faults.pick(fault, serving.clusters, pod, image, f"{run.key}#{attempt.number}", rank)
            if rule is not None:
                return rule, rank
        return None

    @staticmethod
    def _when(rule: PodFault, run: Run, attempt: Attempt, turn: float) -> float:
        """When a rule begins to act: at its step, else half a step after it was set."""
        if rule.step is not None:
            at = attempt.at_step(run.trainer, max(rule.step, attempt.first_step + 1))
            return max(at, turn)
        return max(rule.since, turn) + min(run.trainer.step_seconds / 2, 1.0)

    def dump(self) -> Any:
        return {
            "runs": [
                {**asdict(run), "attempts": [asdict(each) for each in run.attempts]} for run in self._runs.values()
            ],
            "marks": {name: asdict(mark) for name, mark in self._marks.items()},
        }

    def load(self, dumped: Any) -> None:
        self._marks = {name: Bookmark(**mark) for name, mark in dumped.get("marks", {}).items()}
        self._runs = {}
        for held in dumped.get("runs", []):
            attempts = [
                Attempt(**{**each, "fall": Fall(**each["fall"]) if each["fall"] else None}) for each in held["attempts"]
            ]
            self._runs[held["key"]] = Run(held["key"], Trainer(**held["trainer"]), attempts)


def job_uid(pod: Json) -> str | None:
    """The uid of the HyperPodPyTorchJob that a pod is of."""
    for reference in pod["metadata"].get("ownerReferences") or []:
        if reference.get("controller") and reference["kind"] == KIND:
            return str(reference["uid"])
    return None


def _status(pod: Json, container: str) -> Json:
    return next((s for s in dig(pod, "status.containerStatuses", []) if s["name"] == container), {})


def _run_name(pod: Json, container: str, status: Json) -> str:
    return f"{pod['metadata']['uid']}/{container}/{status.get('restartCount', 0)}"


def _set(attempt: Attempt, at: float, pace: float) -> None:
    """Let the training go on at a pace from a time on, unless it does."""
    if math.isinf(at):
        return
    if attempt.phases[-1][0] >= at:
        attempt.phases[-1] = (attempt.phases[-1][0], pace)
    elif attempt.phases[-1][1] != pace:
        attempt.phases.append((at, pace))
