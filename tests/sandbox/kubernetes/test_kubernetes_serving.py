"""Model servers answer in OpenAI's format through the API server, once they are loaded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException
from kubernetes_support import Standalone, Tools, wait_for
from serving_support import MODEL, Models, gpu_node, server, service, sse


def test_a_server_is_ready_when_its_model_is_loaded_and_not_before(models: Models) -> None:
    clock = models.standalone.clock
    clock.pause()
    try:
        models.deploy(server("chat"))
        while not (models.pods("chat") and models.pods("chat")[0].status.phase == "Running"):
            clock.advance(2)
        clock.advance(10)
        assert not models.container("chat").ready
        status, answer = models.ask("chat", "/health")
        assert (status, answer["message"]) == (503, 'no endpoints available for service "chat"')
    finally:
        clock.resume()
    models.wait_ready("chat", 1)
    assert models.ask("chat", "/health")[0] == 200
    status, found = models.ask("chat", "/v1/models")
    assert (status, [m["id"] for m in found["data"]]) == (200, [MODEL])
    assert found["data"][0]["max_model_len"] == 40_960
    log = models.core.read_namespaced_pod_log(models.pods("chat")[0].metadata.name, models.namespace)
    assert "Loading safetensors checkpoint shards: 100% Completed" in log
    assert log.strip().endswith("Application startup complete.")
    assert any("connection refused" in message for message in models.events("Unhealthy"))


def test_answers_are_deterministic_and_within_their_limit(models: Models) -> None:
    models.deploy(server("chat", MODEL, "--served-model-name", "small", "tiny"), ready=1)
    status, first = models.chat("chat", "Explain gradient descent", model="tiny", temperature=1.5)
    assert status == 200
    again = models.chat("chat", "Explain gradient descent", model="tiny", temperature=0)[1]
    said = first["choices"][0]["message"]["content"]
    assert said == again["choices"][0]["message"]["content"]
    assert "gradient" in said
    assert first["object"] == "chat.completion"
    assert first["choices"][0]["finish_reason"] == "stop"
    assert first["usage"]["total_tokens"] == first["usage"]["prompt_tokens"] + first["usage"]["completion_tokens"]
    short = models.ask("chat", "/v1/completions", {"model": "small", "prompt": "gradient descent", "max_tokens": 3})[1]
    assert short["usage"]["completion_tokens"] == 3
    assert short["choices"][0]["finish_reason"] == "length"
    stopped = models.chat("chat", "Explain gradient descent", model="tiny", stop=[":"])[1]
    assert stopped["choices"][0]["message"]["content"] == said.partition(":")[0]


@pytest.mark.parametrize("usage", [True, False])
def test_a_stream_says_what_the_whole_answer_says(models: Models, usage: bool) -> None:
    models.deploy(server("chat"), ready=1)
    whole = models.chat("chat")[1]["choices"][0]["message"]["content"]
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "What is a tensor?"}], "stream": True}
    if usage:
        body["stream_options"] = {"include_usage": True}
    raw = models.standalone.http.request(
        "POST",
        f"{models.standalone.url}/api/v1/namespaces/{models.namespace}/services/chat/proxy/v1/chat/completions",
        body=json.dumps(body).encode(),
        preload_content=False,
    )
    assert raw.headers["content-type"].startswith("text/event-stream")
    *parts, done = sse(b"".join(raw.stream()))
    assert done == "[DONE]"
    if usage:
        assert parts.pop()["usage"]["completion_tokens"] == len(parts) - 1
    assert "".join(p["choices"][0]["delta"]["content"] for p in parts) == whole
    assert [p["choices"][0]["finish_reason"] for p in parts].count("stop") == 1
    assert {p["object"] for p in parts} == {"chat.completion.chunk"}


def test_a_stream_arrives_in_pieces_and_may_be_left(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    models.spoil("answer", pace=0.05)
    url = f"{models.standalone.url}/api/v1/namespaces/{models.namespace}/services/chat/proxy/v1/completions"
    body = json.dumps({"prompt": "tensors", "stream": True, "max_tokens": 16}).encode()
    answer = models.standalone.http.request("POST", url, body=body, preload_content=False)
    first = next(answer.stream())
    assert first.count(b"data: ") < 16
    assert models.metric("chat", "vllm:num_requests_running") == 1
    answer.close()
    assert models.ask("chat", "/health")[0] == 200


@pytest.mark.parametrize(
    ("body", "status", "kind", "says"),
    [
        ({"model": "other", "prompt": "x"}, 404, "NotFoundError", "The model `other` does not exist."),
        ({"prompt": "x", "max_tokens": 0}, 400, "BadRequestError", "max_tokens must be at least 1"),
        ({"prompt": "x" * 9000, "max_tokens": 1000}, 400, "BadRequestError", "maximum context length is 2048 tokens"),
        ({}, 400, "BadRequestError", "Field required"),
        ([1], 400, "BadRequestError", "valid dictionary"),
        (b"{", 400, "BadRequestError", "Invalid JSON"),
    ],
)
def test_what_a_server_refuses_it_refuses_in_openais_format(
    models: Models, body: Any, status: int, kind: str, says: str
) -> None:
    models.deploy(server("chat", MODEL, "--max-model-len", "2048"), ready=1)
    answered, found = models.ask("chat", "/v1/completions", body)
    assert (answered, found["error"]["type"], found["error"]["code"]) == (status, kind, status)
    assert says in found["error"]["message"]
    assert models.ask("chat", "/no/such/path")[0] == 404


def test_a_server_with_a_key_refuses_what_comes_through_the_api_server(models: Models) -> None:
    models.deploy(server("chat", MODEL, "--api-key", "sk-1"), ready=1)
    assert models.chat("chat") == (401, {"error": "Unauthorized"})
    assert models.ask("chat", "/health")[0] == 200


def test_requests_are_counted(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    before = models.metric("chat", "vllm:request_success_total")
    used = [models.chat("chat", f"question {n}")[1]["usage"] for n in range(3)]
    assert models.metric("chat", "vllm:request_success_total") - before == 3
    assert models.metric("chat", "vllm:generation_tokens_total") == sum(u["completion_tokens"] for u in used)
    assert models.metric("chat", "vllm:prompt_tokens_total") == sum(u["prompt_tokens"] for u in used)
    assert models.metric("chat", "vllm:e2e_request_latency_seconds_count") == 3
    assert models.metric("chat", "vllm:num_requests_running") == 0


def test_scripted_metrics_take_the_place_of_what_is_counted(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    where = {"namespace": models.namespace, "deployment": "chat"}
    values = {"vllm:num_requests_waiting": 12, "my:gauge": 0.5}
    models.admin("PUT", "metrics", {**where, "metrics": values})
    assert models.metric("chat", "vllm:num_requests_waiting") == 12
    assert models.metric("chat", "my:gauge") == 0.5
    models.admin("PUT", "metrics", {**where, "metrics": {"vllm:num_requests_waiting": None}})
    assert models.metric("chat", "vllm:num_requests_waiting") == 0
    models.admin("DELETE", "metrics")
    assert models.metric("chat", "my:gauge") == 0


def test_a_service_sends_each_request_to_another_pod(models: Models) -> None:
    models.deploy(server("chat", replicas=3), ready=3)
    for number in range(6):
        assert models.chat("chat", f"question {number}")[0] == 200
    served = []
    for pod in models.pods("chat"):
        path = f"/api/v1/namespaces/{models.namespace}/pods/{pod.metadata.name}:8000/proxy/metrics"
        text = models.standalone.request("GET", path)[1]
        served += [line.rpartition(" ")[2] for line in text.splitlines() if "e2e_request_latency_seconds_count" in line]
    assert served == ["2", "2", "2"]


def test_ports_are_found_as_the_api_server_finds_them(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    models.core.create_namespaced_service(models.namespace, service("named", "chat", "http"))
    wait_for(lambda: models.endpoints("named"))
    assert models.ask("named:http", "/health")[0] == 200
    assert models.ask("named:80", "/health")[0] == 200
    assert models.ask("http:named:http", "/health")[0] == 200
    # A port that has a name must be named.
    status, answer = models.ask("named", "/health")
    assert (status, answer["message"]) == (503, 'no endpoints available for service "named"')
    status, answer = models.ask("named:81", "/health")
    assert (status, answer["message"]) == (503, 'no service port 81 found for service "named"')
    assert models.ask("absent", "/health")[0] == 404
    assert models.ask("named:a:b:c", "/health")[0] == 400
    status, answer = models.ask("https:named:http", "/health")
    assert (status, answer["reason"]) == (503, "ServiceUnavailable")


def test_a_pod_without_a_server_refuses_the_connection(models: Models) -> None:
    models.deploy(server("web", image="nginx:1", args=[]), ready=1)
    status, answer = models.ask("web", "/")
    assert status == 503
    assert answer["message"].endswith(":8000: connect: connection refused")
    assert answer["message"].startswith("error trying to reach service: dial tcp 10.")


def test_the_official_client_reaches_pods_and_services(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    name = models.pods("chat")[0].metadata.name
    found = models.core.connect_get_namespaced_pod_proxy_with_path(name, models.namespace, "v1/models")
    assert MODEL in str(found)
    found = models.core.connect_get_namespaced_service_proxy_with_path("chat", models.namespace, "version")
    assert "0.11" in str(found)
    with pytest.raises(ApiException) as error:
        models.core.connect_get_namespaced_service_proxy_with_path("none", models.namespace, "version")
    assert error.value.status == 404


def test_kubectl_gets_a_servers_answer_raw(models: Models, tools: Tools) -> None:
    models.deploy(server("chat"), ready=1)
    path = f"/api/v1/namespaces/{models.namespace}/services/chat:80/proxy/v1/models"
    assert json.loads(tools.kubectl("get", "--raw", path))["data"][0]["id"] == MODEL
    refused = tools.kubectl("get", "--raw", path.replace("/v1/models", "/nothing"), ok=False)
    assert "the server could not find the requested resource" in refused


def test_asking_a_model_changes_nothing_in_the_ledger(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    known = models.standalone.ledger.query(api="kubernetes")[-1]["number"]
    assert models.chat("chat")[0] == 200
    assert [e for e in models.standalone.ledger.query(since=known) if "proxy" in e["operation"]] == []


def test_sglang_shows_its_own_routes_and_metrics(models: Models) -> None:
    args = ["--model-path", MODEL, "--host", "0.0.0.0", "--port", "8000", "--enable-metrics"]
    command = ["python3", "-m", "sglang.launch_server"]
    models.deploy(server("sg", image="lmsysorg/sglang:v0.5.4", command=command, args=args), ready=1)
    assert models.ask("sg", "/get_model_info")[1]["model_path"] == MODEL
    made = models.ask("sg", "/generate", {"text": "tensors", "sampling_params": {"max_new_tokens": 2}})[1]
    assert made["meta_info"]["completion_tokens"] == 2
    assert models.metric("sg", "sglang:num_requests_total") == 1
    assert models.chat("sg", model="none")[1]["object"] == "error"


def test_a_router_spreads_requests_over_the_ready_workers(models: Models) -> None:
    models.deploy(server("worker", replicas=2), ready=2)
    args = [
        *("--service-discovery", "--selector", "app=worker", "--service-discovery-port", "8000"),
        *("--service-discovery-namespace", models.namespace, "--policy", "round_robin"),
        *("--prometheus-port", "29000"),
    ]
    command = ["python3", "-m", "sglang_router.launch_router"]
    readiness = {"httpGet": {"path": "/health", "port": 30000}}
    probes = {"startupProbe": None, "livenessProbe": None, "readinessProbe": readiness}
    manifest = server("router", gpus=0, image="lmsysorg/sglang:v0.5.4", command=command, args=args, **probes)
    models.deploy(manifest, exposed=False)
    ports = [{"name": "http", "port": 80, "targetPort": 30000}, {"name": "metrics", "port": 29000}]
    spec = {"selector": {"app": "router"}, "ports": ports}
    models.core.create_namespaced_service(models.namespace, {"metadata": {"name": "router"}, "spec": spec})
    models.wait_ready("router", 1)
    assert len(models.ask("router:http", "/list_workers")[1]["urls"]) == 2
    for number in range(4):
        status, answer = models.chat("router:http", f"question {number}")
        assert (status, answer["model"]) == (200, MODEL)
    assert models.metric("router:metrics", "sgl_router_requests_total") == 4
    assert models.metric("router:metrics", "sgl_router_active_workers") == 2
    text = models.ask("router:metrics", "/metrics")[1]
    assert [line.rpartition(" ")[2] for line in text.splitlines() if "processed_requests_total{" in line] == ["2", "2"]
    models.apps.patch_namespaced_deployment_scale("worker", models.namespace, {"spec": {"replicas": 0}})
    wait_for(lambda: not models.ask("router:http", "/list_workers")[1]["urls"])
    status, answer = models.chat("router:http")
    assert status == 503
    assert "No available workers" in answer
    assert models.ask("router:http", "/readiness")[0] == 503


def test_counts_scripts_and_readiness_outlive_a_restart(models: Models) -> None:
    models.deploy(server("chat"), ready=1)
    assert models.chat("chat")[0] == 200
    models.admin("PUT", "metrics", {"namespace": models.namespace, "deployment": "chat", "metrics": {"my:gauge": 3}})
    models.spoil("slow_load", id="slow", factor=2)
    with models.standalone.clock.still:
        models.standalone.clusters.pod_faults.load(models.standalone.clusters.pod_faults.dump())
        cluster = models.standalone.cluster
        with cluster.lock:
            cluster.load(cluster.dump())
    assert models.metric("chat", "vllm:request_success_total") == 1
    assert models.metric("chat", "my:gauge") == 3
    assert [rule["id"] for rule in models.admin("GET", "pods")] == ["slow"]
    assert models.deployment("chat").status.ready_replicas == 1
    assert models.chat("chat")[0] == 200


def test_many_servers_at_rest_cost_nothing() -> None:
    quiet = Standalone()
    quiet.clock.start()
    quiet.listener.start()
    api = client.ApiClient(quiet.configuration())
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    models, names = Models(quiet, core, apps, "default"), [f"m{number}" for number in range(8)]
    with gpu_node(core):
        for name in names:
            models.deploy(server(name))
        wait_for(lambda: all(models.deployment(name).status.available_replicas == 1 for name in names))
        quiet.clock.advance(700)
        revision = quiet.cluster.store.revision
        quiet.clock.advance(3600)
        assert quiet.cluster.store.revision == revision
        assert quiet.clock.pending == 0
    quiet.listener.stop()
    quiet.clock.stop()
