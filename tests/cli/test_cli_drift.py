"""Commands for drift: what they send, and what they print."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from contracts.drift import Change, Difference, DriftAnswer, DriftKind, DriftReport, Severity, Unread, Way
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]
NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
PATH = "/api/v1/clusters/demo/drift"
COUNT, OPEN, GONE = "instance-group/workers/target~00000001", "bucket/b/public_access~00000002", "vpc/v~00000003"


def difference(identity: str, *, adopt: bool, restore: bool, weakens: bool = False) -> Difference:
    def way(possible: bool) -> Way:
        return Way(possible=possible, why="So it is.", operation=None if possible else "delete-cluster")

    return Difference(
        id=identity,
        kind=DriftKind(identity.partition("/")[0]),
        name="x",
        change=Change.CHANGED,
        severity=Severity.WARNING,
        detail=f"{identity.partition('/')[0]} is otherwise",
        since=NOON,
        by="kubectl-edit",
        weakens=weakens,
        adopt=way(adopt),
        restore=way(restore),
    )


REPORT = DriftReport(
    checked_at=NOON,
    differences=[
        difference(COUNT, adopt=True, restore=True),
        difference(OPEN, adopt=True, restore=True, weakens=True),
        difference(GONE, adopt=False, restore=False),
    ],
    skipped=["node-group/cpu: scale-node-group/demo/cpu"],
    unread=[Unread(kinds=[DriftKind.STORAGE], detail="no answer")],
)


@pytest.fixture
def reported(gateway: Gateway) -> Callable[[DriftReport | None], None]:
    def answer(report: DriftReport | None) -> None:
        found = DriftAnswer(cluster="demo", report=report, live=False).model_dump(mode="json")
        gateway.answers["GET", PATH] = gateway.answers["POST", f"{PATH}/check"] = (200, found)

    return answer


def test_what_was_found_is_shown_with_what_settles_it(cli: Cli, reported: Any) -> None:
    reported(REPORT)
    shown = cli("drift", "show", "demo").out
    assert "3 differences" in shown
    assert f"{GONE}: vpc is otherwise (by kubectl-edit)" in shown
    assert "not restored: So it is (use delete-cluster)" in shown
    assert "left out, as scale-node-group/demo/cpu is at work on them: 1" in shown
    assert "could not be read: storage (no answer)" in shown


def test_a_check_says_by_its_exit_code_whether_something_differs(cli: Cli, reported: Any) -> None:
    reported(REPORT)
    assert cli("drift", "check", "demo").code == 1
    reported(DriftReport(checked_at=NOON, skipped=["node-group/cpu: scale-node-group/demo/cpu"]))
    assert cli("drift", "check", "demo").code == 0


def test_a_check_that_could_not_look_is_not_a_clean_one(cli: Cli, reported: Any) -> None:
    reported(DriftReport(checked_at=NOON, unread=[Unread(kinds=list(DriftKind), detail="no answer")]))
    ran = cli("drift", "check", "demo")
    assert ran.code == 5
    assert "nothing differs in what could be read" in ran.out


def test_a_cluster_that_went_while_it_was_checked_is_not_found(cli: Cli, reported: Any) -> None:
    reported(None)
    assert cli("drift", "check", "demo").code == 3


def test_a_cluster_that_was_never_looked_at_says_so(cli: Cli, reported: Any) -> None:
    reported(None)
    assert "never compared" in cli("drift", "show", "demo").out


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (("restore", "demo", COUNT), {"differences": [COUNT]}),
        (("restore", "demo", "--all"), {"differences": [COUNT, OPEN]}),
        (("adopt", "demo", "--all"), {"differences": [COUNT]}),
        (
            ("adopt", "demo", "--all", "--accept-weaker-security"),
            {"differences": [COUNT, OPEN], "accept_weaker_security": True},
        ),
    ],
)
def test_all_that_can_be_settled_so_is_named_one_by_one(
    gateway: Gateway, cli: Cli, reported: Any, arguments: tuple[str, ...], body: dict[str, Any]
) -> None:
    reported(REPORT)
    cli("drift", *arguments)
    (asked,) = gateway.requests("POST", f"/drift/{arguments[0]}")
    assert asked.body == body


@pytest.mark.parametrize("arguments", [("demo",), ("demo", COUNT, "--all")])
def test_either_some_are_named_or_all_are_meant(gateway: Gateway, cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli("drift", "restore", *arguments).code == 2
    assert not gateway.requests("POST", "/drift/restore")
