"""Commands for instance groups: what they send; and how an answer is put together where values go together."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from cli.decide import ask
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]


def test_a_group_is_sent_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    cli(
        *("group", "add", "demo", "big", "--instance-type", "ml.p5.48xlarge", "--count", "2", "--training-plan", "p"),
        *("--network-interface", "efa-only", "--dedicated-subnet", "--deep-health-check", "InstanceStress"),
        *("--label", "team=a", "--taint", "only:NoExecute"),
    )
    (asked,) = gateway.requests("POST", "/clusters/demo/instance-groups")
    assert asked.body == {
        "name": "big",
        "instance_type": "ml.p5.48xlarge",
        "count": 2,
        "capacity": {"kind": "training-plan", "training_plan": "p"},
        "network_interface": "efa-only",
        "subnet_placement": "dedicated",
        "deep_health_checks": ["InstanceStress"],
        "labels": {"team": "a"},
        "taints": [{"key": "only", "value": "", "effect": "NoExecute"}],
    }


def test_scaling_changing_and_deleting_name_the_group_in_the_path(gateway: Gateway, cli: Cli) -> None:
    cli("group", "scale", "demo", "big", "3")
    (scaled,) = gateway.requests("POST", "/clusters/demo/instance-groups/big/scale")
    assert scaled.body == {"count": 3}
    cli("group", "update", "demo", "big", "--no-labels", "--min-count", "1")
    (changed,) = gateway.requests("PATCH", "/clusters/demo/instance-groups/big")
    assert changed.body == {"labels": {}, "min_count": 1}
    cli("group", "delete", "demo", "big", "--no-drain")
    (deleted,) = gateway.requests("DELETE", "/clusters/demo/instance-groups/big")
    assert deleted.query == {"drain": "false"}


@pytest.mark.parametrize("name", ["..", ".", "", "../../other", "big?drain=false", "big#1"])
@pytest.mark.parametrize("words", [("group", "delete"), ("node-group", "delete"), ("node-pool", "delete")])
def test_a_name_that_leads_to_another_route_is_refused_and_nothing_is_sent(
    gateway: Gateway, cli: Cli, words: tuple[str, str], name: str
) -> None:
    """A group ``..`` would be the cluster itself."""
    ran = cli(*words, "demo", name)
    assert (ran.code, "is no name" in ran.err) == (1, True)
    assert gateway.asked == []


def test_only_zones_that_offer_the_chosen_type_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["2", "1"])
    monkeypatch.setattr(click, "prompt", lambda *_, **__: next(typed))
    decision = {
        "question": "Which?",
        "schema": {"properties": {"instance_type": {"type": "string"}, "availability_zone": {}}},
        "options": {
            "instance_type": ["a", "b"],
            "availability_zone": ["x", "y"],
            "combinations": [
                {"instance_type": "a", "availability_zone": "x"},
                {"instance_type": "b", "availability_zone": "y"},
            ],
        },
    }
    assert ask(decision) == {"instance_type": "b", "availability_zone": "y"}
