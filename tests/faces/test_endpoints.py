"""The table of routes that the faces call is the gateway's own contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from api.app import create_app
from api.settings import Settings
from contracts.endpoints import API, ENDPOINTS, Nothing

NOT_CALLED = {
    "watch_operation": "an event stream: faces poll, with long polls",
    "get_health": "for probes of the process; faces ask whether operations would run (get_readiness)",
}
"""Routes that no face calls, and why."""


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str, dict[str, Any]]]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    document = create_app(Settings(data_dir=folder)).openapi()
    return {
        operation["operationId"]: (method.upper(), path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
    }


def test_every_route_of_the_gateway_is_one_of_the_faces(routes: dict[str, Any]) -> None:
    assert set(routes) - set(ENDPOINTS) == set(NOT_CALLED)
    assert set(ENDPOINTS) <= set(routes)


@pytest.mark.parametrize("name", sorted(ENDPOINTS))
def test_faces_call_a_route_as_the_contract_has_it(name: str, routes: dict[str, Any]) -> None:
    endpoint = ENDPOINTS[name]
    method, path, operation = routes[name]
    assert (endpoint.method, endpoint.path) == (method, path)
    success = next(
        status for status in operation["responses"] if status.startswith("2") and not _is_plan(operation, status)
    )
    answer = operation["responses"][success].get("content", {}).get("application/json", {}).get("schema", {})
    expected = "" if endpoint.answer is Nothing else endpoint.answer.__name__
    assert answer.get("$ref", "").rpartition("/")[2] == expected
    parameters = {each.get("name") for each in operation.get("parameters", [])}
    assert endpoint.starts == ("validate_only" in parameters)
    assert endpoint.path.startswith(API) or name == "get_readiness"


def _is_plan(operation: dict[str, Any], status: str) -> bool:
    """A start answers 200 with the plan where it is only to be checked."""
    return status == "200" and "202" in operation["responses"]
