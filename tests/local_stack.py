"""The whole local stack as real processes, each of which can be killed and started again.

Not supervised: a test says itself who dies and when somebody comes back. Benchmarks use it too.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from cli.stack.child import Child, Service
from cli.stack.folder import DataFolder
from cli.stack.launch import new_token
from cli.stack.ports import is_free
from cli.stack.services import services
from cli.stack.settings import Ports, StackSettings

START_LIMIT = 240.0


class LocalStack:
    """Temporal, sandbox, worker and gateway on free ports, with their state in ``folder``."""

    def __init__(
        self,
        folder: Path,
        speed: float,
        env: dict[str, str] | None = None,
        encrypt: bool = False,
        through: Callable[[Service], Service] = lambda service: service,
    ) -> None:
        ports = _ports()
        self.settings = StackSettings(DataFolder(folder), ports=ports, speed=speed)
        self.settings.folder.create()
        self._env, self._through = env or {}, through
        if encrypt:
            self.settings.folder.encrypt()
        self._services = self._configured()
        self._children: dict[str, Child] = {}
        self._frozen: list[Child] = []
        self._thawed: list[Child] = []
        self.token = ""

    def _configured(self) -> dict[str, Service]:
        found = services(self.settings)
        return {each.name: self._through(replace(each, env={**each.env, **self._env})) for each in found}

    def encrypt(self) -> None:
        """Have payloads encrypted by the services that are started from now on."""
        self.settings.folder.encrypt()
        self._services = self._configured()

    def start(self, *names: str) -> None:
        """Start services, all if none is named, and wait until each works."""
        self.start_only(*(names or self._services))
        if not self.token:
            self.token = new_token(self.settings)

    def start_only(self, *names: str) -> None:
        """Start services without asking the gateway for a token."""
        for name in names:
            service = self._services[name]
            self._children[name] = child = Child(service, self.settings.folder.logs)
            deadline = time.monotonic() + START_LIMIT
            while not (_works(service.ready) and _announced(child)):
                if child.exit_code() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"{name} {child.ended_how()}\n{child.tail()}")
                time.sleep(0.1)

    def kill(self, *names: str) -> None:
        """SIGKILL, without a word before it."""
        for name in names:
            os.kill(self._children[name].pid, signal.SIGKILL)
            self._children.pop(name).stop()

    def freeze(self, name: str) -> None:
        """SIGSTOP to all processes of a service, which counts as down from now on: another can be started beside it."""
        child = self._children.pop(name)
        os.killpg(child.pid, signal.SIGSTOP)
        self._frozen.append(child)

    def thaw(self) -> None:
        """What was frozen goes on, beside what was started since; it ends with the stack."""
        for child in self._frozen:
            os.killpg(child.pid, signal.SIGCONT)
        self._thawed += self._frozen
        self._frozen = []

    def stop(self) -> None:
        self.thaw()
        while self._thawed:
            self._thawed.pop().stop()
        for name in reversed(list(self._children)):
            self._children.pop(name).stop()

    def down(self) -> list[str]:
        """The services that a test has ended and not started again."""
        return [name for name in self._services if name not in self._children]

    def calm(self) -> None:
        """Start again what a test has ended, and take its faults away."""
        if dead := self.down():
            self.start(*dead)
        self.sandbox.delete("/faults").raise_for_status()

    def environment(self, name: str) -> dict[str, str]:
        """The environment that a service runs with."""
        return dict(self._services[name].env)

    def pid(self, name: str) -> int:
        return self._children[name].pid

    def log(self, name: str) -> str:
        return (self.settings.folder.logs / f"{name}.log").read_text(errors="replace")

    @cached_property
    def gateway(self) -> httpx.Client:
        """A client of the gateway with an administrator's token."""
        return httpx.Client(
            base_url=f"{self.settings.gateway_url}/api/v1",
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=30,
        )

    @cached_property
    def sandbox(self) -> httpx.Client:
        """A client of the sandbox's admin API."""
        return httpx.Client(base_url=f"{self.settings.sandbox_url}/_sandbox", timeout=30)

    def operation(self, identifier: str) -> dict[str, Any]:
        """An operation, as soon as the gateway can say; a gateway or Temporal that is down is waited for."""
        deadline = time.monotonic() + START_LIMIT
        while True:
            try:
                answer = self.gateway.get(f"/operations/{identifier}")
                if answer.status_code == 200:
                    found: dict[str, Any] = answer.json()
                    return found
                if answer.status_code not in (503, 404) or time.monotonic() > deadline:
                    raise AssertionError(f"{answer.status_code} {answer.text}")
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def until(
        self, identifier: str, condition: Callable[[dict[str, Any]], bool], limit: float = 240.0
    ) -> dict[str, Any]:
        """Wait until an operation fulfils a condition."""
        deadline = time.monotonic() + limit
        while not condition(found := self.operation(identifier)):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {limit} s: {json.dumps(found, indent=2)}")
            time.sleep(0.1)
        return found

    def effects(self) -> Counter[str]:
        """How often each mutating AWS call had an effect, by ``service:Operation``."""
        entries = self.sandbox.get("/ledger", params={"effects_only": "true"}).json()
        rows = entries["entries"] if isinstance(entries, dict) else entries
        return Counter(f"{row['service']}:{row['operation']}" for row in rows)


def _ports() -> Ports:
    """Free ports below those that the system gives to connections: it would give one away while its service is down."""
    candidates = (port for port in random.sample(range(20_000, 32_000), 200) if is_free(port))
    return Ports(**{port.setting: next(candidates) for port in Ports().each()})


def _announced(child: Child) -> bool:
    """Whether this very process works: Temporal goes on listing the pollers of a worker that was killed."""
    return child.service.name != "worker" or "hosting" in child.tail(200)


def _works(ready: Callable[[], bool]) -> bool:
    try:
        return ready()
    except OSError:
        return False


@contextmanager
def local_stack(
    folder: Path,
    speed: float,
    env: dict[str, str] | None = None,
    encrypt: bool = False,
    through: Callable[[Service], Service] = lambda service: service,
) -> Iterator[LocalStack]:
    """A running stack that leaves nothing behind. ``through``: another way to start its services."""
    stack = LocalStack(folder, speed, env, encrypt, through)
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
