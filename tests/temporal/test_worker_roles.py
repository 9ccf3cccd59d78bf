"""The roles of a worker process, as INSTANTSTART_ROLES names them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from worker.settings import WorkerSettings


def test_roles_may_be_listed_with_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSTANTSTART_ROLES", " aws, wait ,kubernetes,")
    assert WorkerSettings().roles == "aws,wait,kubernetes"


@pytest.mark.parametrize(("named", "said"), [("aws,gpu", "gpu"), (" , ", "no role is named")])
def test_a_process_that_would_host_nothing_or_something_unknown_does_not_start(
    monkeypatch: pytest.MonkeyPatch, named: str, said: str
) -> None:
    monkeypatch.setenv("INSTANTSTART_ROLES", named)
    with pytest.raises(ValidationError, match=said):
        WorkerSettings()
