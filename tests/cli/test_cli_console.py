"""The way into the console, and the default cluster."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.stack.folder import DataFolder, write_private
from cli.stack.launch import console_link
from cli.stack.supervisor import StackError
from tests.cli import fake_gateway as fake
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]

TICKETS = ("POST", "/api/v1/tickets")
TICKET = {"ticket": "ist_once", "expires_at": "2026-11-29T12:10:00Z"}
DEFAULT = "/api/v1/me/default-cluster"
CALLER = {"name": "tester", "role": "operator", "default_cluster": "demo"}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was opened in the browser."""
    links: list[str] = []

    def open_it(url: str) -> bool:
        links.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_it)
    return links


def test_console_prints_a_sign_in_link_of_the_gateway_and_opens_nothing_unasked(
    gateway: Gateway, cli: Cli, opened: list[str]
) -> None:
    gateway.answers[TICKETS] = (201, TICKET)
    ran = cli("console")
    assert (ran.code, ran.out) == (0, f"{gateway.url}/signin?ticket=ist_once\n")
    assert opened == []
    assert json.loads(cli("console", "-o", "json").out) == {
        "url": f"{gateway.url}/signin?ticket=ist_once",
        "expires_at": TICKET["expires_at"],
    }


def test_console_opens_the_link_it_prints(gateway: Gateway, cli: Cli, opened: list[str]) -> None:
    gateway.answers[TICKETS] = (201, TICKET)
    ran = cli("console", "--open")
    assert opened == [ran.out.strip()]


def test_console_says_so_where_no_browser_can_be_opened(
    gateway: Gateway, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.answers[TICKETS] = (201, TICKET)
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    ran = cli("console", "--open")
    assert ran.code == 0
    assert "no browser" in ran.err
    assert "ist_once" not in ran.err


def test_a_stack_begins_with_a_link_that_its_own_token_made(gateway: Gateway, tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "stack")
    folder.create()
    write_private(folder.credentials, {"url": gateway.url, "token": fake.TOKEN})
    gateway.answers[TICKETS] = (201, TICKET)
    assert console_link(folder) == f"{gateway.url}/signin?ticket=ist_once"
    write_private(folder.credentials, {"url": gateway.url, "token": "isk_other"})
    with pytest.raises(StackError, match="unknown or revoked"):
        console_link(folder)


def test_use_sets_the_default_cluster_and_none_clears_it(gateway: Gateway, cli: Cli) -> None:
    gateway.answers[("PUT", DEFAULT)] = (200, CALLER)
    gateway.answers[("DELETE", DEFAULT)] = (200, {**CALLER, "default_cluster": None})
    ran = cli("cluster", "use", "demo")
    assert gateway.asked[0].body == {"cluster": "demo"}
    assert [line.split() for line in ran.out.splitlines()] == [["Caller", "tester"], ["Default", "cluster", "demo"]]
    ran = cli("cluster", "use", "--none")
    assert (gateway.asked[1].method, gateway.asked[1].body) == ("DELETE", None)
    assert "none" in ran.out


@pytest.mark.parametrize("arguments", [(), ("demo", "--none")])
def test_use_takes_a_tag_or_none(gateway: Gateway, cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli("cluster", "use", *arguments).code == 2
    assert gateway.asked == []


def test_use_of_an_unknown_cluster_names_those_that_there_are(gateway: Gateway, cli: Cli) -> None:
    problem = {"title": "Not found", "status": 404, "code": "not_found", "detail": "no 'x'; managed are demo"}
    gateway.answers[("PUT", DEFAULT)] = (404, problem)
    ran = cli("cluster", "use", "x")
    assert ran.code == 3
    assert "managed are demo" in ran.err
