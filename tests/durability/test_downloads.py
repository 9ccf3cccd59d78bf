"""Credentials and downloads on the whole stack: a token is nowhere but in its Secret, and a download outlives whoever
watches it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.hub.repositories import MEMBER
from tests.durability.runs import create, finish, history, wait_for
from tests.local_stack import LocalStack

TAG = "vault"
GATED = "meta-llama/Llama-3.1-8B-Instruct"
LONG = {"deadline_hours": 168}


@pytest.fixture(scope="module")
def cluster(shared_stack: LocalStack) -> str:
    finish(shared_stack, create(shared_stack, TAG))
    return f"/clusters/{TAG}"


@pytest.fixture
def said(stack: LocalStack) -> Iterator[list[str]]:
    """Everything that the gateway answers during a test."""
    answers: list[str] = []

    def note(response: Any) -> None:
        response.read()
        answers.append(f"{response.request.url}\n{response.headers}\n{response.text}")

    stack.gateway.event_hooks["response"].append(note)
    yield answers
    stack.gateway.event_hooks["response"].remove(note)


def started(stack: LocalStack, method: str, path: str, body: Any) -> str:
    answer = stack.gateway.request(method, path, json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def told(stack: LocalStack, operation: str) -> str:
    """The whole history of an operation, payloads as they are."""
    return "".join(event.SerializeToString().decode("latin-1") for event in history(stack, operation).events)


def kept(folder: Path) -> dict[str, bytes]:
    """What the platform itself has on disk: Temporal's database, logs, audit trail. The sandbox's folder is left out:
    the Secret is there."""
    files = [path for path in folder.rglob("*") if path.is_file() and "sandbox" not in path.relative_to(folder).parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_token_is_nowhere_but_in_its_secret(stack: LocalStack, cluster: str, said: list[str]) -> None:
    refused = stack.gateway.post(f"{cluster}/models/downloads", json={"repository": GATED})
    assert (refused.status_code, refused.json()["field"]) == (422, "/credential")
    for wrong in (f" {MEMBER}", f"{MEMBER}\n", {"token": MEMBER}):
        answer = stack.gateway.put(f"{cluster}/credentials/hub", json={"token": wrong})
        assert answer.status_code == 422, answer.text
    assert stack.gateway.put(f"{cluster}/credentials/hub", content=f'{{"token": {MEMBER}').status_code in (400, 415)
    body = {"token": MEMBER}
    stack.gateway.put(f"{cluster}/credentials/hub", json=body, params={"validate_only": "true"}).raise_for_status()
    finish(stack, started(stack, "PUT", f"{cluster}/credentials/hub", body))
    download = started(stack, "POST", f"{cluster}/models/downloads", {"repository": GATED, "credential": "hub", **LONG})
    ended = finish(stack, download)
    assert (ended["result"]["files"], ended["result"]["verified_by"]) == (11, "storage")
    listed = stack.gateway.get(f"{cluster}/credentials").json()["credentials"]
    assert [(each["name"], each["used_by"]) for each in listed] == [("hub", [])]
    models = stack.gateway.get(f"{cluster}/models").json()["models"]
    assert [(each["path"], each["state"]) for each in models] == [("models/meta-llama-Llama-3.1-8B-Instruct", "ready")]
    for path in (f"/operations/{download}/spec", f"/operations/store-credential/{TAG}/hub/spec", "/audit"):
        stack.gateway.get(path).raise_for_status()
    stored = told(stack, f"store-credential/{TAG}/hub")
    assert "siv1." in stored
    said += [stored, told(stack, download), stack.sandbox.get("/ledger").text]
    files = kept(stack.settings.folder.path)
    # What is looked for would be found: names that no secret are in the same places.
    assert any(GATED.encode() in content for name, content in files.items() if name.startswith("temporal.db"))
    for form in (MEMBER, base64.b64encode(MEMBER.encode()).decode().rstrip("="), MEMBER[3:]):
        assert not [name for name, content in files.items() if form.encode() in content]
        assert not [text[:300] for text in said if form in text]
    assert (stack.settings.folder.path / "seal.key").stat().st_mode & 0o077 == 0


def test_a_download_outlives_whoever_watches_it(stack: LocalStack, cluster: str) -> None:
    slow = {"api": "hub", "action": "latency", "latency": 0.5, "operation": "HEAD .*"}
    stack.sandbox.post("/faults", json=[slow]).raise_for_status()
    asked = {"repository": "Qwen/Qwen3-8B", "path": "models/outlived", **LONG}
    download = started(stack, "POST", f"{cluster}/models/downloads", asked)

    def downloading() -> bool:
        stages = {each["name"]: each for each in stack.operation(download)["stages"]}
        return "of 12 files" in str(stages.get("download", {}).get("detail"))

    wait_for(downloading)
    stack.kill("worker", "gateway")
    stack.start("worker", "gateway")
    stack.sandbox.delete("/faults").raise_for_status()
    assert finish(stack, download)["result"]["files"] == 12
    again = finish(stack, started(stack, "POST", f"{cluster}/models/downloads", asked))
    assert {each["name"]: each["state"] for each in again["stages"]}["job"] == "unchanged"


def test_an_aborted_download_ends_its_job(stack: LocalStack, cluster: str) -> None:
    slow = {"api": "hub", "action": "latency", "latency": 2, "operation": "HEAD .*"}
    stack.sandbox.post("/faults", json=[slow]).raise_for_status()
    asked = {"repository": "Qwen/Qwen3-8B", "path": "models/unwanted", **LONG}
    download = started(stack, "POST", f"{cluster}/models/downloads", asked)

    def running() -> list[Any]:
        return list(stack.gateway.get(f"{cluster}/models").json()["running"])

    wait_for(lambda: bool(running()))
    stack.gateway.post(f"/operations/{download}/abort", json={"reason": "enough"}).raise_for_status()
    stack.until(download, lambda found: found["phase"] == "aborted")
    wait_for(lambda: not running())
