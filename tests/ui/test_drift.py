"""Drift on a cluster's page: what is shown of it, and what is sent for what was chosen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from contracts.drift import Change, Difference, DriftKind, DriftReport, DriftState, Severity, Unread, Way
from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
YES, NO = Way(possible=True, why="It is done."), Way(possible=False, why="It cannot be.", operation="delete-cluster")
OPEN = Difference(
    id="bucket/b/public_access~00000001",
    kind=DriftKind.BUCKET,
    name="b",
    path="public_access",
    change=Change.CHANGED,
    severity=Severity.CRITICAL,
    detail="Bucket <b>b</b> is public",
    since=NOON,
    weakens=True,
    adopt=YES,
    restore=YES,
)
COUNT = OPEN.model_copy(
    update={
        "id": "instance-group/workers/target~00000002",
        "severity": Severity.INFO,
        "detail": "Instance group workers: target is 3, recorded is 2",
        "weakens": False,
        "restore": NO,
    }
)
UNREAD = Unread(kinds=[DriftKind.STORAGE], detail="no answer")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    return recorded(monkeypatch)


def drift(console: Console, *differences: Difference, unread: tuple[Unread, ...] = ()) -> AppTest:
    report = DriftReport(checked_at=NOON, differences=list(differences), unread=list(unread))
    tag = console.cluster(drift=DriftState(report=report).model_dump(mode="json"))
    return console.page("cluster", cluster=tag, tab="Drift").run()


def tag_of(page: AppTest) -> str:
    return str(page.query_params["cluster"])


def choose(page: AppTest, *rows: int) -> AppTest:
    (table,) = [each for each in page.dataframe if "Severity" in each.value]
    page.session_state[str(table.key)] = {"selection": {"rows": list(rows), "columns": [], "cells": []}}
    return page.run()


def test_a_cluster_that_was_never_compared_says_so(console: Console) -> None:
    page = console.page("cluster", cluster=console.cluster(), tab="Drift").run()
    assert not page.exception
    assert "never compared with its record" in texts(page)


def test_what_differs_is_a_table_and_what_could_not_be_read_a_warning(console: Console) -> None:
    page = drift(console, OPEN, COUNT, unread=(UNREAD,))
    assert not page.exception
    (table,) = [each.value for each in page.dataframe if "Severity" in each.value]
    assert list(table["What"]) == [OPEN.detail, COUNT.detail]
    assert list(table["Restore"]) == ["yes", "no: delete-cluster"]
    assert "Could not be read: storage" in texts(page)
    assert "2 differences" in texts(page)


def test_what_was_chosen_is_planned_and_restored(console: Console, sent: list[Sent]) -> None:
    page = choose(drift(console, OPEN, COUNT), 0)
    form = f"{tag_of(page)}/drift/restore"
    page.button(f"{form}/plan").click().run()
    page.button(f"{form}/start").click().run()
    assert not page.exception
    assert [(each.path, each.planned, each.body) for each in sent] == [
        (f"/clusters/{form}", planned, {"differences": [OPEN.id]}) for planned in (True, False)
    ]


def test_a_hole_in_security_is_adopted_only_with_a_word(console: Console, sent: list[Sent]) -> None:
    page = drift(console, OPEN, COUNT)
    form = f"{tag_of(page)}/drift"
    page.session_state[f"{form}/way"] = "Adopt"
    choose(page, 0, 1)
    page.checkbox(f"{form}/weaker").check().run()
    page.button(f"{form}/adopt/plan").click().run()
    assert not page.exception
    body: dict[str, Any] = {"differences": [OPEN.id, COUNT.id], "accept_weaker_security": True}
    assert [(each.path, each.body) for each in sent] == [(f"/clusters/{form}/adopt", body)]


def test_a_viewer_sees_drift_and_settles_nothing(console: Console) -> None:
    console.role = "viewer"
    page = choose(drift(console, OPEN), 0)
    assert page.button(f"{tag_of(page)}/drift/restore/plan").disabled
