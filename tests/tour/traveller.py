"""Somebody who drives operations through the gateway, and keeps a list of what was driven."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from client.sync import Gateway, GatewayProblem, connections
from contracts import endpoints
from contracts.endpoints import Endpoint
from contracts.operation import Operation, Phase
from contracts.problem import ProblemCode
from tests.local_stack import LocalStack

LIMIT = 1200.0
PAUSE = 0.15
STANDING = (Phase.SUCCEEDED, Phase.ABORTED, Phase.FAILED, Phase.BLOCKED)
"""Phases that an operation does not leave by itself."""

T = TypeVar("T")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Driven:
    """An operation that was driven to its end. ``path``: what was special about it, ``done`` where nothing was."""

    kind: str
    path: str
    workflow_id: str
    run_id: str


@dataclass(frozen=True)
class Traveller:
    """One caller of the gateway. Companions write into the same list."""

    stack: LocalStack
    gateway: Gateway
    driven: list[Driven] = field(default_factory=list)

    @classmethod
    def of(cls, stack: LocalStack) -> Traveller:
        """The stack's administrator."""
        return cls(stack, Gateway(connections(stack.settings.gateway_url, "tour"), stack.token))

    def companion(self, name: str, role: str) -> Traveller:
        """Another caller, with a token of their own."""
        token = self.call(endpoints.CREATE_TOKEN, {"name": name, "role": role}).token
        return replace(self, gateway=Gateway(connections(self.stack.settings.gateway_url, "tour"), token))

    def call(self, endpoint: Endpoint[Any], body: Any = None, **places: Any) -> Any:
        """What the gateway answers; asked again while it has no time, as it says to do. Raises GatewayProblem."""
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                return self.gateway.call(endpoint, body, **places)
            except GatewayProblem as error:
                if error.problem.code is not ProblemCode.UNAVAILABLE or time.monotonic() > deadline:
                    raise
            time.sleep(1)

    def ask(self, endpoint: Endpoint[Operation], body: Any = None, **places: Any) -> str:
        """Start an operation; returns its workflow ID."""
        return str(self.call(endpoint, body, **places).id)

    def do(self, endpoint: Endpoint[Operation], body: Any = None, *, path: str = "done", **places: Any) -> Operation:
        """Start an operation and wait until it has succeeded."""
        return self.done(self.ask(endpoint, body, **places), path)

    def done(self, operation: str, path: str = "done") -> Operation:
        """Wait until an operation has succeeded."""
        return self.ended(operation, Phase.SUCCEEDED, path)

    def ended(self, operation: str, phase: Phase, path: str) -> Operation:
        """Wait until an operation has ended, just so."""
        found = self.until(operation, lambda seen: seen.phase in STANDING)
        assert found.phase is phase, found.model_dump_json(indent=2, exclude_none=True)
        return self.note(found, path)

    def note(self, operation: Operation, path: str) -> Operation:
        assert operation.run_id is not None
        self.driven.append(Driven(operation.kind, path, operation.id, operation.run_id))
        return operation

    def blocked(self, operation: str, stage: str) -> None:
        """Wait until this stage is blocked."""
        found = self.until(operation, lambda seen: seen.phase in STANDING)
        assert [each.name for each in found.stages if each.problem is not None] == [stage], found.model_dump_json(
            indent=2, exclude_none=True
        )

    def resolve(self, endpoint: Endpoint[Operation], operation: str, body: Any) -> None:
        """Answer to a blocked stage, and wait until the answer has been acted on."""
        self.call(endpoint, body, id=operation)
        self.until(operation, lambda seen: seen.phase is not Phase.BLOCKED)

    def until(self, operation: str, condition: Callable[[Operation], bool]) -> Operation:
        """Wait until an operation fulfils a condition."""
        deadline = time.monotonic() + LIMIT
        while not condition(found := self.call(endpoints.GET_OPERATION, id=operation)):
            assert time.monotonic() < deadline, found.model_dump_json(indent=2, exclude_none=True)
            time.sleep(PAUSE)
        return found  # type: ignore[no-any-return]

    def until_phase(self, operation: str, phase: Phase) -> Operation:
        return self.until(operation, lambda seen: seen.phase is phase)

    def until_detail(self, operation: str, stage: str, words: str) -> Operation:
        """Wait until the line of a stage has these words."""

        def says(seen: Operation) -> bool:
            lines = {each.name: each.detail or "" for each in seen.stages}
            return words in lines.get(stage, "")

        return self.until(operation, says)

    def fault(self, **rule: Any) -> None:
        """The next call that the rule matches fails, once."""
        self.stack.sandbox.post("/faults", json={"add": [{"times": 1, **rule}]}).raise_for_status()

    def temporal(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Do something with Temporal itself, past the gateway."""

        async def run() -> T:
            address = f"127.0.0.1:{self.stack.settings.ports.temporal}"
            return await work(await Client.connect(address, data_converter=pydantic_data_converter))

        return asyncio.run(run())

    def at(self, workflow_id: str, work: Callable[[WorkflowHandle[Any, Any]], Coroutine[Any, Any, T]]) -> T:
        """Do something with a workflow by Temporal's own means, as an operator with its command line does."""
        return self.temporal(lambda client: work(client.get_workflow_handle(workflow_id)))


def side_by_side(*legs: Callable[[], object]) -> None:
    """Go several ways at once; raises the first failure when all have ended."""
    with ThreadPoolExecutor(len(legs)) as crowd:
        for each in [crowd.submit(leg) for leg in legs]:
            each.result()
