"""Temporal servers for tests, from the wheels that the development lock installs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from xdist.scheduler import LoadFileScheduling

from contracts import visibility

settings.register_profile("project", max_examples=40, deadline=None)
settings.load_profile("project")

BIN = Path(sys.prefix) / "bin"
TOUR = "tests/tour/"
FAILED = "INSTANTSTART_FAILED_TESTS"
"""Names a file for the tests that fail."""


class _FilesAndTheTour(LoadFileScheduling):
    """A file stays on one worker, and so do all files of the tour: it is gone on once."""

    def _split_scope(self, nodeid: str) -> str:
        return TOUR if nodeid.startswith(TOUR) else str(super()._split_scope(nodeid))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return _FilesAndTheTour(config, log) if config.getoption("dist") == "loadfile" else None


@asynccontextmanager
async def a_dev_server() -> AsyncIterator[WorkflowEnvironment]:
    """A real Temporal server in memory, with our search attributes."""
    keywords = [SearchAttributeKey.for_keyword(name) for name in visibility.KEYWORDS]
    bools = [SearchAttributeKey.for_bool(name) for name in visibility.BOOLS]
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(BIN / "temporal"),
        search_attributes=[*keywords, *bools],
        data_converter=pydantic_data_converter,
        dev_server_extra_args=["--headless"],
    ) as environment:
        yield environment


@pytest.fixture(scope="session")
async def dev_server() -> AsyncIterator[WorkflowEnvironment]:
    """A real Temporal server for all tests. Give every test's workflows IDs of their own."""
    async with a_dev_server() as environment:
        yield environment


@asynccontextmanager
async def a_time_skipping_server() -> AsyncIterator[WorkflowEnvironment]:
    """A Temporal server whose time jumps to the next timer. Its clock is shared: a workflow must end in its test."""
    async with await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=str(BIN / "temporal-test-server"), data_converter=pydantic_data_converter
    ) as environment:
        yield environment


@pytest.fixture
async def time_skipping() -> AsyncIterator[WorkflowEnvironment]:
    """A server of the test's own whose time jumps to the next timer."""
    async with a_time_skipping_server() as environment:
        yield environment


LONGEST = (
    *("chaos", "tour", "upgrade", "durability", "security", "deploy", "telemetry"),
    *("browser", "skills", "faces", "ui", "mcp"),
)
"""Folders of tests, those whose files take longest first."""


STACKS = ("chaos", "tour", "upgrade", "durability", "deploy")
"""Of these, those whose first test brings up whole stacks and lets operations go through on them."""
STACK_LIMIT = 2400
"""Seconds for such a test, on a machine that has other things to do."""


def _folder(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/").partition("/")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that all processes end at about the same time."""
    items.sort(key=lambda item: LONGEST.index(_folder(item)) if _folder(item) in LONGEST else len(LONGEST))
    for item in items:
        if _folder(item) in STACKS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(STACK_LIMIT))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name what fails in a file, one test a line, where the caller wants that: ``scripts/check.sh`` tries it again."""
    if report.failed and (path := os.environ.get(FAILED)) and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(path).open("a") as file:
            file.write(f"{report.nodeid}\n")


def pytest_sessionfinish() -> None:
    # temporalio's native threads may still be ending; leaving at once crashes now and then (sdk-python issue 300).
    time.sleep(0.2)
