"""Copying an experiment to another tracking server, also of another account: run by run, over again until all is there.

What a copy has already is found by its tags, so that it may be stopped and killed at any moment and nothing doubles.
Artifacts, models and data sets are not copied.
"""

from __future__ import annotations

import time
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.aws import AwsClients
from activities.errors import fail
from activities.experiments import servers
from activities.experiments.copying import Copier
from activities.experiments.taken import TakenRole
from activities.experiments.tracking import EXISTS, Tracking, refused_with
from activities.polling import Memory, Seen, wait_until
from contracts.experiments import (
    PREPARE_SYNC,
    SYNC_EXPERIMENTS,
    TAG_PREFIX,
    CarrySync,
    ExperimentsSynced,
    PreparedSync,
    SyncExperiments,
    SyncExperimentsSpec,
)
from contracts.problem import ProblemCode
from contracts.words import number_of

PAUSE = 0.01
"""Between runs: nothing is waited for."""


class ExperimentSync:
    def __init__(self, aws: AwsClients) -> None:
        self._aws = aws

    @activity.defn(name=PREPARE_SYNC.name)
    def prepare(self, request: SyncExperiments) -> PreparedSync:
        """Both experiments; the destination's is made where there is none.

        Raises NOT_FOUND for a source that there is none of, DENIED where the destination may not be written.
        """
        spec = request.spec
        source_arn = servers.arn_of(self._aws, request.scope.region, spec.source)
        with Tracking.of(self._aws, source_arn) as source, self.destination(spec) as destination:
            found = source.experiment_named(spec.experiment)
            if found is None:
                detail = f"the tracking server {source_arn} has no experiment {spec.experiment!r}"
                fail(ProblemCode.NOT_FOUND, detail, "List its experiments.", field="/experiment")
            name = spec.destination_experiment or spec.experiment
            there, made = destination.experiment_named(name), False
            if there is None:
                there, made = self._make(destination, name, source_arn), True
            if there.get("lifecycle_stage") == "deleted":
                detail = f"experiment {name!r} of {spec.destination} is deleted"
                remedy = "Restore it there, or name another one."
                fail(ProblemCode.CONFLICT, detail, remedy, field="/destination_experiment")
        if source_arn == spec.destination and found["experiment_id"] == there["experiment_id"]:
            detail = "source and destination are the same experiment of the same server"
            fail(ProblemCode.INVALID, detail, "Name another destination.", field="/destination")
        return PreparedSync(
            source_arn=source_arn,
            source_experiment_id=found["experiment_id"],
            destination_experiment_id=there["experiment_id"],
            changed=made,
        )

    @staticmethod
    def _make(destination: Tracking, name: str, source_arn: str) -> dict[str, Any]:
        try:
            tags = [{"key": f"{TAG_PREFIX}source_server", "value": source_arn}]
            destination.post("experiments/create", name=name, tags=tags)
        except ApplicationError as error:
            if not refused_with(error, EXISTS):
                raise
        there = destination.experiment_named(name)
        if there is None:
            detail = f"experiment {name!r}, which was just made, is not found"
            fail(ProblemCode.PROPAGATION, detail, "The platform looks again.", retry=True)
        return there

    def destination(self, spec: SyncExperimentsSpec) -> Tracking:
        """The other end, as whoever may write there. Nothing is asked yet."""
        region = spec.destination.split(":")[3]
        role = spec.role_arn
        credentials = None if role is None else TakenRole(self._aws, region, role, spec.external_id)
        return Tracking.of(self._aws, spec.destination, credentials)

    @activity.defn(name=SYNC_EXPERIMENTS.name)
    async def sync(self, request: CarrySync) -> ExperimentsSynced:
        """Every run of the source as it is now. Raises CONFLICT where somebody has changed a copy."""
        prepared, begun = request.prepared, time.monotonic()
        with (
            Tracking.of(self._aws, prepared.source_arn) as source,
            self.destination(request.spec) as destination,
        ):
            copier = Copier(source, destination, prepared.destination_experiment_id)
            waiting: list[dict[str, Any]] | None = None
            done = 0

            def look(memory: Memory) -> Seen[ExperimentsSynced]:
                nonlocal waiting, done
                if waiting is None:
                    copier.learn()
                    found = source.runs(
                        [prepared.source_experiment_id],
                        max_results=200,
                        run_view_type="ACTIVE_ONLY",
                        order_by=["attributes.start_time ASC"],
                    )
                    waiting = copier.going(found)
                notes = memory.notes
                if done < len(waiting):
                    copied = copier.copy(waiting[done], activity.is_worker_shutdown)
                    _count(notes, copied.created, copied.changed, copied.metrics)
                    if copied.finished:
                        done += 1
                detail = f"{done} of {len(waiting)} runs, {number_of(notes.get('metrics', 0), 'point')} written"
                if done < len(waiting):
                    return Seen(detail)
                created, updated = notes.get("created", 0), notes.get("updated", 0)
                result = ExperimentsSynced(
                    runs=len(waiting),
                    created=created,
                    updated=updated,
                    unchanged=max(len(waiting) - created - updated, 0),
                    metrics=notes.get("metrics", 0),
                    seconds=round(time.monotonic() - begun, 1),
                )
                return Seen(detail, result)

            return await wait_until(
                look, what="the copy of the experiment", limit=SYNC_EXPERIMENTS.limit, poll_seconds=PAUSE
            )


def _count(notes: dict[str, Any], created: bool, changed: bool, metrics: int) -> None:
    notes["metrics"] = notes.get("metrics", 0) + metrics
    if created:
        notes["created"] = notes.get("created", 0) + 1
    elif changed:
        notes["updated"] = notes.get("updated", 0) + 1
