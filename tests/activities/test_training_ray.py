"""Training runs on Ray, in the sandbox over real HTTP: a Ray cluster of their own, attempts, suspension, an end."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities import custom
from activities.ray import RAY_CLUSTER, RAY_JOB
from activities.registry import Activities
from contracts.catalogue import RUN_TRAINING
from contracts.network import Scope
from contracts.problem import ProblemCode
from contracts.training import TrainingSpec
from contracts.training_activities import (
    DELETE_TRAINING_JOB,
    LIST_TRAINING,
    SET_SUSPENDED,
    WAIT_FOR_TRAINING,
    ListTraining,
    SetSuspended,
    StopTraining,
    TrainingStopped,
    WaitForTraining,
)
from contracts.training_parts import Submission, TrainingState
from tests.activities import ray_world
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.training_world import TYPE, TrainingSite, blockers
from tests.activities.world import World, until

LONG = 100_000


@pytest.fixture(scope="module")
def site(sandbox: Sandbox, activities: Activities) -> TrainingSite:
    sandbox.fault()
    scope = Scope(cluster="raytrain", region=REGION, created_by="tests", request_id="req-1")
    made = TrainingSite(World(Runner(activities, "run-training/raytrain/grpo"), scope), activities, sandbox)
    assert made.hyperpod
    ray_world.install(made)
    return made


def spec_of(name: str, steps: int = 20, **more: Any) -> TrainingSpec:
    config = {
        "data.train_files": "/s3/datasets/gsm8k.parquet",
        "actor_rollout_ref.model.path": "/s3/models/qwen",
        "trainer.total_training_steps": steps,
        "trainer.save_freq": 5,
    }
    given: dict[str, Any] = {
        "name": name,
        "recipe": {"kind": "verl", "config": config},
        "instance_types": [TYPE],
        "gpus_per_node": 4,
        "nodes": 2,
        "image": "registry.example.com/verl:ray2.52.0-cu128",
        "storage": [],
        "recovery": {"job_retries": 0},
        "ray": {"linger_seconds": 30},
    }
    return TrainingSpec.model_validate({**given, **more})


def job(site: TrainingSite, name: str) -> Any:
    with site.api() as api:
        return custom.get(api, RAY_JOB, "default", name)


def ray_clusters(site: TrainingSite) -> list[Any]:
    with site.api() as api:
        return custom.list_all(api, RAY_CLUSTER, "default")


def settle(site: TrainingSite, stopped: TrainingStopped, wanted: Any) -> str:
    asked = WaitForTraining(
        **site.place,
        name=stopped.name,
        namespace=stopped.namespace,
        uid=stopped.uid,
        submission=Submission.RAY,
        wanted=wanted,
    )
    return site.run(WAIT_FOR_TRAINING, asked).detail


def stop(site: TrainingSite, name: str) -> TrainingStopped:
    stopped = site.run(DELETE_TRAINING_JOB, StopTraining(**site.place, name=name, namespace="default"))
    if stopped.submission is not None:
        settle(site, stopped, "gone")
    return stopped


def suspend(site: TrainingSite, name: str, suspended: bool) -> TrainingStopped:
    asked = SetSuspended(**site.place, name=name, namespace="default", suspended=suspended, by="ada")
    return site.run(SET_SUSPENDED, asked)


def running(site: TrainingSite, name: str) -> None:
    until(lambda: site.read(name).run.state is TrainingState.RUNNING)


def test_a_run_ends_well_and_its_ray_cluster_goes_when_its_logs_were_read(site: TrainingSite) -> None:
    spec = spec_of("good-end", 800)
    plan = site.plan(RUN_TRAINING.name, spec.model_dump(mode="json"))
    assert blockers(plan) == {}
    submitted = site.submit(spec)
    assert (submitted.api_version, submitted.plural) == ("ray.io/v1", "rayjobs")
    end = site.watch(spec, submitted)
    assert (end.state, end.problem, end.pods) == (TrainingState.SUCCEEDED, None, 2)
    assert end.reported.step is not None
    lines = [beat[0]["detail"] for beat in site.run.heartbeats]
    assert any("2 of 2 pods run" in line and "restarts 0 of 0" in line for line in lines), lines[-20:]
    assert job(site, spec.name) is not None, "what became of it can be read afterwards"
    until(lambda: ray_clusters(site) == [])
    (view,) = [each for each in site.run(LIST_TRAINING, ListTraining(**site.place)).runs if each.name == spec.name]
    assert (view.submission, view.state, view.gpus) == (Submission.RAY, TrainingState.SUCCEEDED, 8)
    stop(site, spec.name)


def test_submitting_again_makes_no_second_job_and_a_lost_answer_neither(site: TrainingSite, quiet: Sandbox) -> None:
    spec = spec_of("once", LONG)
    quiet.lose_response("patch", "kubernetes")
    first = site.submit(spec, "run-once/1")
    again = site.submit(spec, "run-once/1")
    assert (first.uid, again.changed) == (again.uid, False)
    running(site, spec.name)
    assert len(ray_clusters(site)) == 1
    with pytest.raises(ApplicationError) as caught:
        site.submit(spec_of("once", LONG, shm_gib=9), "other/1", attempts=1)
    assert problem(caught).code is ProblemCode.CONFLICT
    stop(site, spec.name)


def test_the_drivers_log_tells_the_progress_and_stands_before_those_of_the_nodes(site: TrainingSite) -> None:
    spec = spec_of("told", LONG)
    site.submit(spec)
    running(site, spec.name)
    until(lambda: site.read(spec.name).run.reported.step is not None)
    found = site.read(spec.name)
    assert (found.run.pods_total, len(found.pods)) == (2, 3), "the submitter is no node of the run"
    stop(site, spec.name)


def test_a_stopped_run_leaves_neither_ray_cluster_nor_pods(site: TrainingSite) -> None:
    spec = spec_of("stopped", LONG)
    submitted = site.submit(spec)
    running(site, spec.name)
    assert stop(site, spec.name).was == "running"
    assert (job(site, spec.name), site.pods(spec.name)) == (None, [])
    until(lambda: ray_clusters(site) == [])
    assert site.watch(spec, submitted).state is TrainingState.STOPPED


def test_a_suspended_run_has_no_pods_and_goes_on_when_resumed(site: TrainingSite) -> None:
    spec = spec_of("paused", LONG)
    site.submit(spec)
    running(site, spec.name)
    settle(site, suspend(site, spec.name, True), "suspended")
    assert site.pods(spec.name) == []
    seen = site.read(spec.name).run
    assert (seen.state, seen.detail) == (TrainingState.SUSPENDED, "suspended by ada")
    settle(site, suspend(site, spec.name, False), "resumed")
    running(site, spec.name)
    stop(site, spec.name)


def test_a_driver_that_fails_is_tried_again_and_its_attempts_are_counted(site: TrainingSite) -> None:
    site.sandbox.call("POST", "kubernetes/pods", [{"fault": "crash", "cause": "cuda_oom", "deployment": "fails"}])
    try:
        spec = spec_of("fails", LONG, recovery={"job_retries": 1})
        end = site.watch(spec, site.submit(spec))
    finally:
        site.sandbox.call("POST", "kubernetes/pods", [])
    assert (end.state, end.restarts.job, end.restarts.job_limit) == (TrainingState.FAILED, 1, 1)
    assert end.problem is not None
    assert "a GPU had too little memory" in end.problem.detail
    stop(site, spec.name)


def test_a_head_apart_leaves_all_gpus_to_the_workers(site: TrainingSite) -> None:
    spec = spec_of("apart", LONG, ray={"head": "apart", "head_cpu": 1, "head_memory_gib": 2})
    site.submit(spec)
    running(site, spec.name)
    with site.api() as api:
        pods = client.CoreV1Api(api).list_namespaced_pod("default", label_selector="instantstart.dev/training=apart")
    kinds = sorted(pod.metadata.labels.get("ray.io/node-type", "submitter") for pod in pods.items)
    assert kinds == ["head", "submitter", "worker", "worker"]
    stop(site, spec.name)


def test_a_worker_without_a_node_is_told_in_words_with_what_waits_for_it(site: TrainingSite) -> None:
    spec = spec_of("large", nodes=3)
    plan = site.plan(RUN_TRAINING.name, spec.model_dump(mode="json"))
    assert any("1 of 3 nodes of type" in warning for warning in plan.warnings)
    site.submit(spec)
    until(lambda: site.read(spec.name).run.state is TrainingState.QUEUED and site.read(spec.name).run.pods_ready == 2)
    found = site.read(spec.name)
    assert "1 of 3 nodes are missing" in found.run.detail
    assert found.waiting is not None
    assert found.waiting.idle_nodes == 2
    stop(site, spec.name)


def test_without_kuberay_the_feature_is_offered(site: TrainingSite) -> None:
    with site.api() as api:
        apps, place = client.AppsV1Api(api), (ray_world.OPERATOR, ray_world.NAMESPACE)
        apps.patch_namespaced_deployment_scale(*place, {"spec": {"replicas": 0}})
        try:
            until(lambda: not apps.read_namespaced_deployment(*place).status.available_replicas)
            found = site.plan(RUN_TRAINING.name, spec_of("lost").model_dump(mode="json")).blockers
        finally:
            apps.patch_namespaced_deployment_scale(*place, {"spec": {"replicas": 1}})
            until(lambda: apps.read_namespaced_deployment(*place).status.available_replicas)
    (blocker,) = [each for each in found if each.field == "/submission"]
    assert blocker.remedy == "Switch the feature kuberay on (update-features)."
