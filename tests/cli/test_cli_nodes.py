"""Commands about nodes and their software: what they send, and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from contracts.node_views import NodeKind, NodeResource, NodesSummary, NodeView, PodOnNode, ResourceTotal
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]
NODES = "/api/v1/clusters/demo/nodes"


def view(name: str, **more: Any) -> dict[str, Any]:
    gpu = NodeResource(name="nvidia.com/gpu", capacity=8, allocatable=8, used=3)
    given = {"name": name, "kind": NodeKind.HYPERPOD, "group": "workers", "resources": [gpu], "ready": True, **more}
    return NodeView.model_validate(given).model_dump(mode="json")


def page(*nodes: dict[str, Any]) -> dict[str, Any]:
    total = ResourceTotal(name="nvidia.com/gpu", capacity=16, allocatable=16, used=3, pending=64)
    summary = NodesSummary(nodes=2, ready=1, unhealthy=1, resources=[total], pods=9, pods_pending=8)
    return {
        "nodes": list(nodes),
        "summary": summary.model_dump(mode="json"),
        "matching": 2,
        "read_at": datetime.now(UTC).isoformat(),
    }


def test_nodes_are_listed_with_what_is_used_and_what_is_wrong(gateway: Gateway, cli: Cli) -> None:
    sick = view("hyperpod-i-2", ready=False, healthy=False, problems=["not Ready in Kubernetes"], status="Failure")
    gateway.answers["GET", NODES] = (200, page(view("hyperpod-i-1", unschedulable=True), sick))
    ran = cli("node", "list", "demo", "--group", "workers", "--unhealthy")
    (asked,) = gateway.requests("GET", "/nodes")
    assert asked.query == {"group": "workers", "unhealthy": "true", "page_size": "200"}
    first, second = ran.out.splitlines()[1:3]
    assert "Ready,SchedulingDisabled" in first
    assert "gpu 3/8" in first
    assert "NotReady" in second
    assert second.endswith("not Ready in Kubernetes")
    assert "nvidia.com/gpu: 3 of 16 in use, 64 more wanted by pending pods" in ran.out


def test_usage_is_shown_in_numbers_of_the_whole_cluster(gateway: Gateway, cli: Cli) -> None:
    usage = {name: value for name, value in page().items() if name in ("summary", "read_at")}
    gateway.answers["GET", "/api/v1/clusters/demo/usage"] = (200, usage)
    assert cli("cluster", "usage", "demo").out.splitlines() == [
        "1 of 2 nodes Ready, 1 unhealthy, 9 pods, 8 pending",
        "nvidia.com/gpu: 3 of 16 in use, 64 more wanted by pending pods",
    ]
    assert json.loads(cli("cluster", "usage", "demo", "-o", "json").out) == usage


def test_a_node_is_shown_with_its_pods(gateway: Gateway, cli: Cli) -> None:
    pod = PodOnNode(namespace="ml", name="llama-0", owner_kind="Job", owner="llama", phase="Running", accelerators=8)
    detail = {"node": view("hyperpod-i-1"), "pods": [pod.model_dump(mode="json")]}
    gateway.answers["GET", f"{NODES}/i-1"] = (200, detail)
    ran = cli("node", "get", "demo", "i-1")
    assert ["ml/llama-0", "Job", "llama", "Running", "8"] in [line.split() for line in ran.out.splitlines()]
    assert json.loads(cli("node", "get", "demo", "i-1", "-o", "json").out)["node"]["name"] == "hyperpod-i-1"


def test_what_is_done_to_nodes_is_sent_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    assert cli("node", "reboot", "demo", "i-1", "i-2", "--drain", "--drain-timeout", "5").code == 0
    assert cli("node", "replace", "demo", "i-1").code == 0
    assert cli("node", "delete", "demo", "i-1").code == 0
    (asked,) = gateway.requests("POST", "/nodes/reboot")
    assert asked.body == {"nodes": ["i-1", "i-2"], "drain": True, "drain_timeout_minutes": 5}
    bodies = [gateway.requests("POST", f"/nodes/{verb}")[0].body for verb in ("replace", "delete")]
    assert bodies == [{"nodes": ["i-1"]}] * 2


def test_an_update_is_sent_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    assert cli("software", "update", "demo").code == 0
    options = ["--group", "a", "--release", "1.0.5", "--batch", "25%", "--rollback-batch", "2", "--wait-seconds", "60"]
    assert cli("software", "update", "demo", *options).code == 0
    whole, chosen = gateway.requests("POST", "/software")
    assert whole.body == {}
    assert chosen.body == {
        "groups": ["a"],
        "release_version": "1.0.5",
        "rolling": {
            "maximum_batch": {"type": "CAPACITY_PERCENTAGE", "value": 25},
            "rollback_batch": {"type": "INSTANCE_COUNT", "value": 2},
            "wait_seconds": 60,
        },
    }
    assert cli("software", "update", "demo", "--batch", "half").code == 2
