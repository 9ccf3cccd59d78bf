"""A fake cluster, and the activities of logs on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from activities.logs import follow as following
from activities.logs import keep as keeping
from activities.registry import Activities
from tests.activities.conftest import Runner
from tests.activities.kubelet import Kubelet
from tests.activities.logs.desk import Desk


@pytest.fixture
def kubelet() -> Kubelet:
    return Kubelet()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read is in the bucket at once."""
    monkeypatch.setattr(keeping, "UNWRITTEN_SECONDS", (0.05, 0.05))


@pytest.fixture
def desk(kubelet: Kubelet, activities: Activities, run: Runner, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(following, "ENDED_SECONDS", 0.1)
    with kubelet.served() as url:
        yield Desk(kubelet, url, activities, run)
