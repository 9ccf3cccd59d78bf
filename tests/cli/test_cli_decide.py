"""Answers to decisions: given, asked for at a terminal, or taken by default."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import sys
import time
from collections.abc import Callable, Iterator

import click
import pytest

from cli.decide import ask, default_answer, parse_answer
from cli.errors import CliError
from contracts.operation import Phase
from tests.cli import fake_gateway as fake
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway, document

DECISION = document(fake.WAITING)["decision"]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[object]]:
    """Answer prompts with what is given; None takes what the prompt offers. Gives the offers."""

    def prepare(*texts: str | None) -> list[object]:
        offers: list[object] = []
        answers: Iterator[str | None] = iter(texts)

        def prompt(text: str, default: object = None, **rest: object) -> object:
            offers.append(default)
            answer = next(answers)
            return default if answer is None else answer

        monkeypatch.setattr(click, "prompt", prompt)
        return offers

    return prepare


def test_answers_are_json_where_they_can_be() -> None:
    given = parse_answer(["count=2", "instance_type=ml.g5.8xlarge", "capacity.kind=spot", "zone=null"], None)
    assert given == {"count": 2, "instance_type": "ml.g5.8xlarge", "capacity": {"kind": "spot"}, "zone": None}
    assert parse_answer([], '{"a": 1}') == {"a": 1}
    assert parse_answer([], None) is None
    for assignments, text in ((["a"], None), (["a=1"], "{}"), ([], "[1]"), ([], "{"), (["a=1", "a.b=2"], None)):
        with pytest.raises(click.UsageError):
            parse_answer(assignments, text)


def test_options_are_offered_with_the_default(typed: Callable[..., list[object]]) -> None:
    offers = typed(None, None)
    assert ask(DECISION) == {"instance_type": "ml.g5.8xlarge", "count": 2}
    assert offers == [1, 2]


def test_a_choice_is_a_number_or_its_text(
    typed: Callable[..., list[object]], capsys: pytest.CaptureFixture[str]
) -> None:
    typed("9", "2", "4")
    assert ask(DECISION) == {"instance_type": "ml.p5.48xlarge", "count": 4}
    assert "Type a number from 1 to 2." in capsys.readouterr().err
    typed("ml.p5.48xlarge", None)
    assert ask(DECISION)["instance_type"] == "ml.p5.48xlarge"


def test_without_a_default_a_person_must_choose() -> None:
    assert default_answer(DECISION) == DECISION["default"]
    with pytest.raises(CliError) as refused:
        default_answer({**DECISION, "default": None})
    assert refused.value.exit == 4


def test_at_a_terminal_the_decision_is_asked_for_and_the_watch_goes_on(gateway: Gateway) -> None:
    gateway.script = [fake.RUNNING, fake.WAITING, fake.SUCCEEDED]
    process, terminal = pty.fork()
    if process == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "cli", "cluster", "create", "demo", "--wait"])
    screen = read_until(terminal, "choose")
    gateway.hold.set()
    assert "Which capacity?" in screen
    os.write(terminal, b"2\n")
    screen += read_until(terminal, "count")
    os.write(terminal, b"\n")
    screen += read_until(terminal, "succeeded")
    read_to_the_end(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    os.close(terminal)
    (asked,) = gateway.requests("POST", "/decide")
    assert asked.body["answer"] == {"instance_type": "ml.p5.48xlarge", "count": 2}


def test_at_a_terminal_an_approval_is_asked_for_with_what_the_plan_does_and_costs(gateway: Gateway) -> None:
    gateway.script = [fake.operation(Phase.WAITING_FOR_APPROVAL), fake.SUCCEEDED]
    wish = {"kind": "create-cluster", "cluster": "demo", "spec": {"tag": "demo"}}
    change = {"action": "create", "kind": "NAT gateway", "name": "nat-a"}
    plan = {"operation": fake.ID, "changes": [change], "warnings": ["it is paid for"]}
    gateway.answers["GET", f"/api/v1/operations/{fake.ID}/spec"] = (200, wish)
    gateway.answers["POST", "/api/v1/plans"] = (200, plan)
    process, terminal = pty.fork()
    if process == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "cli", "operation", "approve", fake.ID])
    screen = read_until(terminal, "Approve plan 0123456789abcdef?")
    assert "NAT gateway" in screen
    assert "it is paid for" in screen
    os.write(terminal, b"y\n")
    read_to_the_end(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    os.close(terminal)
    assert [each.body for each in gateway.requests("POST", "/plans")] == [wish]
    (approved,) = gateway.requests("POST", "/approve")
    assert approved.body == {"plan_hash": "0123456789abcdef", "reason": ""}


def test_who_cannot_be_asked_says_which_plan_they_approve(gateway: Gateway, cli: Callable[..., Ran]) -> None:
    gateway.script = [fake.operation(Phase.WAITING_FOR_APPROVAL)]
    ran = cli("operation", "approve", fake.ID)
    assert ran.code == 2
    assert f"instantstart operation get {fake.ID}" in ran.err
    assert gateway.requests("POST", "/approve") == []


def read_to_the_end(terminal: int) -> None:
    """Until the program has closed its side: a terminal that goes away while it writes would make it fail."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 65536):
            pass


def read_until(terminal: int, text: str, limit: float = 15.0) -> str:
    """What the terminal shows up to ``text``."""
    shown, deadline = "", time.monotonic() + limit
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
        assert ready, f"not shown: {text!r}; shown: {shown}"
        shown += os.read(terminal, 65536).decode(errors="replace")
    return shown
