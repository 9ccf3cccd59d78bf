"""A cluster that trains on the local stack: runs, their jobs and pods, what the bucket keeps of them."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kubernetes import client

from activities import custom
from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients
from activities.settings import Settings
from activities.training.hyperpod import KIND
from contracts.names import LABEL_TRAINING
from tests.durability.runs import ENDS, create, entries, finish, raise_quotas
from tests.durability.serving import GPUS, worker_session
from tests.local_stack import LocalStack

TAG = "train"
EKS = f"eks-cluster-{TAG}"
HOME = f"/clusters/{TAG}"
NODES = 3
SINGLE = "ml.g5.8xlarge"
"""One GPU; there is one such node."""
JOBS = "/apis/sagemaker.amazonaws.com/v1/namespaces/default/hyperpodpytorchjobs"
RAY_JOBS = "/apis/ray.io/v1/namespaces/default/rayjobs"


def run_spec(name: str, steps: int, **more: Any) -> dict[str, Any]:
    """A run of one node and one GPU, whose pods stay when it has ended."""
    return {
        "name": name,
        "recipe": {
            "kind": "pytorch",
            "script_path": "/s3/code/train.py",
            "arguments": [f"--max-steps={steps}", f"--save_steps={max(steps // 20, 1)}"],
        },
        "instance_types": [GPUS],
        "gpus_per_node": 1,
        "image": "public.ecr.aws/tests/trainer:1.0",
        "storage": [],
        "recovery": {"clean_pods": "None"},
        **more,
    }


def ray_spec(name: str, steps: int) -> dict[str, Any]:
    config = {
        "data.train_files": "/s3/datasets/gsm8k.parquet",
        "actor_rollout_ref.model.path": "/s3/models/qwen",
        "trainer.total_training_steps": steps,
        "trainer.save_freq": 50,
    }
    return run_spec(
        name,
        steps,
        recipe={"kind": "verl", "config": config},
        nodes=2,
        image="registry.example.com/verl:ray2.52.0-cu128",
        recovery={"job_retries": 0},
        ray={"linger_seconds": 2400},
    )


@dataclass
class Trainings:
    """Runs, seen through the gateway and, past the platform, through the cluster's API and its bucket."""

    stack: LocalStack
    kubernetes: KubernetesClients
    bucket: str

    def ask(self, path: str, body: Any = None) -> str:
        """Start an operation; returns its id."""
        answer = self.stack.gateway.post(f"{HOME}/training-runs{path}", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def submit(self, name: str, steps: int, **more: Any) -> str:
        return self.ask("", run_spec(name, steps, **more))

    def ended(self, operation: str) -> dict[str, Any]:
        return self.stack.until(operation, lambda found: found["phase"] in ENDS)

    def says(self, operation: str, words: str) -> bool:
        """Whether the live line of a run has these words now."""
        stages = {each["name"]: each for each in self.stack.operation(operation)["stages"]}
        return "run" in stages and words in str(stages["run"]["detail"])

    def job(self, name: str) -> Any:
        with self._api() as api:
            return custom.get(api, KIND, "default", name)

    def pods(self, name: str) -> list[Any]:
        with self._api() as api:
            core, selector = client.CoreV1Api(api), f"{LABEL_TRAINING}={name}"
            listed: Any = core.list_namespaced_pod("default", label_selector=selector)
            return list(listed.items)

    def printed(self, pod: str) -> list[str]:
        """What a pod that is still there has printed, by its own cluster's word."""
        with self._api() as api:
            read: Any = client.CoreV1Api(api).read_namespaced_pod_log
            return _lines(read(pod, "default", timestamps=True, _preload_content=False).data)

    def record(self, operation: dict[str, Any]) -> dict[str, Any]:
        """``run.json`` of a run."""
        name = operation["id"].rpartition("/")[2]
        key = f"training/default/{name}/{operation['run_id']}/run.json"
        found: dict[str, Any] = json.loads(self._object(key))
        return found

    def kept(self, operation: dict[str, Any]) -> dict[str, list[str]]:
        """The lines that the bucket has of a run, by the pod's name."""
        base = f"training/default/{operation['id'].rpartition('/')[2]}/{operation['run_id']}/logs/"
        found: dict[str, list[str]] = {}
        for key, content in sorted(self.objects(base).items()):
            if key.endswith(".log.gz"):
                lines = _lines(gzip.decompress(content))
                found.setdefault(key.removeprefix(base).partition("/")[0], []).extend(lines)
        return found

    def index(self, operation: dict[str, Any]) -> dict[str, Any]:
        base = f"training/default/{operation['id'].rpartition('/')[2]}/{operation['run_id']}/logs/"
        found: dict[str, Any] = json.loads(self._object(f"{base}index.json"))
        return found

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return {item["Key"]: self._object(item["Key"]) for page in pages for item in page.get("Contents", ())}

    def made(self, since: int) -> Counter[str]:
        """How often each job was made, changed or deleted; applying it again does none of these."""
        return Counter(
            f"{row['operation']} {row['status']}"
            for row in entries(self.stack, TAG, since)
            if row["api"] == "kubernetes" and row["operation"].partition(" ")[2].startswith((JOBS, RAY_JOBS))
        )

    def misfortune(self, **rule: Any) -> None:
        self.stack.sandbox.post("/kubernetes/pods", json={"add": [rule]}).raise_for_status()

    def no_misfortune(self) -> None:
        self.stack.sandbox.delete("/kubernetes/pods").raise_for_status()

    def speed(self, speed: float) -> None:
        self.stack.sandbox.post("/clock", json={"speed": speed}).raise_for_status()

    @cached_property
    def _s3(self) -> Any:
        return worker_session(self.stack).client("s3", endpoint_url=self.stack.settings.sandbox_url)

    def _object(self, key: str) -> bytes:
        return bytes(self._s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    @contextmanager
    def _api(self) -> Iterator[client.ApiClient]:
        with self.kubernetes.connect(self.stack.settings.region, EKS) as api:
            yield api


def _lines(text: bytes) -> list[str]:
    return text.decode().splitlines()


def school(stack: LocalStack) -> Trainings:
    """A cluster with GPUs and both operators of training."""
    raise_quotas(stack, **{GPUS: 2 * NODES, SINGLE: 2})
    groups = [
        {"name": "gpus", "instance_type": GPUS, "count": NODES},
        {"name": "single", "instance_type": SINGLE, "count": 1},
    ]
    finish(stack, create(stack, TAG, instance_groups=groups))
    features = {"training_operator": {"enabled": True}, "kuberay": {"enabled": True}}
    answer = stack.gateway.patch(f"{HOME}/features", json=features)
    assert answer.status_code == 202, answer.text
    finish(stack, str(answer.json()["id"]))
    bucket = stack.gateway.get(HOME).json()["record"]["identity"]["bucket"]
    return Trainings(stack, KubernetesClients(AwsClients(Settings(), worker_session(stack))), bucket)
