"""Commands for node groups and node pools: what they send."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]


def test_a_node_group_is_sent_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    cli(
        *("node-group", "create", "demo", "gpu", "--instance-type", "p5.48xlarge", "--count", "2", "--max", "4"),
        *("--capacity-reservation", "cr-12345678", "--efa", "--label", "team=a", "--taint", "gpu=yes:NoSchedule"),
        *("--taint", "only:NoExecute"),
    )
    (asked,) = gateway.requests("POST", "/clusters/demo/node-groups")
    assert asked.body == {
        "name": "gpu",
        "instance_types": ["p5.48xlarge"],
        "scaling": {"desired": 2, "maximum": 4},
        "capacity": "capacity-block",
        "capacity_reservation_id": "cr-12345678",
        "efa": True,
        "labels": {"team": "a"},
        "taints": [
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
            {"key": "only", "value": "", "effect": "NoExecute"},
        ],
    }


def test_scaling_and_deleting_name_the_group_in_the_path(gateway: Gateway, cli: Cli) -> None:
    cli("node-group", "scale", "demo", "gpu", "3", "--min", "1")
    (scaled,) = gateway.requests("POST", "/clusters/demo/node-groups/gpu/scale")
    assert scaled.body == {"desired": 3, "minimum": 1}
    assert cli("node-group", "delete", "demo", "gpu", "--no-queue").code == 0
    (deleted,) = gateway.requests("DELETE", "/clusters/demo/node-groups/gpu")
    assert deleted.query == {"wait_for_leases": "false"}


def test_a_node_pool_is_sent_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    cli(
        *("node-pool", "create", "demo", "gpus", "--group", "a", "--group", "b", "--gpu-limit", "16"),
        *("--accept-scale-down", "--consolidate-after", "10m"),
    )
    (asked,) = gateway.requests("POST", "/clusters/demo/node-pools")
    assert asked.body == {
        "name": "gpus",
        "instance_groups": ["a", "b"],
        "gpu_limit": 16,
        "accept_scale_down": True,
        "consolidate_after": "10m",
    }
    cli("node-pool", "delete", "demo", "gpus")
    assert len(gateway.requests("DELETE", "/clusters/demo/node-pools/gpus")) == 1


def test_a_malformed_label_or_taint_is_refused(gateway: Gateway, cli: Cli) -> None:
    assert cli("node-pool", "create", "demo", "gpus", "--group", "a", "--label", "team").code == 2
    assert cli("node-group", "create", "demo", "gpu", "--taint", "gpu").code == 2
    assert gateway.requests("POST", "/clusters/demo/node-groups") == []
