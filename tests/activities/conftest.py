"""The sandbox over HTTP, and a runner that treats activities as Temporal does."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.errors import classify, problem_of
from activities.registry import Activities
from activities.settings import Settings
from contracts.activity import Act, In, Out, Wait
from contracts.network import Scope
from contracts.problem import Problem
from sandbox import credentials

REGION = "us-west-2"
PROJECT = Path(__file__).resolve().parents[2]
SPEED = 900.0
WAIT_LIMIT = timedelta(seconds=12)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Sandbox:
    """A running sandbox, and its admin API."""

    def __init__(self, url: str) -> None:
        self.url, self._http = url, httpx.Client(base_url=f"{url}/_sandbox", timeout=30)

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        answer = self._http.request(method, path, json=body, params=query)
        answer.raise_for_status()
        return answer.json()

    def effects(self, operation: str | None = None, service: str | None = None, since: int = 0) -> list[Any]:
        query = {"effects_only": "true", "since": since}
        query |= {key: value for key, value in (("operation", operation), ("service", service)) if value}
        return list(self.call("GET", "ledger", **query)["entries"])

    def mark(self) -> int:
        """The number of the newest entry of the ledger."""
        entries = self.call("GET", "ledger")["entries"]
        return max((entry["number"] for entry in entries), default=0)

    def fault(self, *rules: dict[str, Any]) -> None:
        self.call("POST", "faults", list(rules))

    def fired(self) -> list[Any]:
        return list(self.call("GET", "faults")["fired"])

    def lose_response(self, operation: str, service: str = "*") -> None:
        """The next such call has its effect, and its answer is lost."""
        self.fault({"operation": operation, "service": service, "phase": "after", "action": "drop", "times": 1})

    def as_new(self) -> None:
        """Without faults, and with room for more clusters (resetting forgets quotas)."""
        self.fault()
        self.call("PUT", "quotas", ROOM, region=REGION)

    def deny(self, operation: str, service: str = "*") -> None:
        self.fault(
            {
                "operation": operation,
                "service": service,
                "code": "AccessDeniedException",
                "status": 403,
                "message": "not you",
            }
        )


ROOM = {"vpcs": 10_000}
"""The clusters of all files share an account, and how many files a process runs is chance."""


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    port, kubernetes_port = free_port(), free_port()
    log = tmp_path_factory.mktemp("sandbox") / "log"
    command = [sys.executable, "-m", "sandbox", "--port", str(port)]
    command += ["--kubernetes-port", str(kubernetes_port), "--speed", str(SPEED)]
    for path in (PROJECT / "recipes/download").glob("*.py"):
        command += ["--program", str(path)]
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=PROJECT, stdout=output, stderr=subprocess.STDOUT)
    found = Sandbox(f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                found.call("GET", "health")
                break
            except httpx.HTTPError:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"the sandbox did not start:\n{log.read_text()[-2000:]}")
                time.sleep(0.05)
        found.call("PUT", "quotas", ROOM, region=REGION)
        yield found
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.fixture
def quiet(sandbox: Sandbox) -> Iterator[Sandbox]:
    """The sandbox without faults before and after, and with room for the next cluster."""
    sandbox.as_new()
    yield sandbox
    sandbox.as_new()


def settings(**changes: Any) -> Settings:
    given = {
        "poll_seconds": 0.1,
        "settle_seconds": 0.05,
        "shortfall_patience": 1.0,
        "hyperpod_chart": str(PROJECT / "sandbox/charts/hyperpod-dependencies"),
        "helm_timeout_seconds": 60,
    }
    return Settings(**{**given, **changes})


@pytest.fixture(scope="session")
def activities(sandbox: Sandbox) -> Activities:
    os.environ["AWS_ENDPOINT_URL"] = sandbox.url
    session = boto3.Session(
        aws_access_key_id=credentials.ACCESS_KEY_ID,
        aws_secret_access_key=credentials.SECRET_ACCESS_KEY,
        region_name=REGION,
    )
    return Activities(settings(), session)


class Runner:
    """Runs activities by their signatures: as one operation, retried as Temporal would, without the pauses."""

    def __init__(self, activities: Activities, operation: str) -> None:
        self._methods: dict[str, Callable[..., Any]] = activities.all()
        self.operation, self.attempts = operation, 0
        self.heartbeats: list[Any] = []

    def environment(self, attempt: int = 1, **info: Any) -> ActivityEnvironment:
        environment = ActivityEnvironment()
        given: dict[str, Any] = {"attempt": attempt, "workflow_id": self.operation, "workflow_run_id": "run-1"}
        given |= {"scheduled_time": datetime.now(UTC), **info}
        environment.info = dataclasses.replace(environment.info, **given)
        environment.on_heartbeat = lambda *details: self.heartbeats.append(details)
        return environment

    def once(
        self, signature: Act[In, Out] | Wait[In, Out], request: In, attempt: int = 1, limit: timedelta | None = None
    ) -> Out:
        """One attempt; its error classified as the interceptor does. A wait has only a few seconds of its limit left;
        ``limit`` is that, where it is not the signature's."""
        method = self._methods[signature.name]
        info: dict[str, Any] = {}
        if isinstance(signature, Wait):
            info["scheduled_time"] = datetime.now(UTC) - (limit or signature.limit) + WAIT_LIMIT
        try:
            result: Any = self.environment(attempt, **info).run(method, request)
            found: Out = asyncio.run(result) if asyncio.iscoroutine(result) else result
            return found
        except ApplicationError:
            raise
        except Exception as error:
            raise classify(error, attempt=attempt, pace=0.1) from error

    def __call__(self, signature: Act[In, Out] | Wait[In, Out], request: In, attempts: int = 12) -> Out:
        for attempt in range(1, attempts + 1):
            self.attempts = attempt
            try:
                return self.once(signature, request, attempt)
            except ApplicationError as error:
                if error.non_retryable or attempt == attempts:
                    raise
                if error.type in ("busy", "propagation"):
                    time.sleep(0.1)  # as the server would, shortened
        raise AssertionError("unreachable")


@pytest.fixture
def scope() -> Scope:
    return Scope(cluster=f"t{uuid.uuid4().hex[:6]}", region=REGION, created_by="tests", request_id="req-1")


@pytest.fixture
def run(activities: Activities, scope: Scope, quiet: Sandbox) -> Runner:
    return Runner(activities, f"create-cluster/{scope.cluster}")


def problem(error: pytest.ExceptionInfo[ApplicationError]) -> Problem:
    found = problem_of(error.value)
    assert found is not None, error.value
    return found
