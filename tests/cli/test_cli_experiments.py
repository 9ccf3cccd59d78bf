"""Commands for tracking servers and experiments: what they send, and what they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.experiment_runs import ComparedMetric, RunComparison, RunList, RunView
from contracts.experiments import ConnectionStep, ConnectionTest
from contracts.tracking_servers import (
    ServerKind,
    ServerState,
    TrackingServerLink,
    TrackingServerList,
    TrackingServerView,
)
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import NOW, Gateway

Cli = Callable[..., Ran]
ROOT = "/api/v1/clusters/demo"
ARN = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/research"
SERVER = TrackingServerView(
    name="research", arn=ARN, kind=ServerKind.TRACKING_SERVER, state=ServerState.READY, status="Created"
)
RUN = RunView(run_id="r1", experiment_id="1", status="FINISHED", name="first\x1b[31m", metrics={"loss": 0.5})


def document(model: Any) -> Any:
    return model.model_dump(mode="json")


def test_a_server_is_asked_for_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["POST", f"{ROOT}/tracking-servers"] = (202, document(gateway.script[0]))
    assert cli("tracking-server", "create", "demo", "research", "--size", "Large").code == 0
    (asked,) = gateway.requests("POST", "/tracking-servers")
    assert asked.body == {"name": "research", "size": "Large"}


def test_servers_and_links_are_shown(gateway: Gateway, cli: Cli) -> None:
    listed = TrackingServerList(servers=[SERVER], read_at=NOW)
    gateway.answers["GET", f"{ROOT}/tracking-servers"] = (200, document(listed))
    assert "research" in cli("tracking-server", "list", "demo").out
    link = TrackingServerLink(url="https://x/auth", expires_in_seconds=300)
    gateway.answers["POST", f"{ROOT}/tracking-servers/research/link"] = (200, document(link))
    assert cli("tracking-server", "open", "demo", "research").out == "https://x/auth\n"


def test_runs_are_searched_and_their_names_cannot_move_the_cursor(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["GET", f"{ROOT}/experiments/runs"] = (
        200,
        document(RunList(tracking_server=ARN, runs=[RUN], read_at=NOW)),
    )
    shown = cli("experiment", "runs", "demo", "research", "-e", "qwen", "--filter", "metrics.loss < 1")
    assert "loss 0.5" in shown.out
    assert "\x1b" not in shown.out


def test_runs_stand_beside_each_other(gateway: Gateway, cli: Cli) -> None:
    metric = ComparedMetric(metric="loss", steps=[0, 9], values={"r1": [1.0, None]})
    found = RunComparison(runs=[RUN], metrics=[metric], differing={"lr": ["0.1"]}, read_at=NOW)
    gateway.answers["GET", f"{ROOT}/experiments/comparison"] = (200, document(found))
    shown = cli("experiment", "compare", "demo", "research", "r1")
    assert "0.1" in shown.out
    assert "loss" in shown.out


def test_a_connection_that_fails_is_an_exit_code_and_says_what_to_do(gateway: Gateway, cli: Cli) -> None:
    step = ConnectionStep(name="permission", passed=False, detail="not allowed", remedy="Allow it.")
    answer = ConnectionTest(tracking_server=ARN, passed=False, steps=[step], tested_at=NOW)
    gateway.answers["POST", f"{ROOT}/experiments/test"] = (200, document(answer))
    shown = cli("experiment", "test", "demo", "research")
    assert shown.code == 1
    assert "Allow it." in shown.out


def test_a_namespace_is_disconnected_from_the_server_that_is_named(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["DELETE", f"{ROOT}/experiments/connections/team"] = (202, document(gateway.script[0]))
    assert cli("experiment", "disconnect", "demo", "-n", "team", "--server", "research").code == 0
