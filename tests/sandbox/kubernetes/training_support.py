"""Trainings in the standalone cluster: operators, jobs, and what is seen of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kubernetes_support import Standalone, wait_for

from sandbox.kubernetes import taskgovernance, trainingoperator
from sandbox.kubernetes.addonparts import Wanted

CHARTS = Path(__file__).parents[3] / "sandbox" / "charts"
HYPERPOD = "/apis/sagemaker.amazonaws.com/v1"
RAY = "/apis/ray.io/v1"
KUEUE = "/apis/kueue.x-k8s.io/v1beta1"
WORDS = ("hyperpodrun", "--nproc-per-node", "2", "train.py", "--max-steps", "30")
LONG = ("hyperpodrun", "--nproc-per-node", "2", "train.py", "--max-steps", "400", "--save-steps", "6")
"""Long enough for a test to do something meanwhile."""
BUDGET = {"evalPeriodSeconds": 21600, "numRestartBeforeFullJobRestart": 1, "maxFullJobRestarts": 1}
_numbers = itertools.count(1)


def container(words: tuple[str, ...] = WORDS, gpus: int = 2, **more: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {"name": "main", "image": "train:1", "command": list(words), "resources": {"limits": limits}, **more}


def training_job(
    name: str,
    replicas: int = 2,
    words: tuple[str, ...] = WORDS,
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    **policy: Any,
) -> dict[str, Any]:
    """A HyperPodPyTorchJob; ``policy`` is its runPolicy."""
    template = {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [container(words)]}}
    return {
        "apiVersion": "sagemaker.amazonaws.com/v1",
        "kind": "HyperPodPyTorchJob",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "nprocPerNode": "2",
            "replicaSpecs": [{"name": "pods", "replicas": replicas, "template": template}],
            "runPolicy": {"cleanPodPolicy": "None", **policy},
            **(spec or {}),
        },
    }


def ray_job(name: str, workers: int = 2, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{**container(("ray", "start"), 2), "name": "ray"}]}}
    head = {"spec": {"containers": [{**container(("ray", "start"), 0), "name": "ray"}]}}
    group = {"groupName": "gpu", "replicas": workers, "minReplicas": 0, "maxReplicas": 4, "rayStartParams": {}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {
            "entrypoint": "python3 -m verl.trainer.main_ppo trainer.total_training_steps=12",
            "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": {}, "template": head},
                "workerGroupSpecs": [{**group, "template": template}],
            },
            **spec,
        },
    }


@dataclass
class Trainings:
    """What a test does with trainings in its namespace."""

    standalone: Standalone
    namespace: str

    def create(self, manifest: dict[str, Any], **headers: str) -> tuple[int, Any]:
        group, _, _ = manifest["apiVersion"].partition("/")
        plural = manifest["kind"].lower() + "s"
        path = f"/apis/{manifest['apiVersion']}/namespaces/{self.namespace}/{plural}?fieldValidation=Strict"
        assert group
        return self.standalone.request("POST", path, manifest, **headers)

    def get(self, name: str, plural: str = "hyperpodpytorchjobs", base: str = HYPERPOD) -> dict[str, Any]:
        found: dict[str, Any] = self.standalone.request("GET", f"{base}/namespaces/{self.namespace}/{plural}/{name}")[1]
        return found

    def status(self, name: str, plural: str = "hyperpodpytorchjobs", base: str = HYPERPOD) -> dict[str, Any]:
        return self.get(name, plural, base).get("status") or {}

    def is_true(self, name: str, condition: str) -> bool:
        return self.condition(name, condition).get("status") == "True"

    def condition(self, name: str, condition: str) -> dict[str, Any]:
        found = self.status(name).get("conditions", [])
        return next((each for each in found if each["type"] == condition), {})

    def wait(self, name: str, condition: str) -> dict[str, Any]:
        """Wait until a job's condition is true; its status."""
        wait_for(lambda: self.is_true(name, condition), f"{name} to be {condition}", 30)
        return self.status(name)

    def patch(self, name: str, policy: dict[str, Any]) -> None:
        path = f"{HYPERPOD}/namespaces/{self.namespace}/hyperpodpytorchjobs/{name}"
        body = {"spec": {"runPolicy": policy}}
        assert self.standalone.request("PATCH", path, body, content_type="application/merge-patch+json")[0] == 200

    def pods(self) -> dict[str, dict[str, Any]]:
        found = self.standalone.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")[1]["items"]
        return {pod["metadata"]["name"]: pod for pod in found}

    def log(self, pod: str, query: str = "") -> str:
        status, text = self.standalone.request("GET", f"/api/v1/namespaces/{self.namespace}/pods/{pod}/log?{query}")
        assert status == 200, text
        return str(text)

    def events(self, name: str) -> list[tuple[str, str]]:
        path = f"/api/v1/namespaces/{self.namespace}/events?fieldSelector=involvedObject.name={name}"
        return [(e["reason"], e["message"]) for e in self.standalone.request("GET", path)[1]["items"]]

    def fault(self, **rule: Any) -> None:
        rule = {"namespace": self.namespace, **rule}
        assert self.standalone.request("POST", "/_sandbox/kubernetes/pods", {"add": [rule]})[0] == 200

    def clear(self) -> None:
        """Leave nothing that would take the GPUs of the next test."""
        self.standalone.request("DELETE", "/_sandbox/kubernetes/pods")
        self.standalone.request("DELETE", f"/api/v1/namespaces/{self.namespace}")
        wait_for(lambda: not self.pods(), "pods to go", 30)


@contextmanager
def gpu_nodes(standalone: Standalone, count: int, gpus: int = 8) -> Iterator[list[str]]:
    """Nodes with GPUs, as long as a test runs."""
    names = [f"training-{next(_numbers)}" for _ in range(count)]
    capacity = {"nvidia.com/gpu": str(gpus), "cpu": "96", "memory": "768Gi", "pods": "250"}
    for name in names:
        body = {"metadata": {"name": name}, "status": {"capacity": capacity}}
        assert standalone.request("POST", "/api/v1/nodes", body)[0] == 201
    yield names
    for name in names:
        standalone.request("DELETE", f"/api/v1/nodes/{name}")


def install(standalone: Standalone) -> None:
    """The training operator, Kueue and KubeRay, as their add-ons and chart bring them."""
    objects = [*trainingoperator.objects(Wanted("v1.2.0")), *taskgovernance.objects(Wanted("v1.3.0"))]
    for name in ("rayclusters", "rayjobs"):
        objects.append(yaml.safe_load((CHARTS / "kuberay-operator" / "crds" / f"{name}.yaml").read_text()))
    labels = {"app": "kuberay-operator"}
    objects.append(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kuberay-operator", "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "o", "image": "o"}]}},
            },
        }
    )
    cluster = standalone.cluster
    with cluster.lock:
        for each in objects:
            group, _, version = each["apiVersion"].rpartition("/")
            kind = next(
                k for k in cluster.store.types() if (k.group, k.version, k.kind) == (group, version, each["kind"])
            )
            # The cluster has no HyperPod node.
            each.get("spec", {}).get("template", {}).get("spec", {}).pop("nodeSelector", None)
            if cluster.store.get(kind, each["metadata"].get("namespace"), each["metadata"]["name"]) is None:
                cluster.registry.create(kind, each["metadata"].get("namespace"), each)

    names = {trainingoperator.MANAGER, taskgovernance.MANAGER, "kuberay-operator"}

    def available() -> bool:
        found = standalone.request("GET", "/apis/apps/v1/deployments")[1]["items"]
        up = {each["metadata"]["name"] for each in found if (each.get("status") or {}).get("availableReplicas")}
        return names <= up

    wait_for(available, "operators to run", 30)
