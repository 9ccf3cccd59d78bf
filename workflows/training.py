"""run-training: the job of a training run, from its submission to its end.

The operation lives as long as the job, and takes no lease: its workflow ID is the run's own. What people do to the job
meanwhile (stop, suspend, resume) are operations of their own, which tell this one by a signal.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from contracts.activity import Act
from contracts.catalogue import RUN_TRAINING
from contracts.decision import Abort
from contracts.experiments import ENSURE_EXPERIMENT_ACCESS, ConnectExperiments, ExperimentsConnected
from contracts.logs import KEEP_LOGS, LOGS_FOLDER, KeepLogs, LogsKept, OwnerRef
from contracts.names import LABEL_TRAINING, training_run_prefix
from contracts.operation import Outcome, StageState, Start
from contracts.plans import PlanFindings
from contracts.problem import ProblemCode, problem
from contracts.queues import task_queue
from contracts.sizes import size_text
from contracts.training import TrainingSpec
from contracts.training_activities import (
    DELETE_TRAINING_JOB,
    RECORD_TRAINING,
    SUBMIT_TRAINING,
    WATCH_TRAINING,
    RecordTraining,
    StopTraining,
    SubmittedTraining,
    SubmitTraining,
    Told,
    TrainingEnd,
    WatchTraining,
)
from contracts.training_parts import Submission, TrainingState, remark_on, reported_text
from contracts.words import number_of
from workflows.engine import Operation, Skipped, StagePlan, StageRun, together
from workflows.engine.failures import Aborted, problem_of, refusal
from workflows.parts import control_plane_of
from workflows.plans import check, checks, checks_stage

FIXED = ("name", "namespace", "submission", "experiment", "keep_logs")
"""Members of the specification that other stages have used when the job is submitted."""
JOB = tuple(name for name in TrainingSpec.model_fields if name not in FIXED)
"""Those that another attempt at the job may have otherwise."""
AFTERWARDS = timedelta(minutes=2)
"""How long an operation that ends early waits for each thing that is left to do."""
CONFIRMATION = timedelta(minutes=2)
"""How long a run whose job is gone waits for the word of who has begun to stop it: it may have been terminated."""
LOGS = StagePlan("logs", "Logs kept", skippable=True)
EXPERIMENT = StagePlan("experiment", "Access to the tracking server")


@workflow.defn(name=RUN_TRAINING.name)
class RunTraining(Operation[TrainingSpec]):
    kind = RUN_TRAINING
    stages = (
        checks(*JOB),
        EXPERIMENT,
        StagePlan("submitted", "Job submitted", inputs=JOB),
        StagePlan("run", "Run", inputs=JOB),
        LOGS,
        StagePlan("record", "Record written", skippable=True),
    )

    @classmethod
    def planned_stages(cls, spec: TrainingSpec) -> tuple[StagePlan, ...]:
        reports = spec.experiment is not None and spec.experiment.tracking_server is not None
        # SageMaker keeps the logs of its jobs itself.
        keeps = spec.keep_logs and spec.path is not Submission.SAGEMAKER
        return tuple(plan for plan in cls.stages if (plan is not EXPERIMENT or reports) and (plan is not LOGS or keeps))

    @workflow.init
    def __init__(self, start: Start[TrainingSpec]) -> None:
        super().__init__(start)
        self._eks_cluster = ""
        self._bucket: str | None = None
        self._findings: PlanFindings | None = None
        self._connected: ExperimentsConnected | None = None
        self._submitted: SubmittedTraining | None = None
        self._since: datetime = workflow.now()
        self._ends: list[TrainingEnd] = []
        """How each attempt at the job ended."""
        self._told: list[Told] = []
        self._stopped: Told | None = None
        """The stop that ended the run."""
        self._ahead: set[str] = set()
        """Stops that were begun while no job was watched: theirs may have looked for one before there was any."""
        self._watching = False
        self._followed = 0
        """Attempts whose logs are to be kept."""
        self._over = False
        self._early: str | None = None
        """Why the run ended before its job did well, or was to be submitted anew."""
        self._kept: LogsKept | None = None

    @workflow.run
    async def run(self, start: Start[TrainingSpec]) -> Outcome:
        return await self.carry_out()

    @workflow.signal(name="told")
    def on_told(self, told: Told) -> None:
        """Somebody stops, suspends or resumes the job, has done so, or has given it up. A run whose job is watched ends
        when that is gone; else it ends as soon as a stop is done, and goes on if that is refused."""
        self._told = [
            each
            for each in self._told
            if each.standing == "done" or (each.operation, each.action) != (told.operation, told.action)
        ]
        if told.standing == "withdrawn":
            self._ahead.discard(told.operation)
            if self._watching:
                self.progress.change("run", detail=None)
            return
        self._told.append(told)
        if self._watching:
            self.progress.change("run", detail=told.text)
        if told.action != "stop":
            return
        if told.standing == "begun":
            if not self._watching:
                self._ahead.add(told.operation)
            return
        did_well = bool(self._ends) and self._ends[-1].state is TrainingState.SUCCEEDED
        if (not self._watching or told.operation in self._ahead) and self._abort is None and not did_well:
            self._stopped = told
            self._abort = Abort(by=told.by, reason=told.reason or "")

    def check_aborted(self) -> None:
        if self._abort is not None and self._early is not None:
            raise Aborted(self._early)
        if self._abort is not None and self._stopped is not None:
            raise Aborted(self._stopped.text)
        super().check_aborted()

    async def runbook(self) -> dict[str, Any]:
        self._eks_cluster = control_plane_of(self).name
        self._bucket = self.record.identity.bucket if self.record.identity is not None else None
        self._findings = await checks_stage(self)
        if any(plan is EXPERIMENT for plan in self.plans):
            self._connected = await self.stage(EXPERIMENT.name, self._connect)
        try:
            await self.stage("submitted", lambda run: self._submit(run, 1))
            await together(self._run_stage(), *([self._logs_stage()] if LOGS in self.plans else []))
        except (Aborted, asyncio.CancelledError) as ended:
            await asyncio.shield(self._leave(str(ended) or "cancelled in Temporal"))
            raise
        end = self._ends[-1]
        try:
            await self.stage("record", lambda run: self._write(run, end.state, end.detail))
        except Skipped:
            workflow.logger.warning("the record of a run was skipped")
        return self._result(self._ends[-1])

    async def _connect(self, run: StageRun) -> ExperimentsConnected:
        target = self.spec.experiment
        server = target.tracking_server if target is not None else None
        if server is None:
            raise refusal(problem(ProblemCode.INVALID, "the run names no tracking server"))
        request = ConnectExperiments(
            scope=self.scope,
            eks_cluster=self._eks_cluster,
            namespace=self.spec.namespace,
            tracking_server=server,
        )
        connected = await run.act(ENSURE_EXPERIMENT_ACCESS, request)
        run.detail(f"pods report as {connected.service_account}")
        return connected

    async def _submit(self, run: StageRun, attempt: int) -> SubmittedTraining:
        """The job as it is specified now. Another attempt is another job."""
        facts = self._findings.draft.facts if self._findings is not None else {}
        efa, account = facts.get("efa"), facts.get("tiered_account")
        request = SubmitTraining(
            scope=self.scope,
            eks_cluster=self._eks_cluster,
            spec=self.spec,
            run=f"{workflow.info().run_id}/{attempt}",
            efa=efa if isinstance(efa, int) else 0,
            experiment=self._connected,
            tiered_account=account if isinstance(account, str) else None,
        )
        self._since = workflow.now()
        self._submitted = submitted = await run.act(SUBMIT_TRAINING, request, key=str(attempt))
        run.detail(f"{submitted.submission.value} job {submitted.namespace}/{submitted.name}")
        return submitted

    async def _run_stage(self) -> TrainingEnd:
        try:
            return await self.stage("run", self._watch)
        except Aborted as ended:
            self._early = str(ended)
            gone = bool(self._ends) and self._ends[-1].cluster_gone
            if self._abort is None and (gone or self._logs_blocked()):
                # Nobody is to be asked about the logs of what is gone.
                self._abort = Abort(by=self.start.origin.by, reason=self._early)
            raise
        finally:
            self._over = True

    def _logs_blocked(self) -> bool:
        stage = self.progress.stages.get(LOGS.name)
        return stage is not None and stage.state is StageState.BLOCKED

    async def _watch(self, run: StageRun) -> TrainingEnd:
        """Watch the job to its end. A failed one blocks; another attempt submits it anew, with what was corrected."""
        attempt = self.progress.stages["run"].attempt
        if attempt > 1:
            self._findings = await check(run, self)
            await self._submit(run, attempt)
        self._followed = attempt
        end = await self._to_its_end(run)
        self._ends.append(end)
        if end.state is TrainingState.SUCCEEDED:
            run.detail(_ended_well(end))
            return end
        if end.cluster_gone:
            raise Aborted(end.detail)
        if (stopped := await self._stopped_by(end)) is not None:
            self._stopped = stopped
            raise Aborted(stopped.text)
        await self._write_while_blocked(run, attempt, end)
        if end.problem is not None:
            raise refusal(end.problem)
        remedy = "Retry to submit it anew, with corrections if need be, or abort."
        said = f"{end.detail} by somebody else"
        raise refusal(problem(ProblemCode.NOT_FOUND, said, remedy=remedy, retryable=True))

    async def _to_its_end(self, run: StageRun) -> TrainingEnd:
        submitted = self._submitted
        if submitted is None:
            raise refusal(problem(ProblemCode.NOT_READY, "no job was submitted", remedy="Retry."))
        spec = self.spec
        self._watching = True
        try:
            return await run.wait(
                WATCH_TRAINING,
                WatchTraining(
                    scope=self.scope,
                    eks_cluster=self._eks_cluster,
                    name=spec.name,
                    namespace=spec.namespace,
                    submission=submitted.submission,
                    uid=submitted.uid,
                    recipe=spec.recipe.kind,
                    nodes=spec.nodes,
                    instance_type=spec.instance_type,
                    gpus=spec.nodes * spec.gpus_per_node,
                    recovery=spec.recovery,
                    since=self._since,
                    planned_steps=spec.recipe.planned_steps,
                ),
            )
        finally:
            self._watching = False

    async def _logs_stage(self) -> None:
        try:
            await self.stage(LOGS.name, self._keep)
        except Skipped:
            workflow.logger.warning("keeping the logs of a run was skipped")

    async def _keep(self, run: StageRun) -> None:
        """Keep what the pods of every attempt print, for as long as there may be another."""
        if self._bucket is None:
            run.observed = True
            run.detail("the cluster has no bucket to keep them in")
            return
        done = 0
        while await self._another(done):
            done = self._followed
            try:
                kept = await run.wait(KEEP_LOGS, self._what_to_keep(self._bucket), key=str(done))
            except ActivityError as error:
                if self._early is None:
                    raise
                run.detail(f"as far as they were read: {problem_of(error).detail}")
                return
            self._kept = kept
            gaps = f", {number_of(kept.gaps, 'gap')}" if kept.gaps else ""
            lines = f"{number_of(kept.lines, 'line')} of {number_of(kept.pods, 'pod')}"
            run.detail(f"{lines}, {size_text(kept.size)} in {kept.prefix}{gaps}")
            # Whether there is another attempt may be long in coming.
            self.progress.flush()

    async def _another(self, done: int) -> bool:
        """Wait for another attempt than the first ``done``. False: there will be none."""
        await workflow.wait_condition(lambda: self._followed > done or self._over or self.ending)
        self.check_aborted()
        return self._followed > done

    def _what_to_keep(self, bucket: str) -> KeepLogs:
        submitted, spec = self._submitted, self.spec
        return KeepLogs(
            scope=self.scope,
            eks_cluster=self._eks_cluster,
            namespace=spec.namespace,
            selector={LABEL_TRAINING: spec.name},
            owner=OwnerRef(
                api_version=submitted.api_version if submitted is not None else "",
                plural=submitted.plural if submitted is not None else "",
                name=spec.name,
            ),
            prefix=training_run_prefix(spec.namespace, spec.name, workflow.info().run_id),
            bucket=bucket,
        )

    async def _stopped_by(self, end: TrainingEnd) -> Told | None:
        """The stop that ended the job. One that was begun is not believed before its operation says that it is done:
        it may be refused, given up or terminated, and somebody else may have deleted the job."""
        if end.state is TrainingState.STOPPED and self._stop("begun") is not None:
            try:
                await workflow.wait_condition(
                    lambda: self._stop("begun") is None or self.ending,
                    timeout=CONFIRMATION,
                    timeout_summary="the word of who stops the run",
                )
            except TimeoutError:
                workflow.logger.warning("who has begun to stop a run does not say what came of it")
            self.check_aborted()
        return self._stop("done")

    def _stop(self, standing: str) -> Told | None:
        return next((told for told in self._told if (told.action, told.standing) == ("stop", standing)), None)

    def _what_to_record(self, state: TrainingState, detail: str) -> RecordTraining | None:
        if self._bucket is None:
            return None
        info = workflow.info()
        return RecordTraining(
            scope=self.scope,
            eks_cluster=self._eks_cluster,
            name=self.spec.name,
            namespace=self.spec.namespace,
            bucket=self._bucket,
            run=info.run_id,
            operation=info.workflow_id,
            spec=self.spec,
            attempts=self._ends[-20:],
            told=[told for told in self._told if told.standing == "done" or told is self._stopped][-50:],
            state=state,
            detail=detail,
            started_at=info.start_time,
            logs=f"{self._kept.prefix}{LOGS_FOLDER}" if self._kept is not None else None,
        )

    async def _write(self, run: StageRun, state: TrainingState, detail: str) -> None:
        request = self._what_to_record(state, detail)
        if request is None:
            run.observed = True
            run.detail("the cluster has no bucket to write it to")
            return
        recorded = await run.act(RECORD_TRAINING, request)
        if recorded.reported is not None:
            # Its kept log says more than was heard before its pods went.
            self._ends[-1] = end = self._ends[-1].model_copy(update={"reported": recorded.reported})
            self.progress.change("run", detail=_ended_well(end))
        run.detail(recorded.key)

    async def _write_while_blocked(self, run: StageRun, attempt: int, end: TrainingEnd) -> None:
        """The failure is written down before anybody is asked what to do: nobody may ever answer."""
        request = self._what_to_record(end.state, end.detail)
        if request is None:
            return
        try:
            await run.act(RECORD_TRAINING, request, key=f"attempt-{attempt}")
        except ActivityError:
            self.check_cancelled()
            workflow.logger.warning("the failure of a run was not written down yet")

    async def _leave(self, why: str) -> None:
        """What is left to do for an operation that ends early. Who aborts it leaves the job as it is; who has stopped
        the job wants none, also where it was being submitted just then. The bucket of the record may well outlive the
        cluster."""
        last = self._ends[-1] if self._ends else None
        if self._stopped is not None and not (last is not None and last.cluster_gone):
            spec = self.spec
            stop = StopTraining(
                scope=self.scope, eks_cluster=self._eks_cluster, name=spec.name, namespace=spec.namespace
            )
            await self._at_the_end(DELETE_TRAINING_JOB, stop)
        state = TrainingState.STOPPED if last is None or last.state is not TrainingState.FAILED else last.state
        request = self._what_to_record(state, why)
        if request is not None and self._submitted is not None:
            await self._at_the_end(RECORD_TRAINING, request)

    async def _at_the_end(self, act: Act[Any, Any], request: Any) -> None:
        """Have an effect although the operation has ended, as far as that is possible."""
        try:
            await workflow.execute_activity(
                act.name,
                request,
                activity_id=f"end/{act.name}",
                task_queue=task_queue(act.queue, self.start.region),
                result_type=act.output,
                start_to_close_timeout=AFTERWARDS,
                schedule_to_close_timeout=AFTERWARDS,
                retry_policy=RetryPolicy(maximum_interval=timedelta(seconds=20)),
            )
        except Exception:
            workflow.logger.warning("%s was not done at the end of a run", act.name)

    def _result(self, end: TrainingEnd) -> dict[str, Any]:
        return {
            "training_run": self.spec.target,
            "state": end.state.value,
            "detail": end.detail,
            "attempts": len(self._ends),
            "restarts": end.restarts.model_dump(mode="json", exclude_none=True),
            "reported": end.reported.model_dump(mode="json", exclude_none=True),
            "remark": remark_on(end.state, end.reported),
            "last_checkpoint": end.last_checkpoint.isoformat() if end.last_checkpoint is not None else None,
            "logs": self._kept.model_dump(mode="json") if self._kept is not None else None,
        }


def _ended_well(end: TrainingEnd) -> str:
    told = reported_text(end.reported)
    return ", ".join(filter(None, ("ended well", told, end.restarts.text if end.restarts.job else None)))
