"""KEDA, HorizontalPodAutoscalers and a Prometheus of the sandbox, over HTTP with the official client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from kubernetes import client
from kubernetes_support import Standalone, deployment, running, wait_for

GROUP = "keda.sh"
WAITING = 'sum(vllm:num_requests_waiting{namespace="%s"})'


@pytest.fixture(scope="module")
def standalone() -> Iterator[Standalone]:
    """A cluster of these tests' own: what they install would change others'."""
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def api(standalone: Standalone) -> client.ApiClient:
    return client.ApiClient(standalone.configuration())


@pytest.fixture(scope="module")
def keda(standalone: Standalone, api: client.ApiClient) -> client.CustomObjectsApi:
    """KEDA with its webhook, and a Prometheus."""
    definition = {
        "metadata": {"name": f"scaledobjects.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {"kind": "ScaledObject", "plural": "scaledobjects", "singular": "scaledobject"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    apps = client.AppsV1Api(api)
    client.ApiextensionsV1Api(api).create_custom_resource_definition(definition)
    client.CoreV1Api(api).create_namespace({"metadata": {"name": "keda"}})
    for name in ("keda-operator", "keda-admission-webhooks"):
        apps.create_namespaced_deployment("keda", deployment(name))
        wait_for(lambda name=name: apps.read_namespaced_deployment(name, "keda").status.available_replicas, name)
    apps.create_namespaced_deployment(
        "keda", deployment("prometheus-server", image="quay.io/prometheus/prometheus:v3.5.0")
    )
    ports = [{"name": "http", "port": 80, "targetPort": 9090}]
    service = {
        "metadata": {"name": "prometheus-server"},
        "spec": {"selector": {"app": "prometheus-server"}, "ports": ports},
    }
    client.CoreV1Api(api).create_namespaced_service("keda", service)
    wait_for(lambda: apps.read_namespaced_deployment("prometheus-server", "keda").status.available_replicas)
    return client.CustomObjectsApi(api)


@pytest.fixture(autouse=True)
def truth(standalone: Standalone) -> Iterator[None]:
    """No script says what queries give, before and after."""
    standalone.request("DELETE", "/_sandbox/kubernetes/queries")
    yield
    standalone.request("DELETE", "/_sandbox/kubernetes/queries")


def say(standalone: Standalone, query: str, value: Any) -> None:
    status, answer = standalone.request("PUT", "/_sandbox/kubernetes/queries", {"query": query, "value": value})
    assert status == 200, answer


def scaled(query: str, target: str = "model", **spec: Any) -> dict[str, Any]:
    metadata = {
        "serverAddress": "http://prometheus-server.keda.svc:80",
        "query": query,
        "threshold": "5",
        "activationThreshold": "1",
    }
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": target},
        "spec": {
            "scaleTargetRef": {"name": target},
            "pollingInterval": 5,
            "cooldownPeriod": 60,
            "minReplicaCount": 1,
            "maxReplicaCount": 4,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
            "triggers": [{"type": "prometheus", "metricType": "AverageValue", "metadata": metadata}],
            **spec,
        },
    }


class Workload:
    def __init__(self, api: client.ApiClient, keda: client.CustomObjectsApi, namespace: str) -> None:
        self.apps, self.keda, self.namespace = client.AppsV1Api(api), keda, namespace
        self.scaling = client.AutoscalingV2Api(api)

    def make(self, replicas: int = 1, name: str = "model") -> None:
        self.apps.create_namespaced_deployment(self.namespace, deployment(name, replicas))

    def scale_with(self, body: dict[str, Any]) -> None:
        self.keda.create_namespaced_custom_object(GROUP, "v1alpha1", self.namespace, "scaledobjects", body)

    def replicas(self, name: str = "model") -> int:
        return int(self.apps.read_namespaced_deployment(name, self.namespace).spec.replicas or 0)

    def condition(self, kind: str, name: str = "model") -> tuple[str, str]:
        found: Any = self.keda.get_namespaced_custom_object(GROUP, "v1alpha1", self.namespace, "scaledobjects", name)
        conditions = (found.get("status") or {}).get("conditions") or []
        return next(((c["status"], c["reason"]) for c in conditions if c["type"] == kind), ("", ""))


@pytest.fixture
def workload(api: client.ApiClient, keda: client.CustomObjectsApi, namespace: str) -> Workload:
    return Workload(api, keda, namespace)


def test_a_metric_decides_how_many_replicas_there_are(standalone: Standalone, workload: Workload) -> None:
    query = WAITING % workload.namespace
    say(standalone, query, 14)
    workload.make()
    workload.scale_with(scaled(query))
    wait_for(lambda: workload.replicas() == 3, "three replicas for 14 with 5 each")
    assert workload.condition("Ready") == ("True", "ScaledObjectReady")
    assert workload.condition("Active") == ("True", "ScalerActive")
    hpa = workload.scaling.read_namespaced_horizontal_pod_autoscaler("keda-hpa-model", workload.namespace)
    assert {c.type: c.status for c in hpa.status.conditions}["ScalingActive"] == "True"
    assert hpa.status.last_scale_time is not None
    say(standalone, query, 200)
    wait_for(lambda: workload.replicas() == 4, "no more than the most")
    say(standalone, query, 3)
    wait_for(lambda: workload.replicas() == 1, "the least")


def test_without_activity_the_last_replica_goes_after_the_cooldown_and_comes_back(
    standalone: Standalone, workload: Workload
) -> None:
    query = WAITING % workload.namespace
    say(standalone, query, 0)
    workload.make(2)
    workload.scale_with(scaled(query, minReplicaCount=0))
    wait_for(lambda: workload.replicas() == 0, "no replica")
    assert workload.condition("Active") == ("False", "ScalerNotActive")
    say(standalone, query, 1)
    begun = standalone.clock.timestamp()
    wait_for(lambda: standalone.clock.timestamp() > begun + 30)
    assert workload.replicas() == 0, "the activation threshold is not passed"
    say(standalone, query, 2)
    wait_for(lambda: workload.replicas() == 1, "the first replica")


def test_a_query_that_fails_is_told_in_conditions_and_nothing_is_scaled(
    standalone: Standalone, workload: Workload
) -> None:
    workload.make(2)
    workload.scale_with(scaled("sum(vllm:num_requests_waiting"))
    wait_for(lambda: workload.condition("Ready") == ("False", "TriggerError"))
    say(standalone, "vllm:num_requests_waiting", [1, 2])
    assert workload.replicas() == 2


def test_two_owners_of_one_workload_are_refused_as_keda_does(workload: Workload) -> None:
    query = WAITING % workload.namespace
    workload.make()
    workload.scale_with(scaled(query))
    second = scaled(query)
    second["metadata"]["name"] = "second"
    with pytest.raises(client.ApiException) as caught:
        workload.scale_with(second)
    assert caught.value.status == 403
    assert "is already managed by the ScaledObject 'model'" in caught.value.body
    workload.keda.delete_namespaced_custom_object(
        GROUP, "v1alpha1", workload.namespace, "scaledobjects", "model", body=client.V1DeleteOptions()
    )
    listed = workload.scaling.list_namespaced_horizontal_pod_autoscaler
    wait_for(lambda: not listed(workload.namespace).items, "the HorizontalPodAutoscaler goes with it")
    assert workload.replicas() == 1


def test_the_use_of_cpus_scales_too(standalone: Standalone, workload: Workload) -> None:
    workload.make()
    triggers = [{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}]
    workload.scale_with(scaled("", triggers=triggers))
    wait_for(lambda: workload.condition("Ready") == ("True", "ScaledObjectReady"))
    metrics = {"namespace": workload.namespace, "deployment": "model", "metrics": {"cpu_utilization": 120}}
    assert standalone.request("PUT", "/_sandbox/kubernetes/metrics", metrics)[0] == 200
    wait_for(lambda: workload.replicas() >= 3, "three replicas for 120 % with 50 % each")


def query(standalone: Standalone, text: str) -> tuple[int, Any]:
    path = "/api/v1/namespaces/keda/services/prometheus-server:80/proxy/api/v1/query"
    return standalone.request("GET", f"{path}?{urlencode({'query': text})}")


@pytest.mark.usefixtures("keda")
def test_prometheus_answers_for_the_servers_of_the_cluster(
    standalone: Standalone, api: client.ApiClient, namespace: str
) -> None:
    body = deployment("served", image="vllm/vllm-openai:v1")
    arguments = ["--model", "Qwen/Qwen3-0.6B", "--device", "cpu"]
    body["spec"]["template"]["spec"]["containers"][0]["args"] = arguments
    client.AppsV1Api(api).create_namespaced_deployment(namespace, body)
    text = f'max(vllm:num_requests_running{{namespace="{namespace}"}})'
    wait_for(lambda: query(standalone, text)[1]["data"]["result"], "a server that is scraped")
    assert query(standalone, text)[1]["data"]["result"][0]["value"][1] == "0"
    metrics = {"namespace": namespace, "deployment": "served", "metrics": {"vllm:num_requests_running": 7}}
    assert standalone.request("PUT", "/_sandbox/kubernetes/metrics", metrics)[0] == 200
    assert query(standalone, text)[1]["data"]["result"][0]["value"][1] == "7"
    assert query(standalone, 'nothing{a="b"}')[1]["data"]["result"] == []
    status, refused = query(standalone, "sum(x")
    assert (status, refused["errorType"]) == (400, "bad_data")
    assert "unclosed left parenthesis" in refused["error"]
