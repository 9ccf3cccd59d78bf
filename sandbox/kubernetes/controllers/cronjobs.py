"""CronJobs: https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ . Times are UTC."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from sandbox.kubernetes.objects import clone, dig, is_true, owner_reference, parse_time, rfc3339
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import Controller, Key, controller_of, is_deleted, object_key
from .jobs import JOBS

CRON_JOBS = ("batch", "cronjobs")
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def _values(text: str, low: int, high: int) -> set[int]:
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        else:
            start, _, end = span.partition("-")
            first = int(start)
            last = int(end) if end else (high if step else first)
        values.update(range(first, last + 1, int(step or 1)))
    return {value % 7 if high == 6 else value for value in values}


def next_time(schedule: str, after: float) -> float | None:
    """The first time after another that a schedule names; None if there is none within four years."""
    fields = _MACROS.get(schedule, schedule).split()
    minutes, hours, days, months, weekdays = (_values(f, *r) for f, r in zip(fields, _RANGES, strict=True))
    moment = datetime.fromtimestamp(after, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    either = fields[2] != "*" and fields[4] != "*"
    end = moment + timedelta(days=4 * 366)
    while moment < end:
        by_day, by_weekday = moment.day in days, moment.isoweekday() % 7 in weekdays
        if moment.month not in months or not (by_day or by_weekday if either else by_day and by_weekday):
            moment = (moment + timedelta(days=1)).replace(hour=0, minute=0)
        elif moment.hour not in hours:
            moment = (moment + timedelta(hours=1)).replace(minute=0)
        elif moment.minute not in minutes:
            moment += timedelta(minutes=1)
        else:
            return moment.timestamp()
    return None


class CronJobController(Controller):
    name = "cronjob"
    watches = (CRON_JOBS, JOBS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == JOBS:
            owner = controller_of(change.new, "CronJob")
            if owner is not None:
                yield owner
        elif change.type != DELETED:
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        kind = self.kind("cronjobs", "batch")
        cron = self.find(kind, key)
        if cron is None or is_deleted(cron):
            return
        jobs = self.owned(cron, "Job")
        last = dig(cron, "status.lastScheduleTime") or cron["metadata"]["creationTimestamp"]
        due = next_time(cron["spec"]["schedule"], parse_time(last))
        status = clone(cron.get("status") or {})
        if due is not None and not cron["spec"].get("suspend"):
            if due > self.registry.now():
                self.later(due - self.registry.now(), key)
            else:
                self._run(cron, jobs, due)
                status["lastScheduleTime"] = rfc3339(due)
                jobs = self.owned(cron, "Job")
        active = [job for job in jobs if not is_true(job, "Complete") and not is_true(job, "Failed")]
        status["active"] = [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": j["metadata"]["name"],
                "namespace": j["metadata"]["namespace"],
                "uid": j["metadata"]["uid"],
            }
            for j in active
        ]
        if not status["active"]:
            del status["active"]
        self._clean_up(cron, jobs)
        self.status(kind, cron, status)

    def _run(self, cron: Json, jobs: list[Json], due: float) -> None:
        active = [job for job in jobs if not is_true(job, "Complete") and not is_true(job, "Failed")]
        policy = cron["spec"]["concurrencyPolicy"]
        if active and policy == "Forbid":
            self.registry.event(
                cron,
                "JobAlreadyActive",
                "Not starting job because prior execution is running",
                True,
                "cronjob-controller",
            )
            return
        if policy == "Replace":
            for job in active:
                self.registry.delete(self.kind("jobs", "batch"), job)
        template, meta = clone(cron["spec"]["jobTemplate"]), cron["metadata"]
        name = f"{meta['name']}-{int(due // 60)}"
        if self.store.get(self.kind("jobs", "batch"), meta["namespace"], name) is None:
            self.registry.create(
                self.kind("jobs", "batch"),
                meta["namespace"],
                {
                    "metadata": {
                        **(template.get("metadata") or {}),
                        "name": name,
                        "ownerReferences": [owner_reference(cron)],
                    },
                    "spec": template["spec"],
                },
            )

    def _clean_up(self, cron: Json, jobs: list[Json]) -> None:
        for kind, limit in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
            ended = [job for job in jobs if is_true(job, kind)]
            for job in ended[: max(len(ended) - cron["spec"][limit], 0)]:
                self.registry.delete(self.kind("jobs", "batch"), job)
