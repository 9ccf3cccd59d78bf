"""Secrets and control characters where neither belongs: what the gateway says, and what it writes down."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from contracts.secret_values import known_secret, masked
from tests.api.conftest import Gateway, start_cluster
from tests.security.canaries import Canaries, leaks_in
from tests.security.roles import CONTROL_PLANE, HYPERPOD

TAG = "wrong-places"
HOME = f"/api/v1/clusters/{TAG}"
SERVED = {"name": "chat", "command": "vllm serve Qwen/Qwen3-0.6B --port 8000", "gpu_count": 1}
TRAINED = {
    "recipe": {"kind": "pytorch", "script_path": "/s3/train.py"},
    "instance_types": ["ml.g5.12xlarge"],
    "gpus_per_node": 1,
}
PLACES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("/labels/team", "POST", f"{HOME}/deployments", {**SERVED, "labels": {"team": "{}"}}),
    ("/revision", "POST", f"{HOME}/models/downloads", {"repository": "a/b", "revision": "{}"}),
    ("/comment", "PUT", "/api/v1/presets/sft", {"document": TRAINED, "comment": "with {}"}),
    ("/experiment/tags/key", "POST", f"{HOME}/training-runs", {
        **TRAINED, "name": "sft",
        "experiment": {"tracking_uri": "http://mlflow:5000", "experiment": "e", "tags": {"key": "{}"}}}),
    ("/spec/tag", "POST", "/api/v1/plans", {"kind": "create-cluster", "cluster": "x", "spec": {"tag": "{}"}}),
    ("/name", "POST", "/api/v1/tokens", {"name": "{}", "role": "viewer"}),
]  # fmt: skip


def _filled(value: Any, secret: str) -> Any:
    if isinstance(value, str):
        return value.replace("{}", secret)
    return {key: _filled(each, secret) for key, each in value.items()} if isinstance(value, dict) else value


async def test_a_secret_in_a_place_for_words_is_refused_there_and_not_said_again(
    gateway: Gateway, temporal: Client, worker: Worker
) -> None:
    await start_cluster(temporal, TAG, control_plane=CONTROL_PLANE, hyperpod=HYPERPOD)
    canaries = Canaries()
    for pointer, method, path, body in PLACES:
        answer = await gateway.admin.request(method, path, json=_filled(body, canaries.hugging_face))
        assert answer.status_code == 422, answer.text
        assert pointer in (answer.json()["field"], *(each["field"] for each in answer.json()["errors"])), answer.text
        assert leaks_in(answer.content, canaries.all) == []


async def test_the_answer_says_what_was_seen_and_where_it_belongs(gateway: Gateway) -> None:
    answer = await gateway.admin.post("/api/v1/tokens", json={"name": Canaries().aws_key, "role": "viewer"})
    assert "an AWS access key" in answer.json()["detail"]
    assert "credential" in answer.json()["remedy"]


async def test_a_request_id_that_is_a_secret_is_replaced(gateway: Gateway) -> None:
    for secret in (Canaries().ours, Canaries().hugging_face, Canaries().aws_key):
        answer = await gateway.viewer.get("/api/v1/me", headers={"X-Request-Id": secret})
        assert answer.headers["X-Request-Id"] != secret
    kept = await gateway.viewer.get("/api/v1/me", headers={"X-Request-Id": "deploy-17"})
    assert kept.headers["X-Request-Id"] == "deploy-17"


async def test_a_path_forges_no_line_of_a_log_and_no_entry_of_the_trail(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    secret = Canaries().ours
    forged = "x%0A2026-01-01 INFO instantstart.access forged%1b[31m%E2%80%A8"
    with caplog.at_level(logging.INFO, "instantstart.access"):
        await gateway.operator.post(f"/api/v1/operations/create-cluster%2F{forged}{secret}/abort", json={})
        await gateway.viewer.delete(f"/api/v1/clusters/{forged}")
    lines = [record.getMessage() for record in caplog.records if record.name == "instantstart.access"]
    assert any("forged" in line for line in lines)
    assert all(line.isprintable() for line in lines)
    entries = (await gateway.admin.get("/api/v1/audit", params={"page_size": 5})).json()["entries"]
    told = [each for each in entries if "forged" in each["path"]]
    assert told
    for each in told:
        assert all(text.isprintable() for text in (each["path"], each["operation"] or "", each["detail"] or ""))
        assert secret not in str(each)


@pytest.mark.parametrize("text", [
    "create-cluster/demo", "s3://bucket/path", "http://mlflow.mlflow.svc:5000", "arn:aws:iam::111122223333:role/x",
    "vllm serve Qwen/Qwen3-0.6B --api-key $KEY", "https://user@host/path", "postgres://u:${PASSWORD}@db/x",
    "siv1.AAAAAAAAAAAAAAAAAAAAAAAA", "eJwrzi9JLE", "Bearer tokens are explained elsewhere", "sk-learn", "hf_hub",
    "pip install hf_transfer==0.1.9 && python convert.py --hf_checkpoint /s3/step-100", "hf_transformers",
    "serve --settings eyJtb2RlbCI6ICJRd2VuMyJ9",
    '{"endpoint":"http://vllm:8000","owner":"ada@example.com"}',
    "111122223333.dkr.ecr.us-west-2.amazonaws.com/trainer:1@sha256:" + "0" * 64,
])  # fmt: skip
def test_what_is_no_secret_is_not_taken_for_one(text: str) -> None:
    assert known_secret(text) is None
    assert masked(text) == text
