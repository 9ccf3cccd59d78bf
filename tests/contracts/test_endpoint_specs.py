"""Specifications of managed endpoints and autoscalers: what they refuse, and the arithmetic of replicas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from contracts.autoscalers import AutoscalerSpec, RouterTrigger, desired, query_of
from contracts.managed_endpoints import EndpointSpec
from contracts.problem import field_errors

WORKER: dict[str, Any] = {"image": "vllm/vllm-openai:v0.11.0", "gpu_count": 2}
ENDPOINT: dict[str, Any] = {
    "name": "qwen",
    "source": {"type": "s3", "bucket": "models-bucket"},
    "worker": WORKER,
    "instance_types": ["ml.g5.12xlarge"],
}
JUMPSTART = {"type": "jumpstart", "model_id": "some-model"}
TRIGGER = {"type": "prometheus", "workspace_id": "ws-1", "query": "load", "threshold": 5}
SCALING = {"trigger": {"type": "prometheus", "workspace_id": "ws-1", "query": "load", "target": 5}}
COUNTS = st.integers(0, 50)


def faults(model: type[BaseModel], document: dict[str, Any]) -> list[str]:
    try:
        model.model_validate(document)
    except ValidationError as error:
        return [fault.field for fault in field_errors(error, model=model)]
    return []


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({}, []),
        ({"worker": {**WORKER, "args": ["--tensor-parallel-size", "4"]}}, ["/worker/gpu_count"]),
        ({"worker": {**WORKER, "args": ["-tp", "2", "-pp", "2"]}}, ["/worker/gpu_count"]),
        ({"worker": {**WORKER, "args": ["--tensor-parallel-size=2"]}}, []),
        ({"worker": {**WORKER, "env": {"A": "1"}, "secret_env": {"A": "key"}}}, ["/worker/secret_env/A"]),
        ({"worker": {**WORKER, "env": {"HF_TOKEN": "hf_abcdefghijklmnop"}}}, ["/worker/env/HF_TOKEN"]),
        ({"worker": {**WORKER, "env": {"VLLM_API_KEY": "abc"}}}, ["/worker/env/VLLM_API_KEY"]),
        ({"worker": {**WORKER, "args": ["--api-key", "abc"]}}, ["/worker/args"]),
        ({"worker": {**WORKER, "command": ["sh", "-c", "HF_TOKEN=hf_abcdefghijklmnop serve"]}}, ["/worker/command"]),
        ({"instance_types": ["g5.12xlarge"]}, ["/instance_types"]),
        ({"source": JUMPSTART}, ["/worker"]),
        ({"source": JUMPSTART, "worker": None}, []),
        ({"source": JUMPSTART, "worker": None, "instance_types": ["ml.a", "ml.b"]}, ["/instance_types"]),
        ({"session_key": "user"}, ["/session_key"]),
        ({"session_key": "user", "routing": "session"}, []),
        ({"kv_cache": {"l2": {"backend": "redis"}}}, ["/kv_cache/l2/url"]),
        ({"kv_cache": {"l2": {"backend": "tiered_storage", "url": "redis://x"}}}, ["/kv_cache/l2/url"]),
        ({"kv_cache": {"l2": {"backend": "redis", "url": "redis://:secret@redis:6379"}}}, ["/kv_cache/l2/url"]),
        ({"kv_cache": {"l2": {"backend": "redis", "url": "redis://redis:6379"}}}, []),
        ({"autoscaling": {**SCALING, "min_replicas": 3}}, ["/replicas"]),
        ({"autoscaling": {**SCALING, "min_replicas": 6}}, ["/autoscaling/min_replicas"]),
        ({"autoscaling": {**SCALING, "min_replicas": 0}}, []),
        ({"tls": {"domain": "a.example.com"}}, ["/tls/certificate_arn"]),
        ({"tls": {"hosted_zone_id": "Z1"}}, ["/tls/hosted_zone_id"]),
        ({"tags": {"team": "a"}}, ["/tags"]),
        ({"tags": {"team": "a"}, "sagemaker_endpoint": "Qwen"}, []),
        ({"source": {"type": "fsx", "file_system_id": "vol-1"}}, ["/source/file_system_id"]),
        ({"source": {"type": "disk"}}, ["/source"]),
    ],
)
def test_an_endpoints_members_must_fit_each_other(more: dict[str, Any], fields: list[str]) -> None:
    assert faults(EndpointSpec, {**ENDPOINT, **more}) == fields


def test_accelerators_are_asked_for_and_never_guessed() -> None:
    assert faults(EndpointSpec, {**ENDPOINT, "worker": {"image": "vllm/vllm-openai:v1"}}) == ["/worker/gpu_count"]


def test_credentials_are_named_by_the_fields_that_use_them() -> None:
    source = {"type": "hugging-face", "model_id": "meta-llama/Llama-3.1-8B", "credential": "hub"}
    spec = EndpointSpec.model_validate({**ENDPOINT, "source": source, "worker": {**WORKER, "secret_env": {"K": "key"}}})
    assert spec.credentials == {"/source/credential": "hub", "/worker/secret_env/K": "key"}


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({}, []),
        ({"min_replicas": 6}, ["/min_replicas"]),
        ({"triggers": [{"type": "cpu", "utilization": 50}], "min_replicas": 0}, ["/min_replicas"]),
        ({"triggers": [{"type": "cpu", "utilization": 50}, TRIGGER], "min_replicas": 0}, []),
        ({"triggers": [{"type": "cpu", "utilization": 50}] * 2}, ["/triggers/1"]),
        ({"triggers": [{**TRIGGER, "server_address": "http://p"}]}, ["/triggers/0/server_address"]),
        ({"triggers": [{**TRIGGER, "workspace_id": None}]}, ["/triggers/0/server_address"]),
        (
            {"triggers": [{**TRIGGER, "workspace_id": None, "server_address": "ftp://x"}]},
            ["/triggers/0/server_address"],
        ),
    ],
)
def test_an_autoscalers_members_must_fit_each_other(more: dict[str, Any], fields: list[str]) -> None:
    assert faults(AutoscalerSpec, {"target": "chat", "triggers": [TRIGGER], **more}) == fields


def test_a_routers_query_is_about_its_own_pods() -> None:
    given = {"type": "router", "router": "front", "server_address": "http://p.m:80"}
    requests = query_of(RouterTrigger.model_validate({**given, "window_seconds": 120}), "ml")
    assert requests == 'sum(rate(sgl_router_requests_total{namespace="ml",pod=~"front-.*"}[120s]))'
    queue = query_of(RouterTrigger.model_validate({**given, "metric": "queue_depth"}), "ml")
    assert queue == 'sum(sgl_router_job_queue_depth{namespace="ml",pod=~"front-.*"})'


@given(st.floats(0, 1e6), st.floats(0.1, 100), st.floats(0, 10), st.booleans(), COUNTS, COUNTS, COUNTS)
def test_replicas_keep_within_their_limits_and_grow_with_the_metric(
    value: float, threshold: float, activation: float, per_replica: bool, one: int, other: int, now: int
) -> None:
    limits = (min(one, other), max(one, other, 1))
    found = desired(value, threshold, activation, per_replica, limits, now)
    assert found <= limits[1]
    assert found >= limits[0]
    assert (found == 0) is (limits[0] == 0 and value <= activation)
    assert desired(value + threshold, threshold, activation, per_replica, limits, now) >= found


def test_a_value_of_twelve_with_five_for_each_takes_three() -> None:
    assert desired(12, 5, 0, True, (1, 10), 1) == 3
    assert desired(12, 5, 0, False, (1, 10), 2) == 5
