"""The pages of docs/reference are what the code says, and leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contracts.endpoints import ENDPOINTS
from contracts.problem import ProblemCode
from scripts import generate_reference
from scripts.reference import endpoints, settings

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {path.name: text for path, text in generate_reference.generated().items()}


def test_the_pages_in_the_tree_are_what_would_be_generated(pages: dict[str, str]) -> None:
    folder = generate_reference.FOLDER
    written = {path.name: path.read_text() for path in folder.glob("*.md")}
    assert written == pages, "run `make reference`"


def test_every_route_that_a_face_calls_is_on_the_page(pages: dict[str, str]) -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", pages["endpoints.md"], re.MULTILINE))
    assert set(ENDPOINTS) <= named


def test_every_problem_code_is_on_the_page(pages: dict[str, str]) -> None:
    assert re.findall(r"^\| `(\w+)` \|", pages["problems.md"], re.MULTILINE) == list(ProblemCode)


def test_every_class_of_settings_is_on_the_page() -> None:
    packages = ("activities", "api", "cli", "mcp_server", "server", "telemetry", "temporal", "ui", "worker")
    found = {
        (".".join(path.relative_to(PROJECT).with_suffix("").parts), name)
        for package in packages
        for path in (PROJECT / package).rglob("*.py")
        for name in re.findall(r"^class (\w+)\(BaseSettings\)", path.read_text(), re.MULTILINE)
    }
    assert found == {(kind.__module__, kind.__name__) for kind in settings.PROCESSES}
    assert {process for processes in settings.PROCESSES.values() for process in processes} == set(settings.ORDER)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (("yes", "yes", "yes", "yes", "yes"), "everybody"),
        (("401", "no", "asks", "yes", "yes"), "agent (agents ask)"),
        (("401", "no", "no", "no", "yes"), "admin"),
    ],
)
def test_the_least_role_is_told(cells: tuple[str, ...], said: str) -> None:
    assert endpoints.least(dict(zip(endpoints.CALLERS, cells, strict=True))) == said
