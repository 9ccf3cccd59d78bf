"""Model servers in the standalone cluster: manifests, and requests through the API server's proxy."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from kubernetes_support import Standalone, wait_for

IMAGE = "vllm/vllm-openai:v0.11.0"
MODEL = "Qwen/Qwen3-0.6B"
PROBES = {
    "startupProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 5, "failureThreshold": 60},
    "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 5, "failureThreshold": 2},
    "livenessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10, "failureThreshold": 3},
}
_numbers = itertools.count(1)


def server(name: str, *args: str, replicas: int = 1, gpus: int = 1, **container: Any) -> dict[str, Any]:
    """A Deployment of vLLM with probes, on the test's own GPU node."""
    main = {
        "name": "main",
        "image": IMAGE,
        "args": list(args or (MODEL,)),
        "ports": [{"name": "http", "containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {},
        **PROBES,
        **container,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [main]}},
        },
    }


def service(name: str, app: str = "", port_name: str = "") -> dict[str, Any]:
    ports = [{"port": 80, "targetPort": 8000, **({"name": port_name} if port_name else {})}]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": app or name}, "ports": ports}}


@contextmanager
def gpu_node(core: client.CoreV1Api, gpus: int = 8) -> Iterator[str]:
    """A node with GPUs for as long as the test runs."""
    name = f"gpu-{next(_numbers)}"
    capacity = {"nvidia.com/gpu": str(gpus), "cpu": "96", "memory": "768Gi", "pods": "250"}
    core.create_node({"metadata": {"name": name}, "status": {"capacity": capacity}})
    yield name
    core.delete_node(name)


@dataclass
class Models:
    """What a test does with model servers in its namespace."""

    standalone: Standalone
    core: client.CoreV1Api
    apps: client.AppsV1Api
    namespace: str

    def deploy(self, manifest: dict[str, Any], *, ready: int | None = None, exposed: bool = True) -> None:
        """Make a Deployment and its Service; with ``ready`` wait until so many pods are Ready."""
        name = manifest["metadata"]["name"]
        self.apps.create_namespaced_deployment(self.namespace, manifest)
        if exposed:
            self.core.create_namespaced_service(self.namespace, service(name))
        if ready is not None:
            self.wait_ready(name, ready)

    def wait_ready(self, name: str, ready: int) -> None:
        wait_for(lambda: (self.deployment(name).status.ready_replicas or 0) == ready, f"{ready} pods of {name} Ready")
        wait_for(lambda: len(self.endpoints(name)) == ready, f"{ready} endpoints of {name}")

    def clear(self) -> None:
        """Leave nothing that would take the GPUs of the next test."""
        self.standalone.clusters.pod_faults.clear()
        self.apps.delete_collection_namespaced_deployment(self.namespace, grace_period_seconds=0)
        wait_for(lambda: not self.apps.list_namespaced_replica_set(self.namespace).items, "replica sets to go")

    def deployment(self, name: str) -> Any:
        return self.apps.read_namespaced_deployment(name, self.namespace)

    def pods(self, name: str) -> list[Any]:
        return self.core.list_namespaced_pod(self.namespace, label_selector=f"app={name}").items

    def container(self, name: str) -> Any:
        """The status of the only container of the only pod."""
        statuses = self.pods(name)[0].status.container_statuses if self.pods(name) else None
        return statuses[0] if statuses else None

    def wait_waiting(self, name: str, reason: str) -> Any:
        """Wait until the container waits for this reason; its status."""

        def found() -> Any:
            status = self.container(name)
            return status if status and status.state.waiting and status.state.waiting.reason == reason else None

        return wait_for(found, f"{name} to be in {reason}")

    def endpoints(self, name: str) -> list[str]:
        found = self.core.list_namespaced_endpoints(self.namespace, field_selector=f"metadata.name={name}").items
        subsets = (found[0].subsets if found else None) or []
        return [a.target_ref.name for subset in subsets for a in subset.addresses or []]

    def events(self, reason: str) -> list[str]:
        selector = f"reason={reason}"
        return [e.message for e in self.core.list_namespaced_event(self.namespace, field_selector=selector).items]

    def ask(self, name: str, path: str, body: Any = None, method: str = "") -> tuple[int, Any]:
        """Status and content of an answer through the proxy of a Service."""
        prefix = f"/api/v1/namespaces/{self.namespace}/services/{name}/proxy"
        return self.standalone.request(method or ("GET" if body is None else "POST"), prefix + path, body)

    def chat(self, name: str, text: str = "What is a tensor?", **more: Any) -> tuple[int, Any]:
        return self.ask(name, "/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **more})

    def admin(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.standalone.request(method, f"/_sandbox/kubernetes/{path}", body)
        assert status == 200, answer
        return answer

    def spoil(self, fault: str, **rule: Any) -> None:
        """Add a misfortune of this namespace's pods."""
        self.admin("POST", "pods", {"add": [{"fault": fault, "namespace": self.namespace, **rule}]})

    def metric(self, name: str, metric: str, path: str = "/metrics") -> float:
        """The sum of a metric's samples."""
        status, text = self.ask(name, path)
        assert status == 200, text
        lines = [line for line in text.splitlines() if line.startswith((metric + "{", metric + " "))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


def sse(raw: bytes) -> list[Any]:
    """The events of a stream, ``[DONE]`` included."""
    lines = [line.removeprefix("data: ") for line in raw.decode().split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]
