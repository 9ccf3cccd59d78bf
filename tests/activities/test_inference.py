"""Calls to models of the sandbox through the Kubernetes API, and the list of Services that serve them."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from contracts.deployments import APPLY_SERVICES, ApplyServices, DeploymentSpec
from contracts.inference import (
    CALL_MODEL,
    LIST_SERVICES,
    CallModel,
    CallRequest,
    InferenceService,
    ListServices,
    ModelAnswer,
    Serves,
)
from contracts.problem import Problem, ProblemCode
from tests.activities.conftest import REGION, problem
from tests.activities.test_deployments import Servers, servers
from tests.activities.world import until

__all__ = ["servers"]


@pytest.fixture(scope="module")
def served(servers: Servers) -> DeploymentSpec:
    spec = servers.spec("talker")
    servers.serve(spec)
    return spec


def call(servers: Servers, service: str, **request: Any) -> ModelAnswer:
    asked = CallRequest.model_validate({"prompt": "Tell me of the sea.", "max_tokens": 8, **request})
    return servers.run(
        CALL_MODEL,
        CallModel(region=REGION, eks_cluster=servers.cluster, namespace="default", service=service, request=asked),
    )


def refusal(servers: Servers, service: str, **request: Any) -> Problem:
    with pytest.raises(ApplicationError) as caught:
        call(servers, service, **request)
    return problem(caught)


def listed(servers: Servers, **more: Any) -> dict[str, InferenceService]:
    asked = ListServices(cluster="serving", region=REGION, eks_cluster=servers.cluster, **more)
    return {each.name: each for each in servers.run(LIST_SERVICES, asked).services}


def test_a_model_is_found_by_its_service_and_answers(servers: Servers, served: DeploymentSpec) -> None:
    answer = call(servers, served.name)
    assert (answer.model, answer.service) == ("Qwen/Qwen3-0.6B", served.name)
    assert answer.text
    assert answer.completion_tokens == 8
    assert answer.finish_reason == "length"
    assert answer.first_token_seconds is None


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_a_stream_tells_what_is_written_and_ends_with_the_same_answer(
    servers: Servers, served: DeploymentSpec, api: str
) -> None:
    whole = call(servers, served.name, api=api, max_tokens=40)
    servers.run.heartbeats.clear()
    streamed = call(servers, served.name, api=api, max_tokens=40, stream=True)
    assert streamed.text == whole.text
    assert streamed.completion_tokens == whole.completion_tokens
    assert streamed.first_token_seconds is not None
    told = [details[0]["text"] for details in servers.run.heartbeats]
    assert all(streamed.text.startswith(text) for text in told)


def test_a_conversation_and_parameters_of_the_engine_pass_through(servers: Servers, served: DeploymentSpec) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}]
    answer = call(servers, served.name, prompt=None, messages=messages, parameters={"top_p": 0.9})
    assert answer.prompt_tokens is not None
    assert answer.text


def test_an_unknown_model_is_refused_in_the_servers_words(servers: Servers, served: DeploymentSpec) -> None:
    found = refusal(servers, served.name, model="gpt-0")
    assert found.code is ProblemCode.NOT_FOUND
    assert "gpt-0" in found.detail


def test_what_the_server_refuses_is_the_callers_to_mend(servers: Servers, served: DeploymentSpec) -> None:
    found = refusal(servers, served.name, max_tokens=131_072)
    assert found.code is ProblemCode.INVALID
    assert "maximum context length" in found.detail


def test_an_absent_service_names_those_that_there_are(servers: Servers, served: DeploymentSpec) -> None:
    found = refusal(servers, "absent")
    assert found.code is ProblemCode.NOT_FOUND
    assert served.name in found.detail


def test_a_service_without_a_ready_pod_is_not_ready(servers: Servers) -> None:
    spec = servers.spec("sleepy")
    servers.misfortune(id="sleepy", deployment="sleepy", fault="hang")
    try:
        servers.apply(spec)
        servers.run(APPLY_SERVICES, ApplyServices(**servers.place, spec=spec))
        assert refusal(servers, "sleepy").code is ProblemCode.NOT_READY
        assert listed(servers)["sleepy"].ready == 0
    finally:
        servers.fortune()
        servers.delete(spec)


def test_services_tell_what_serves_how_many_answer_and_where(servers: Servers, served: DeploymentSpec) -> None:
    found = listed(servers)[served.name]
    assert (found.serves, found.of, found.engine) == (Serves.DEPLOYMENT, served.name, "vllm")
    assert (found.port, found.ready, found.managed, found.type) == (served.port, 1, True, "ClusterIP")
    assert served.name not in listed(servers, public=True)


def test_others_model_servers_are_found_by_their_images_and_other_services_are_not(servers: Servers) -> None:
    with servers.api() as api:
        core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
        for name, image, args in (
            ("theirs", "vllm/vllm-openai:v0.11.0", ["--model", "Qwen/Qwen3-0.6B"]),
            ("web", "nginx:1", []),
        ):
            labels = {"app": name}
            container: Any = {"name": "main", "image": image, "args": args}
            apps.create_namespaced_deployment(
                "default",
                {
                    "metadata": {"name": name},
                    "spec": {
                        "selector": {"matchLabels": labels},
                        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
                    },
                },
            )
            ports = [{"name": "metrics", "port": 9000}, {"name": "http", "port": 80, "targetPort": 8000}]
            core.create_namespaced_service(
                "default", {"metadata": {"name": name}, "spec": {"selector": labels, "ports": ports}}
            )
    until(lambda: "theirs" in listed(servers))
    found = listed(servers)
    theirs = found["theirs"]
    assert (theirs.serves, theirs.managed, theirs.engine, theirs.port) == (Serves.OTHER, False, "vllm", 80)
    assert "web" not in found
    assert refusal(servers, "web").code in (ProblemCode.NOT_FOUND, ProblemCode.UNAVAILABLE, ProblemCode.NOT_READY)


@pytest.mark.parametrize(
    ("misfortune", "stream", "code"),
    [
        ({"latency": 4}, False, ProblemCode.TIMEOUT),
        ({"latency": 4}, True, ProblemCode.TIMEOUT),
        ({"pace": 0.4}, True, ProblemCode.TIMEOUT),
        ({"status": 500}, False, ProblemCode.UNAVAILABLE),
        ({"status": 429}, False, ProblemCode.THROTTLED),
    ],
    ids=["silent", "silent stream", "slow stream", "broken", "busy"],
)
def test_what_a_server_suffers_from_is_said(
    servers: Servers, served: DeploymentSpec, misfortune: dict[str, Any], stream: bool, code: ProblemCode
) -> None:
    servers.misfortune(id="ill", deployment=served.name, fault="answer", **misfortune)
    try:
        found = refusal(servers, served.name, stream=stream, timeout_seconds=1, max_tokens=20)
    finally:
        servers.fortune()
    assert found.code is code
    assert found.remedy
