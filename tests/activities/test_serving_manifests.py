"""Custom resources of endpoints and autoscalers keep to the definitions that their operators publish."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from activities.autoscalers import manifests as autoscalers
from activities.managed_endpoints import manifests as endpoints
from activities.plans.managed_endpoints import differences
from contracts.autoscalers import AutoscalerSpec
from contracts.managed_endpoints import EndpointSpec

CRDS = Path("/work/shared/crds")
pytestmark = pytest.mark.skipif(not CRDS.exists(), reason="the published definitions are not on this machine")

REGION = "us-west-2"
WRITABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
WORD = st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True)
NUMBER = st.floats(0.5, 1e6, allow_nan=False)


@cache
def schema(file: str) -> Any:
    """Of a definition's v1 (or only version): what it does not name is refused."""
    loaded = yaml.load((CRDS / file).read_text(), Loader=yaml.CSafeLoader)
    versions = loaded["spec"]["versions"]
    found = next((each for each in versions if each["name"] == "v1"), versions[0])
    strict = close(found["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return jsonschema_rs.Draft202012Validator(strict)


def close(node: Any) -> Any:
    """The schema without unknown members, and with Kubernetes' own extensions taken away."""
    if isinstance(node, list):
        return [close(each) for each in node]
    if not isinstance(node, dict):
        return node
    closed = {key: close(value) for key, value in node.items() if not key.startswith("x-kubernetes")}
    if "properties" in node and "additionalProperties" not in node and isinstance(node["properties"], dict):
        closed["additionalProperties"] = False
    return closed


def faults(file: str, document: Any) -> list[str]:
    return [f"{error.instance_path}: {error.message}" for error in schema(file).iter_errors(document)]


def optional(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=members)


SOURCES = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("s3"), "bucket": st.just("models-bucket")},
        optional={"location": st.just("models/qwen"), "region": st.just("eu-west-1"), "prefetch": st.booleans()},
    ),
    st.fixed_dictionaries(
        {"type": st.just("fsx"), "file_system_id": st.just("fs-0123456789abcdef0")},
        optional={"dns_name": st.just("fs-1.fsx.us-west-2.amazonaws.com"), "mount_name": st.just("abcdefgh")},
    ),
    st.fixed_dictionaries(
        {"type": st.just("hugging-face"), "model_id": st.just("Qwen/Qwen3-0.6B")},
        optional={"revision": st.just("0" * 40), "credential": WORD},
    ),
)
WORKERS = st.fixed_dictionaries(
    {"image": st.just("vllm/vllm-openai:v0.11.0"), "gpu_count": st.integers(0, 8)},
    optional={
        "args": st.lists(st.text(min_size=1, max_size=8), max_size=4),
        "command": st.lists(WORD, min_size=1, max_size=2),
        "port": st.integers(1, 65_535),
        "cpu": st.floats(0.25, 192, allow_nan=False),
        "memory_gib": st.floats(0.25, 2000, allow_nan=False),
        "env": st.dictionaries(st.sampled_from(["A", "B"]), st.text(WRITABLE, max_size=5)),
        "secret_env": st.dictionaries(st.sampled_from(["C", "D"]), WORD),
        "max_concurrent_requests": st.integers(1, 100),
    },
)
TRIGGERS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("prometheus"), "workspace_id": st.just("ws-1234-abcd"), "query": WORD, "target": NUMBER},
        optional={"activation": NUMBER, "per_replica": st.booleans()},
    ),
    st.fixed_dictionaries(
        {"type": st.just("cloudwatch"), "namespace": st.just("AWS/SageMaker"), "metric": WORD, "target": NUMBER},
        optional={"dimensions": st.dictionaries(WORD, WORD, max_size=2), "per_replica": st.booleans()},
    ),
)
COMMON = {
    "replicas": st.integers(1, 5),
    "kv_cache": st.one_of(
        st.builds(lambda l1: {"l1": l1}, st.booleans()),
        st.just({"l2": {"backend": "tiered_storage"}}),
        st.just({"l2": {"backend": "redis", "url": "redis://redis:6379"}}),
    ),
    "routing": st.sampled_from(["prefix_aware", "kv_aware", "session", "round_robin"]),
    "autoscaling": st.builds(
        lambda trigger, least: {"min_replicas": least, "max_replicas": 9, "trigger": trigger},
        TRIGGERS,
        st.integers(0, 1),
    ),
    "sagemaker_endpoint": st.just("Qwen-Endpoint"),
    "tls": st.sampled_from(
        [
            {},
            {"output_s3_uri": "s3://tls-bucket/certificates"},
            {
                "certificate_arn": "arn:aws:acm:us-west-2:123456789012:certificate/0a1b-2c3d",
                "domain": "models.example.com",
                "hosted_zone_id": "Z123ABC",
            },
        ]
    ),
    "load_balancer": optional(
        health_path=st.just("/health"), algorithm=st.sampled_from(["least_outstanding_requests", "round_robin"])
    ),
    "metrics": st.booleans(),
    "deploy_timeout_seconds": st.integers(60, 86_400),
}
ENDPOINTS = st.fixed_dictionaries(
    {
        "name": WORD,
        "source": SOURCES,
        "worker": WORKERS,
        "instance_types": st.sampled_from([["ml.g5.8xlarge"], ["ml.g5.8xlarge", "ml.p5.48xlarge"]]),
    },
    optional={**COMMON, "model_name": WORD, "invocation_path": st.just("invocations")},
)
JUMPSTARTS = st.fixed_dictionaries(
    {
        "name": WORD,
        "source": st.fixed_dictionaries(
            {"type": st.just("jumpstart"), "model_id": WORD},
            optional={
                "version": st.just("2.0.4"),
                "accept_eula": st.booleans(),
                "gated_model_role": st.just("arn:aws:iam::123456789012:role/gated"),
            },
        ),
        "instance_types": st.just(["ml.g5.8xlarge"]),
    },
    optional=COMMON,
)
SERVERS = st.sampled_from([{"server_address": "http://prometheus.monitoring:9090"}, {"workspace_id": "ws-1234-abcd"}])
AUTOSCALERS = st.fixed_dictionaries(
    {
        "target": WORD,
        "triggers": st.lists(
            st.one_of(
                st.builds(
                    lambda server, query, threshold: {
                        "type": "prometheus",
                        **server,
                        "query": query,
                        "threshold": threshold,
                    },
                    SERVERS,
                    WORD,
                    NUMBER,
                ),
                st.builds(
                    lambda server, metric: {"type": "router", **server, "router": "r", "metric": metric},
                    SERVERS,
                    st.sampled_from(["requests_per_second", "queue_depth"]),
                ),
            ),
            min_size=1,
            max_size=3,
        ),
    },
    optional={"min_replicas": st.integers(0, 3), "max_replicas": st.integers(3, 9)},
)


@given(ENDPOINTS)
@settings(max_examples=120, deadline=None)
def test_every_endpoint_is_a_valid_inference_endpoint_config(document: dict[str, Any]) -> None:
    spec = EndpointSpec.model_validate(document)
    assert faults("inferenceendpointconfigs.yaml", endpoints.spec_of(spec, REGION)) == []


@given(JUMPSTARTS)
@settings(max_examples=60, deadline=None)
def test_every_jumpstart_endpoint_is_a_valid_jumpstart_model(document: dict[str, Any]) -> None:
    spec = EndpointSpec.model_validate(document)
    assert faults("jumpstartmodels.yaml", endpoints.spec_of(spec, REGION)) == []


@given(AUTOSCALERS)
@settings(max_examples=60, deadline=None)
def test_every_autoscaler_is_a_valid_scaled_object(document: dict[str, Any]) -> None:
    spec = AutoscalerSpec.model_validate(document)
    assert faults("scaledobjects-v2.17.1.yaml", autoscalers.spec_of(spec, REGION)) == []


@given(ENDPOINTS, ENDPOINTS)
@settings(max_examples=60, deadline=None)
def test_an_endpoint_differs_from_another_exactly_where_their_manifests_do(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    live, wanted = (endpoints.spec_of(EndpointSpec.model_validate(each), REGION) for each in (one, other))
    filled_in = {**json.loads(json.dumps(live)), "dataCapture": {"enabled": False}}
    assert differences(filled_in, live) == []
    named = set(differences(live, wanted))
    assert named <= {key for key in live | wanted if live.get(key) != wanted.get(key)}
    assert {key for key in wanted if key not in live} <= named


def test_a_validator_of_these_tests_does_refuse() -> None:
    found = faults("inferenceendpointconfigs.yaml", {"modelName": "x", "nonsense": 1})
    assert any("nonsense" in each for each in found)
    assert any("worker" in each for each in found)
