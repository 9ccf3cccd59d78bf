"""Commands for managed endpoints and autoscalers: what they send, and what they show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from contracts.autoscalers import AutoscalerDetail, AutoscalerList, AutoscalerSpec, TriggerView
from contracts.managed_endpoints import EndpointCondition, EndpointDetail, EndpointList
from tests.api.fake_scaling import CHAT, QWEN
from tests.cli.conftest import Ran
from tests.cli.fake_gateway import NOW, Gateway

Cli = Callable[..., Ran]


def test_an_endpoint_is_sent_as_the_file_and_the_options_say(gateway: Gateway, cli: Cli, tmp_path: Path) -> None:
    spec = tmp_path / "endpoint.yaml"
    spec.write_text("source: {type: s3, bucket: models}\nreplicas: 1\n")
    cli("endpoint", "create", "demo", "qwen", "-f", str(spec), "--replicas", "2", "-n", "ml")
    (asked,) = gateway.requests("POST", "/clusters/demo/endpoints")
    expected = {"name": "qwen", "namespace": "ml", "replicas": 2, "source": {"type": "s3", "bucket": "models"}}
    assert asked.body == expected
    cli("endpoint", "update", "demo", "qwen", "-f", str(spec))
    (changed,) = gateway.requests("PUT", "/clusters/demo/endpoints/qwen")
    assert changed.body == {"name": "qwen", "replicas": 1, "source": {"type": "s3", "bucket": "models"}}


def test_deleting_names_the_namespace_in_the_query(gateway: Gateway, cli: Cli) -> None:
    assert cli("endpoint", "delete", "demo", "qwen", "-n", "ml").code == 0
    (deleted,) = gateway.requests("DELETE", "/clusters/demo/endpoints/qwen")
    assert deleted.query == {"namespace": "ml"}
    assert cli("autoscaler", "delete", "demo", "chat").code == 0
    (deleted,) = gateway.requests("DELETE", "/clusters/demo/autoscalers/chat")
    assert deleted.query == {}


def test_an_autoscaler_by_a_routers_load_is_sent_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    by_router = ("--router", "front", "--router-metric", "queue_depth", "--threshold", "4", "--workspace", "ws-1")
    assert cli("autoscaler", "create", "demo", "chat", *by_router).code == 0
    (asked,) = gateway.requests("POST", "/clusters/demo/autoscalers")
    (trigger,) = asked.body["triggers"]
    assert trigger == {
        "type": "router",
        "router": "front",
        "metric": "queue_depth",
        "threshold": 4,
        "workspace_id": "ws-1",
    }
    assert AutoscalerSpec.model_validate(asked.body).triggers[0].type == "router"
    both = cli("autoscaler", "create", "demo", "chat", "--router", "front", "--query", "up")
    assert (both.code, "--router or --query" in both.err) == (2, True)
    assert cli("autoscaler", "create", "demo", "chat", "--router-metric", "queue_depth").code == 2


def test_an_autoscaler_is_sent_as_the_options_say(gateway: Gateway, cli: Cli) -> None:
    cli(
        *("autoscaler", "create", "demo", "chat", "--min", "0", "--max", "4", "--prometheus", "http://p.m:9090"),
        *("--query", "sum(load)", "--threshold", "5", "--cpu", "70"),
    )
    (asked,) = gateway.requests("POST", "/clusters/demo/autoscalers")
    query = {"server_address": "http://p.m:9090", "query": "sum(load)", "threshold": 5.0}
    triggers = [{"type": "prometheus", **query}, {"type": "cpu", "utilization": 70}]
    assert asked.body == {"target": "chat", "min_replicas": 0, "max_replicas": 4, "triggers": triggers}


def test_they_are_listed_and_shown_in_columns(gateway: Gateway, cli: Cli) -> None:
    root = "/api/v1/clusters/demo"
    qwen = QWEN.model_copy(update={"ready_replicas": 1})
    listed = EndpointList(endpoints=[qwen], read_at=NOW)
    gateway.answers["GET", f"{root}/endpoints"] = (200, listed.model_dump(mode="json"))
    shown = cli("endpoint", "list", "demo", "-n", "ml").out
    assert "qwen-routing-service" in shown
    assert "1/2" in shown
    done = EndpointCondition(type="DeploymentComplete", status="True", reason="Done", message="all there")
    detail = EndpointDetail(endpoint=qwen, conditions=[done], pods=["qwen-1: Running on node-1"], read_at=NOW)
    gateway.answers["GET", f"{root}/endpoints/qwen"] = (200, detail.model_dump(mode="json"))
    assert "qwen-1: Running on node-1" in cli("endpoint", "get", "demo", "qwen").out
    scalers = AutoscalerList(autoscalers=[CHAT], read_at=NOW)
    gateway.answers["GET", f"{root}/autoscalers"] = (200, scalers.model_dump(mode="json"))
    assert "1-5" in cli("autoscaler", "list", "demo").out
    trigger = TriggerView(type="prometheus", value=14, threshold=5, wants=3, query="sum(load)")
    told = AutoscalerDetail(autoscaler=CHAT, triggers=[trigger], conditions=["ScaledObject Ready True"], read_at=NOW)
    gateway.answers["GET", f"{root}/autoscalers/chat"] = (200, told.model_dump(mode="json"))
    shown = cli("autoscaler", "get", "demo", "chat").out
    assert "14.0" in shown
    assert "ScaledObject Ready True" in shown
