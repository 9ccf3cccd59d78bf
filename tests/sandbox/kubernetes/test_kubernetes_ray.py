"""RayJobs and RayClusters: what they are made of, how they end, retry, stop and are cleaned up."""

from __future__ import annotations

from typing import Any

from kubernetes_support import wait_for
from training_support import RAY, Trainings, ray_job

LONG = "python3 -m verl.trainer.main_ppo trainer.total_training_steps=3000"


def status(trainings: Trainings, name: str) -> dict[str, Any]:
    return trainings.status(name, "rayjobs", RAY)


def wait(trainings: Trainings, name: str, **wanted: str) -> dict[str, Any]:
    """Wait until a job's status has these members."""
    wait_for(lambda: wanted.items() <= status(trainings, name).items(), f"{name} to be {wanted}", 30)
    return status(trainings, name)


def submitter(trainings: Trainings, name: str) -> str:
    return next(pod for pod, found in trainings.pods().items() if found["metadata"]["labels"].get("job-name") == name)


def test_a_job_gets_its_cluster_runs_on_it_and_succeeds(trainings: Trainings) -> None:
    assert trainings.create(ray_job("tune"))[0] == 201
    running = wait(trainings, "tune", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED")
    name = running["rayClusterName"]
    cluster = trainings.get(name, "rayclusters", RAY)
    assert cluster["metadata"]["labels"]["ray.io/originated-from-cr-name"] == "tune"
    assert cluster["status"]["state"] == "ready"
    assert (cluster["status"]["desiredWorkerReplicas"], cluster["status"]["readyWorkerReplicas"]) == (2, 2)
    assert cluster["status"]["desiredGPU"] == "4"
    assert running["dashboardURL"] == f"{name}-head-svc.{trainings.namespace}.svc.cluster.local:8265"
    kinds = [pod["metadata"]["labels"].get("ray.io/node-type", "") for pod in trainings.pods().values()]
    assert sorted(kinds) == ["", "head", "worker", "worker"]
    assert running["endTime"] >= running["rayJobInfo"]["startTime"] >= running["startTime"]
    assert "step:12 - " in trainings.log(submitter(trainings, "tune"))
    assert trainings.get(name, "rayclusters", RAY)["metadata"]["name"] == name


def test_the_cluster_goes_with_the_job_where_that_is_wanted(trainings: Trainings) -> None:
    trainings.create(ray_job("brief", shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=20))
    name = wait(trainings, "brief", jobStatus="SUCCEEDED")["rayClusterName"]
    wait_for(lambda: trainings.get(name, "rayclusters", RAY).get("code") == 404, "the cluster to go", 30)
    wait_for(lambda: list(trainings.pods()) == [submitter(trainings, "brief")], "its pods to go", 30)


def test_a_failed_driver_is_tried_again_as_often_as_allowed(trainings: Trainings) -> None:
    trainings.fault(fault="crash", cause="cuda_oom", deployment="retry", step=5, times=1)
    trainings.create(ray_job("retry", backoffLimit=1))
    first = wait_for(lambda: status(trainings, "retry").get("rayClusterName"), "a cluster's name")
    done = wait(trainings, "retry", jobStatus="SUCCEEDED")
    assert (done["failed"], done["succeeded"]) == (1, 1)
    assert done["rayClusterName"] != first


def test_a_job_without_retries_fails_and_says_why(trainings: Trainings) -> None:
    trainings.fault(fault="crash", cause="cuda_oom", deployment="fail", step=5)
    trainings.create(ray_job("fail"))
    failed = wait(trainings, "fail", jobDeploymentStatus="Failed", jobStatus="FAILED")
    assert failed["reason"] == "AppFailed"
    assert "CUDA out of memory" in trainings.log(submitter(trainings, "fail"))


def test_a_lost_worker_ends_the_driver_and_the_cluster_gets_another(trainings: Trainings) -> None:
    trainings.create(ray_job("lost", entrypoint=LONG))
    wait(trainings, "lost", jobStatus="RUNNING")
    worker = next(name for name in trainings.pods() if "-worker-" in name)
    path = f"/api/v1/namespaces/{trainings.namespace}/pods/{worker}?gracePeriodSeconds=0"
    trainings.standalone.request("DELETE", path)
    wait(trainings, "lost", jobStatus="FAILED")
    assert "ActorDiedError" in trainings.log(submitter(trainings, "lost"))
    wait_for(lambda: sum("-worker-" in name for name in trainings.pods()) == 2, "another worker", 30)


def test_a_suspended_job_has_nothing_and_begins_anew(trainings: Trainings) -> None:
    trainings.create(ray_job("pause", suspend=True, entrypoint=LONG))
    wait(trainings, "pause", jobDeploymentStatus="Suspended")
    assert not trainings.pods()
    path = f"{RAY}/namespaces/{trainings.namespace}/rayjobs/pause"
    merge = {"content_type": "application/merge-patch+json"}
    trainings.standalone.request("PATCH", path, {"spec": {"suspend": False}}, **merge)
    wait(trainings, "pause", jobStatus="RUNNING")
    trainings.standalone.request("PATCH", path, {"spec": {"suspend": True}}, **merge)
    wait(trainings, "pause", jobDeploymentStatus="Suspended")
    wait_for(lambda: not trainings.pods(), "no pods", 30)


def test_a_job_that_takes_too_long_fails(trainings: Trainings) -> None:
    trainings.create(ray_job("slow", entrypoint=LONG, activeDeadlineSeconds=60))
    assert wait(trainings, "slow", jobDeploymentStatus="Failed")["reason"] == "DeadlineExceeded"


def test_a_cluster_for_interactive_use_is_resized_and_suspended(trainings: Trainings) -> None:
    spec = ray_job("x")["spec"]["rayClusterSpec"]
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "desk"}, "spec": spec}
    assert trainings.create(body)[0] == 201
    wait_for(lambda: trainings.status("desk", "rayclusters", RAY).get("state") == "ready", "a cluster", 30)
    assert "desk-head" in trainings.pods()
    path = f"{RAY}/namespaces/{trainings.namespace}/rayclusters/desk"
    patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 1}]
    trainings.standalone.request("PATCH", path, patch, content_type="application/json-patch+json")
    wait_for(lambda: len(trainings.pods()) == 2, "one worker", 30)
    trainings.standalone.request(
        "PATCH", path, {"spec": {"suspend": True}}, content_type="application/merge-patch+json"
    )
    wait_for(lambda: trainings.status("desk", "rayclusters", RAY).get("state") == "suspended", "to be suspended", 30)
    assert not trainings.pods()
