"""Watching jobs: to their end, and until they are gone, suspended or resumed."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.aws import AwsClients
from activities.context import Threads
from activities.errors import fail, problem_of
from activities.kubernetes import KubernetesClients
from activities.nodes.sight import Raw
from activities.plans.prices import Prices
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from activities.training import causes
from activities.training.board import Board
from activities.training.notes import Notes
from activities.training.paths import Job, Site
from activities.training.pods import PodsSeen, first_rank, pods_of, see, tail
from activities.training.queues import Workloads
from activities.training.registry import PATHS
from activities.training.sight import Standing, live_line, standing
from contracts.problem import Problem, ProblemCode, problem
from contracts.recipes.progress import Reported, read_progress
from contracts.training_activities import (
    WAIT_FOR_TRAINING,
    WATCH_TRAINING,
    TrainingEnd,
    TrainingRef,
    TrainingSettled,
    WaitForTraining,
    WatchTraining,
)
from contracts.training_parts import TrainingState

PODS_EVERY = 4
"""Looks at a job that does not change for one at its pods; and for one at its log."""
LOG_LINES = 120
WATCHING_THREADS = 8
"""Threads that look at all watched runs: hundreds of them keep no other wait from its look."""


class TrainingWaits:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._settings = settings
        self._prices = Prices(aws, settings.price_file)
        # A list that one watch has read serves the others until their next look.
        self._board = Board(aws, kubernetes, max_age=settings.poll_seconds * 0.8)
        self._threads = Threads(WATCHING_THREADS, thread_name_prefix="watch")
        self._watching: defaultdict[tuple[str, str, str], set[asyncio.Event]] = defaultdict(set)
        """What wakes the watches of a run that this process has."""

    @activity.defn(name=WATCH_TRAINING.name)
    async def watch(self, request: WatchTraining) -> TrainingEnd:
        """Until the job has ended, or is not there any more. A failure is a result, too, with its problem: what came
        before is told with it. Raises only what keeps it from looking."""

        def look(memory: Memory) -> Seen[TrainingEnd]:
            try:
                with self._board.site(request) as site:
                    job = self._board.job(site, request, request.submission, request.uid)
                    return self._look(site, request, job, memory)
            except ApplicationError as error:
                found = problem_of(error)
                if found is None or found.code is not ProblemCode.NOT_FOUND:
                    raise
                return _cluster_gone(request, memory)

        pace = self._settings.poll_seconds
        with self._woken(request) as nudge:
            return await wait_until(
                look,
                what="the end of the run",
                limit=WATCH_TRAINING.limit,
                poll_seconds=pace,
                first_pause=pace,
                threads=self._threads,
                nudge=nudge,
            )

    @contextmanager
    def _woken(self, ref: TrainingRef) -> Iterator[asyncio.Event]:
        """What wakes a watch when something was done to its job."""
        key, nudge = _key(ref), asyncio.Event()
        self._watching[key].add(nudge)
        try:
            yield nudge
        finally:
            self._watching[key].discard(nudge)
            if not self._watching[key]:
                del self._watching[key]

    def _wake(self, ref: TrainingRef) -> None:
        """Have this process's watches of a run look now: what a list said of its job is not so any more."""
        self._board.forget(ref)
        for nudge in self._watching.get(_key(ref), ()):
            nudge.set()

    def _look(self, site: Site, request: WatchTraining, job: Job | None, memory: Memory) -> Seen[TrainingEnd]:
        notes = Notes(memory.notes)
        if job is None:
            said = f"the job {request.namespace}/{request.name} was deleted"
            return Seen(said, _end(request, None, notes, TrainingState.STOPPED, said, 0))
        changed = notes.differs("version", job.version)
        seen, pods = self._pods(site, request, job, memory, changed)
        now = standing(Workloads(site.api), job, seen, site.region, request.instance_type, self._prices)
        if job.state.ended:
            return self._ended(site, request, job, pods, notes)
        restarts = [job.restarts.job, job.restarts.in_place, job.restarts.full]
        if notes.differs("restarts", restarts) and any(restarts):
            self._blame(site, request, job, pods, notes)
            notes.enter(TrainingState.RESTARTING, job.restarts.text)
        if now.state is TrainingState.RUNNING:
            self._read(site, request, job, pods, notes)
        notes.enter(now.state, now.detail)
        given_up = self._stuck(now, seen, notes)
        line = live_line(now, job, seen, notes.reported, notes.checkpoint_at)
        if given_up is not None:
            return Seen(line, _end(request, job, notes, TrainingState.FAILED, given_up.detail, seen.total, given_up))
        return Seen(line)

    def _pods(
        self, site: Site, request: WatchTraining, job: Job, memory: Memory, changed: bool
    ) -> tuple[PodsSeen, list[Raw] | None]:
        """The pods, where they may have changed; else what is remembered of them."""
        kept: dict[str, Any] = memory.notes.get("pods") or {}
        steady = job.state is TrainingState.RUNNING and kept and kept["ready"] == kept["total"]
        if steady and not changed and memory.polls % PODS_EVERY:
            return PodsSeen(**kept), None
        pods = pods_of(site.api, request.namespace, request.name)
        seen = see(pods)
        kept = {name: getattr(seen, name) for name in ("total", "ready", "waiting", "held", "reason")}
        memory.notes["pods"] = kept
        if seen.total:
            memory.notes["most_pods"] = max(seen.total, int(memory.notes.get("most_pods") or 0))
        return seen, pods

    def _read(self, site: Site, request: WatchTraining, job: Job, pods: list[Raw] | None, notes: Notes) -> None:
        """What the first rank's log says of the progress, now and then: when the pods were read, too."""
        if pods is None or not notes.due("log", time.time(), (PODS_EVERY - 0.5) * self._settings.poll_seconds):
            return
        path = PATHS[request.submission]
        if not path.api_version:
            lines = path.tail(site, job, LOG_LINES)
        else:
            first = first_rank(pods)
            lines = tail(site.api, first, lines=LOG_LINES) if first is not None else []
        reported = read_progress(request.recipe, lines, request.planned_steps)
        if reported != Reported():
            notes.report(reported)

    def _blame(self, site: Site, request: WatchTraining, job: Job, pods: list[Raw] | None, notes: Notes) -> None:
        """Read what the logs say of a restart, while the pods that wrote them are there."""
        found = pods if pods is not None else pods_of(site.api, request.namespace, request.name)
        notes.blame(*causes.read_causes(site.api, found, job.faulty))

    def _ended(
        self, site: Site, request: WatchTraining, job: Job, pods: list[Raw] | None, notes: Notes
    ) -> Seen[TrainingEnd]:
        found = pods if pods is not None else pods_of(site.api, request.namespace, request.name)
        total = int(notes.value("most_pods", 0)) or len(found) or request.nodes
        if job.state is TrainingState.SUCCEEDED:
            self._last_words(site, request, job, found, notes)
            notes.enter(job.state, job.detail)
            return Seen("it has ended well", _end(request, job, notes, job.state, "it has ended well", total))
        if job.state is TrainingState.STOPPED:
            return Seen(job.detail, _end(request, job, notes, job.state, job.detail, total))
        notes.blame(*causes.read_causes(site.api, found, job.faulty))
        cause, line = notes.cause
        failed = causes.explain(job, see(found).views, cause, line, request.nodes)
        notes.enter(TrainingState.FAILED, failed.detail)
        return Seen(failed.detail, _end(request, job, notes, TrainingState.FAILED, failed.detail, total, failed))

    def _last_words(self, site: Site, request: WatchTraining, job: Job, pods: list[Raw], notes: Notes) -> None:
        path = PATHS[request.submission]
        lines = tail(site.api, pods[0], lines=LOG_LINES) if pods else path.tail(site, job, LOG_LINES)
        notes.report(read_progress(request.recipe, lines, request.planned_steps))

    def _stuck(self, now: Standing, seen: PodsSeen, notes: Notes) -> Problem | None:
        """The problem of pods that cannot start and will not by themselves, after ``shortfall_patience``."""
        if now.state is not TrainingState.STARTING or seen.stuck is None:
            notes.over("stuck")
            return None
        if notes.since("stuck", time.time()) < self._settings.shortfall_patience:
            return None
        image = "Image" in (seen.stuck.reason or "")
        return problem(
            ProblemCode.NOT_READY,
            now.detail,
            remedy="Retry with an image that the nodes can pull: its job is submitted anew."
            if image
            else "Store the credentials that it names in its namespace, then retry.",
            field="/image" if image else "/secret_env",
            retryable=True,
        )

    @activity.defn(name=WAIT_FOR_TRAINING.name)
    async def settle(self, request: WaitForTraining) -> TrainingSettled:
        """Until a job's pods are gone, or it goes on. Raises CONFLICT where it has failed or was stopped instead."""

        def look(memory: Memory) -> Seen[TrainingSettled]:
            with self._board.site(request) as site:
                job = PATHS[request.submission].find(site, request.namespace, request.name)
                same = job is not None and request.uid in (None, job.uid)
                found = pods_of(site.api, request.namespace, request.name)
                pods = [pod for pod in found if _of(pod, job, same)]
            return self._settled(request, job if same else None, pods)

        limit, pace = WAIT_FOR_TRAINING.limit, self._settings.poll_seconds
        what = {"gone": "the end of its pods", "suspended": "its suspension", "resumed": "its going on"}[request.wanted]
        settled = await wait_until(look, what=what, limit=limit, poll_seconds=pace)
        self._wake(request)
        return settled

    def _settled(self, request: WaitForTraining, job: Job | None, pods: list[Raw]) -> Seen[TrainingSettled]:
        def done(detail: str) -> Seen[TrainingSettled]:
            return Seen(detail, TrainingSettled(name=request.name, namespace=request.namespace, detail=detail))

        if request.wanted == "gone":
            over = job is None or (job.stays and job.state.ended)
            if over and not pods:
                return done("the job and its pods are gone" if job is None else "the job has ended")
            left = f"pods that end: {len(pods)}" if pods else "the job is being deleted"
            return Seen(left)
        if job is None:
            remedy = "Look at the run's operation: somebody has deleted its job."
            fail(ProblemCode.NOT_FOUND, f"there is no job {request.namespace}/{request.name} any more", remedy)
        if request.wanted == "suspended":
            if job.state.ended:
                return done(f"it has {job.state.value} meanwhile")
            return Seen(f"pods that end: {len(pods)}") if pods else done("nothing of it runs")
        if job.state is TrainingState.SUCCEEDED:
            return done("it has gone on, and has ended well meanwhile")
        if job.state.ended:
            fail(ProblemCode.CONFLICT, f"the job has {job.state.value}: {job.detail}", "Look at the run's operation.")
        if job.suspended and job.queue is None:
            return Seen("its operator has not looked at it yet")
        if job.queue is not None and not pods:
            return done(f"it waits in queue {job.queue}")
        return done(f"its pods are there: {len(pods)}") if pods else Seen("its pods are made")


def _key(ref: TrainingRef) -> tuple[str, str, str]:
    return ref.eks_cluster, ref.namespace, ref.name


def _of(pod: Raw, job: Job | None, same: bool) -> bool:
    """Whether a pod with the run's label is one of the job's: not of another that has taken its name meanwhile."""
    if job is None or same:
        return True
    return not any(owner.get("uid") == job.uid for owner in pod["metadata"].get("ownerReferences") or ())


def _cluster_gone(request: WatchTraining, memory: Memory) -> Seen[TrainingEnd]:
    said = f"the EKS cluster {request.eks_cluster} is gone, and the job with it"
    notes = Notes(memory.notes)
    return Seen(
        said, _end(request, None, notes, TrainingState.STOPPED, said, 0).model_copy(update={"cluster_gone": True})
    )


def _end(
    request: WatchTraining,
    job: Job | None,
    notes: Notes,
    state: TrainingState,
    detail: str,
    pods: int,
    failed: Problem | None = None,
) -> TrainingEnd:
    more: dict[str, Any] = {"restarts": job.restarts} if job is not None else {}
    notes.enter(state, detail)
    return TrainingEnd(
        state=state,
        detail=detail,
        problem=failed,
        last_checkpoint=notes.checkpoint_at,
        reported=notes.reported,
        pods=pods or int(notes.value("most_pods", 0)),
        started_at=(job.started_at if job is not None else None) or request.since,
        finished_at=(job.finished_at if job is not None else None) or datetime.now(UTC),
        history=notes.history,
        **more,
    )
