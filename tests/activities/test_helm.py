"""The helm adapter, against a helm of our own that keeps a history in a file."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities import charts
from activities.helm import Helm, helm_for, raise_for
from activities.kubernetes import Connection
from activities.settings import HYPERPOD_CHART
from contracts.dependencies import HelmChart
from tests.activities.conftest import Runner, problem, settings

FAKE = """#!{python}
import json, os, sys, time
from datetime import datetime, timezone
state = {state!r}
with open(state) as file:
    world = json.load(file)
world["calls"].append(sys.argv[1:])
world["environment"] = dict(os.environ)
command, history = sys.argv[1], world["history"]
if command == "history" and not history:
    status, out, err = 1, "", "Error: release: not found"
elif command == "history":
    status, out, err = 0, json.dumps(history), ""
elif command == "get":
    status, out, err = 0, json.dumps({{"labels": world.get("labels")}}), ""
else:
    status, out, err = 0, "{{}}", ""
    number = len(history) + 1
    now = datetime.now(timezone.utc).isoformat()
    if command == "uninstall":
        history.clear()
    elif command == "rollback":
        history.append({{"revision": number, "status": "deployed", "chart": "c-1", "updated": now, "description":
        "rb"}})
    elif command == "upgrade":
        text = sys.argv[sys.argv.index("--description") + 1]
        world["labels"] = dict([sys.argv[sys.argv.index("--labels") + 1].split("=")])
        ended = "pending-install" if world.pop("forgets", False) else "deployed"
        history.append({{"revision": number, "status": ended, "chart": "c-1", "updated": now, "description":
        text}})
    elif command == "sleep":
        with open(state, "w") as file:
            json.dump(world, file)
        time.sleep(60)
with open(state, "w") as file:
    json.dump(world, file)
print(out)
print(err, file=sys.stderr)
sys.exit(status)
"""


class Fake:
    def __init__(self, folder: Path) -> None:
        self.state, self.binary = folder / "state.json", folder / "helm"
        self.binary.write_text(FAKE.format(python=sys.executable, state=str(self.state)))
        self.binary.chmod(0o755)
        self.set()

    def set(self, *history: tuple[str, float], labels: Any = None) -> None:
        """``history``: statuses with their ages in seconds."""
        entries = [
            {
                "revision": number,
                "status": status,
                "chart": "c-1",
                "description": "",
                "updated": (datetime.now(UTC) - timedelta(seconds=age)).isoformat(),
            }
            for number, (status, age) in enumerate(history, start=1)
        ]
        self.state.write_text(json.dumps({"history": entries, "calls": [], "labels": labels}))

    def read(self) -> Any:
        return json.loads(self.state.read_text())

    def commands(self) -> list[str]:
        return [call[0] for call in self.read()["calls"] if call[0] not in ("history", "get")]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


@pytest.fixture
def helm(fake: Fake) -> Iterator[Helm]:
    connection = Connection("demo", "arn", "https://demo.example", "PEM", lambda: "k8s-aws-v1.secret")
    with helm_for(settings(helm=str(fake.binary), helm_timeout_seconds=60), connection) as found:
        yield found


@pytest.fixture
def chart(tmp_path: Path) -> HelmChart:
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "Chart.yaml").write_text("name: c")
    return HelmChart(release="r", namespace="n", source=str(tmp_path / "chart"), values={"a": 1})


def ensure(helm: Helm, chart: HelmChart, attempt: int = 1) -> Any:
    runner = Runner.__new__(Runner)
    runner.operation, runner.heartbeats = "create-cluster/demo", []
    return runner.environment(attempt).run(helm.ensure, chart)


def test_installed_once_and_again_when_something_changes(fake: Fake, helm: Helm, chart: HelmChart) -> None:
    assert ensure(helm, chart)[1] is True
    assert ensure(helm, chart)[1] is False
    (Path(chart.source) / "Chart.yaml").write_text("name: d")
    assert ensure(helm, chart)[1] is True
    assert ensure(helm, chart.model_copy(update={"values": {"a": 2}}))[1] is True
    assert fake.commands() == ["upgrade"] * 3


def test_credentials_are_in_the_environment_alone(fake: Fake, helm: Helm, chart: HelmChart) -> None:
    os.environ["AWS_SECRET_ACCESS_KEY_CANARY"] = "canary"
    ensure(helm, chart)
    world = fake.read()
    assert "secret" not in json.dumps(world["calls"])
    assert "secret" not in repr(helm)
    environment = world["environment"]
    assert environment["HELM_KUBETOKEN"] == "k8s-aws-v1.secret"
    assert environment["KUBECONFIG"] == os.devnull
    assert "AWS_SECRET_ACCESS_KEY_CANARY" not in environment


@pytest.mark.parametrize(
    ("history", "recovery"),
    [
        ([("pending-install", 3600.0)], "rollback"),
        ([("deployed", 9000.0), ("uninstalling", 3600.0)], "uninstall"),
        ([("deployed", 9000.0), ("pending-upgrade", 3600.0)], "rollback"),
        ([("superseded", 9000.0), ("failed", 8000.0), ("pending-rollback", 3600.0)], "rollback"),
    ],
)
def test_what_a_dead_helm_left_is_freed(
    fake: Fake, helm: Helm, chart: HelmChart, history: list[tuple[str, float]], recovery: str
) -> None:
    fake.set(*history)
    revision, changed = ensure(helm, chart)
    assert fake.commands() == [recovery, "upgrade"]
    assert (revision.status, changed) == ("deployed", True)


def test_a_living_helm_is_left_alone(fake: Fake, helm: Helm, chart: HelmChart) -> None:
    fake.set(("pending-install", 5.0))
    with pytest.raises(ApplicationError) as caught:
        ensure(helm, chart, attempt=2)
    assert (caught.value.type, caught.value.non_retryable) == ("busy", False)
    assert fake.commands() == []


def test_our_own_dead_attempt_is_freed_at_once(fake: Fake, helm: Helm, chart: HelmChart) -> None:
    ensure(helm, chart)
    (call,) = (call for call in fake.read()["calls"] if call[0] == "upgrade")
    name, owner = call[call.index("--labels") + 1].split("=")
    fake.set(("pending-install", 5.0), labels={name: owner})
    ensure(helm, chart, attempt=2)
    assert fake.commands() == ["rollback", "upgrade"]


def test_a_helm_that_ends_well_without_having_noted_it_is_not_believed(
    fake: Fake, helm: Helm, chart: HelmChart
) -> None:
    fake.state.write_text(json.dumps({**fake.read(), "forgets": True}))
    with pytest.raises(ApplicationError) as caught:
        ensure(helm, chart)
    assert (caught.value.type, caught.value.non_retryable) == ("unavailable", False)
    assert ensure(helm, chart, attempt=2)[0].status == "deployed"
    assert fake.commands() == ["upgrade", "rollback", "upgrade"]


def test_a_helm_that_hangs_is_killed(helm: Helm) -> None:
    started = time.monotonic()
    with pytest.raises(ApplicationError) as caught:
        helm.run("sleep", seconds=0.3)
    assert caught.value.type == "unavailable"
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("text", "code", "retried"),
    [
        ("another operation (install/upgrade/rollback) is in progress", "busy", True),
        ("Kubernetes cluster unreachable: dial tcp: i/o timeout", "unavailable", True),
        ('deployments.apps is forbidden: User "x" cannot create', "denied", False),
        ("invalid ownership metadata; annotation validation error", "conflict", False),
        ("conflict occurred while applying object: the object has been modified; please apply", "unavailable", True),
        ("parse error at (c/templates/x.yaml:1)", "not_ready", True),
    ],
)
def test_what_helm_says(text: str, code: str, retried: bool) -> None:
    with pytest.raises(ApplicationError) as caught:
        raise_for("upgrade", text)
    assert (caught.value.type, not caught.value.non_retryable) == (code, retried)
    assert problem(caught).remedy


def test_the_official_chart_is_pinned() -> None:
    chart = charts.hyperpod_dependencies(settings(hyperpod_chart=HYPERPOD_CHART), "us-west-2")
    assert chart.path == "helm_chart/HyperPodHelmChart"
    assert "main" not in chart.source


MANIFEST = """---
# Source: c/templates/definition.yaml
kind: CustomResourceDefinition
metadata: {name: things}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: one
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: two
  namespace: elsewhere
"""


def test_a_release_tells_what_runs_pods_and_is_applied_again_where_something_of_it_is_gone(
    helm: Helm, chart: HelmChart, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ensure(helm, chart)[0]
    assert ensure(helm, chart)[1] is False
    runner = Runner.__new__(Runner)
    runner.operation, runner.heartbeats = "restore-drift/demo", []
    assert runner.environment(1).run(partial(helm.ensure, gone=lambda _: True), chart)[1] is True
    asked: list[str] = []

    def run(_: Helm, *arguments: str) -> str:
        asked.append(arguments[-1])
        return MANIFEST

    monkeypatch.setattr(Helm, "run", run)
    made = [("Deployment", "n", "one"), ("DaemonSet", "elsewhere", "two")]
    for revision in (first, first, replace(first, number=2), replace(first, updated=first.updated + timedelta(days=1))):
        assert helm.workloads("r", "n", revision) == made
    assert asked == ["1", "2", "1"], "what a revision has made does not change"
