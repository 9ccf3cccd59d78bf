"""``cluster delete``: what it sends, and what a cluster that is not there means."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli import fake_gateway as fake
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import Gateway

Cli = Callable[..., Ran]


def test_delete_sends_what_the_options_say(gateway: Gateway, cli: Cli) -> None:
    ran = cli(
        *("cluster", "delete", "demo", "--level", "eks", "--abort-running", "--delete-bucket", "-o", "json"),
        *("--keep", "vol-1", "--keep", "default/data", "--region", "us-west-2"),
    )
    (asked,) = gateway.requests("DELETE", "/clusters/demo")
    assert asked.body == {
        "level": "eks",
        "abort_running": True,
        "delete_bucket": True,
        "keep": ["vol-1", "default/data"],
    }
    assert asked.query == {"region": "us-west-2"}
    assert (ran.code, json.loads(ran.out)["id"]) == (0, fake.ID)


@pytest.mark.parametrize(("options", "code"), [((), 3), (("--if-exists",), 0)])
def test_a_cluster_that_is_not_there(gateway: Gateway, cli: Cli, options: tuple[str, ...], code: int) -> None:
    missing = {"status": 404, "code": "not_found", "title": "Not found", "detail": "there is no cluster 'demo'"}
    gateway.answers["DELETE", "/api/v1/clusters/demo"] = (404, missing)
    assert cli("cluster", "delete", "demo", *options).code == code
