"""``instantstart ray``: what it sends, and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.ray_clusters import RayClusterDetail, RayClusterList, RayUse
from tests.api.fake_ray import NOTEBOOKS
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import NOW, Gateway

Cli = Callable[..., Ran]
ROOT = "/api/v1/clusters/demo/ray-clusters"


def document(model: Any) -> Any:
    return model.model_dump(mode="json")


def test_a_ray_cluster_is_sent_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["POST", ROOT] = (202, document(gateway.script[0]))
    options = ("--workers", "2", "--gpus", "1", "--instance-type", "ml.g5.8xlarge", "-n", "ml")
    ran = cli("ray", "create", "demo", "notebooks", *options)
    assert ran.code == 0, ran.err
    (sent,) = gateway.requests("POST", "/ray-clusters")
    assert sent.body == {
        "name": "notebooks",
        "namespace": "ml",
        "workers": 2,
        "gpus_per_worker": 1,
        "instance_types": ["ml.g5.8xlarge"],
    }


def test_ray_clusters_are_listed_and_shown(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["GET", ROOT] = (200, document(RayClusterList(ray_clusters=[NOTEBOOKS], read_at=NOW)))
    listed = cli("ray", "list", "demo")
    assert "notebooks" in listed.out
    assert "2/2" in listed.out
    use = RayUse(ray_version="2.52.0", note="nothing has run on it yet; it holds 2 GPUs meanwhile")
    detail = RayClusterDetail(ray_cluster=NOTEBOOKS, use=use, read_at=NOW)
    gateway.answers["GET", f"{ROOT}/notebooks"] = (200, document(detail))
    assert "it holds 2 GPUs meanwhile" in cli("ray", "get", "demo", "notebooks").out


def test_a_ray_cluster_is_deleted_by_its_name(gateway: Gateway, cli: Cli) -> None:
    gateway.answers["DELETE", f"{ROOT}/notebooks"] = (202, document(gateway.script[0]))
    assert cli("ray", "delete", "demo", "notebooks", "-n", "ml").code == 0
    (deleted,) = gateway.requests("DELETE", "/ray-clusters/notebooks")
    assert deleted.query == {"namespace": "ml"}
