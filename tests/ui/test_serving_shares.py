"""How servers are shared: autoscalers, pools and routers as they are, and what is sent for what was entered."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from contracts.inference import InferenceService, Serves
from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded
from tests.ui.serving_page import COMMAND, acted, cells, deleted, serving, started
from ui.serving_assignments import scope_of


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """What the console asks to be started; that it asks what a command is read as does not count."""
    return recorded(monkeypatch)


def test_an_autoscaler_shows_what_its_triggers_see_now(console: Console) -> None:
    page, _ = serving(console, "Autoscalers")

    for expected in ("default/chat", "1 to 5", "12", "load"):
        assert expected in cells(page)


def test_an_autoscaler_is_asked_for_with_each_of_its_triggers(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Autoscalers")
    form = f"{tag}/create-autoscaler"
    page.selectbox(f"{form}/target").set_value("chat")
    page.segmented_control(f"{form}/kinds").set_value(["prometheus", "cpu"]).run()
    page.text_input(f"{form}/prometheus/query").set_value("sum(load)")
    page.text_input(f"{form}/prometheus/server_address").set_value("http://p.m:9090")
    page.number_input(f"{form}/prometheus/threshold").set_value(2.5)
    page.number_input(f"{form}/cpu/utilization").set_value(70)

    asked = started(page, form, sent)

    query = {"type": "prometheus", "query": "sum(load)", "server_address": "http://p.m:9090", "threshold": 2.5}
    assert asked.body == {"target": "chat", "triggers": [query, {"type": "cpu", "utilization": 70}]}


def test_a_trigger_without_a_query_is_told_at_its_field(console: Console) -> None:
    page, tag = serving(console, "Autoscalers")
    form = f"{tag}/create-autoscaler"
    page.selectbox(f"{form}/target").set_value("chat")

    page.button(f"{form}/plan").click().run()

    assert any(each.value.startswith(":red[") for each in page.markdown)
    assert page.selectbox(f"{form}/target").value == "chat"


def test_an_autoscaler_goes_when_its_name_was_typed(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Autoscalers")
    acted(page, "autoscaler", "Delete")

    asked = deleted(page, f"{tag}/default/chat/delete-autoscaler", "chat", sent)

    assert (asked.method, asked.path) == ("DELETE", f"/clusters/{tag}/autoscalers/chat")


def test_a_pool_is_shown_with_its_pods_by_whom_they_serve(console: Console) -> None:
    page, _ = serving(console, "Model pools")

    for expected in ("default/pool", "2 of 2", "chat 1 of 1", "pool-2", "unassigned", "node-1"):
        assert expected in cells(page)


def test_a_pool_is_handed_out_as_a_whole_beginning_with_how_it_is(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Model pools")
    form = f"{tag}/default/pool/assign-model-pool"
    assert "1 of 2 pods" in texts(page)
    page.number_input(f"{form}/chat/1/in the cluster/count").set_value(0)
    page.text_input(f"{form}/name").set_value("batch").run()
    page.number_input(f"{form}/new/batch/count").set_value(2)
    page.selectbox(f"{form}/new/batch/scope").set_value("the VPC")

    asked = started(page, form, sent)

    assert (asked.method, asked.path) == ("PUT", f"/clusters/{tag}/model-pools/pool/assignments")
    assert asked.body == {"assignments": {"batch": 2}, "public": {"batch": "internal"}}


def test_who_reaches_a_service_of_a_pool_is_told_by_its_load_balancer() -> None:
    def before(public: bool) -> InferenceService:
        return InferenceService(
            namespace="default",
            name="chat-public",
            serves=Serves.POOL_SERVICE,
            type="LoadBalancer",
            port=8000,
            public=public,
            created_at=datetime(2026, 11, 1, tzinfo=UTC),
            managed=True,
        )

    assert scope_of("chat", [before(public=True)]) == "the internet"
    assert scope_of("chat", [before(public=False)]) == "the VPC"
    assert scope_of("search", [before(public=True)]) == "in the cluster"


def test_a_service_that_cannot_be_called_so_is_told_at_its_field(console: Console) -> None:
    page, tag = serving(console, "Model pools")
    form = f"{tag}/default/pool/assign-model-pool"
    page.text_input(f"{form}/name").set_value("unassigned").run()

    page.button(f"{form}/plan").click().run()

    assert any("serves nobody" in each.value for each in page.markdown if each.value.startswith(":red["))
    assert page.text_input(f"{form}/name").value == "unassigned"


def test_a_pool_is_made_scaled_and_deleted(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Model pools")
    form = f"{tag}/create-model-pool"
    page.text_area(f"{form}/command").set_value(COMMAND)
    page.text_input(f"{form}/name").set_value("pool")
    page.number_input(f"{form}/gpu_count").set_value(1)
    page.number_input(f"{form}/replicas").set_value(4)
    assert f"{form}/service" not in [each.key for each in page.selectbox]
    asked = started(page, form, sent)
    assert asked.path == f"/clusters/{tag}/model-pools"
    assert asked.body == {"command": COMMAND, "name": "pool", "gpu_count": 1, "replicas": 4}

    sent.clear()
    page, tag = serving(console, "Model pools")
    acted(page, "pool", "Scale")
    form = f"{tag}/default/pool/scale-model-pool"
    page.number_input(f"{form}/2/replicas").set_value(3)
    assert started(page, form, sent).body == {"replicas": 3}

    page, tag = serving(console, "Model pools")
    acted(page, "pool", "Delete")
    gone = deleted(page, f"{tag}/default/pool/delete-model-pool", "pool", sent)
    assert (gone.method, gone.path) == ("DELETE", f"/clusters/{tag}/model-pools/pool")


def test_a_router_shows_what_it_sees(console: Console) -> None:
    page, _ = serving(console, "Routers")

    for expected in ("default/front", "deployment chat", "cache_aware", "chat-1", "healthy"):
        assert expected in cells(page)


@pytest.mark.parametrize(
    ("kind", "fields", "target"),
    [
        ("A deployment", {"deployment": "chat"}, {"deployment": "chat"}),
        ("A service of a pool", {"pool": "pool", "service": "chat"}, {"pool": "pool", "service": "chat"}),
    ],
)
def test_a_router_is_asked_for_by_what_it_is_before(
    console: Console, sent: list[Sent], kind: str, fields: dict[str, str], target: dict[str, str]
) -> None:
    page, tag = serving(console, "Routers")
    form = f"{tag}/create-router"
    page.text_input(f"{form}/name").set_value("way")
    page.segmented_control(f"{form}/target/kind").set_value(kind).run()
    for name, value in fields.items():
        page.selectbox(f"{form}/target/{name}").set_value(value).run()

    asked = started(page, form, sent)

    assert asked.body == {"name": "way", "target": target}


def test_a_router_before_nothing_is_told_and_goes_when_its_name_was_typed(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Routers")
    form = f"{tag}/create-router"
    page.text_input(f"{form}/name").set_value("way")
    page.button(f"{form}/plan").click().run()
    assert any("exactly one of" in each.value for each in page.markdown if each.value.startswith(":red["))
    acted(page, "router", "Delete")

    gone = deleted(page, f"{tag}/default/front/delete-router", "front", sent)

    assert (gone.method, gone.path) == ("DELETE", f"/clusters/{tag}/routers/front")
