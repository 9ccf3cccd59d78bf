"""One stack for all that is tried in a browser, and people with different rights in front of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, sync_playwright

from cli.gateway import Gateway, Target
from cli.sign_in import sign_in_link
from tests.browser.person import Person
from tests.durability.runs import POLL, create, finish, raise_quotas
from tests.local_stack import LocalStack, local_stack

SPEED = 600.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 1366, "height": 800}
NO_OTHER_HOST = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

Somebody = Callable[[str], Person]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, to which no other machine is known."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        how = "no Chromium is here: apt-get install chromium fonts-dejavu-core (make setup-dev does so for root)"
        if os.environ.get("CI") == "true":
            pytest.fail(how)
        pytest.skip(how)
    # Of a module, not of the session: until it is closed its event loop runs in this thread, and no other can.
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=[NO_OTHER_HOST, *(["--no-sandbox"] if os.geteuid() == 0 else [])],
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shared_stack(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[LocalStack]:
    with local_stack(tmp_path_factory.mktemp("browser"), SPEED, {"INSTANTSTART_POLL_SECONDS": POLL}) as running:
        raise_quotas(running)
        yield running


@pytest.fixture
def stack(shared_stack: LocalStack) -> Iterator[LocalStack]:
    """The stack, calm again after each test."""
    try:
        yield shared_stack
    finally:
        shared_stack.calm()
        shared_stack.sandbox.post("/clock", json={"speed": SPEED}).raise_for_status()


@pytest.fixture(scope="module")
def cluster(shared_stack: LocalStack) -> str:
    """The tag of a cluster with one node."""
    finish(shared_stack, create(shared_stack, "lab"))
    return "lab"


@pytest.fixture(scope="module")
def tokens(shared_stack: LocalStack) -> dict[str, str]:
    """A token of each role, by the role."""
    made = {}
    for name, role in {"alice": "operator", "victor": "viewer", "bot": "agent"}.items():
        answer = shared_stack.gateway.post("/tokens", json={"name": name, "role": role}).raise_for_status()
        made[role] = str(answer.json()["token"])
    return made


@pytest.fixture
def agent(stack: LocalStack, tokens: dict[str, str]) -> Iterator[httpx.Client]:
    """The gateway as an agent reaches it."""
    with httpx.Client(
        base_url=f"{stack.settings.gateway_url}/api/v1", headers={"Authorization": f"Bearer {tokens['agent']}"}
    ) as http:
        yield http


@pytest.fixture
def somebody(stack: LocalStack, browser: Browser, tokens: dict[str, str]) -> Iterator[Somebody]:
    """Signs people in, each in a browser of their own; afterwards, none may have asked another host for anything."""
    people: list[Person] = []
    with ExitStack() as ending:

        def come(role: str) -> Person:
            context = browser.new_context(viewport=SIZE, color_scheme="light", locale="en-GB", timezone_id="UTC")  # type: ignore[arg-type]
            ending.callback(context.close)
            person = Person(context, stack.settings.gateway_url)
            people.append(person)
            person.follows(str(sign_in_link(Gateway(Target(stack.settings.gateway_url, tokens[role])))["url"]))
            return person

        yield come
    asked = {urlsplit(address).hostname for person in people for address in person.asked if "://" in address}
    assert asked <= {"127.0.0.1"}


@pytest.fixture
def printed_link(stack: LocalStack, tokens: dict[str, str]) -> str:
    """What ``instantstart console`` prints to an operator."""
    env = {**os.environ, "INSTANTSTART_URL": stack.settings.gateway_url, "INSTANTSTART_TOKEN": tokens["operator"]}
    command = [str(Path(sys.executable).with_name("instantstart")), "console"]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()
