"""The whole product encrypted: turned on over histories that are readable, and with a key that is lost."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from temporal.keys import Key, read_lines
from tests.local_stack import LocalStack

ROOT = Path(__file__).parents[2]
READABLE, HIDDEN = "written-before-encryption", "written-after-encryption"
TAG = "mixed"
ENDED = ("succeeded", "blocked", "aborted", "failed")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack whose payloads were readable until a creation waited for a decision, and are encrypted since."""
    found = LocalStack(tmp_path_factory.mktemp("encrypted"), 240.0)
    try:
        found.start()
        found.sandbox.put("/quotas", json={"vpcs": 50, "elastic-ips": 50, "ml.g5.8xlarge": 8}).raise_for_status()
        found.gateway.post("/clusters", json={"tag": TAG}).raise_for_status()
        found.until(f"create-cluster/{TAG}", lambda operation: operation["phase"] == "waiting_for_decision")
        _abort(found, "plain", READABLE)
        found.stop()
        found.encrypt()
        found.start()
        yield found
    finally:
        found.stop()


def _abort(stack: LocalStack, tag: str, reason: str) -> None:
    """An operation that ends with ``reason`` in its history, its memo, and the answer that people get."""
    stack.gateway.post("/clusters", json={"tag": tag}).raise_for_status()
    stack.gateway.post(f"/operations/create-cluster/{tag}/abort", json={"reason": reason}).raise_for_status()
    ended = stack.until(f"create-cluster/{tag}", lambda operation: operation["phase"] == "aborted")
    assert reason in str(ended)


def _database(stack: LocalStack) -> bytes:
    return b"".join(file.read_bytes() for file in stack.settings.folder.path.glob("temporal.db*"))


def test_a_history_that_began_readable_goes_on_encrypted_to_its_end(stack: LocalStack) -> None:
    answer = {"answer": {"instance_type": "ml.g5.8xlarge", "count": 1}}
    stack.gateway.post(f"/operations/create-cluster/{TAG}/decide", json=answer).raise_for_status()
    ended = stack.until(f"create-cluster/{TAG}", lambda operation: operation["phase"] in ENDED, limit=480)
    assert ended["phase"] == "succeeded", ended
    assert {stage["state"] for stage in ended["stages"]} <= {"done", "unchanged", "skipped"}


def test_what_lists_and_pages_show_is_read_from_either(stack: LocalStack) -> None:
    stack.until(f"create-cluster/{TAG}", lambda operation: operation["phase"] in ENDED, limit=480)
    clusters = stack.gateway.get("/clusters").raise_for_status().json()["clusters"]
    assert TAG in [cluster["tag"] for cluster in clusters]
    operations = stack.gateway.get("/operations").raise_for_status().json()["operations"]
    assert {f"create-cluster/{TAG}", "create-cluster/plain"} <= {operation["id"] for operation in operations}
    assert READABLE in stack.gateway.get("/operations/create-cluster/plain").raise_for_status().text
    nodes = stack.gateway.get(f"/clusters/{TAG}/nodes").raise_for_status().json()["nodes"]
    assert len(nodes) == 1
    with stack.gateway.stream("GET", f"/operations/create-cluster/{TAG}/events") as events:
        assert '"phase":"succeeded"' in "".join(events.iter_text())


def test_a_problem_with_a_remedy_arrives_through_encrypted_failures(stack: LocalStack) -> None:
    stack.sandbox.put("/quotas", json={"ml.g5.8xlarge": 1}).raise_for_status()
    body = {"name": "more", "instance_type": "ml.g5.8xlarge", "count": 4}
    refused = stack.gateway.post(f"/clusters/{TAG}/instance-groups", json=body)
    stack.sandbox.put("/quotas", json={"ml.g5.8xlarge": 8}).raise_for_status()
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["remedy"]


def test_nothing_that_was_written_since_can_be_read_in_the_database(stack: LocalStack) -> None:
    _abort(stack, "hidden", HIDDEN)
    found = _database(stack)
    assert READABLE.encode() in found, "what the test looks for would be found"
    assert HIDDEN.encode() not in found


def test_setup_finds_all_that_the_stack_has_made(stack: LocalStack) -> None:
    looked = subprocess.run(
        [sys.executable, "-m", "temporal.setup", "--check"],
        env=stack.environment("worker"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert looked.returncode == 0, looked.stdout + looked.stderr


def _decoded(stack: LocalStack, **headers: str) -> httpx.Response:
    payload = {"metadata": {"encoding": base64.b64encode(b"json/plain").decode()}, "data": "e30="}
    return httpx.post(f"{stack.settings.gateway_url}/codec/encode", json={"payloads": [payload]}, headers=headers)


def test_the_codec_endpoint_encrypts_with_the_key_of_the_stack_for_who_may(stack: LocalStack) -> None:
    assert _decoded(stack).status_code == 401
    allowed = _decoded(stack, Authorization=f"Bearer {stack.token}")
    (sealed,) = allowed.raise_for_status().json()["payloads"]
    assert base64.b64decode(sealed["metadata"]["encryption-key-id"]).decode() == _key_id(stack)


def _key_id(stack: LocalStack) -> str:
    return Key(base64.b64decode(read_lines(stack.settings.folder.codec_keys)[0])).id


def test_a_worker_without_the_key_takes_no_work_and_a_gateway_without_it_names_it(
    stack: LocalStack, tmp_path: Path
) -> None:
    other = tmp_path / "other.keys"
    other.write_text(base64.b64encode(b"x" * 32).decode())
    environment = stack.environment("worker") | {"INSTANTSTART_CODEC_KEY_FILE": str(other)}
    worker = subprocess.run(
        [sys.executable, "-m", "worker"], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert worker.returncode == 2
    assert _key_id(stack) in worker.stderr
    assert "Traceback" not in worker.stderr

    needed = stack.settings.folder.codec_keys
    mine = needed.read_text()
    stack.kill("gateway")
    try:
        needed.write_text(other.read_text())
        stack.start("gateway")
        answer = stack.gateway.get(f"/clusters/{TAG}")
        assert answer.status_code == 503
        assert _key_id(stack) != Key(b"y" * 32).id
        assert Key(base64.b64decode(mine)).id in answer.json()["detail"]
    finally:
        stack.kill("gateway")
        needed.write_text(mine)
        os.chmod(needed, 0o600)
        stack.start("gateway")
    assert stack.gateway.get(f"/clusters/{TAG}").status_code == 200
