"""Training runs: what their operations promise, with an account whose jobs end as they are told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.testing import ActivityEnvironment

from activities.cluster import ClusterActivities
from contracts import logs, queues, training
from contracts import training_activities as acts
from contracts.catalogue import (
    RESUME_TRAINING,
    RUN_TRAINING,
    STOP_TRAINING,
    SUSPEND_TRAINING,
    OperationKind,
)
from contracts.decision import Abort, Approval, Resolution, Supersede
from contracts.eks import ControlPlane
from contracts.experiments import ENSURE_EXPERIMENT_ACCESS, ExperimentsConnected
from contracts.identity import Identity
from contracts.names import operation_id
from contracts.operation import Origin, Outcome, Phase, StageState, Start
from contracts.plans import MAKE_PLAN, PlanDraft, PlanFindings
from contracts.problem import ProblemCode, problem
from contracts.recipes.progress import Reported
from contracts.teardown import EndWaiting
from contracts.training_parts import Restarts, Submission, TrainingState
from contracts.visibility import CLUSTER, KIND
from tests.workflows.conftest import progress, until
from tests.workflows.fakes import REGION, FakeAccount

pytestmark = pytest.mark.real_server
"""A run watches its job and keeps its logs side by side, while people speak to it."""

SPEC: dict[str, Any] = {
    "name": "demo",
    "recipe": {"kind": "pytorch", "script_path": "/s3/code/train.py"},
    "instance_types": ["ml.g5.12xlarge"],
    "gpus_per_node": 4,
    "nodes": 2,
    "image": "registry/trainer:1.0",
}
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def ended(state: TrainingState = TrainingState.SUCCEEDED, **more: Any) -> acts.TrainingEnd:
    given: dict[str, Any] = {"state": state, "detail": "it has ended", "restarts": Restarts(job=1, job_limit=5)}
    return acts.TrainingEnd(**{**given, **more})


FAILED = ended(
    TrainingState.FAILED,
    detail="a GPU had too little memory",
    problem=problem(ProblemCode.CAPACITY, "a GPU had too little memory", remedy="…", field="/recipe"),
)


class Jobs:
    """What happens to the jobs that are watched: each ends when it is told to, and how."""

    def __init__(self) -> None:
        self._ends: list[acts.TrainingEnd] = []
        self.ended = asyncio.Event()
        self.submitted: list[acts.SubmitTraining] = []
        self.kept = asyncio.Event()
        self.kept.set()

    def end(self, end: acts.TrainingEnd) -> None:
        self._ends.append(end)
        self.ended.set()

    def submit(self, request: acts.SubmitTraining) -> acts.SubmittedTraining:
        self.submitted.append(request)
        return acts.SubmittedTraining(
            name=request.spec.name,
            namespace=request.spec.namespace,
            submission=Submission.HYPERPOD,
            uid=f"uid-{len(self.submitted)}",
            api_version="sagemaker.amazonaws.com/v1",
            plural="hyperpodpytorchjobs",
        )

    def watch(self, request: acts.WatchTraining) -> acts.TrainingEnd:
        end = self._ends.pop(0)
        if not self._ends:
            self.ended.clear()
        return end

    def keep(self, request: logs.KeepLogs) -> logs.LogsKept:
        return logs.LogsKept(prefix=request.prefix, pods=2, lines=100, size=2048)


@pytest.fixture
def jobs(account: FakeAccount) -> Jobs:
    found = Jobs()
    account.record = {
        "control_plane": ControlPlane(name="eks", arn="arn:eks", status="ACTIVE", kubernetes_version="1.34"),
        "identity": Identity(
            account="1", platform_principal_arn="p", cluster_role_arn="c", execution_role_arn="e", bucket="bucket"
        ),
    }

    def stopped(request: Any) -> acts.TrainingStopped:
        return acts.TrainingStopped(
            name=request.name,
            namespace=request.namespace,
            submission=Submission.HYPERPOD,
            uid="uid-1",
            was="running",
        )

    account.hold |= {acts.WATCH_TRAINING.name: found.ended, logs.KEEP_LOGS.name: found.kept}
    account.answers |= {
        MAKE_PLAN.name: lambda _: PlanFindings(draft=PlanDraft(facts={"efa": 1})),
        acts.SUBMIT_TRAINING.name: found.submit,
        acts.WATCH_TRAINING.name: found.watch,
        logs.KEEP_LOGS.name: found.keep,
        acts.RECORD_TRAINING.name: lambda a: acts.TrainingRecorded(key=f"training/{a.name}/run.json"),
        acts.DELETE_TRAINING_JOB.name: stopped,
        acts.SET_SUSPENDED.name: stopped,
        acts.WAIT_FOR_TRAINING.name: lambda a: acts.TrainingSettled(
            name=a.name, namespace=a.namespace, detail=a.wanted
        ),
        ENSURE_EXPERIMENT_ACCESS.name: lambda a: ExperimentsConnected(
            service_account=a.service_account, role_arn="arn:role", tracking_uri="arn:server", region=REGION
        ),
    }
    return found


async def start(
    client: Client,
    kind: OperationKind[Any],
    spec: dict[str, Any],
    needs_approval: bool = False,
    plan_facts: str | None = None,
) -> WorkflowHandle[Any, Any]:
    wanted = kind.spec.model_validate(spec)
    return await client.start_workflow(
        kind.name,
        Start[kind.spec](  # type: ignore[name-defined]
            cluster="demo",
            region=REGION,
            spec=wanted,
            origin=Origin(by="alice", role="operator", request_id="r-1"),
            needs_approval=needs_approval,
            plan_facts=plan_facts,
        ),
        id=operation_id(kind.name, "demo", kind.target(wanted)),
        task_queue=queues.WORKFLOWS,
    )


async def outcome(handle: WorkflowHandle[Any, Any]) -> Outcome:
    return Outcome.model_validate(await handle.result())


def asked(account: FakeAccount, signature: Any) -> list[Any]:
    return [argument for name, argument in account.arguments if name == signature.name]


async def states(handle: WorkflowHandle[Any, Any]) -> dict[str, StageState]:
    return {stage.name: stage.state for stage in (await progress(handle)).stages}


async def watched(handle: WorkflowHandle[Any, Any], account: FakeAccount, times: int = 1) -> None:
    """Wait until the job is being watched."""
    async with asyncio.timeout(20):
        while account.calls[acts.WATCH_TRAINING.name] < times:
            await asyncio.sleep(0.02)


async def test_a_run_is_submitted_watched_and_written_down(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    jobs.end(ended(reported=Reported(step=100, loss=1.2)))
    handle = await start(client, RUN_TRAINING, SPEC)
    done = await outcome(handle)
    assert done.phase is Phase.SUCCEEDED
    assert done.result["state"] == "succeeded"
    assert done.result["reported"] == {"step": 100, "loss": 1.2}
    (submitted,) = jobs.submitted
    assert (submitted.efa, submitted.experiment) == (1, None)
    run = submitted.run.partition("/")[0]
    (kept,) = asked(account, logs.KEEP_LOGS)
    assert (kept.prefix, kept.bucket) == (f"training/default/demo/{run}", "bucket")
    assert kept.selector == {"instantstart.dev/training": "demo"}
    assert kept.owner.plural == "hyperpodpytorchjobs"
    (record,) = asked(account, acts.RECORD_TRAINING)
    assert (record.state, record.run, len(record.attempts)) == (TrainingState.SUCCEEDED, run, 1)
    assert record.logs == f"training/default/demo/{run}/logs/"
    assert set((await states(handle)).values()) == {StageState.DONE}
    assert "experiment" not in await states(handle)


async def test_what_the_kept_log_says_at_last_is_what_the_operation_tells(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    jobs.end(ended(reported=Reported(step=52, total_steps=6000)))
    heard = Reported(step=57, total_steps=6000, every=1)
    account.answers[acts.RECORD_TRAINING.name] = lambda a: acts.TrainingRecorded(key="run.json", reported=heard)
    handle = await start(client, RUN_TRAINING, SPEC)
    done = await outcome(handle)
    assert done.phase is Phase.SUCCEEDED
    assert done.result["reported"]["step"] == 57
    assert "57 of 6,000" in done.result["remark"]
    (run,) = (stage for stage in (await progress(handle)).stages if stage.name == "run")
    assert run.detail == "ended well, step 57 of 6000, restarts 1 of 5"


async def test_a_failed_job_blocks_with_its_cause_and_goes_on_with_what_was_corrected(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    jobs.end(FAILED)
    handle = await start(client, RUN_TRAINING, SPEC)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert (blocked.problem.code, blocked.problem.field) == (ProblemCode.CAPACITY, "/recipe")
    (early,) = asked(account, acts.RECORD_TRAINING)
    assert early.state is TrainingState.FAILED
    jobs.end(ended())
    corrections = {"nodes": 4, "env": {"BATCH": "1"}}
    await handle.execute_update(
        "resolve", Resolution(action="retry", stage="run", attempt=1, corrections=corrections, by="alice")
    )
    done = await outcome(handle)
    assert done.phase is Phase.SUCCEEDED
    assert done.result["attempts"] == 2
    first, second = jobs.submitted
    assert (first.spec.nodes, second.spec.nodes, second.spec.env) == (2, 4, {"BATCH": "1"})
    assert [each.run.partition("/")[2] for each in jobs.submitted] == ["1", "2"]
    assert [each.uid for each in asked(account, acts.WATCH_TRAINING)] == ["uid-1", "uid-2"]
    assert len(asked(account, MAKE_PLAN)) == 2
    assert len(asked(account, logs.KEEP_LOGS)) == 2
    assert [len(each.attempts) for each in asked(account, acts.RECORD_TRAINING)] == [1, 2]


async def test_what_the_run_was_begun_with_cannot_be_corrected(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    jobs.end(FAILED)
    handle = await start(client, RUN_TRAINING, SPEC)
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    for corrections in ({"keep_logs": False}, {"name": "other"}):
        retry = Resolution(action="retry", stage="run", attempt=1, corrections=corrections, by="alice")
        with pytest.raises(Exception, match="Workflow update failed"):
            await handle.execute_update("resolve", retry)


async def test_who_gives_up_a_failed_run_leaves_it_written_down(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    jobs.end(FAILED)
    handle = await start(client, RUN_TRAINING, SPEC)
    await until(handle, lambda found: found.phase is Phase.BLOCKED)
    await handle.execute_update("abort", Abort(by="alice", reason="not worth it"))
    done = await outcome(handle)
    assert done.phase is Phase.ABORTED
    last = asked(account, acts.RECORD_TRAINING)[-1]
    assert last.state is TrainingState.FAILED
    assert "not worth it" in last.detail
    assert not asked(account, acts.DELETE_TRAINING_JOB)


async def test_stopping_ends_the_run_and_says_who_and_why(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    run = await start(client, RUN_TRAINING, SPEC)
    await watched(run, account)
    jobs.kept.clear()
    stop = await start(client, STOP_TRAINING, {"name": "demo", "reason": "loss diverges"})
    assert (await outcome(stop)).phase is Phase.SUCCEEDED
    jobs.end(ended(TrainingState.STOPPED, detail="the job default/demo was deleted"))
    jobs.kept.set()
    done = await outcome(run)
    assert done.phase is Phase.ABORTED
    assert (await progress(run)).detail == "stopped by alice: loss diverges"
    record = asked(account, acts.RECORD_TRAINING)[-1]
    assert record.state is TrainingState.STOPPED
    assert record.told[0].reason == "loss diverges"
    assert (await states(run))["logs"] is StageState.DONE


async def test_stopping_ends_a_run_that_waits_for_an_answer(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    jobs.end(FAILED)
    run = await start(client, RUN_TRAINING, SPEC)
    await until(run, lambda found: found.phase is Phase.BLOCKED)
    stop = await start(client, STOP_TRAINING, {"name": "demo"})
    assert (await outcome(stop)).phase is Phase.SUCCEEDED
    assert (await outcome(run)).phase is Phase.ABORTED
    assert (await progress(run)).detail == "stopped by alice"


async def given_up_stop(client: Client, account: FakeAccount) -> None:
    """A stop whose effect is refused, and that somebody then ends."""
    account.fail(acts.DELETE_TRAINING_JOB, ProblemCode.DENIED)
    stop = await start(client, STOP_TRAINING, {"name": "demo"})
    await until(stop, lambda found: found.phase is Phase.BLOCKED)
    await stop.execute_update("abort", Abort(by="alice"))
    assert (await outcome(stop)).phase is Phase.ABORTED


async def test_a_stop_that_was_withdrawn_is_forgotten(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    run = await start(client, RUN_TRAINING, SPEC)
    await watched(run, account)
    await given_up_stop(client, account)
    before = len(asked(account, acts.DELETE_TRAINING_JOB))
    await run.execute_update("abort", Abort(by="bob", reason="enough"))
    assert (await outcome(run)).phase is Phase.ABORTED
    assert (await progress(run)).detail == "aborted by bob: enough"
    assert len(asked(account, acts.DELETE_TRAINING_JOB)) == before
    assert asked(account, acts.RECORD_TRAINING)[-1].told == []


async def test_a_run_that_waits_for_an_answer_outlives_a_stop_that_was_refused_and_given_up(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    jobs.end(FAILED)
    run = await start(client, RUN_TRAINING, SPEC)
    await until(run, lambda found: found.phase is Phase.BLOCKED)
    await given_up_stop(client, account)
    before = len(asked(account, acts.DELETE_TRAINING_JOB))
    jobs.end(ended())
    await run.execute_update("resolve", Resolution(action="retry", stage="run", attempt=1, by="bob"))
    assert (await outcome(run)).phase is Phase.SUCCEEDED
    assert len(asked(account, acts.DELETE_TRAINING_JOB)) == before
    assert asked(account, acts.RECORD_TRAINING)[-1].told == []


async def test_a_stop_that_found_no_job_ends_the_one_that_was_submitted_meanwhile(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    jobs.end(FAILED)
    run = await start(client, RUN_TRAINING, SPEC)
    await until(run, lambda found: found.phase is Phase.BLOCKED)
    account.answers[acts.DELETE_TRAINING_JOB.name] = lambda a: acts.TrainingStopped(
        name=a.name, namespace=a.namespace, changed=False
    )
    deletes = account.hold[acts.DELETE_TRAINING_JOB.name] = asyncio.Event()
    stop = await start(client, STOP_TRAINING, {"name": "demo"})
    async with asyncio.timeout(20):
        while not account.calls[acts.DELETE_TRAINING_JOB.name]:
            await asyncio.sleep(0.02)
    await run.execute_update("resolve", Resolution(action="retry", stage="run", attempt=1, by="bob"))
    async with asyncio.timeout(20):
        while account.calls[acts.WATCH_TRAINING.name] < 2:
            await asyncio.sleep(0.02)
    deletes.set()
    assert (await outcome(stop)).phase is Phase.SUCCEEDED
    assert (await outcome(run)).phase is Phase.ABORTED
    assert (await progress(run)).detail == "stopped by alice"
    assert len(asked(account, acts.DELETE_TRAINING_JOB)) == 2


async def test_a_job_that_others_delete_while_a_stop_is_blocked_was_not_stopped_by_its_operator(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    run = await start(client, RUN_TRAINING, SPEC)
    await watched(run, account)
    account.fail(acts.DELETE_TRAINING_JOB, ProblemCode.DENIED)
    stop = await start(client, STOP_TRAINING, {"name": "demo"})
    await until(stop, lambda found: found.phase is Phase.BLOCKED)
    jobs.end(ended(TrainingState.STOPPED, detail="the job default/demo was deleted"))
    blocked = await until(run, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert "by somebody else" in blocked.problem.detail
    await stop.execute_update("resolve", Resolution(action="retry", stage="job", attempt=1, by="alice"))
    assert (await outcome(stop)).phase is Phase.SUCCEEDED
    assert (await outcome(run)).phase is Phase.ABORTED
    assert (await progress(run)).detail == "stopped by alice"


async def test_a_run_whose_job_is_gone_waits_for_the_word_of_who_stops_it(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    run = await start(client, RUN_TRAINING, SPEC)
    await watched(run, account)
    deletes = account.hold[acts.DELETE_TRAINING_JOB.name] = asyncio.Event()
    stop = await start(client, STOP_TRAINING, {"name": "demo"})
    async with asyncio.timeout(20):
        while not account.calls[acts.DELETE_TRAINING_JOB.name]:
            await asyncio.sleep(0.02)
    jobs.end(ended(TrainingState.STOPPED, detail="the job default/demo was deleted"))
    deletes.set()
    assert (await outcome(stop)).phase is Phase.SUCCEEDED
    assert (await outcome(run)).phase is Phase.ABORTED
    assert (await progress(run)).detail == "stopped by alice"


async def test_a_run_at_its_checks_is_stopped(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    account.fail(MAKE_PLAN, ProblemCode.CAPACITY)
    run = await start(client, RUN_TRAINING, SPEC)
    await until(run, lambda found: found.phase is Phase.BLOCKED)
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(facts={"job": None}))
    account.answers[acts.DELETE_TRAINING_JOB.name] = lambda a: acts.TrainingStopped(
        name=a.name, namespace=a.namespace, changed=False
    )
    stop = await start(client, STOP_TRAINING, {"name": "demo"})
    assert (await outcome(stop)).phase is Phase.SUCCEEDED
    assert (await outcome(run)).phase is Phase.ABORTED
    assert (await progress(run)).detail == "stopped by alice"
    assert not jobs.submitted


async def test_a_persons_stop_takes_the_place_of_one_that_waits_for_an_approval(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    stop = await start(client, STOP_TRAINING, {"name": "demo", "reason": "an agent's"}, needs_approval=True)
    await until(stop, lambda found: found.phase is Phase.WAITING_FOR_APPROVAL)
    wanted = STOP_TRAINING.spec.model_validate({"name": "demo", "reason": "a person's"})
    await stop.execute_update("supersede", Supersede(spec=wanted.model_dump(mode="json"), by="bob"))
    assert (await outcome(stop)).phase is Phase.SUCCEEDED
    assert asked(account, acts.DELETE_TRAINING_JOB)


async def test_stopping_what_never_was_blocks(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    account.answers[MAKE_PLAN.name] = lambda _: PlanFindings(draft=PlanDraft(facts={"job": None}))
    account.answers[acts.DELETE_TRAINING_JOB.name] = lambda a: acts.TrainingStopped(
        name=a.name, namespace=a.namespace, changed=False
    )
    stop = await start(client, STOP_TRAINING, {"name": "demo"})
    blocked = await until(stop, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.code is ProblemCode.NOT_FOUND


async def test_stopping_works_where_nobody_watches(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    stop = await start(client, STOP_TRAINING, {"name": "demo"})
    done = await outcome(stop)
    assert done.phase is Phase.SUCCEEDED
    assert done.result["was"] == "running"
    told = {stage.name: stage.detail or "" for stage in (await progress(stop)).stages}
    assert "no operation watched it" in told["job"]
    (waited,) = asked(account, acts.WAIT_FOR_TRAINING)
    assert (waited.wanted, waited.uid) == ("gone", "uid-1")


async def test_a_job_that_others_deleted_blocks_and_is_submitted_anew(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    jobs.end(ended(TrainingState.STOPPED, detail="the job default/demo was deleted"))
    handle = await start(client, RUN_TRAINING, SPEC)
    blocked = await until(handle, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.code is ProblemCode.NOT_FOUND
    assert "by somebody else" in blocked.problem.detail
    jobs.end(ended())
    await handle.execute_update("resolve", Resolution(action="retry", stage="run", attempt=1, by="alice"))
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert len(jobs.submitted) == 2


async def test_the_end_of_the_whole_cluster_ends_the_run_and_is_written_down(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    account.fail(logs.KEEP_LOGS, ProblemCode.NOT_FOUND)
    jobs.kept.clear()
    jobs.end(ended(TrainingState.STOPPED, detail="the EKS cluster eks is gone", cluster_gone=True))
    handle = await start(client, RUN_TRAINING, SPEC)
    await watched(handle, account)
    jobs.kept.set()
    assert (await outcome(handle)).phase is Phase.ABORTED
    assert "is gone" in ((await progress(handle)).detail or "")
    (record,) = asked(account, acts.RECORD_TRAINING)
    assert record.state is TrainingState.STOPPED
    assert "is gone" in record.detail
    assert not asked(account, acts.DELETE_TRAINING_JOB)


async def test_a_run_hears_of_its_suspension_and_goes_on(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    run = await start(client, RUN_TRAINING, SPEC)
    await watched(run, account)
    for kind, wanted in ((SUSPEND_TRAINING, "suspended"), (RESUME_TRAINING, "resumed")):
        done = await outcome(await start(client, kind, {"name": "demo", "reason": "night"}))
        assert done.phase is Phase.SUCCEEDED
        assert done.result["detail"] == wanted
    assert [each.suspended for each in asked(account, acts.SET_SUSPENDED)] == [True, False]
    jobs.end(ended())
    assert (await outcome(run)).phase is Phase.SUCCEEDED
    (record,) = asked(account, acts.RECORD_TRAINING)
    assert [each.action for each in record.told] == ["suspend", "resume"]


async def test_a_run_that_reports_to_a_tracking_server_gets_access_first(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    jobs.end(ended())
    experiment = {"tracking_server": "mlflow", "experiment": "tuning"}
    handle = await start(client, RUN_TRAINING, {**SPEC, "experiment": experiment})
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    (submitted,) = jobs.submitted
    assert submitted.experiment is not None
    assert submitted.experiment.tracking_uri == "arn:server"
    assert submitted.experiment_environment["MLFLOW_TRACKING_URI"] == "arn:server"
    assert (await states(handle))["experiment"] is StageState.DONE


async def test_a_run_without_kept_logs_has_no_such_stage(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    jobs.end(ended())
    handle = await start(client, RUN_TRAINING, {**SPEC, "keep_logs": False})
    assert (await outcome(handle)).phase is Phase.SUCCEEDED
    assert "logs" not in await states(handle)
    assert not asked(account, logs.KEEP_LOGS)


async def test_an_abort_leaves_the_job_where_it_is(client: Client, account: FakeAccount, jobs: Jobs) -> None:
    handle = await start(client, RUN_TRAINING, SPEC)
    await watched(handle, account)
    await handle.execute_update("abort", Abort(by="alice"))
    assert (await outcome(handle)).phase is Phase.ABORTED
    assert not asked(account, acts.DELETE_TRAINING_JOB)
    assert asked(account, acts.RECORD_TRAINING)[-1].state is TrainingState.STOPPED


async def test_a_run_ends_with_its_cluster_although_it_holds_no_lease(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    wanted = RUN_TRAINING.spec.model_validate(SPEC)
    attributes = {CLUSTER: "demo", KIND: RUN_TRAINING.name}
    handle = await client.start_workflow(
        RUN_TRAINING.name,
        Start[training.TrainingSpec](
            cluster="demo", region=REGION, spec=wanted, origin=Origin(by="alice", role="operator", request_id="r-1")
        ),
        id=operation_id(RUN_TRAINING.name, "demo", "demo"),
        task_queue=queues.WORKFLOWS,
        search_attributes=TypedSearchAttributes(
            [SearchAttributePair(SearchAttributeKey.for_keyword(name), at) for name, at in attributes.items()]
        ),
    )
    await watched(handle, account)
    environment, leases = ActivityEnvironment(client=client), ClusterActivities(client)
    wish = EndWaiting(cluster="demo", by="alice", reason="cluster demo is gone")
    async with asyncio.timeout(20):
        # What a list finds is a moment behind.
        while not (await environment.run(leases.end_waiting, wish)).operations:
            await asyncio.sleep(0.05)
    assert (await outcome(handle)).phase is Phase.ABORTED
    assert "cluster demo is gone" in ((await progress(handle)).detail or "")


async def test_a_persons_stop_with_the_same_reason_is_the_approval_that_an_agents_waits_for(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    stop = await start(client, STOP_TRAINING, {"name": "demo", "reason": "diverged"}, needs_approval=True)
    await until(stop, lambda found: found.phase is Phase.WAITING_FOR_APPROVAL)
    wanted = STOP_TRAINING.spec.model_validate({"name": "demo", "reason": "diverged"})
    await stop.execute_update("supersede", Supersede(spec=wanted.model_dump(mode="json"), by="bob"))
    assert (await outcome(stop)).phase is Phase.SUCCEEDED
    assert [(each.action, each.by) for each in (await progress(stop)).answers] == [("approve", "bob")]


async def test_a_stop_that_is_approved_when_another_job_has_the_name_asks_again(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    stop = await start(client, STOP_TRAINING, {"name": "demo"}, needs_approval=True, plan_facts="of another job")
    waiting = await until(stop, lambda found: found.phase is Phase.WAITING_FOR_APPROVAL)
    await stop.execute_update("approve", Approval(approved=True, plan_hash=waiting.plan_hash, by="bob"))
    blocked = await until(stop, lambda found: found.phase is Phase.BLOCKED)
    assert blocked.problem is not None
    assert blocked.problem.code is ProblemCode.STALE
    assert not asked(account, acts.DELETE_TRAINING_JOB)


async def test_a_person_who_asks_for_a_stop_means_the_job_that_runs(
    client: Client, account: FakeAccount, jobs: Jobs
) -> None:
    stop = await start(client, STOP_TRAINING, {"name": "demo"}, needs_approval=True, plan_facts="of another job")
    await until(stop, lambda found: found.phase is Phase.WAITING_FOR_APPROVAL)
    wanted = STOP_TRAINING.spec.model_validate({"name": "demo"})
    await stop.execute_update("supersede", Supersede(spec=wanted.model_dump(mode="json"), by="bob"))
    assert (await outcome(stop)).phase is Phase.SUCCEEDED
    assert asked(account, acts.DELETE_TRAINING_JOB)
