"""No face has a rule of its own: what is wrong with an input, and what to do about it, the gateway says everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest
from mcp import Client
from streamlit.testing.v1 import AppTest

from client.request import Call
from contracts.endpoints import ENDPOINTS
from contracts.operation import Phase
from contracts.problem import Problem
from mcp_server.server import create_server
from mcp_server.toolsets import Toolset
from tests.faces.wrong_inputs import WRONG, Wrong
from tests.ui.conftest import PATIENCE, Console
from ui.problems import escaped

COMPARED = ("code", "status", "detail", "remedy", "field", "errors")


def _compared(problem: dict[str, Any]) -> dict[str, Any]:
    return {member: problem[member] for member in COMPARED if problem.get(member)}


def _asked(console: Console, wrong: Wrong, **query: Any) -> dict[str, Any]:
    """What the gateway itself answers."""
    call = Call.of(wrong.endpoint, wrong.body, **wrong.parameters, **query)
    with httpx.Client(base_url=console.gateway.url, timeout=PATIENCE) as http:
        answer = http.request(**call.request(console.token))
    assert answer.is_client_error, answer.text
    return _compared(answer.json())


def _told(console: Console, wrong: Wrong) -> dict[str, Any]:
    """What the tool answers."""
    tool = wrong.tool
    assert tool is not None

    async def call() -> Any:
        assert console.token is not None
        face = create_server(console.gateway.url, console.token, tuple(Toolset))
        async with face.http, Client(face) as client:
            return await client.call_tool(tool, wrong.arguments)

    result = console.wait(call())
    assert result.is_error, result.structured_content
    return _compared(result.structured_content["problem"])


def _wishes(name: str, body: object, parameters: dict[str, object]) -> None:
    # Streamlit runs this body as a script of its own, with nothing of this module around it.
    import streamlit as st

    from contracts.endpoints import ENDPOINTS
    from ui.actions import act, plan
    from ui.problems import problem_box

    def refused(problem):  # type: ignore[no-untyped-def]
        st.session_state.setdefault("refused", []).append(problem)
        problem_box(problem)

    act("form", ENDPOINTS[name], body, refused=refused, **parameters)  # type: ignore[arg-type]
    if ENDPOINTS[name].starts:
        plan(ENDPOINTS[name], body, refused=refused, **parameters)  # type: ignore[arg-type]


def _shown(wrong: Wrong) -> list[dict[str, Any]]:
    """What the console's actions show: that of the wish, then that of its plan where it has one."""
    arguments = {"name": wrong.endpoint.name, "body": wrong.body, "parameters": dict(wrong.parameters)}
    page = AppTest.from_function(_wishes, kwargs=arguments, default_timeout=2 * PATIENCE).run()
    assert not page.exception
    refused: list[Problem] = page.session_state["refused"]
    for problem, box in zip(refused, page.error, strict=True):
        for fault in problem.errors or [problem]:
            assert escaped(fault.detail) in box.value
            assert escaped(fault.remedy or "") in box.value
    return [_compared(problem.model_dump(mode="json", exclude_none=True)) for problem in refused]


def _placed(console: Console, wrong: Wrong) -> Wrong:
    """The same about a cluster, or an operation, that is there."""
    if wrong.operation is not None:
        first, phase = wrong.operation.split()
        asker = "agent" if phase == Phase.WAITING_FOR_APPROVAL else "operator"
        operation = console.start(first, asker)
        console.operation(operation, Phase(phase))
        return replace(wrong, parameters={"id": operation}, given={"operation": operation, **(wrong.body or {})})
    if "tag" in wrong.endpoint.placeholders and "tag" not in wrong.parameters:
        tag = console.cluster()
        given = {**wrong.arguments, "cluster": tag}
        return replace(wrong, parameters={**wrong.parameters, "tag": tag}, given=given)
    return wrong


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_the_tool_and_the_console_say_what_the_gateway_says(console: Console, wrong: Wrong) -> None:
    wrong = _placed(console, wrong)
    expected = _asked(console, wrong)
    assert expected["remedy"]
    plans = [_asked(console, wrong, validate_only=True)] if wrong.endpoint.starts else []
    assert _shown(wrong) == [expected, *plans]
    pointed = dict(expected)
    if "field" in expected:
        pointed["field"] = wrong.pointed(expected["field"])
    if "errors" in expected:
        pointed["errors"] = [{**fault, "field": wrong.pointed(fault["field"])} for fault in expected["errors"]]
    if wrong.tool is not None:
        assert _told(console, wrong) == pointed


def test_everything_that_starts_or_answers_an_operation_is_among_them() -> None:
    changing = {
        name for name, endpoint in ENDPOINTS.items() if endpoint.starts or "/operations/{id}/" in endpoint.path
    } - {"get_operation_spec"}
    assert {wrong.endpoint.name for wrong in WRONG} == changing
