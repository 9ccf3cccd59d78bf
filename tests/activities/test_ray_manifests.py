"""RayJobs and RayClusters keep to KubeRay's published definitions, and have just what the recipe reckons with."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.ray_clusters.manifests import ray_cluster
from activities.training.manifests import config_map
from activities.training.ray import RayPath, as_job, manifest
from contracts.deployment_parts import StorageMount
from contracts.network import Scope
from contracts.ray_clusters import RayClusterSpec
from contracts.ray_parts import ray_version_of, version_conflict
from contracts.training import TrainingSpec
from contracts.training_activities import SubmitTraining
from contracts.training_parts import TrainingState
from tests.activities.test_deployment_manifests import check
from tests.activities.test_serving_manifests import CRDS, faults

published = pytest.mark.skipif(not CRDS.exists(), reason="the published definitions are not on this machine")
CHECKED = settings(max_examples=40, deadline=None)
NAME = st.from_regex(r"[a-z]([-a-z0-9]{0,45}[a-z0-9])?", fullmatch=True)
TAG = st.from_regex(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
OPERATION = "run-training/demo/grpo"


def spec_of(**more: Any) -> TrainingSpec:
    given: dict[str, Any] = {
        "name": "grpo",
        "recipe": {
            "kind": "verl",
            "config": {"data.train_files": "/s3/datasets/gsm.parquet", "actor_rollout_ref.model.path": "/s3/models/q"},
        },
        "instance_types": ["ml.g5.12xlarge"],
        "nodes": 2,
        "gpus_per_node": 4,
        "image": "registry.example.com/verl:ray2.52.0-cu128",
    }
    return TrainingSpec.model_validate({**given, **more})


def request_of(spec: TrainingSpec, efa: int = 0, tag: str = "demo") -> SubmitTraining:
    scope = Scope(cluster=tag, region="us-west-2", created_by="ada", request_id="r-1")
    return SubmitTraining(scope=scope, eks_cluster="eks", spec=spec, run="run-1/1", efa=efa)


def ray_job(spec: TrainingSpec, efa: int = 0, tag: str = "demo") -> dict[str, Any]:
    return manifest(tag, request_of(spec, efa, tag), "training-files", OPERATION)


@st.composite
def specs(draw: st.DrawFn) -> TrainingSpec:
    nodes = draw(st.integers(1, 9))
    more: dict[str, Any] = {
        "name": draw(NAME),
        "nodes": nodes,
        "env": draw(st.dictionaries(st.sampled_from(["ONE", "TWO"]), TEXT, max_size=2)),
        "labels": draw(st.sampled_from([{}, {"team": "a"}])),
        "storage": draw(st.sampled_from([None, [], [{"claim": "fsx", "mount_path": "/fsx"}]])),
        "deadline_hours": draw(st.sampled_from([None, 0.5, 48])),
        "recovery": {"job_retries": draw(st.integers(0, 9))},
        "ray": draw(
            st.sampled_from(
                [None, {"head": "apart", "head_cpu": 1.5}, {"linger_seconds": 600}, {"ray_version": "2.52.0"}]
            )
        ),
        "secret_env": draw(st.sampled_from([{}, {"WANDB_API_KEY": "wandb"}])),
        "queue": draw(st.sampled_from([None, {"queue": "team", "priority": "high"}])),
    }
    return spec_of(**more)


@published
@CHECKED
@given(specs(), st.integers(0, 4), TAG)
def test_every_ray_job_keeps_to_its_definition(spec: TrainingSpec, efa: int, tag: str) -> None:
    made = ray_job(spec, efa, tag)
    assert faults("rayjobs.yaml", made["spec"]) == []
    groups = [made["spec"]["rayClusterSpec"]["headGroupSpec"], *made["spec"]["rayClusterSpec"]["workerGroupSpecs"]]
    for template in (*(group["template"] for group in groups), made["spec"]["submitterPodTemplate"]):
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "pod"}}
        check(pod, "pods")
    assert len(made["metadata"]["name"]) <= 47


@CHECKED
@given(specs(), st.integers(0, 4))
def test_head_and_workers_have_together_what_the_recipe_reckons_with(spec: TrainingSpec, efa: int) -> None:
    cluster = ray_job(spec, efa)["spec"]["rayClusterSpec"]
    groups = [(1, cluster["headGroupSpec"]), *((each["replicas"], each) for each in cluster["workerGroupSpecs"])]

    def total(resource: str) -> int:
        return sum(
            number * int(group["template"]["spec"]["containers"][0]["resources"]["limits"].get(resource, 0))
            for number, group in groups
        )

    assert total("nvidia.com/gpu") == spec.nodes * spec.gpus_per_node
    assert total("vpc.amazonaws.com/efa") == spec.nodes * efa
    assert sum(number * int(group["rayStartParams"]["num-gpus"]) for number, group in groups) == 4 * spec.nodes
    cpus = [int(group["rayStartParams"]["num-cpus"]) for _, group in groups]
    assert all(number >= 48 or number == 0 for number in cpus), "actors of the driver find their places"
    apart = spec.ray is not None and spec.ray.head == "apart"
    assert sum(number for number, _ in groups) == spec.nodes + apart
    assert cluster["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert cluster["headGroupSpec"]["enableIngress"] is False


@CHECKED
@given(st.lists(TEXT, min_size=1, max_size=4))
def test_the_entrypoint_passes_shells_unchanged_and_the_words_arrive_in_a_file(values: list[str]) -> None:
    config = {"data.train_files": "/s3/a", "actor_rollout_ref.model.path": "/s3/m", "trainer.note": values}
    spec = spec_of(recipe={"kind": "verl", "config": config})
    made = ray_job(spec)
    entrypoint = made["spec"]["entrypoint"]
    assert shlex.split(entrypoint) == entrypoint.split() == ["python3", "/opt/instantstart/recipe/start.py"]
    request = request_of(spec)
    files = config_map("demo", spec, RayPath().launch(request))["data"]
    assert json.loads(files["start.json"])["words"] == spec.launch().argv
    assert {"start.py", "entry.py", "endings.py"} <= set(files)


def test_pods_of_every_kind_carry_the_run_and_only_nodes_have_secrets() -> None:
    made = ray_job(spec_of(secret_env={"KEY": "wandb"}))["spec"]
    cluster = made["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], cluster["workerGroupSpecs"][0]):
        assert group["template"]["metadata"]["labels"]["instantstart.dev/training"] == "grpo"
        container = group["template"]["spec"]["containers"][0]
        assert "command" not in container, "KubeRay starts Ray itself"
        assert {
            "name": "KEY",
            "valueFrom": {"secretKeyRef": {"name": "instantstart-credential-wandb", "key": "token"}},
        } in [
            {**each, "valueFrom": {"secretKeyRef": {**each["valueFrom"]["secretKeyRef"], "key": "token"}}}
            for each in container["env"]
            if "valueFrom" in each
        ]
    submitter = made["submitterPodTemplate"]
    assert submitter["metadata"]["labels"]["instantstart.dev/training"] == "grpo"
    assert "env" not in submitter["spec"]["containers"][0]


def test_logs_can_be_read_before_the_pods_go_and_attempts_are_counted() -> None:
    made = ray_job(spec_of(recovery={"job_retries": 2}, ray={"linger_seconds": 300}))["spec"]
    assert (made["shutdownAfterJobFinishes"], made["ttlSecondsAfterFinished"], made["backoffLimit"]) == (True, 300, 2)


@pytest.mark.parametrize(
    ("status", "state", "restarts", "said"),
    [
        ({}, TrainingState.STARTING, 0, "KubeRay has not looked at it yet"),
        ({"jobDeploymentStatus": "Initializing"}, TrainingState.STARTING, 0, "its Ray cluster is made"),
        (
            {
                "jobDeploymentStatus": "Initializing",
                "rayClusterStatus": {"desiredWorkerReplicas": 3, "readyWorkerReplicas": 1},
            },
            TrainingState.STARTING,
            0,
            "its Ray cluster comes up: head not ready, 1 of 3 workers ready",
        ),
        ({"jobDeploymentStatus": "Running", "jobStatus": "PENDING"}, TrainingState.STARTING, 0, "the job is submitted"),
        ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, TrainingState.RUNNING, 0, "the driver runs"),
        (
            {"jobDeploymentStatus": "Retrying", "failed": 1, "message": "exit code 1"},
            TrainingState.RESTARTING,
            1,
            "attempt 2 comes: exit code 1",
        ),
        ({"jobDeploymentStatus": "Initializing", "failed": 1}, TrainingState.RESTARTING, 1, "its Ray cluster is made"),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, TrainingState.SUCCEEDED, 0, "has ended well"),
        ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, TrainingState.STOPPED, 0, "dashboard"),
        (
            {
                "jobDeploymentStatus": "Failed",
                "jobStatus": "FAILED",
                "reason": "AppFailed",
                "failed": 3,
                "message": "x",
            },
            TrainingState.FAILED,
            2,
            "the driver failed: x",
        ),
        (
            {"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded", "failed": 1},
            TrainingState.FAILED,
            0,
            "the job reached its deadline",
        ),
        ({"jobDeploymentStatus": "Suspended"}, TrainingState.SUSPENDED, 0, "suspended"),
        ({"jobDeploymentStatus": "Dreaming"}, TrainingState.UNKNOWN, 0, "KubeRay calls it Dreaming"),
    ],
)
def test_what_kuberay_says_is_told_in_our_words(
    status: dict[str, Any], state: TrainingState, restarts: int, said: str
) -> None:
    metadata = {"name": "grpo", "namespace": "default", "uid": "u-1"}
    job = as_job({"metadata": metadata, "spec": {"backoffLimit": 5}, "status": status})
    assert (job.state, job.restarts.job, job.restarts.job_limit) == (state, restarts, 5)
    assert said in job.detail


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("rayproject/ray:2.52.0-py312-gpu", "2.52.0"),
        ("docker.io/rayproject/ray-ml:2.9.3", "2.9.3"),
        ("verlai/verl:vllm011-ray2.50.1", "2.50.1"),
        ("registry.example.com/verl:ray-2.46.0-cu128", "2.46.0"),
        ("verlai/verl:app-verl0.5-vllm0.10.0", None),
        ("registry.example.com/array:1.2.3", None),
        ("rayproject/ray@sha256:0123", None),
        (None, None),
    ],
)
def test_rays_version_is_told_by_the_image_where_it_tells(image: str | None, version: str | None) -> None:
    assert ray_version_of(image) == version
    assert version_conflict("2.0.0", image) is None or version is not None


@st.composite
def ray_clusters(draw: st.DrawFn) -> RayClusterSpec:
    gpus = draw(st.integers(0, 8))
    return RayClusterSpec.model_validate(
        {
            "name": draw(NAME),
            "namespace": "ml",
            "workers": draw(st.integers(0, 20)),
            "gpus_per_worker": gpus,
            "efa_per_worker": draw(st.integers(0, 4)) if gpus else 0,
            "head_gpus": draw(st.integers(0, 2)),
            "instance_types": draw(st.sampled_from([[], ["ml.g5.8xlarge"]])),
            "worker_cpu": draw(st.sampled_from([None, 0.5, 48])),
            "worker_memory_gib": draw(st.sampled_from([None, 1.25, 512])),
            "env": draw(st.dictionaries(st.sampled_from(["ONE", "TWO"]), TEXT, max_size=2)),
            "credential": draw(st.sampled_from([None, "hub"])),
            "labels": draw(st.sampled_from([{}, {"team": "a"}])),
        }
    )


@published
@CHECKED
@given(ray_clusters(), TAG)
def test_every_ray_cluster_keeps_to_its_definition(spec: RayClusterSpec, tag: str) -> None:
    mounts = [StorageMount(), StorageMount(claim="fsx", mount_path="/fsx", sub_path="a")]
    made = ray_cluster(tag, spec, mounts, operation="create-ray-cluster/demo/x", run="run-1")
    assert faults("rayclusters.yaml", made["spec"]) == []
    for group in (made["spec"]["headGroupSpec"], *made["spec"]["workerGroupSpecs"]):
        template = group["template"]
        check(
            {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "p"}}, "pods"
        )
