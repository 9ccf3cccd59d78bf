"""Following operations: events, resumption, restarts of the gateway, exit codes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from client.events import Event, events
from contracts.operation import Operation, Phase
from tests.cli import fake_gateway as fake
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]


def test_events_of_a_stream() -> None:
    lines = ["retry: 3000", ": ping", "", "id: 7", "event: progress", "data: {", "data: }", "", "data: cut off"]
    assert list(events(iter(lines))) == [Event("progress", "{\n}", "7")]


def test_a_watch_prints_progress_to_stderr_and_the_end_to_stdout(gateway: Gateway, cli: Cli) -> None:
    ran = cli("operation", "watch", fake.ID, "-o", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["phase"] == "succeeded"
    lines = [line.partition(" ")[2] for line in ran.err.splitlines()]
    assert lines[0] == "create-cluster/demo running"
    assert "  Network running: vpc-1" in lines
    assert "  Network done: vpc-1" in lines
    assert lines.count("  Network done: vpc-1") == 1


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (fake.operation(Phase.FAILED, detail="a defect"), 1, "create-cluster/demo failed: a defect"),
        (fake.operation(Phase.ABORTED), 1, "create-cluster/demo aborted"),
        (fake.BLOCKED, 4, "Not enough capacity: no ml.g5.8xlarge left\n  field: /x\n  remedy: Choose another zone."),
        (fake.WAITING, 4, "instantstart operation decide create-cluster/demo"),
        (fake.operation(Phase.WAITING_FOR_APPROVAL), 4, "instantstart operation approve create-cluster/demo"),
    ],
)
def test_exit_codes(gateway: Gateway, cli: Cli, end: Operation, code: int, said: str) -> None:
    gateway.script = [fake.RUNNING, end]
    ran = cli("cluster", "create", "demo", "--wait")
    assert ran.code == code
    assert said in ran.err


def test_a_stream_that_breaks_is_resumed_behind_the_last_event(gateway: Gateway, cli: Cli) -> None:
    gateway.cuts = [0, 1]
    ran = cli("operation", "watch", fake.ID)
    assert ran.code == 0
    streams = gateway.requests("GET", "/events")
    assert [each.headers.get("last-event-id") for each in streams] == [None, "0", "1"]
    assert {each.query["run_id"] for each in streams} == {"run-1"}
    assert "connection to the gateway lost" in ran.err
    assert "connected again" in ran.err


def test_a_watch_survives_a_restart_of_the_gateway(
    gateway: Gateway, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    gateway.script = [fake.RUNNING, fake.LATER]
    process = spawn("operation", "watch", fake.ID, "-o", "json")
    assert process.stderr is not None
    while "Capacity running" not in (line := process.stderr.readline()):
        assert line, "the watch ended early"
    gateway.stop()
    while "lost" not in (line := process.stderr.readline()):
        assert line, "the watch ended early"
    gateway.hold.clear()
    gateway.script.append(fake.SUCCEEDED)
    gateway.start()
    out, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    assert json.loads(out)["phase"] == "succeeded"
    assert gateway.requests("GET", "/events")[-1].headers["last-event-id"] == "1"


def test_what_has_just_been_answered_does_not_end_the_watch(gateway: Gateway, cli: Cli) -> None:
    gateway.script = [fake.WAITING, fake.WAITING, fake.SUCCEEDED]
    gateway.hold.set()
    ran = cli("operation", "decide", fake.ID, "--default", "--wait")
    assert ran.code == 0
    assert len(gateway.requests("POST", "/decide")) == 1


@pytest.mark.parametrize(
    ("before", "arguments", "code"),
    [
        (fake.BLOCKED, ("abort",), 0),
        (fake.operation(Phase.WAITING_FOR_APPROVAL), ("approve", "--plan-hash", "abc"), 1),
        (fake.operation(Phase.WAITING_FOR_APPROVAL), ("reject",), 0),
    ],
)
def test_steering_that_waits_is_ended_by_the_operations_end_and_succeeds_where_that_is_what_was_asked(
    gateway: Gateway, cli: Cli, before: Operation, arguments: tuple[str, ...], code: int
) -> None:
    gateway.script = [before, before, before, fake.operation(Phase.ABORTED)]
    gateway.hold.set()
    verb, *rest = arguments
    ran = cli("operation", verb, fake.ID, *rest, "--wait")
    assert (ran.code, "create-cluster/demo aborted" in ran.err) == (code, True)


def test_a_rejection_shows_the_end_that_it_brings_without_being_followed(gateway: Gateway, cli: Cli) -> None:
    before = fake.operation(Phase.WAITING_FOR_APPROVAL)
    left = {"exists": {"network/network.ensure_vpc": "vpc-1"}, "unknown": ["network/network.ensure_subnet/a"]}
    ended = fake.operation(Phase.ABORTED, detail="rejected by me", result=left)
    gateway.script = [before, before, ended]
    ran = cli("operation", "reject", fake.ID)
    assert ran.code == 0
    assert "follows it" not in ran.err
    assert "aborted" in ran.out
    assert "rejected by me" in ran.out
    assert "What exists:\n  Network: vpc-1" in ran.out
    assert "network.ensure_subnet a" in ran.out


def test_the_end_is_told_once_after_the_last_stage(gateway: Gateway, cli: Cli) -> None:
    gateway.hold.set()
    lines = cli("operation", "watch", fake.ID).err.splitlines()
    assert sum("create-cluster/demo succeeded" in line for line in lines) == 1
    assert lines[-1] == "create-cluster/demo succeeded"


def test_an_abort_that_came_too_late_fails(gateway: Gateway, cli: Cli) -> None:
    gateway.script = [fake.BLOCKED, fake.BLOCKED, fake.SUCCEEDED]
    gateway.hold.set()
    assert cli("operation", "abort", fake.ID, "--wait").code == 1


def test_a_gateway_that_refuses_the_stream_ends_the_watch(gateway: Gateway, cli: Cli) -> None:
    body = {"title": "Permission denied", "detail": "no streams for you", "code": "denied"}
    gateway.answers[("GET", f"/api/v1/operations/{fake.ID}/events")] = (403, body)
    ran = cli("operation", "watch", fake.ID)
    assert ran.code == 1
    assert "no streams for you" in ran.err
