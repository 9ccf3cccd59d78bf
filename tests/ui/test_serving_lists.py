"""What the lists of the Serving page and of others have in common: ages, addresses, the address of the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from contracts.cluster import ClusterSummary
from contracts.inference import InferenceService, Serves
from contracts.operation import Operation, Phase
from tests.ui.conftest import Console, texts
from tests.ui.serving_page import serving
from ui import cluster_picker, operation_view
from ui.serving_services import service_row
from ui.times import ago

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def test_an_age_is_reckoned_by_the_clock_that_the_moment_comes_from() -> None:
    ahead = datetime.now(UTC) + timedelta(hours=5)
    assert ago(ahead - timedelta(minutes=10), ahead) == "10 min ago"


def test_the_address_of_a_load_balancer_has_a_column_of_its_own() -> None:
    host = "k8s-default-chatpubl-0123456789-0123456789abcdef.elb.us-west-2.amazonaws.com"
    public = InferenceService(
        namespace="default",
        name="chat-public",
        serves=Serves.DEPLOYMENT,
        type="LoadBalancer",
        port=80,
        created_at=NOW,
        managed=True,
        address=host,
    )
    row = service_row(public)
    assert (row["Reached"], row["Address"]) == ("from the VPC", host)


def test_the_address_of_the_page_names_what_is_looked_at_and_what_is_to_be_done(console: Console) -> None:
    page, tag = serving(console)
    assert "default/chat" in page.query_params["deployment"]

    led = console.page("serving", cluster=tag, tab="Deployments", **{"deployment/action": "Scale"}).run()

    assert not led.exception
    assert led.segmented_control("deployment/action").value == "Scale"


def test_the_only_cluster_that_there_is_need_not_be_chosen(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = console.cluster("alone")
    only = ClusterSummary(tag=tag, region="us-west-2", created_by="me", created_at=NOW, updated_at=NOW)
    monkeypatch.setattr(cluster_picker, "_listed", lambda search=None: [only])

    page = console.page("storage").run()

    assert not page.exception
    assert "Choose a cluster" not in texts(page)
    assert tag in page.query_params["cluster"]


@pytest.mark.parametrize(
    ("phase", "seconds", "said"),
    [
        (Phase.RUNNING, 0, "should end any moment"),
        (Phase.BLOCKED, 0, None),
        (Phase.WAITING_FOR_APPROVAL, 0, None),
        (Phase.BLOCKED, 300, "about 5 min of work left"),
    ],
)
def test_only_what_runs_may_end_any_moment(
    monkeypatch: pytest.MonkeyPatch, phase: Phase, seconds: int, said: str | None
) -> None:
    monkeypatch.setattr(operation_view, "durations", lambda kind: object())
    monkeypatch.setattr(operation_view, "remaining", lambda *_: timedelta(seconds=seconds))
    operation = Operation(
        id="create-cluster/demo",
        kind="create-cluster",
        cluster="demo",
        phase=phase,
        plan_hash="0",
        started_by="me",
        started_at=NOW,
        updated_at=NOW,
    )
    assert operation_view.time_left(operation) == said
