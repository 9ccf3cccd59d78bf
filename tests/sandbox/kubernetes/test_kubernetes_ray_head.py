"""The head of a Ray cluster: what its dashboard's API answers through the API server."""

from __future__ import annotations

from typing import Any

from kubernetes_support import wait_for
from training_support import RAY, Trainings, ray_job


def test_a_head_tells_rays_version_and_its_jobs_and_workers_do_not(trainings: Trainings) -> None:
    spec = ray_job("x")["spec"]["rayClusterSpec"]
    spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:2.46.0-py312"
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["template"]["spec"]["containers"][0].pop("command", None)
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "told"}, "spec": spec}
    assert trainings.create(body)[0] == 201
    wait_for(lambda: trainings.status("told", "rayclusters", RAY).get("state") == "ready", "a cluster", 30)

    def ask(pod: str, path: str) -> tuple[int, Any]:
        url = f"/api/v1/namespaces/{trainings.namespace}/pods/{pod}:8265/proxy{path}"
        return trainings.standalone.request("GET", url)

    found = wait_for(lambda: (answer := ask("told-head", "/api/version"))[0] == 200 and answer[1], "the head", 30)
    assert found["ray_version"] == "2.46.0"
    assert ask("told-head", "/api/jobs/") == (200, [])
    worker = next(name for name in trainings.pods() if "-worker-" in name)
    assert ask(worker, "/api/version")[0] in (502, 503)
