"""Setup: made once, found after, and a conflict is said, not mended by force."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from contracts import visibility
from temporal.findings import Found
from temporal.setup import set_up

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def fresh(dev_server: WorkflowEnvironment) -> Client:
    """A client of a namespace that nobody has made."""
    target = dev_server.client.service_client.config.target_host
    return await Client.connect(target, namespace=f"fresh-{uuid.uuid4().hex[:8]}")


async def test_a_namespace_is_made_with_all_that_it_needs_and_found_after(fresh: Client) -> None:
    made = await set_up(fresh, timedelta(days=7), only_look=False)
    assert Counter(finding.found for finding in made) == {Found.MADE: 1 + len(visibility.ATTRIBUTES)}
    # What is there is used at once: by a start with every attribute, and by a list.
    assert (await fresh.count_workflows(f"{visibility.NEEDS_ATTENTION} = true")).count == 0
    again = await set_up(fresh, None, only_look=False)
    assert {finding.found for finding in again} == {Found.THERE}
    assert "7 days" in str(again[0])


async def test_a_look_changes_nothing(fresh: Client) -> None:
    for _ in range(2):
        (missing,) = await set_up(fresh, None, only_look=True)
        assert missing.found is Found.MISSING
        assert "without --check" in missing.remedy


async def test_an_attribute_of_another_type_is_left_and_explained(fresh: Client) -> None:
    await set_up(fresh, None, only_look=False)
    other = await Client.connect(fresh.service_client.config.target_host, namespace=f"{fresh.namespace}-b")
    await set_up_with_wrong_type(other)
    findings = await set_up(other, None, only_look=False)
    (wrong,) = [finding for finding in findings if not finding.good]
    assert wrong.found is Found.DIFFERS
    assert "its type is Int, and must be Keyword" in wrong.detail
    assert visibility.PHASE in wrong.remedy


async def set_up_with_wrong_type(client: Client) -> None:
    from temporal.namespace import namespace

    await namespace(client, None, timedelta(days=3), only_look=False)
    wrong = {visibility.PHASE: IndexedValueType.INDEXED_VALUE_TYPE_INT}
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=client.namespace, search_attributes=wrong)
    )


async def test_retention_is_changed_only_where_it_is_asked_for(fresh: Client) -> None:
    await set_up(fresh, timedelta(days=7), only_look=False)
    (looked, *_) = await set_up(fresh, timedelta(days=9), only_look=True)
    assert (looked.found, looked.detail) == (Found.DIFFERS, "keeps ended workflows for 7 days instead of 9 days")
    (changed, *_) = await set_up(fresh, timedelta(days=9), only_look=False)
    assert changed.found is Found.MADE
    (found, *_) = await set_up(fresh, None, only_look=True)
    assert "9 days" in found.detail


async def test_in_the_cloud_it_says_which_command_makes_what_is_missing(
    fresh: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("temporal.namespace.is_cloud", lambda _: True)
    monkeypatch.setattr("temporal.attributes.is_cloud", lambda _: True)
    (missing,) = await set_up(fresh, None, only_look=False)
    assert "Temporal Cloud" in missing.remedy
    from temporal.namespace import _register, _until_known

    await _register(fresh, timedelta(days=1))
    await _until_known(fresh)
    (_, *attributes) = await set_up(fresh, None, only_look=False)
    assert {finding.found for finding in attributes} == {Found.MISSING}
    assert f"--sa {visibility.CLUSTER}=Keyword" in attributes[0].remedy


def test_the_program_tells_by_its_exit_status(dev_server: WorkflowEnvironment) -> None:
    there = {
        "TEMPORAL_ADDRESS": dev_server.client.service_client.config.target_host,
        "TEMPORAL_NAMESPACE": f"fresh-{uuid.uuid4().hex[:8]}",
    }
    assert program("temporal.setup", "--check", **there).returncode == 1
    assert program("temporal.setup", **there).returncode == 0
    found = program("temporal.setup", "--check", **there)
    assert found.returncode == 0
    assert f"there   search attribute {visibility.CLUSTER}" in found.stdout
    assert program("temporal.setup", "--check", **there, TEMPORAL_PROFILE="nowhere").returncode == 2


@pytest.mark.parametrize("command", [("temporal.setup", "--check"), ("worker.deployment", "status")])
def test_a_program_says_that_temporal_does_not_answer_and_ends(command: tuple[str, str]) -> None:
    module, action = command
    silent = {"TEMPORAL_ADDRESS": "127.0.0.1:1", "INSTANTSTART_LOG_FORMAT": "json"}
    ended = program(module, "--wait", "1.5", action, **silent)
    assert ended.returncode == 3
    *logged, last = ended.stderr.splitlines()
    assert last == "Temporal did not answer within 1.5 seconds."
    assert {json.loads(line)["logger"] for line in logged} == {"temporal.connection"}


def test_a_setting_that_cannot_be_used_is_said_not_shown_as_a_defect() -> None:
    ended = program("temporal.setup", INSTANTSTART_LOG_FORMAT="prose")
    assert ended.returncode == 2
    assert "log_format" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_where_there_is_no_namespace_no_build_can_be_told_of(dev_server: WorkflowEnvironment) -> None:
    target = dev_server.client.service_client.config.target_host
    ended = program("worker.deployment", "status", TEMPORAL_ADDRESS=target, TEMPORAL_NAMESPACE="nowhere")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "there is no namespace nowhere" in ended.stderr
    assert "Traceback" not in ended.stderr


def program(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m`` this command, with these variables and no others of Temporal or the platform."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TEMPORAL_", "INSTANTSTART_"))}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=inherited | {"TEMPORAL_CONFIG_FILE": os.devnull} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
