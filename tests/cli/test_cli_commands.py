"""Commands against a gateway: what they send, what they print where, and how they exit."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from contracts.cluster import ClusterSummary
from tests.cli import fake_gateway as fake
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]


def test_create_sends_what_the_options_say(gateway: Gateway, cli: Cli) -> None:
    ran = cli(
        *("cluster", "create", "demo", "--region", "us-west-2", "--vpc-cidr", "10.90.0.0/16"),
        *("--instance-type", "ml.p5.48xlarge", "--count", "2", "--training-plan", "plan-a", "-o", "json"),
        *("--idempotency-key", "key-1", "--no-queue"),
    )
    (asked,) = gateway.requests("POST", "/clusters")
    assert asked.body == {
        "tag": "demo",
        "region": "us-west-2",
        "network": {"vpc_cidr": "10.90.0.0/16"},
        "instance_groups": [
            {
                "count": 2,
                "instance_type": "ml.p5.48xlarge",
                "capacity": {"kind": "training-plan", "training_plan": "plan-a"},
            }
        ],
    }
    assert asked.headers["idempotency-key"] == "key-1"
    assert asked.query == {"wait_for_leases": "false"}
    assert (ran.code, json.loads(ran.out)["id"]) == (0, fake.ID)
    assert "operation watch create-cluster/demo" in ran.err


def test_options_win_over_the_file(gateway: Gateway, cli: Cli, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("tag: demo\nregion: us-east-1\nnetwork: {compute_subnet_prefix: 22}\n")
    assert cli("cluster", "create", "-f", str(spec), "--region", "us-west-2", "--vpc-id", "vpc-12345678").code == 0
    assert gateway.requests("POST", "/clusters")[0].body == {
        "tag": "demo",
        "region": "us-west-2",
        "network": {"compute_subnet_prefix": 22, "vpc_id": "vpc-12345678"},
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("cluster", "create"),
        ("cluster", "create", "demo", "--count", "2"),
        ("cluster", "create", "demo", "--instance-type", "ml.g5.8xlarge", "--capacity", "training-plan"),
        ("cluster", "create", "demo", "--nonsense"),
        ("operation", "decide", fake.ID, "--answer", "count"),
        ("operation", "approve", fake.ID),
        ("nonsense",),
    ],
)
def test_wrong_usage_is_2_and_asks_nobody(gateway: Gateway, cli: Cli, arguments: tuple[str, ...]) -> None:
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert "Usage:" in ran.err
    assert gateway.asked == []


PLAN = {
    "operation": fake.ID,
    "valid": False,
    "region": "us-west-2",
    "plan": "1790000000.abc",
    "checked_against_account": True,
    "changes": [
        {"action": "create", "kind": "EKS cluster", "name": "eks-cluster-demo", "detail": "Kubernetes 1.34"},
        {"action": "change", "kind": "instance group", "name": "workers", "before": 1, "after": 3},
    ],
    "cost": {
        "per_hour": None,
        "known_per_hour": 6.12,
        "currency": "USD",
        "items": [
            {"item": "ml.g5.8xlarge", "quantity": 2, "per_hour": 6.12},
            {"item": "volumes", "quantity": 1000, "per_hour": None},
        ],
        "source": "sample prices",
    },
    "quotas": [{"quota": "ml.g5.8xlarge for cluster usage", "needed": 2, "used": 1, "limit": 8}],
    "blockers": [{"field": "/count", "detail": "too many", "remedy": "ask for fewer"}],
}


def test_validate_only_shows_the_plan(gateway: Gateway, cli: Cli) -> None:
    gateway.answers[("POST", "/api/v1/clusters")] = (200, PLAN)
    ran = cli("cluster", "create", "demo", "--validate-only")
    assert gateway.asked[0].query == {"validate_only": "true"}
    assert ran.code == 0
    assert "+ EKS cluster eks-cluster-demo (Kubernetes 1.34)" in ran.out
    assert "~ instance group workers: 1 → 3" in ran.out
    assert "against the account" in ran.out


def test_a_plan_shows_unknown_prices_as_unknown_and_exits_1_when_something_is_in_the_way(
    gateway: Gateway, cli: Cli, tmp_path: Path
) -> None:
    gateway.answers[("POST", "/api/v1/plans")] = (200, PLAN)
    spec = tmp_path / "spec.yaml"
    spec.write_text("{group: workers, count: 3}")
    ran = cli("plan", "scale-instance-group", "demo", "-f", str(spec))
    assert gateway.asked[0].body["spec"] == {"group": "workers", "count": 3}
    assert "+6.12 USD an hour and what is unknown; sample prices" in ran.out
    assert "ml.g5.8xlarge for cluster usage: 2 more, 1 in use, of 8" in ran.out
    assert "✖ too many (/count) – ask for fewer" in ran.out
    assert ran.code == 1


def test_a_start_with_a_plan_sends_it(gateway: Gateway, cli: Cli) -> None:
    cli("cluster", "create", "demo", "--plan", "1790000000.abc")
    assert gateway.asked[0].query == {"plan": "1790000000.abc"}


@pytest.mark.parametrize(
    ("arguments", "path", "body"),
    [
        (("control-plane", "demo", "--kubernetes-version", "1.34"), "control-plane", {"kubernetes_version": "1.34"}),
        (("access", "demo"), "access", {}),
        (("dependencies", "demo", "--component", "coredns"), "dependencies", {"components": ["coredns"]}),
        (
            ("hyperpod", "demo", "--instance-type", "ml.g5.8xlarge", "--capacity", "spot", "--node-recovery", "None"),
            "hyperpod",
            {
                "hyperpod": {"node_recovery": "None"},
                "instance_groups": [{"count": 1, "instance_type": "ml.g5.8xlarge", "capacity": {"kind": "spot"}}],
            },
        ),
        (("storage", "demo", "--claim", "data", "--read-only"), "storage", {"claim": "data", "read_only": True}),
        (("verify", "demo"), "verification", {}),
    ],
)
def test_stages(gateway: Gateway, cli: Cli, arguments: tuple[str, ...], path: str, body: object) -> None:
    assert cli("cluster", "stage", *arguments).code == 0
    (asked,) = gateway.requests("POST", f"/clusters/demo/{path}")
    assert asked.body == body


def test_formats(gateway: Gateway, cli: Cli) -> None:
    table, in_json, in_yaml = (cli("cluster", "list", "-o", form) for form in ("table", "json", "yaml"))
    assert table.out.splitlines()[0].split()[:2] == ["TAG", "REGION"]
    assert json.loads(in_json.out) == yaml.safe_load(in_yaml.out)
    assert json.loads(in_json.out)[0]["tag"] == "demo"
    assert {table.err, in_json.err, in_yaml.err} == {""}


def test_clusters_are_listed_with_their_nodes_and_accelerators(gateway: Gateway, cli: Cli) -> None:
    known = ClusterSummary(
        tag="fleet-1",
        region="us-west-2",
        nodes=4,
        nodes_ready=3,
        accelerators=32,
        created_by="me",
        created_at=fake.NOW,
        updated_at=fake.NOW,
    )
    older = known.model_dump(mode="json", exclude={"nodes_ready", "accelerators"}) | {"tag": "fleet-2"}
    body = {"clusters": [known.model_dump(mode="json"), older]}
    gateway.answers["GET", "/api/v1/clusters"] = (200, body)
    header, first, second = cli("cluster", "list", "--search", "fleet").out.splitlines()
    (asked,) = gateway.requests("GET", "/clusters")
    assert asked.query == {"search": "fleet", "page_size": "200"}
    assert header.split()[4:7] == ["NODES", "READY", "ACCELERATORS"]
    assert first.split()[4:7] == ["4", "3", "32"]
    assert second.split()[4:7] == ["4", "0", "0"]


def test_a_cluster_is_shown_with_its_nodes_and_storage(gateway: Gateway, cli: Cli) -> None:
    out = cli("cluster", "get", "demo").out
    assert "hp-cluster-demo (InService)" in out
    assert "1 of 1 Ready" in out
    assert "s3://sagemaker-demo/ as default/s3-claim (Bound)" in out
    node = next(line for line in out.splitlines() if line.startswith("hyperpod-i-1"))
    assert node.split()[1:6] == ["workers", "ml.g5.8xlarge", "on-demand", "us-west-2a", "1"]


def test_status_is_4_when_an_operation_needs_a_person(gateway: Gateway, cli: Cli) -> None:
    gateway.script = [fake.BLOCKED]
    ran = cli("cluster", "status", "demo")
    assert ran.code == 4
    assert "no ml.g5.8xlarge left" in ran.out
    assert "instantstart operation skip create-cluster/demo" in ran.out


def test_lists_go_through_all_pages(gateway: Gateway, cli: Cli) -> None:
    cli("operation", "list", "--cluster", "demo", "--phase", "blocked", "--limit", "3")
    assert gateway.asked[0].query == {"cluster": "demo", "phase": "blocked", "page_size": "3"}


def test_not_found_is_3(gateway: Gateway, cli: Cli) -> None:
    ran = cli("operation", "get", "create-cluster/none")
    assert (ran.code, ran.out) == (3, "")
    assert "Not found: there is no" in ran.err
    assert "remedy: Look elsewhere." in ran.err


def test_problems_in_json_for_programs(gateway: Gateway, cli: Cli) -> None:
    ran = cli("operation", "get", "create-cluster/none", "-o", "json")
    assert (ran.code, ran.out) == (3, "")
    assert json.loads(ran.err)["code"] == "not_found"


def test_every_fault_of_an_input_is_named(gateway: Gateway, cli: Cli) -> None:
    faults = [{"field": "/tag", "detail": "too long"}, {"field": "/region", "detail": "unknown"}]
    body = {"title": "The input breaks a rule", "detail": "2 fields are wrong", "code": "invalid", "errors": faults}
    gateway.answers[("POST", "/api/v1/clusters")] = (422, body)
    ran = cli("cluster", "create", "demo")
    assert ran.code == 1
    assert "  /tag: too long\n  /region: unknown" in ran.err


def test_a_wrong_token(gateway: Gateway, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSTANTSTART_TOKEN", "isk_wrong")
    ran = cli("cluster", "list")
    assert ran.code == 1
    assert "Credentials were refused" in ran.err
    assert "INSTANTSTART_TOKEN" in ran.err


def test_no_gateway(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = cli("cluster", "list")
    assert ran.code == 1
    assert "no gateway is known" in ran.err
    assert "instantstart up" in ran.err
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("INSTANTSTART_URL", f"http://127.0.0.1:{unused.getsockname()[1]}")
        ran = cli("cluster", "list")
    assert ran.code == 1
    assert "no gateway answers at http://127.0.0.1:" in ran.err


def test_the_stack_of_the_data_folder_is_used(
    gateway: Gateway, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("INSTANTSTART_URL")
    monkeypatch.delenv("INSTANTSTART_TOKEN")
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "credentials.json").write_text(json.dumps({"url": gateway.url, "token": fake.TOKEN}))
    assert cli("cluster", "list").code == 0


def test_decide(gateway: Gateway, cli: Cli) -> None:
    gateway.script = [fake.WAITING, fake.SUCCEEDED]
    answers = ("--answer", "instance_type=ml.g5.8xlarge", "--answer", "count=3", "--answer", "capacity.kind=spot")
    assert cli("operation", "decide", fake.ID, *answers, "--wait").code == 0
    (asked,) = gateway.requests("POST", "/decide")
    assert asked.body == {
        "decision": "capacity",
        "answer": {"instance_type": "ml.g5.8xlarge", "count": 3, "capacity": {"kind": "spot"}},
    }


def test_decide_takes_the_default_only_when_told(gateway: Gateway, cli: Cli) -> None:
    gateway.script = [fake.WAITING, fake.SUCCEEDED]
    assert cli("operation", "decide", fake.ID).code == 2
    assert cli("operation", "decide", fake.ID, "--default").code == 0
    assert gateway.requests("POST", "/decide")[0].body["answer"] == {"instance_type": "ml.g5.8xlarge", "count": 2}


@pytest.mark.parametrize(
    ("arguments", "verb", "body"),
    [
        (
            ("retry", "--set", "network.vpc_cidr=10.91.0.0/16"),
            "retry",
            {"stage": "capacity", "attempt": 2, "corrections": {"network": {"vpc_cidr": "10.91.0.0/16"}}},
        ),
        (("retry",), "retry", {"stage": "capacity", "attempt": 2}),
        (("skip",), "skip", {"stage": "capacity", "attempt": 2}),
        (("abort", "--reason", "enough"), "abort", {"reason": "enough"}),
        (("approve", "--plan-hash", "abc"), "approve", {"plan_hash": "abc", "reason": ""}),
        (("reject", "--reason", "no"), "reject", {"reason": "no"}),
    ],
)
def test_steering(gateway: Gateway, cli: Cli, arguments: tuple[str, ...], verb: str, body: object) -> None:
    gateway.script = [fake.BLOCKED, fake.SUCCEEDED]
    command, *rest = arguments
    assert cli("operation", command, fake.ID, *rest).code == 0
    assert gateway.requests("POST", f"/{verb}")[0].body == body


def test_retry_needs_a_blocked_operation(gateway: Gateway, cli: Cli) -> None:
    ran = cli("operation", "retry", fake.ID)
    assert ran.code == 1
    assert "is not blocked" in ran.err


def test_a_reader_that_leaves_early_causes_no_traceback(gateway: Gateway, spawn: Callable[..., object]) -> None:
    process = spawn("cluster", "list", "-o", "json")
    assert isinstance(process, subprocess.Popen)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    assert process.wait(10) != 0
    assert "Traceback" not in said
    assert "Exception ignored" not in said


def test_interrupting_a_watch_leaves_the_operation_running(
    gateway: Gateway, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    gateway.script = [fake.RUNNING]
    process = spawn("operation", "watch", fake.ID)
    assert process.stderr is not None
    assert "running" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The operation goes on: `instantstart operation watch create-cluster/demo`" in said
    assert (out, "Traceback" in said) == ("", False)
    assert gateway.requests("POST", "/abort") == []
