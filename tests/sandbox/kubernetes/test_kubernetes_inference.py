"""The HyperPod inference operator of the sandbox: custom resources become servers that answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client
from kubernetes_support import Standalone, deployment, running, wait_for

from sandbox.kubernetes import inferenceobjects, manifests

GROUP, SYSTEM = inferenceobjects.GROUP, inferenceobjects.NAMESPACE
KINDS = {"InferenceEndpointConfig": "inferenceendpointconfigs", "JumpStartModel": "jumpstartmodels"}


@pytest.fixture(scope="module")
def standalone() -> Iterator[Standalone]:
    """A cluster of these tests' own: what they install would change others'."""
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def api(standalone: Standalone) -> client.ApiClient:
    return client.ApiClient(standalone.configuration())


@pytest.fixture(scope="module")
def operator(standalone: Standalone, api: client.ApiClient) -> client.CustomObjectsApi:
    """The operator, the S3 driver, and a node with accelerators."""
    definitions = client.ApiextensionsV1Api(api)
    for kind, plural in KINDS.items():
        definitions.create_custom_resource_definition(manifests.open_definition(GROUP, kind, plural, ("v1",)))
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    core.create_namespace({"metadata": {"name": SYSTEM}})
    name = "hyperpod-inference-controller-manager"
    apps.create_namespaced_deployment(SYSTEM, deployment(name))
    wait_for(lambda: apps.read_namespaced_deployment(name, SYSTEM).status.available_replicas, name)
    client.StorageV1Api(api).create_csi_driver(manifests.csi_driver("s3.csi.aws.com", False))
    labels = {"node.kubernetes.io/instance-type": "ml.g5.8xlarge", "kubernetes.io/os": "linux"}
    core.create_node({"metadata": {"name": "gpus", "labels": labels}})
    capacity = {"cpu": "32", "memory": "128Gi", "pods": "50", "nvidia.com/gpu": "8"}
    core.patch_node_status("gpus", {"status": {"capacity": capacity, "allocatable": capacity}})
    return client.CustomObjectsApi(api)


class Endpoints:
    def __init__(self, standalone: Standalone, custom: client.CustomObjectsApi, namespace: str) -> None:
        self.standalone, self.custom, self.namespace = standalone, custom, namespace

    def make(self, spec: dict[str, Any], name: str = "qwen", kind: str = "InferenceEndpointConfig") -> None:
        body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.custom.create_namespaced_custom_object(GROUP, "v1", self.namespace, KINDS[kind], body)

    def get(self, name: str = "qwen", kind: str = "InferenceEndpointConfig") -> Any:
        return self.custom.get_namespaced_custom_object(GROUP, "v1", self.namespace, KINDS[kind], name)

    def state(self, name: str = "qwen", kind: str = "InferenceEndpointConfig") -> str:
        return str((self.get(name, kind).get("status") or {}).get("state", ""))

    def message(self, name: str = "qwen", kind: str = "InferenceEndpointConfig") -> str:
        return str(self.get(name, kind)["status"]["deploymentStatus"]["message"])

    def ask(self, service: str, model: str, path: str = "v1/chat/completions") -> tuple[int, Any]:
        body = {"model": model, "max_tokens": 8, "messages": [{"role": "user", "content": "Say hello."}]}
        root = f"/api/v1/namespaces/{self.namespace}/services/{service}:80/proxy"
        return self.standalone.request("POST", f"{root}/{path}", body)


@pytest.fixture
def endpoints(standalone: Standalone, operator: client.CustomObjectsApi, namespace: str) -> Endpoints:
    return Endpoints(standalone, operator, namespace)


def from_s3(**more: Any) -> dict[str, Any]:
    worker = {
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", "/opt/ml/model", "--served-model-name", "qwen", "--port", "8000"],
        "modelInvocationPort": {"containerPort": 8000, "name": "http"},
        "modelVolumeMount": {"name": "model-weights", "mountPath": "/opt/ml/model"},
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}},
    }
    storage = {"bucketName": "models", "region": "us-west-2"}
    source = {"modelSourceType": "s3", "s3Storage": storage, "modelLocation": "qwen"}
    given = {"modelName": "qwen", "replicas": 1, "instanceType": "ml.g5.8xlarge"}
    return {**given, "modelSourceConfig": source, "worker": worker, **more}


def test_an_endpoint_is_deployed_answers_by_its_router_and_leaves_nothing(
    endpoints: Endpoints, api: client.ApiClient
) -> None:
    endpoints.make(from_s3(replicas=2, intelligentRoutingSpec={"enabled": True, "routingStrategy": "prefixaware"}))
    wait_for(lambda: endpoints.state() == "DeploymentInProgress")
    wait_for(lambda: endpoints.state() == "DeploymentComplete")
    status = endpoints.get()["status"]
    assert status["deploymentStatus"]["deploymentObjectOverallState"] == "DeploymentComplete"
    assert status["deploymentStatus"]["status"]["readyReplicas"] == 2
    assert status["observedGeneration"] == endpoints.get()["metadata"]["generation"]
    wait_for(lambda: endpoints.ask("qwen-routing-service", "qwen")[0] == 200, "an answer by the router")
    delete = endpoints.custom.delete_namespaced_custom_object
    delete(GROUP, "v1", endpoints.namespace, KINDS["InferenceEndpointConfig"], "qwen", body=client.V1DeleteOptions())
    apps, core = client.AppsV1Api(api), client.CoreV1Api(api)
    wait_for(lambda: not apps.list_namespaced_deployment(endpoints.namespace).items, "no Deployment")
    wait_for(lambda: not core.list_namespaced_service(endpoints.namespace).items, "no Service")
    listed = endpoints.custom.list_namespaced_custom_object
    found = lambda: listed(GROUP, "v1", endpoints.namespace, KINDS["InferenceEndpointConfig"])["items"]  # noqa: E731
    wait_for(lambda: not found(), "no endpoint")


def test_a_changed_endpoint_is_rolled_out(endpoints: Endpoints, api: client.ApiClient) -> None:
    endpoints.make(from_s3())
    wait_for(lambda: endpoints.state() == "DeploymentComplete")
    patch = endpoints.custom.patch_namespaced_custom_object
    body = {"spec": {"replicas": 2}}
    patch(GROUP, "v1", endpoints.namespace, KINDS["InferenceEndpointConfig"], "qwen", body)
    apps = client.AppsV1Api(api)
    wait_for(lambda: apps.read_namespaced_deployment("qwen", endpoints.namespace).status.ready_replicas == 2)
    wait_for(lambda: endpoints.get()["status"]["observedGeneration"] == 2 and endpoints.state() == "DeploymentComplete")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"modelId": "meta-llama/Llama-3.1-8B"}, "401 Client Error"),
        ({"modelId": "nobody/does-not-exist"}, "404 Client Error"),
    ],
)
def test_a_model_that_cannot_be_had_fails_in_words(endpoints: Endpoints, model: dict[str, Any], words: str) -> None:
    endpoints.make(from_s3(modelSourceConfig={"modelSourceType": "huggingface", "huggingFaceModel": model}))
    wait_for(lambda: endpoints.state() == "DeploymentFailed")
    assert words in endpoints.message()


def test_a_server_that_does_not_come_up_fails_when_its_time_is_over(
    endpoints: Endpoints, standalone: Standalone
) -> None:
    rule = {"fault": "image_pull", "namespace": endpoints.namespace, "message": "manifest unknown"}
    assert standalone.request("POST", "/_sandbox/kubernetes/pods", {"add": [rule]})[0] == 200
    endpoints.make(from_s3(maxDeployTimeInSeconds=120))
    wait_for(lambda: endpoints.state() == "DeploymentFailed")
    assert "timed out progressing" in endpoints.message()


def test_a_jumpstart_model_brings_its_own_server(endpoints: Endpoints) -> None:
    model = {"modelId": "deepseek-llm-r1-distill-qwen-1-5b", "acceptEula": False}
    spec = {"model": model, "server": {"instanceType": "ml.g5.8xlarge"}, "replicas": 1}
    endpoints.make(spec, "deepseek", "JumpStartModel")
    wait_for(lambda: endpoints.state("deepseek", "JumpStartModel") == "DeploymentComplete")
    assert endpoints.ask("deepseek-service", "lmi")[0] == 200
    licensed = {**spec, "model": {"modelId": "meta-textgeneration-llama-3-8b", "acceptEula": False}}
    endpoints.make(licensed, "llama", "JumpStartModel")
    wait_for(lambda: endpoints.state("llama", "JumpStartModel") == "DeploymentFailed")
    assert "acceptEula" in endpoints.message("llama", "JumpStartModel")
