"""One stack for all tests here that only need tags of their own; it ends with them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.durability.runs import CHART, POLL, SPEED, Pair, chart_of, create_pair, effects, raise_quotas
from tests.local_stack import LocalStack, local_stack


@pytest.fixture(scope="package")
def shared_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    folder = tmp_path_factory.mktemp("shared")
    chart = shutil.copytree(CHART, chart_of(folder))
    env = {"INSTANTSTART_POLL_SECONDS": POLL, "INSTANTSTART_HYPERPOD_CHART": str(chart)}
    with local_stack(folder, SPEED, env) as stack:
        raise_quotas(stack)
        yield stack


@pytest.fixture
def stack(shared_stack: LocalStack) -> Iterator[LocalStack]:
    """The stack, calm again after each test."""
    try:
        yield shared_stack
    finally:
        shared_stack.calm()
        shared_stack.sandbox.put("/capacity", json={}).raise_for_status()
        shared_stack.sandbox.post("/clock", json={"paused": False}).raise_for_status()
        raise_quotas(shared_stack)


@pytest.fixture(scope="package")
def pair(shared_stack: LocalStack) -> Pair:
    return create_pair(shared_stack)


@pytest.fixture(scope="package")
def undisturbed(shared_stack: LocalStack, pair: Pair) -> Counter[str]:
    """What a run does that nobody disturbs."""
    return effects(shared_stack, "west")
