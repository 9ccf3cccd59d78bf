"""A cluster with GPUs on the local stack, the model servers on it, and calls of Kubernetes that are held up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from kubernetes import client

from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients
from activities.settings import Settings
from contracts.command_flags import PINNED_IMAGES
from contracts.commands import Engine
from contracts.names import LABEL_DEPLOYMENT
from tests.durability.runs import create, entries, finish, fired, raise_quotas, wait_for
from tests.local_stack import LocalStack

TAG = "serve"
EKS = f"eks-cluster-{TAG}"
HOME = f"/clusters/{TAG}"
GPUS = "ml.g5.12xlarge"
"""4 GPUs each."""
AT_ONCE = 4
"""Requests, on a small machine."""
LONGEST_HOLD = 120.0
"""Seconds that a call is held up, unless it is let go."""
FORMER_IMAGE = PINNED_IMAGES[Engine.VLLM]
BROKEN_IMAGE = "vllm/vllm-openai:v9.9.9"
COMMAND = "vllm serve Qwen/Qwen3-0.6B --port 8000 --max-model-len 8192"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
PODS = "/api/v1/namespaces/default/pods"


def server(name: str, **more: Any) -> dict[str, Any]:
    """A request for a model server that may load for as long as a test likes."""
    return {"name": name, "command": COMMAND, "gpu_count": 1, "startup_timeout_minutes": 24 * 60, **more}


@dataclass
class Servers:
    """The cluster, seen through the gateway and, past the platform, through its own API."""

    stack: LocalStack
    kubernetes: KubernetesClients

    def ask(self, method: str, path: str, body: Any = None) -> str:
        """Start an operation; returns its id."""
        answer = self.stack.gateway.request(method, f"{HOME}{path}", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def create(self, name: str, **more: Any) -> str:
        return self.ask("POST", "/deployments", server(name, **more))

    def update(self, name: str, **more: Any) -> str:
        return self.ask("PUT", f"/deployments/{name}", server(name, **more))

    def serve(self, *wanted: dict[str, Any]) -> None:
        """Have these servers, and wait until they answer."""
        with ThreadPoolExecutor(AT_ONCE) as crowd:
            asked = list(crowd.map(lambda body: self.ask("POST", "/deployments", body), wanted))
        for operation in asked:
            finish(self.stack, operation)

    def deployment(self, name: str) -> Any:
        with self._api() as api:
            return client.AppsV1Api(api).read_namespaced_deployment(name, "default")

    def image(self, name: str) -> str:
        return str(self.deployment(name).spec.template.spec.containers[0].image)

    def revisions(self, name: str) -> dict[int, int]:
        """Replicas of each of its ReplicaSets, by revision."""
        with self._api() as api:
            found: Any = client.AppsV1Api(api).list_namespaced_replica_set("default", label_selector=_of(name)).items
        made = [int(each.metadata.annotations["deployment.kubernetes.io/revision"]) for each in found]
        assert len(set(made)) == len(made)
        return dict(zip(made, (each.spec.replicas for each in found), strict=True))

    def services(self, name: str) -> list[str]:
        with self._api() as api:
            return sorted(_names(client.CoreV1Api(api).list_namespaced_service("default", label_selector=_of(name))))

    def left(self, name: str) -> list[str]:
        """What there is of a server, of whatever kind."""
        with self._api() as api:
            apps, core, discovery = client.AppsV1Api(api), client.CoreV1Api(api), client.DiscoveryV1Api(api)
            listings = (
                apps.list_namespaced_deployment,
                apps.list_namespaced_replica_set,
                core.list_namespaced_pod,
                core.list_namespaced_service,
                core.list_namespaced_endpoints,
                discovery.list_namespaced_endpoint_slice,
            )
            return [each for listing in listings for each in _names(listing("default", label_selector=_of(name)))]

    def pods(self) -> list[str]:
        with self._api() as api:
            return _names(client.CoreV1Api(api).list_namespaced_pod("default"))

    def clear(self) -> None:
        """Take away what a test has left in the cluster: its GPUs are needed."""
        with self._api() as api:
            apps, core = client.AppsV1Api(api), client.CoreV1Api(api)
            apps.delete_collection_namespaced_deployment("default", label_selector=LABEL_DEPLOYMENT)
            for name in _names(core.list_namespaced_service("default", label_selector=LABEL_DEPLOYMENT)):
                core.delete_namespaced_service(name, "default")
        wait_for(lambda: not self.pods())

    def misfortune(self, **rule: Any) -> None:
        self.stack.sandbox.post("/kubernetes/pods", json={"add": [rule]}).raise_for_status()

    def no_misfortune(self) -> None:
        self.stack.sandbox.delete("/kubernetes/pods").raise_for_status()

    def effects(self, since: int) -> Counter[str]:
        """How often each call of Kubernetes made or deleted something; applying something again does neither."""
        return Counter(
            row["operation"]
            for row in entries(self.stack, TAG, since)
            if row["api"] == "kubernetes" and (row["status"] == 201 or row["operation"].startswith("DELETE "))
        )

    def touched(self, since: int) -> set[str]:
        """Every call of Kubernetes that was to change something, answered or not."""
        rows = entries(self.stack, TAG, since, effects=False)
        return {row["operation"] for row in rows if row["api"] == "kubernetes"}

    @contextmanager
    def _api(self) -> Iterator[client.ApiClient]:
        with self.kubernetes.connect(self.stack.settings.region, EKS) as api:
            yield api


def _names(listed: Any) -> list[str]:
    return [each.metadata.name for each in listed.items]


def _of(name: str) -> str:
    return f"{LABEL_DEPLOYMENT}={name}"


def furnished(stack: LocalStack, count: int) -> Servers:
    """A cluster with one group of GPUs and the AWS Load Balancer Controller."""
    raise_quotas(stack, **{GPUS: count})
    finish(stack, create(stack, TAG, instance_groups=[{"name": "gpus", "instance_type": GPUS, "count": count}]))
    servers = Servers(stack, KubernetesClients(AwsClients(Settings(), worker_session(stack))))
    finish(stack, servers.ask("PATCH", "/features", {"load_balancer_controller": {"enabled": True}}))
    return servers


def worker_session(stack: LocalStack) -> boto3.Session:
    """The worker's credentials. Where AWS answers is found in the environment alone."""
    env = stack.environment("worker")
    return boto3.Session(
        aws_access_key_id=env["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=env["AWS_SECRET_ACCESS_KEY"],
        region_name=env["AWS_REGION"],
    )


@dataclass(frozen=True)
class Hold:
    """One call, of Kubernetes if nothing else is said, that is not answered: its effect comes at once, or (``before``)
    only when it is let go."""

    operation: str
    before: bool = False
    match: str = ""
    skip: int = 0
    api: str = "kubernetes"
    service: str = EKS


@dataclass
class Holding:
    """Calls that are held up, each by the name of who is to be caught in it. A killed caller's call goes on."""

    stack: LocalStack
    holds: Mapping[str, Hold]

    def begin(self) -> None:
        rules = [
            {
                **{"id": name, "api": hold.api, "service": hold.service},
                **{"operation": hold.operation, "match": hold.match},
                **{"phase": "before" if hold.before else "after", "skip": hold.skip, "times": 1},
                **{"action": "latency", "latency": LONGEST_HOLD},
            }
            for name, hold in self.holds.items()
        ]
        self.stack.sandbox.post("/faults", json=rules).raise_for_status()

    def wait(self, limit: float = 60.0) -> None:
        """Until every one of the calls has come."""
        deadline = time.monotonic() + limit
        while missing := set(self.holds) - set(fired(self.stack)):
            assert time.monotonic() < deadline, f"never called: {sorted(missing)}"
            time.sleep(0.1)

    def end(self) -> None:
        """Let all calls go."""
        self.stack.sandbox.delete("/faults").raise_for_status()
