"""Training runs in the sandbox over real HTTP: submitted once, watched to their ends, stopped and written down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.logs.chunks import Chunks, Told
from activities.registry import Activities
from contracts.log_lines import Line, Position, StreamKey
from contracts.network import Scope
from contracts.problem import ProblemCode
from contracts.recipes.progress import Reported
from contracts.training import TrainingSpec
from contracts.training_activities import (
    DELETE_TRAINING_JOB,
    LIST_TRAINING,
    RECORD_TRAINING,
    SET_SUSPENDED,
    WAIT_FOR_TRAINING,
    ListTraining,
    RecordTraining,
    SetSuspended,
    StopTraining,
    TrainingEnd,
    TrainingStopped,
    WaitForTraining,
)
from contracts.training_parts import TrainingState, Waiting
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.training_world import TrainingSite, blockers, spec_of
from tests.activities.world import World, until

LONG = 100_000
"""Steps of a run that goes on until somebody ends it."""


@pytest.fixture(scope="module")
def site(sandbox: Sandbox, activities: Activities) -> TrainingSite:
    sandbox.fault()
    scope = Scope(cluster="training", region=REGION, created_by="tests", request_id="req-1")
    made = TrainingSite(World(Runner(activities, "run-training/training/demo"), scope), activities, sandbox)
    made.install_operator()
    made.claim()
    return made


def settle(site: TrainingSite, stopped: TrainingStopped, wanted: Any) -> str:
    assert stopped.submission is not None
    asked = WaitForTraining(
        **site.place,
        name=stopped.name,
        namespace=stopped.namespace,
        uid=stopped.uid,
        submission=stopped.submission,
        wanted=wanted,
    )
    return site.run(WAIT_FOR_TRAINING, asked).detail


def stop(site: TrainingSite, name: str) -> TrainingStopped:
    stopped = site.run(DELETE_TRAINING_JOB, StopTraining(**site.place, name=name, namespace="default"))
    if stopped.submission is not None:
        settle(site, stopped, "gone")
    return stopped


def suspend(site: TrainingSite, name: str, suspended: bool = True) -> TrainingStopped:
    asked = SetSuspended(
        **site.place, name=name, namespace="default", suspended=suspended, by="ada", reason="makes room"
    )
    return site.run(SET_SUSPENDED, asked)


def running(site: TrainingSite, spec: TrainingSpec) -> None:
    until(lambda: site.read(spec.name).run.state is TrainingState.RUNNING)


def test_a_run_ends_well_and_what_its_log_reported_is_kept(site: TrainingSite) -> None:
    spec = spec_of("good-end", steps=300)
    job = site.submit(spec)
    end = site.watch(spec, job)
    assert (end.state, end.problem) == (TrainingState.SUCCEEDED, None)
    assert [each.state for each in end.history][-1] is TrainingState.SUCCEEDED
    lines = [beat[0]["detail"] for beat in site.run.heartbeats]
    assert any("1 of 1 pods run" in line and "restarts 0 of 5" in line for line in lines), lines[-20:]
    stop(site, spec.name)


def test_submitting_again_makes_no_second_job_and_a_lost_answer_neither(site: TrainingSite, quiet: Sandbox) -> None:
    spec = spec_of("once", steps=LONG)
    quiet.lose_response("patch", "kubernetes")
    first = site.submit(spec, "run-once/1")
    again = site.submit(spec, "run-once/1")
    assert (first.uid, again.changed) == (again.uid, False)
    adopted = site.submit(spec, "another-run/1")
    assert adopted.uid == first.uid
    assert not adopted.changed
    stop(site, spec.name)


def test_a_job_that_runs_and_differs_is_a_conflict_that_names_the_difference(site: TrainingSite) -> None:
    site.submit(spec_of("taken", steps=LONG))
    with pytest.raises(ApplicationError) as caught:
        site.submit(spec_of("taken", steps=LONG, spares=0, shm_gib=9), attempts=1)
    found = problem(caught)
    assert found.code is ProblemCode.CONFLICT
    assert "shm_gib is None, asked is 9" in found.detail
    stop(site, "taken")


def test_what_was_corrected_by_the_same_operation_replaces_its_job(site: TrainingSite) -> None:
    first = site.submit(spec_of("corrected", steps=LONG), "run-c/1")
    second = site.submit(spec_of("corrected", steps=LONG, shm_gib=9), "run-c/2")
    assert second.uid != first.uid
    assert second.changed
    stop(site, "corrected")


def test_a_job_of_others_is_left_alone(site: TrainingSite) -> None:
    site.submit(spec_of("theirs", steps=LONG))
    with site.api() as api:
        from kubernetes import client

        body = {"metadata": {"labels": {"instantstart.dev/cluster": "another"}}}
        client.CustomObjectsApi(api).patch_namespaced_custom_object(
            "sagemaker.amazonaws.com", "v1", "default", "hyperpodpytorchjobs", "theirs", body
        )
    for act in (lambda: stop(site, "theirs"), lambda: site.submit(spec_of("theirs"), attempts=1)):
        with pytest.raises(ApplicationError) as caught:
            act()
        assert problem(caught).code is ProblemCode.FOREIGN
    site.delete("theirs")


def test_a_stopped_job_and_its_pods_are_gone_and_the_watch_says_so(site: TrainingSite) -> None:
    spec = spec_of("stopped", steps=LONG)
    job = site.submit(spec)
    running(site, spec)
    stopped = stop(site, spec.name)
    assert stopped.was == "running"
    assert site.job(spec.name) is None
    assert not site.pods(spec.name)
    end = site.watch(spec, job)
    assert end.state is TrainingState.STOPPED
    assert "was deleted" in end.detail
    assert not end.cluster_gone
    assert not stop(site, spec.name).changed


def test_a_suspended_job_has_no_pods_says_by_whom_and_goes_on_when_resumed(site: TrainingSite) -> None:
    spec = spec_of("paused", steps=LONG)
    site.submit(spec)
    running(site, spec)
    settle(site, suspend(site, spec.name), "suspended")
    assert not site.pods(spec.name)
    seen = site.read(spec.name).run
    assert seen.state is TrainingState.SUSPENDED
    assert "ada: makes room" in seen.detail
    assert not suspend(site, spec.name).changed
    settle(site, suspend(site, spec.name, suspended=False), "resumed")
    running(site, spec)
    assert "ada" not in site.read(spec.name).run.detail
    stop(site, spec.name)


def test_a_resumed_job_that_has_ended_well_before_anybody_looked_has_gone_on(site: TrainingSite) -> None:
    spec = spec_of("quick", steps=20)
    job = site.submit(spec)
    assert site.watch(spec, job).state is TrainingState.SUCCEEDED
    resumed = TrainingStopped(name=job.name, namespace=job.namespace, submission=job.submission, uid=job.uid)
    assert "ended well" in settle(site, resumed, "resumed")
    stop(site, spec.name)


def test_a_run_whose_nodes_are_missing_says_how_many_and_what_waiting_costs(site: TrainingSite) -> None:
    spec = spec_of("gang", steps=LONG, nodes=3, efa_per_node=0)
    site.submit(spec)

    def waiting() -> Waiting:
        return site.read(spec.name).waiting or Waiting(reason="")

    until(lambda: waiting().idle_nodes == 2)
    detail = site.read(spec.name)
    assert detail.run.state is TrainingState.QUEUED
    assert "1 of 3 nodes are missing" in detail.run.detail
    assert waiting().pods_waiting == 1
    assert waiting().idle_per_hour is not None
    stop(site, spec.name)


def test_a_run_that_is_gone_is_read_from_what_was_written_down(site: TrainingSite) -> None:
    spec = spec_of("written", steps=30, credential=None)
    end = site.watch(spec, site.submit(spec, "0198-run/1"))
    end = end.model_copy(update={"reported": Reported(step=30, loss=1.5)})
    request = RecordTraining(
        **site.place,
        name=spec.name,
        namespace=spec.namespace,
        bucket=site.world.bucket.name,
        run="0198-run",
        operation="run-training/training/written",
        spec=spec,
        attempts=[end],
        state=end.state,
        detail=end.detail,
        started_at="2026-01-01T00:00:00Z",
        logs="training/default/written/0198-run/logs/",
    )
    key = site.run(RECORD_TRAINING, request).key
    assert key == "training/default/written/0198-run/run.json"
    body = site.activities.aws.read.s3(REGION).get_object(Bucket=site.world.bucket.name, Key=key)["Body"].read()
    assert json.loads(body)["spec"]["recipe"]["kind"] == "pytorch"
    until(lambda: not site.pods("written"))
    there = site.read("written")
    assert there.record is None
    assert there.run.reported == end.reported, "its pods are gone, and what they reported stays"
    stop(site, "written")
    read = site.read("written")
    assert (read.record, read.run.state, read.spec) == (key, TrainingState.SUCCEEDED, spec)
    with pytest.raises(ApplicationError) as caught:
        site.read("never-was")
    assert problem(caught).code is ProblemCode.NOT_FOUND


def keep(site: TrainingSite, prefix: str, lines: list[str]) -> None:
    """Kept logs of two ranks, of which the second is not asked."""
    chunks = Chunks(site.activities.aws, REGION, site.world.bucket.name, prefix)
    rows = []
    for rank in (0, 7):
        stream = StreamKey(f"early-pods-{rank}", "pytorch", f"uid-{rank}")
        found = [
            Line(stream, Position(0, number, 0), text)
            for number, text in enumerate(lines if not rank else ["step=6000"])
        ]
        first, last = found[0].position, found[-1].position
        told = Told(stream.uid, rank, first, last, lines=len(found), size=0, gaps=0)
        chunks.write(stream.pod, stream.container, 1, found, told)
        rows.append({**stream._asdict(), "rank": rank, "lines": len(found), "gaps": 0, "ended": True, "size": 1})
    chunks.write_index({"complete": True, "streams": rows})


def test_what_the_kept_log_says_at_last_is_written_down_and_an_early_end_is_remarked(site: TrainingSite) -> None:
    spec = spec_of("early", steps=6000, credential=None)
    keep(site, "training/default/early/0199-run", [f"step={number} loss=0.5" for number in range(50, 58)])
    heard = Reported(step=52, loss=0.7)
    request = RecordTraining(
        **site.place,
        name=spec.name,
        namespace=spec.namespace,
        bucket=site.world.bucket.name,
        run="0199-run",
        operation="run-training/training/early",
        spec=spec,
        attempts=[TrainingEnd(state=TrainingState.SUCCEEDED, detail="it has ended well", reported=heard)],
        state=TrainingState.SUCCEEDED,
        detail="it has ended well",
        started_at="2026-01-01T00:00:00Z",
        logs="training/default/early/0199-run/logs/",
    )
    reported = site.run(RECORD_TRAINING, request).reported
    assert reported is not None
    assert (reported.step, reported.total_steps, reported.loss) == (57, 6000, 0.5)
    seen = site.read("early").run
    assert (seen.state, seen.reported) == (TrainingState.SUCCEEDED, reported)
    assert seen.remark == "it ended before its last step: the last that it reported is 57 of 6,000"

    ahead = request.attempts[0].model_copy(update={"reported": Reported(step=5999, total_steps=6000)})
    whole = site.run(RECORD_TRAINING, request.model_copy(update={"attempts": [ahead]}))
    assert whole.reported is None, "an older line than was heard says nothing"
    assert site.read("early").run.remark is None


def test_runs_are_listed_with_their_pods(site: TrainingSite) -> None:
    spec = spec_of("listed", steps=LONG)
    site.submit(spec)
    running(site, spec)
    found = {each.name: each for each in site.run(LIST_TRAINING, ListTraining(**site.place)).runs}
    seen = found["listed"]
    assert (seen.state, seen.pods_ready, seen.nodes, seen.gpus) == (TrainingState.RUNNING, 1, 1, 4)
    assert seen.operation == site.run.operation
    stop(site, spec.name)


def test_the_watch_of_a_cluster_that_is_gone_ends(site: TrainingSite) -> None:
    spec = spec_of("lonely", steps=LONG)
    job = site.submit(spec)
    request = site.watching(spec, job).model_copy(update={"eks_cluster": "eks-cluster-nowhere"})
    from contracts.training_activities import WATCH_TRAINING

    end = site.run(WATCH_TRAINING, request)
    assert end.cluster_gone
    assert end.state is TrainingState.STOPPED
    stop(site, spec.name)


def test_a_plan_says_what_would_be_submitted_and_what_is_missing(site: TrainingSite) -> None:
    plan = site.plan("run-training", spec_of("planned", nodes=2).model_dump(mode="json"))
    assert not plan.blockers
    assert plan.facts["efa"] == 1
    assert "2 × ml.g5.12xlarge, 4 GPUs and 1 EFA interfaces each" in (plan.changes[0].detail or "")
    more = site.plan("run-training", spec_of("planned", nodes=3).model_dump(mode="json"))
    assert not more.blockers
    assert any("1 of 3 nodes" in each for each in more.warnings)
    huge = site.plan("run-training", spec_of("planned", shm_gib=2048).model_dump(mode="json"))
    assert any("shm_gib is 2048" in each for each in huge.warnings)
    assert not any("shm_gib" in each for each in more.warnings)


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"gpus_per_node": 8}, "/gpus_per_node", "has 4 GPUs"),
        ({"instance_types": ["ml.p5.48xlarge"], "gpus_per_node": 8}, "/instance_types/0", "no node of type"),
        ({"instance_types": ["ml.nope.large"]}, "/instance_types/0", "EC2 knows no"),
        ({"efa_per_node": 33 - 1}, "/efa_per_node", "has 1"),
        ({"storage": [{"claim": "nowhere", "mount_path": "/s3"}]}, "/storage/0/claim", "has no claim"),
        ({"credential": "nobodys"}, "/credential", "has no credential"),
        ({"queue": {"queue": "fast"}}, "/queue/queue", "has no local queue"),
        ({"tiered_checkpointing": True}, "/tiered_checkpointing", "is not on"),
        ({"namespace": "nowhere"}, "/namespace", "nowhere"),
    ],
)
def test_what_can_never_run_is_refused_by_the_plan(
    site: TrainingSite, change: dict[str, Any], field: str, words: str
) -> None:
    plan = site.plan("run-training", spec_of("refused", **change).model_dump(mode="json"))
    assert words in blockers(plan)[field]


def test_plans_of_what_is_done_to_a_run(site: TrainingSite) -> None:
    named = {"name": "absent", "namespace": "default"}
    for kind in ("suspend-training", "resume-training"):
        assert "no job" in blockers(site.plan(kind, named))["/name"]
    unborn = site.plan("stop-training", named)
    assert not unborn.blockers, "its operation may be at its checks"
    assert (unborn.changes[0].action, unborn.facts) == ("nothing", {"job": None})
    spec = spec_of("planned-stop", steps=LONG)
    site.submit(spec)
    named["name"] = spec.name
    assert site.plan("stop-training", named).changes[0].action == "delete"
    assert site.plan("suspend-training", named).changes[0].action == "change"
    (resumed,) = site.plan("resume-training", named).changes
    assert (resumed.action, resumed.detail) == ("nothing", "resumed")
    stop(site, spec.name)


def misfortune(site: TrainingSite, name: str, **more: Any) -> None:
    rule = {"fault": "crash", "deployment": name, "namespace": "default", **more}
    site.sandbox.call("POST", "kubernetes/pods", {"add": [rule]})


@pytest.fixture
def calm(site: TrainingSite) -> Any:
    """The sandbox's pods without misfortunes afterwards."""
    yield site
    site.sandbox.call("POST", "kubernetes/pods", [])


@pytest.mark.parametrize(
    ("cause", "field", "words"),
    [("cuda_oom", "/recipe", "too little memory"), ("import_error", "/image", "module is missing")],
)
def test_a_job_that_spent_its_budget_fails_with_the_cause_that_its_log_names(
    calm: TrainingSite, cause: str, field: str, words: str
) -> None:
    name = f"fails-{cause.replace('_', '-')}"
    misfortune(calm, name, cause=cause, step=3)
    spec = spec_of(name, steps=200, recovery={"job_retries": 2})
    end = calm.watch(spec, calm.submit(spec))
    assert (end.state, end.restarts.job) == (TrainingState.FAILED, 2)
    assert end.problem is not None
    assert (end.problem.field, end.problem.retryable) == (field, True)
    assert words in end.problem.detail
    assert "restarts 2 of 2" in end.problem.detail
    stop(calm, name)


def test_a_failed_job_is_submitted_anew_and_ends_well(calm: TrainingSite) -> None:
    misfortune(calm, "second-try", cause="cuda_oom", step=3, times=1)
    spec = spec_of("second-try", steps=40, recovery={"job_retries": 0})
    first = calm.submit(spec, "run-s/1")
    assert calm.watch(spec, first).state is TrainingState.FAILED
    assert calm.submit(spec, "run-s/1").uid == first.uid, "asked again, it is the same attempt"
    second = calm.submit(spec, "run-s/2")
    assert second.uid != first.uid
    assert calm.watch(spec, second).state is TrainingState.SUCCEEDED
    stop(calm, "second-try")


def test_a_retry_without_a_change_keeps_the_job_that_has_done_well_meanwhile(site: TrainingSite) -> None:
    spec = spec_of("did-well", steps=20)
    first = site.submit(spec, "run-w/1")
    assert site.watch(spec, first).state is TrainingState.SUCCEEDED
    again = site.submit(spec, "run-w/2")
    assert (again.uid, again.changed) == (first.uid, False)
    assert site.watch(spec, again).state is TrainingState.SUCCEEDED
    shown = site.read(spec.name).run
    assert shown.state is TrainingState.SUCCEEDED
    changed = spec_of("did-well", steps=20, env={"BATCH": "1"})
    other = site.submit(changed, "run-w/3")
    assert other.uid != first.uid
    site.watch(changed, other)
    of_others = site.submit(changed, "run-x/1")
    assert of_others.uid != other.uid
    stop(site, "did-well")


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("nccl_timeout", "the processes lost each other"),
        ("xid_79", "a GPU failed"),
        ("host_oom", "the node's memory did not suffice"),
    ],
)
def test_a_failure_whose_pods_are_gone_is_explained_by_its_operators_words(
    calm: TrainingSite, cause: str, words: str
) -> None:
    name = f"gone-{cause.replace('_', '-')}"
    misfortune(calm, name, cause=cause, step=3)
    spec = spec_of(name, steps=200, recovery={"job_retries": 0})
    submitted = calm.submit(spec)
    until(lambda: (calm.job(name).get("status") or {}).get("completionTime") is not None)
    until(lambda: not calm.pods(name))
    end = calm.watch(spec, submitted)
    assert end.problem is not None
    assert words in end.problem.detail
    stop(calm, name)


def test_a_crash_within_the_budget_is_counted_and_the_job_goes_on(calm: TrainingSite) -> None:
    misfortune(calm, "survivor", cause="cuda_oom", step=3, times=1)
    spec = spec_of("survivor", steps=60)
    end = calm.watch(spec, calm.submit(spec))
    assert (end.state, end.restarts.job, end.restarts.job_limit) == (TrainingState.SUCCEEDED, 1, 5)
    stop(calm, "survivor")
