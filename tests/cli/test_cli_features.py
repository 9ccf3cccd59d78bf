"""Commands for features: what they send."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]


def test_features_are_switched_by_name_and_nothing_else_is_sent(gateway: Gateway, cli: Cli) -> None:
    cli("feature", "enable", "demo", "kuberay", "metrics-server", "--prerequisites", "--no-queue")
    cli("feature", "disable", "demo", "keda")
    first, second = gateway.requests("PATCH", "/clusters/demo/features")
    assert first.body == {
        "kuberay": {"enabled": True},
        "metrics_server": {"enabled": True},
        "enable_prerequisites": True,
    }
    assert first.query == {"wait_for_leases": "false"}
    assert second.body == {"keda": {"enabled": False}}


def test_settings_are_those_of_the_feature_that_is_named(gateway: Gateway, cli: Cli) -> None:
    cli("feature", "set", "demo", "tiered_checkpointing", "--memory-percentage", "30", "--namespace", "training")
    (asked,) = gateway.requests("PATCH", "/clusters/demo/features")
    assert asked.body == {"tiered_checkpointing": {"enabled": True, "memory_percentage": 30, "namespace": "training"}}
    assert cli("feature", "set", "demo").code == 2
