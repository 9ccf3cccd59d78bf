"""How a run stands: what its job says, what its pods add, and all of it in one line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from activities.errors import clean
from activities.plans.prices import Prices
from activities.training import queues
from activities.training.paths import Job
from activities.training.pods import PodsSeen
from contracts.names import LABEL_DOMAIN
from contracts.recipes.progress import Reported
from contracts.training_parts import TrainingState, Waiting, reported_text

ANNOTATION_SUSPENDED_BY = f"{LABEL_DOMAIN}/suspended-by"
"""On a job: who suspended it, and why."""


@dataclass(frozen=True)
class Standing:
    """A run at one moment."""

    state: TrainingState
    detail: str
    reason: str | None = None
    waiting: Waiting | None = None


def standing(
    workloads: queues.Workloads, job: Job, pods: PodsSeen, region: str, instance_type: str, prices: Prices | None
) -> Standing:
    """``prices`` null: what waiting costs is not asked for."""
    if job.state.ended or job.deleting:
        return Standing(job.state, job.detail, job.reason)
    if job.suspended or job.state is TrainingState.SUSPENDED or _taken_out(workloads, job):
        by = job.annotations.get(ANNOTATION_SUSPENDED_BY)
        if job.queue is None or by is not None:
            return Standing(TrainingState.SUSPENDED, f"suspended by {by}" if by else "suspended", job.reason)
        why = queues.why_waiting(workloads.of(job), job.queue)
        return Standing(TrainingState.QUEUED, why, "Queued", Waiting(reason=why, idle_per_hour=0.0))
    if pods.waiting:
        return _without_nodes(pods, region, instance_type, prices)
    if pods.stuck is not None:
        why = ": ".join(filter(None, (pods.stuck.reason, pods.stuck.message)))
        return Standing(
            TrainingState.STARTING, f"{pods.stuck.name} does not start: {clean(why, 240)}", pods.stuck.reason
        )
    if job.state is TrainingState.RUNNING and pods.total and not pods.ready:
        return Standing(TrainingState.STARTING, _starting(pods), pods.reason)
    if job.state is TrainingState.STARTING:
        return Standing(TrainingState.STARTING, _starting(pods) if pods.total else job.detail, pods.reason)
    return Standing(job.state, job.detail, job.reason)


def live_line(now: Standing, job: Job, pods: PodsSeen, reported: Reported, checkpoint_at: datetime | None) -> str:
    """``8 of 8 pods run, step 1200, loss 1.23, 5.1k tokens/s, restarts 1 of 5, checkpoint 3 minutes ago``."""
    if now.state is TrainingState.QUEUED:
        return f"queued: {now.detail}{cost_of(now.waiting)}"
    if now.state not in (TrainingState.RUNNING, TrainingState.RESTARTING):
        restarted = f", {job.restarts.text}" if job.restarts.job else ""
        return f"{now.detail if now.state is not TrainingState.STARTING else f'starting: {now.detail}'}{restarted}"
    parts = [f"{pods.ready} of {pods.total} pods run" if pods.total else now.detail]
    if now.state is TrainingState.RESTARTING:
        parts.insert(0, f"restarting: {clean(now.detail, 120)}")
    if (told := reported_text(reported)) is not None:
        parts.append(told)
    parts.append(job.restarts.text)
    if checkpoint_at is not None:
        parts.append(f"checkpoint {_ago(checkpoint_at)} ago")
    return ", ".join(parts)


def cost_of(waiting: Waiting | None) -> str:
    """What waiting costs, in words; nothing where nothing is held."""
    if waiting is None or not waiting.idle_nodes:
        return ""
    held = f"{waiting.idle_nodes} {'node does' if waiting.idle_nodes == 1 else 'nodes do'} nothing meanwhile"
    if waiting.idle_per_hour is None:
        return f" ({held})"
    return f" ({held}: {waiting.idle_per_hour:.2f} {waiting.currency} an hour)"


def _without_nodes(pods: PodsSeen, region: str, instance_type: str, prices: Prices | None) -> Standing:
    """Pods that no node takes. Those that have one hold it, and a gang of processes starts only together."""
    why = clean(pods.message or "no node takes them", 240)
    said = f"{pods.waiting} of {pods.total} nodes are missing: {why}"
    price = prices.price(region, instance_type).amount if prices is not None and pods.held else None
    waiting = Waiting(
        reason=said,
        pods_waiting=pods.waiting,
        idle_nodes=pods.held,
        idle_per_hour=round(price * pods.held, 2) if price is not None else None,
    )
    return Standing(TrainingState.QUEUED, said, pods.reason, waiting)


def _taken_out(workloads: queues.Workloads, job: Job) -> bool:
    """Whether somebody has taken a queued job out of its queue."""
    if job.queue is None or ANNOTATION_SUSPENDED_BY not in job.annotations:
        return False
    return not queues.is_active(workloads.of(job))


def _starting(pods: PodsSeen) -> str:
    reason = f" ({pods.reason})" if pods.reason else ""
    return f"{pods.ready} of {pods.total} pods run{reason}"


def _ago(moment: datetime) -> str:
    seconds = max((datetime.now(UTC) - moment).total_seconds(), 0)
    for size, name in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {name}" + ("" if number == 1 else "s")
    return f"{int(seconds)} seconds"
