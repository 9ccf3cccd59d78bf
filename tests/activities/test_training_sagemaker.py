"""Training runs as SageMaker training jobs, in the sandbox over HTTP: with least rights, once, and to their end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from temporalio.exceptions import ApplicationError

from activities.registry import Activities
from activities.teardown import training_jobs
from activities.training.sagemaker import as_job
from activities.training.sagemaker_request import job_request, kept, launch_for, read_kept, role_for
from activities.training.sagemaker_storage import Place, Storage
from contracts.catalogue import RUN_TRAINING, SUSPEND_TRAINING
from contracts.names import sagemaker_training_job, training_job_mark
from contracts.network import Scope
from contracts.problem import ProblemCode
from contracts.teardown import SURVEY, DeleteClusterSpec, Known, Part, TeardownPart
from contracts.training import TrainingSpec
from contracts.training_activities import (
    DELETE_TRAINING_JOB,
    LIST_TRAINING,
    WAIT_FOR_TRAINING,
    ListTraining,
    StopTraining,
    SubmitTraining,
    TrainingStopped,
    WaitForTraining,
)
from contracts.training_parts import Submission, TrainingState
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.training_world import TYPE, TrainingSite, blockers
from tests.activities.world import World, until

LONG = 100_000
SHAPE = get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob").input_shape
IMAGE = f"111122223333.dkr.ecr.{REGION}.amazonaws.com/team/trainer:1.0"
NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,45}[a-z0-9])?", fullmatch=True)
TAG = st.from_regex(r"[a-z]([-a-z0-9]{0,60}[a-z0-9])?", fullmatch=True)
STORAGE = Storage("sagemaker-demo", {"/s3": Place("sagemaker-demo"), "/more": Place("other", "team/a")}, "111122223333")


def spec_of(name: str = "lone", steps: int = 20, **more: Any) -> TrainingSpec:
    given: dict[str, Any] = {
        "name": name,
        "submission": "sagemaker",
        "recipe": {"kind": "pytorch", "script_path": "/s3/code/train.py", "arguments": [f"--max-steps={steps}"]},
        "instance_types": [TYPE],
        "gpus_per_node": 4,
        "nodes": 2,
        "image": IMAGE,
        "checkpoint_path": "/s3/checkpoints/lone",
    }
    return TrainingSpec.model_validate({**given, **more})


def request_of(spec: TrainingSpec, tag: str = "demo", run: str = "run-1/1") -> SubmitTraining:
    scope = Scope(cluster=tag, region=REGION, created_by="ada", request_id="r-1")
    return SubmitTraining(scope=scope, eks_cluster="eks", spec=spec, run=run)


def wanted(spec: TrainingSpec, tag: str = "demo") -> dict[str, Any]:
    request = request_of(spec, tag)
    name = sagemaker_training_job(tag, spec.namespace, spec.name, request.run)
    told = kept(request, "run-training/demo/lone")
    role = "arn:aws:iam::111122223333:role/instantstart/training"
    return job_request(request, name, role, "s3://sagemaker-demo/training/files/", STORAGE, {"a": "b"}, told)


# What is asked of SageMaker


@settings(max_examples=40, deadline=None)
@given(NAME, TAG, st.integers(1, 20), st.booleans(), st.sampled_from([None, 0.001, 672]), st.integers(0, 50))
def test_every_request_is_one_that_sagemaker_takes(
    name: str, tag: str, nodes: int, spot: bool, hours: float | None, retries: int
) -> None:
    spec = spec_of(name, nodes=nodes, deadline_hours=hours, recovery={"job_retries": retries}, sagemaker={"spot": spot})
    asked = wanted(spec, tag)
    validate_parameters(asked, SHAPE)
    limits = asked["StoppingCondition"]
    assert limits.get("MaxWaitTimeInSeconds", limits["MaxRuntimeInSeconds"]) >= limits["MaxRuntimeInSeconds"]
    assert len(asked["TrainingJobName"]) <= 63
    assert all(len(value) <= 2500 for value in asked["HyperParameters"].values())
    told = read_kept(asked)
    assert told is not None
    assert TrainingSpec.model_validate_json(told.spec) == spec
    assert (told.cluster, told.name) == (tag, name)


@settings(max_examples=60, deadline=None)
@given(TAG, NAME, st.text(max_size=50), st.text(max_size=50))
def test_names_of_attempts_differ_and_carry_the_marks_that_they_are_found_by(
    tag: str, name: str, first: str, second: str
) -> None:
    one, other = (sagemaker_training_job(tag, "default", name, run) for run in (first, second))
    assert (one == other) is (first == second)
    assert training_job_mark(tag) in one
    assert training_job_mark(tag, "default", name) in one
    assert training_job_mark(tag, "ml", name) not in one


def test_folders_are_where_the_recipe_looks_for_them_and_its_words_travel_in_a_file() -> None:
    spec = spec_of(storage=[{"claim": "a", "mount_path": "/s3"}, {"claim": "b", "mount_path": "/more"}])
    spec = spec.model_copy(update={"env": {"DATA": "/more/datasets/alpaca", "LONG": "x" * 2000}})
    asked = wanted(spec)
    sources = {
        each["ChannelName"]: (each["InputMode"], each["DataSource"]["S3DataSource"]["S3Uri"])
        for each in asked["InputDataConfig"]
    }
    assert sources == {
        "instantstart": ("File", "s3://sagemaker-demo/training/files/"),
        "input-0": ("FastFile", "s3://other/team/a/datasets/alpaca/"),
        "input-1": ("FastFile", "s3://sagemaker-demo/code/"),
    }
    assert asked["CheckpointConfig"] == {
        "S3Uri": "s3://sagemaker-demo/checkpoints/lone/",
        "LocalPath": "/opt/ml/checkpoints",
    }
    told = json.loads(launch_for(request_of(spec)).files["start.json"])
    assert told["links"] == {
        "/more/datasets/alpaca": "/opt/ml/input/data/input-0",
        "/s3/code": "/opt/ml/input/data/input-1",
        "/s3/checkpoints/lone": "/opt/ml/checkpoints",
    }
    assert told["words"][:2] == ["python3", "/opt/ml/input/data/instantstart/entry.py"]
    assert told["environment"]["CHECKPOINT_PATH"] == "/s3/checkpoints/lone"
    assert told["environment"]["LONG"] == "x" * 2000


def test_the_role_may_write_checkpoints_and_outputs_only_and_pull_one_image() -> None:
    found = role_for(request_of(spec_of()), STORAGE, REGION)
    by_sid = {each["Sid"]: each for each in found.policy["Statement"]}
    assert by_sid["Write"]["Resource"] == [
        "arn:aws:s3:::other/team/a/checkpoints/*",
        "arn:aws:s3:::other/team/a/training/*",
        "arn:aws:s3:::sagemaker-demo/checkpoints/*",
        "arn:aws:s3:::sagemaker-demo/training/*",
    ]
    assert by_sid["PullImage"]["Resource"] == [f"arn:aws:ecr:{REGION}:111122223333:repository/team/trainer"]
    wide = {each["Sid"] for each in found.policy["Statement"] if each["Resource"] == ["*"]}
    assert wide == {"Registry", "Metrics"}
    assert role_for(request_of(spec_of("another")), STORAGE, REGION).purpose == found.purpose


def described(status: str, secondary: str, **more: Any) -> dict[str, Any]:
    told = kept(request_of(spec_of()), "run-training/demo/lone")
    return {
        "TrainingJobName": "lone-1",
        "TrainingJobArn": f"arn:aws:sagemaker:{REGION}:111122223333:training-job/lone-1",
        "TrainingJobStatus": status,
        "SecondaryStatus": secondary,
        "HyperParameters": told,
        **more,
    }


@pytest.mark.parametrize(
    ("status", "secondary", "state", "said"),
    [
        ("InProgress", "Pending", TrainingState.QUEUED, "Pending"),
        ("InProgress", "Downloading", TrainingState.STARTING, "Downloading"),
        ("InProgress", "Training", TrainingState.RUNNING, "Training"),
        ("InProgress", "Restarting", TrainingState.RESTARTING, "Restarting"),
        ("Stopping", "Stopping", TrainingState.DELETING, "Stopping"),
        ("Stopped", "Stopped", TrainingState.STOPPED, "the job was stopped"),
        ("Stopped", "MaxRuntimeExceeded", TrainingState.FAILED, "the job reached its deadline"),
        ("Stopped", "MaxWaitTimeExceeded", TrainingState.FAILED, "no spot capacity"),
        ("Completed", "Completed", TrainingState.SUCCEEDED, "Completed"),
        ("Failed", "Failed", TrainingState.FAILED, "SageMaker does not say why"),
    ],
)
def test_what_sagemaker_says_is_told_in_our_words(status: str, secondary: str, state: TrainingState, said: str) -> None:
    job = as_job("demo", described(status, secondary))
    assert job is not None
    assert (job.state, job.stays) == (state, True)
    assert said in job.detail
    assert as_job("another", described(status, secondary)) is None
    assert as_job("demo", {**described(status, secondary), "HyperParameters": {"epochs": "3"}}) is None


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"image": "pytorch/pytorch:2.6.0"}, "/image"),
        ({"credential": "hub"}, "/credential"),
        ({"secret_env": {"KEY": "wandb"}}, "/secret_env/KEY"),
        ({"queue": {"queue": "team"}}, "/queue"),
        ({"checkpoint_path": "/s3/elsewhere/lone"}, "/checkpoint_path"),
        ({"checkpoint_path": "/local/lone"}, "/checkpoint_path"),
        ({"checkpoint_path": "/s3/checkpoints"}, "/checkpoint_path"),
        ({"sagemaker": {"inputs": ["/s3/datasets/a"]}}, "/sagemaker/inputs"),
        ({"sagemaker": {"inputs": ["/fsx/datasets/a", "/s3/code"]}}, "/sagemaker/inputs/0"),
        ({"sagemaker": {"inputs": ["/s3/code", "/s3/code/more"]}}, "/sagemaker/inputs/1"),
        ({"sagemaker": {"spot": True, "keep_alive_minutes": 5}}, "/sagemaker/keep_alive_minutes"),
        ({"sagemaker": {"max_wait_hours": 2}}, "/sagemaker/max_wait_hours"),
        ({"recipe": {"kind": "pytorch", "script_path": "/s3/train.py"}}, "/sagemaker/inputs"),
        ({"ray": {}}, "/ray"),
        ({"spares": 0, "elastic": {"min_nodes": 1, "max_nodes": 2}}, "/elastic"),
    ],
)
def test_what_sagemaker_does_not_do_is_refused_at_its_field(members: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        spec_of(**members)
    (error,) = caught.value.errors()
    place = "".join(f"/{each}" for each in error["loc"])
    assert (error.get("ctx") or {}).get("pointer", "") in (field, field.removeprefix(place))


# In the sandbox


@pytest.fixture(scope="module")
def site(sandbox: Sandbox, activities: Activities) -> TrainingSite:
    sandbox.fault()
    scope = Scope(cluster="smtrain", region=REGION, created_by="tests", request_id="req-1")
    made = TrainingSite(World(Runner(activities, "run-training/smtrain/lone"), scope), activities, sandbox)
    assert made.hyperpod
    made.claim()
    s3 = activities.aws.act.s3(REGION)
    s3.put_object(Bucket=made.world.bucket.name, Key="code/train.py", Body=b"print('step')")
    return made


def settle(site: TrainingSite, stopped: TrainingStopped) -> str:
    asked = WaitForTraining(
        **site.place,
        name=stopped.name,
        namespace=stopped.namespace,
        uid=stopped.uid,
        submission=Submission.SAGEMAKER,
        wanted="gone",
    )
    return site.run(WAIT_FOR_TRAINING, asked).detail


def stop(site: TrainingSite, name: str) -> TrainingStopped:
    stopped = site.run(DELETE_TRAINING_JOB, StopTraining(**site.place, name=name, namespace="default"))
    settle(site, stopped)
    return stopped


def running(site: TrainingSite, name: str) -> None:
    until(lambda: site.read(name).run.state is TrainingState.RUNNING)


def creations(site: TrainingSite) -> int:
    return len(site.sandbox.effects("CreateTrainingJob", "sagemaker"))


def test_a_run_ends_well_and_tells_where_its_log_is(site: TrainingSite) -> None:
    spec = spec_of("good-end", 200)
    plan = site.plan(RUN_TRAINING.name, spec.model_dump(mode="json"))
    assert blockers(plan) == {}
    submitted = site.submit(spec)
    assert (submitted.submission, submitted.api_version) == (Submission.SAGEMAKER, "")
    end = site.watch(spec, submitted)
    assert (end.state, end.problem) == (TrainingState.SUCCEEDED, None)
    (view,) = [each for each in site.run(LIST_TRAINING, ListTraining(**site.place)).runs if each.name == spec.name]
    assert (view.submission, view.state, view.gpus) == (Submission.SAGEMAKER, TrainingState.SUCCEEDED, 8)
    detail = site.read(spec.name)
    assert (detail.logged_at or "").startswith("CloudWatch Logs /aws/sagemaker/TrainingJobs, streams good-end-")
    assert "Training" in [each.type for each in detail.conditions]


def test_progress_is_read_from_the_first_instances_log_in_cloudwatch(site: TrainingSite) -> None:
    spec = spec_of("told", LONG)
    site.submit(spec)
    until(lambda: site.read(spec.name).run.reported.step is not None)
    assert site.read(spec.name).run.reported.loss is not None
    stop(site, spec.name)


def test_a_lost_answer_makes_no_second_job_and_each_attempt_is_another(site: TrainingSite, quiet: Sandbox) -> None:
    spec, before = spec_of("once", LONG), creations(site)
    quiet.lose_response("CreateTrainingJob", "sagemaker")
    first = site.submit(spec, "run-once/1")
    again = site.submit(spec, "run-once/1")
    assert (first.uid, creations(site) - before) == (again.uid, 1)
    with pytest.raises(ApplicationError) as caught:
        site.submit(spec_of("once", LONG, shm_gib=9), "other/1", attempts=1)
    assert problem(caught).code is ProblemCode.CONFLICT
    stop(site, spec.name)
    second = site.submit(spec, "run-once/2")
    assert second.uid != first.uid
    stop(site, spec.name)


def test_a_stopped_job_has_ended_and_its_watch_says_so(site: TrainingSite) -> None:
    spec = spec_of("stopped", LONG)
    submitted = site.submit(spec)
    running(site, spec.name)
    stopped = site.run(DELETE_TRAINING_JOB, StopTraining(**site.place, name=spec.name, namespace="default"))
    assert (stopped.was, settle(site, stopped)) == ("running", "the job has ended")
    end = site.watch(spec, submitted)
    assert (end.state, end.detail) == (TrainingState.STOPPED, "the job was stopped")
    before = len(site.sandbox.effects("StopTrainingJob", "sagemaker"))
    site.run(DELETE_TRAINING_JOB, StopTraining(**site.place, name=spec.name, namespace="default"))
    assert len(site.sandbox.effects("StopTrainingJob", "sagemaker")) == before


def test_the_reason_of_a_failure_is_classified(site: TrainingSite) -> None:
    site.sandbox.call("PUT", "training-jobs", {"failing": {"oom-.*": "cuda_oom"}})
    try:
        spec = spec_of("oom")
        end = site.watch(spec, site.submit(spec))
    finally:
        site.sandbox.call("PUT", "training-jobs", {"failing": {}})
    assert end.state is TrainingState.FAILED
    assert end.problem is not None
    assert end.problem.detail.startswith("a GPU had too little memory")


def test_no_capacity_is_told_as_such(site: TrainingSite) -> None:
    words = (
        "CapacityError: Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
    )
    site.sandbox.call("PUT", "training-jobs", {"failing": {"scarce-.*": words}})
    try:
        spec = spec_of("scarce")
        end = site.watch(spec, site.submit(spec))
    finally:
        site.sandbox.call("PUT", "training-jobs", {"failing": {}})
    assert end.problem is not None
    assert (end.problem.code, end.problem.field) == (ProblemCode.CAPACITY, "/instance_types/0")


def test_it_is_not_suspended_and_says_what_to_do_instead(site: TrainingSite) -> None:
    spec = spec_of("goes-on", LONG)
    site.submit(spec)
    plan = site.plan(SUSPEND_TRAINING.name, {"name": spec.name})
    assert blockers(plan) == {"/name": "SageMaker suspends no training jobs"}
    stop(site, spec.name)


def test_an_input_without_anything_and_an_image_elsewhere_block_before_anything_is_made(site: TrainingSite) -> None:
    spec = spec_of(
        "lost",
        image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/team/trainer:1.0",
        env={"DATA": "/s3/datasets/none"},
        sagemaker={"spot": True},
        checkpoint_path=None,
    )
    plan = site.plan(RUN_TRAINING.name, spec.model_dump(mode="json"))
    found = blockers(plan)
    assert set(found) == {"/image", "/sagemaker/inputs"}
    assert "which the recipe names" in found["/sagemaker/inputs"]
    assert any("without checkpoint_path the job then begins at step 0" in each for each in plan.warnings)


def test_the_clusters_end_stops_what_is_paid_for_and_leaves_the_list_of_what_has_ended(site: TrainingSite) -> None:
    spec = spec_of("orphan", LONG)
    site.submit(spec)
    running(site, spec.name)
    asked = TeardownPart(scope=site.world.scope, known=Known(), spec=DeleteClusterSpec(), part=Part.FEATURES)
    found = [each for each in site.run(SURVEY, asked).resources if each.kind == "SageMaker training job"]
    assert [(each.detail, each.name.startswith("orphan-")) for each in found] == [("InProgress", True)]
    training_jobs.stop(site.activities.aws, asked, found[0])
    until(lambda: training_jobs.going(site.activities.aws, asked) == [])
    training_jobs.stop(site.activities.aws, asked, found[0])  # It has ended meanwhile: nothing.
    assert site.read(spec.name).run.state is TrainingState.STOPPED
