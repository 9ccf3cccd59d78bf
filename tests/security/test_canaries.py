"""Secrets that are sent where they do not belong are refused before anybody has written them down; one that is stored
and used by a model server and a training run is in its Secret, and nowhere else."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from kubernetes import client
from playwright.sync_api import Browser

from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients
from activities.settings import Settings
from cli.gateway import Gateway, Target
from cli.sign_in import sign_in_link
from mcp_server.http import PATH
from tests.browser.conftest import browser
from tests.browser.person import Person
from tests.durability.runs import POLL, create, finish, raise_quotas
from tests.durability.serving import worker_session
from tests.local_stack import LocalStack, local_stack
from tests.security.canaries import Canaries, forms, leaks, leaks_in
from tests.telemetry.collector import Collector, collecting
from tests.telemetry.conftest import two_ports

__all__ = ["browser"]

TAG = "lab"
EKS = f"eks-cluster-{TAG}"
MCP = {"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2025-06-18"}
ALLOWED = frozenset({"sandbox/sandbox.state"})
"""The simulated cluster keeps its Secrets where a real one has etcd."""
TRAINED = {
    "name": "sft",
    "recipe": {"kind": "pytorch", "script_path": "/s3/train.py"},
    "instance_types": ["ml.g5.12xlarge"],
    "gpus_per_node": 1,
}
SERVED = {"name": "chat", "command": "vllm serve Qwen/Qwen3-0.6B --port 8000", "gpu_count": 1}
USING = {"credential": "hub", "secret_env": {"SERVICE_KEY": "some"}}
"""Said of what uses both stored credentials."""
PAGES = {
    "storage": ("Storage", {"cluster": TAG, "tab": "Credentials"}),
    "serving": ("Serving", {"cluster": TAG}),
    "training": ("Training", {"cluster": TAG}),
    "cluster": (TAG, {"cluster": TAG}),
    "operations": ("Operations", {}),
    "operation": ("Store a credential", {"id": "store-credential/lab/hub"}),
}
"""Pages of the console that speak of what was stored or uses it: a part of the heading, the query."""


@dataclass
class Story:
    """What was sent and what was answered."""

    stack: LocalStack
    canaries: Canaries
    stored: dict[str, str]
    """Tokens by the name of their credential."""
    collector: Collector
    metrics: tuple[int, int]
    """Ports of the worker's and the gateway's."""
    answers: list[tuple[str, bytes]] = field(default_factory=list)
    """What was asked, and what was answered."""
    accepted: list[str] = field(default_factory=list)
    """What should have been refused, and was not."""

    def sends(self, method: str, path: str, sent: str = "", **request: Any) -> httpx.Response:
        """Send it with a client's usual token; note what is answered. ``sent``: what must be refused."""
        answer = self.stack.gateway.request(method, path, **request)
        self.answers.append((f"{method} {path}", answer.content + repr(answer.headers).encode()))
        if sent and answer.is_success:
            self.accepted.append(f"{method} {path} with {sent}: {answer.status_code}")
        return answer

    def calls(self, tool: str, **arguments: Any) -> httpx.Response:
        """Call a tool over HTTP."""
        headers = {**MCP, "Authorization": f"Bearer {self.stack.token}"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer = httpx.post(f"{self.stack.settings.gateway_url}{PATH}", json=call, headers=headers, timeout=60)
        self.answers.append((tool, answer.content))
        return answer


def _bodies(secret: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Requests that hold a secret where it does not belong: method, path, body."""
    home = f"/clusters/{TAG}"
    yield "POST", "/clusters", {"tag": secret}
    yield "POST", f"{home}/deployments", {**SERVED, "env": {"WHATEVER": secret}}
    yield "POST", f"{home}/deployments", {**SERVED, "command": f"{SERVED['command']} --served-model-name {secret!r}"}
    yield "POST", f"{home}/deployments", {**SERVED, "labels": {"team": secret}}
    yield "POST", f"{home}/training-runs", {**TRAINED, "env": {"WHATEVER": secret}}
    yield "POST", f"{home}/training-runs", {**TRAINED, "recipe": {**TRAINED["recipe"], "arguments": [secret]}}  # type: ignore[dict-item]
    yield "POST", f"{home}/training-runs", {**TRAINED, "experiment": {"tracking_uri": secret, "experiment": "e"}}
    yield (
        "POST",
        f"{home}/training-runs",
        {
            **TRAINED,
            "experiment": {"tracking_uri": "http://mlflow:5000", "experiment": secret[:200]},
        },
    )
    yield "PUT", "/presets/sft", {"document": {k: v for k, v in TRAINED.items() if k != "name"}, "comment": secret}
    yield "POST", f"{home}/models/downloads", {"repository": "a/b", "revision": secret}
    yield "POST", f"{home}/training-runs/sft/stop", {"reason": secret}
    yield "POST", f"{home}/diagnoses", {"subject": {"kind": "workload", "name": secret}}
    yield "POST", "/operations/create-cluster%2Flab/abort", {"reason": secret}
    yield "POST", "/plans", {"kind": "create-cluster", "cluster": "other", "spec": {"tag": secret}}
    yield "PUT", "/me/default-cluster", {"cluster": secret[:63]}
    yield "POST", "/tokens", {"name": secret[:64], "role": "viewer"}


def _tries(story: Story, what: str, secret: str) -> Iterator[Callable[[], Any]]:
    """Everything that is tried with one secret."""
    named, line = quote(secret, safe=""), secret.replace("\n", " ")
    for method, path, body in _bodies(secret):
        yield partial(story.sends, method, path, what, json=body)
    for path in (f"/clusters/{named}", f"/clusters/{TAG}/jobs/default/{named}", f"/operations/{named}"):
        yield partial(story.sends, "GET", path, what)
    yield partial(story.sends, "DELETE", f"/tokens/{named}", what)
    yield partial(story.sends, "POST", f"/operations/create-cluster%2F{named}/abort", what)
    # Answered, since nothing is written down of what is only compared.
    yield partial(story.sends, "GET", "/clusters", params={"search": secret[:100]})
    yield partial(story.sends, "GET", "/operations", params={"started_by": line})
    headers = {"X-Request-Id": line, "User-Agent": line, "Idempotency-Key": line}
    yield partial(story.sends, "GET", "/me", headers=headers)
    yield partial(story.sends, "POST", f"/clusters/{TAG}/verification", headers=headers)
    yield partial(story.calls, "cluster_get_status", cluster=secret)
    yield partial(story.calls, "operation_abort", operation="create-cluster/lab", reason=secret)
    served = {"cluster": TAG, "deployment": "chat", "gpu_count": 1, "command": SERVED["command"]}
    yield partial(story.calls, "inference_deploy_container", **served, options={"env": {"WHATEVER": secret}})


def _told(story: Story) -> None:
    """Everything that is tried."""
    canaries = story.canaries
    with ThreadPoolExecutor(4) as crowd:
        asked = [crowd.submit(each) for what, secret in canaries.texts.items() for each in _tries(story, what, secret)]
    for each in asked:
        each.result()
    url = story.stack.settings.gateway_url
    note = lambda answer: story.answers.append((str(answer.request.url), answer.content))  # noqa: E731
    for token in (canaries.ours, canaries.hugging_face):
        for path in ("/api/v1/me", PATH, "/nothing"):
            note(httpx.post(f"{url}{path}", headers={"Authorization": f"Bearer {token}"}))
        note(httpx.post(f"{url}/signin", data={"token": token}))
    note(httpx.post(f"{url}/api/v1/sessions", json={"ticket": canaries.ticket}))
    note(httpx.get(f"{url}/api/v1/me?ticket={canaries.ticket}"))


def _used(story: Story) -> None:
    """A model server and a training run that hold the stored credentials, each to its end; a call, and a diagnosis."""
    stack, home = story.stack, f"/clusters/{TAG}"
    asked = story.sends("PATCH", f"{home}/features", json={"training_operator": {"enabled": True}})
    finish(stack, str(asked.json()["id"]))
    recipe = {"kind": "pytorch", "script_text": "import torch\n", "arguments": ["--max-steps=20"]}
    # Its pods stay when it has ended, so that their logs are kept however fast the clock is.
    stays = {"recovery": {"clean_pods": "None"}}
    run = {**TRAINED, **USING, **stays, "recipe": recipe, "instance_types": ["ml.g5.8xlarge"]}
    for path, body in (("deployments", {**SERVED, **USING}), ("training-runs", run)):
        asked = story.sends("POST", f"{home}/{path}", json=body)
        assert asked.status_code == 202, asked.text
        finish(stack, str(asked.json()["id"]))
    for path in ("deployments/chat", "training-runs/sft", "training-runs/sft/logs", "usage"):
        assert story.sends("GET", f"{home}/{path}").is_success, path
    story.sends("POST", f"{home}/diagnoses", json={"subject": {"kind": "deployment", "name": "chat"}})
    for tool, named in (("inference_get_deployment", {"deployment": "chat"}), ("training_logs", {"run": "sft"})):
        story.calls(tool, cluster=TAG, **named)
    story.calls("credential_list", cluster=TAG)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    metrics = two_ports()
    with collecting() as collector, pytest.MonkeyPatch.context() as patched:
        patched.setenv("INSTANTSTART_METRICS_ADDRESS", f"127.0.0.1:{metrics[0]}")
        env = {
            "INSTANTSTART_POLL_SECONDS": POLL,
            "INSTANTSTART_LOG_FORMAT": "json",
            "INSTANTSTART_LOG_LEVEL": "DEBUG",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        with local_stack(tmp_path_factory.mktemp("canaries"), 600.0, env) as stack:
            raise_quotas(stack)
            groups = [{"name": "workers", "instance_type": "ml.g5.8xlarge", "count": 2}]
            finish(stack, create(stack, TAG, instance_groups=groups))
            stored = {"some": "a-token-of-some-service-" + Canaries().password, "hub": Canaries().hugging_face}
            told = Story(stack, Canaries(), stored, collector, metrics)
            for name, token in stored.items():
                asked = told.sends("PUT", f"/clusters/{TAG}/credentials/{name}", json={"token": token})
                finish(stack, str(asked.json()["id"]))
            _used(told)
            _told(told)
            for path in ("/audit?page_size=200", "/operations?page_size=200", f"/clusters/{TAG}/credentials"):
                told.sends("GET", path)
            yield told


def test_what_holds_a_secret_where_none_belongs_is_refused(story: Story) -> None:
    assert story.accepted == []


def test_no_file_of_any_process_holds_one(story: Story) -> None:
    folder = story.stack.settings.folder.path
    assert leaks(folder, story.canaries.all) == []
    assert leaks(folder, story.stored, beside=ALLOWED) == []


def test_no_answer_of_the_gateway_or_of_a_tool_holds_one(story: Story) -> None:
    sought = {**story.canaries.all, **story.stored}
    assert {f"{asked}: {each}" for asked, answer in story.answers for each in leaks_in(answer, sought)} == set()


def test_the_call_ledger_of_the_account_holds_none(story: Story) -> None:
    entries = story.stack.sandbox.get("/ledger").content
    assert leaks_in(entries, {**story.canaries.all, **story.stored}) == []


def test_what_is_stored_is_in_its_secret_and_in_no_other_object_of_the_cluster(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", story.stack.settings.sandbox_url)
    clients = KubernetesClients(AwsClients(Settings(), worker_session(story.stack)))
    with clients.connect(story.stack.settings.region, EKS) as api:
        core, apps, batch = client.CoreV1Api(api), client.AppsV1Api(api), client.BatchV1Api(api)
        secrets = core.list_secret_for_all_namespaces().items
        lists = (
            core.list_config_map_for_all_namespaces,
            core.list_event_for_all_namespaces,
            core.list_pod_for_all_namespaces,
            core.list_service_account_for_all_namespaces,
            apps.list_deployment_for_all_namespaces,
            batch.list_job_for_all_namespaces,
        )
        objects = json.dumps([api.sanitize_for_serialization(read()) for read in lists]).encode()
    values = {base64.b64decode(value) for each in secrets for value in (each.data or {}).values()}
    assert {token.encode() for token in story.stored.values()} <= values
    assert leaks_in(objects, {**story.canaries.all, **story.stored}) == []


def test_no_object_in_a_bucket_holds_one(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", story.stack.settings.sandbox_url)
    s3: Any = worker_session(story.stack).client("s3", region_name=story.stack.settings.region)
    found: dict[str, bytes] = {}
    for bucket in (each["Name"] for each in s3.list_buckets()["Buckets"]):
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for key in (each["Key"] for each in page.get("Contents", ())):
                content = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
                found[f"{bucket}/{key}"] = gzip.decompress(content) if key.endswith(".gz") else content
    assert any(key.endswith(".log.gz") for key in found)  # what the run has printed
    sought = {**story.canaries.all, **story.stored}
    assert {key: held for key, content in found.items() if (held := leaks_in(content, sought))} == {}


def test_no_trace_and_no_metric_holds_one(story: Story) -> None:
    names = {"RunActivity:credentials.store", "POST /api/v1/clusters/{tag}/training-runs", "tools/call credential_list"}
    story.collector.until(lambda spans: names <= {span.name for span in spans})
    told = b"".join(story.collector.bodies)
    for port in story.metrics:
        shown = httpx.get(f"http://127.0.0.1:{port}/metrics").raise_for_status().content
        assert b"instantstart_" in shown
        told += shown
    assert leaks_in(told, {**story.canaries.all, **story.stored, "the caller's token": story.stack.token}) == []


def test_nothing_that_the_console_sends_to_a_browser_holds_one(story: Story, browser: Browser) -> None:
    url, sent = story.stack.settings.gateway_url, bytearray()
    context = browser.new_context()
    person = Person(context, url)
    person.page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: sent.extend(_bytes(frame))))
    person.follows(str(sign_in_link(Gateway(Target(url, story.stack.token)))["url"]))
    for name, (heading, query) in PAGES.items():
        person.goes_to(name, **query)
        person.sees_heading(re.compile(heading))
        person.at_rest()
        sent += person.page.content().encode()
    context.close()
    assert b"hub" in sent
    assert leaks_in(bytes(sent), {**story.canaries.all, **story.stored, "the caller's token": story.stack.token}) == []


def _bytes(frame: str | bytes) -> bytes:
    return frame.encode() if isinstance(frame, str) else frame


@pytest.mark.parametrize(("name", "shift"), list(product(Canaries().all, range(4))))
def test_a_leak_is_found_however_it_is_encoded(tmp_path: Path, name: str, shift: int) -> None:
    canaries = Canaries()
    secret = canaries.all[name].encode()
    planted = b"x" * shift + secret + b"y"
    (tmp_path / "database").write_bytes(b"\0 before" + base64.b64encode(planted) + b" after")
    (tmp_path / "log").write_bytes(b"GET /x?token=" + planted)
    assert leaks(tmp_path, canaries.all) == [f"database: {name}", f"log: {name}"]
    assert leaks(tmp_path, Canaries().all) == []


def test_forms_are_long_enough_to_mean_something() -> None:
    assert min(len(form) for secret in Canaries().all.values() for form in forms(secret)) >= 12
