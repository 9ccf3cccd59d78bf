"""Model servers and managed endpoints as they are, and what is sent for what was entered."""

from __future__ import annotations

from typing import Any

import pytest

from contracts.node_views import NodeKind, NodeResource, NodeView
from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded
from tests.ui.serving_page import COMMAND, acted, cells, deleted, serving, started
from ui.serving_room import Room, rooms_of


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """What the console asks to be started; that it asks what a command is read as does not count."""
    return recorded(monkeypatch)


def test_deployments_are_shown_with_their_state_and_looked_at_closely(console: Console) -> None:
    page, _ = serving(console)

    for expected in ("default/chat", "1 of 1", "ready", "Qwen/Qwen3-0.6B", "in the cluster", "hand"):
        assert expected in cells(page)
    assert [each.value for each in page.code] == [COMMAND]


def test_a_deployment_is_scaled(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console)
    acted(page, "deployment", "Scale")
    form = f"{tag}/default/chat/scale-deployment"
    page.number_input(f"{form}/1/replicas").set_value(3)

    asked = started(page, form, sent)

    assert (asked.method, asked.path) == ("POST", f"/clusters/{tag}/deployments/chat/scale")
    assert (asked.body, asked.query["namespace"]) == ({"replicas": 3}, "default")


def test_a_deployment_is_undeployed_when_its_name_was_typed(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console)
    acted(page, "deployment", "Undeploy")

    asked = deleted(page, f"{tag}/default/chat/delete-deployment", "chat", sent)

    assert (asked.method, asked.path) == ("DELETE", f"/clusters/{tag}/deployments/chat")


def test_an_update_begins_with_what_runs_and_sends_all_of_it(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console)
    acted(page, "deployment", "Update")
    form = f"{tag}/default/chat/update-deployment"
    assert page.text_area(f"{form}/command").value == COMMAND
    assert page.number_input(f"{form}/gpu_count").value == 1
    page.number_input(f"{form}/gpu_count").set_value(2)
    page.text_area(f"{form}/storage").set_value("s3-claim/models:/m:rw")

    asked = started(page, form, sent)

    assert (asked.method, asked.path) == ("PUT", f"/clusters/{tag}/deployments/chat")
    mount = {"claim": "s3-claim", "sub_path": "models", "mount_path": "/m", "read_only": False}
    assert asked.body == {"name": "chat", "command": COMMAND, "gpu_count": 2, "storage": [mount]}


def test_a_deployment_is_asked_for_as_entered(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Deploy")
    form = f"{tag}/create-deployment"
    page.text_area(f"{form}/command").set_value(f"{COMMAND} \\\n  --max-model-len 1280")
    page.text_input(f"{form}/name").set_value("qwen")
    page.number_input(f"{form}/gpu_count").set_value(1)
    page.selectbox(f"{form}/credential").set_value("hub")
    page.text_area(f"{form}/env").set_value("LOG_LEVEL=info\nA=b=c")
    page.number_input(f"{form}/resources/memory_gib").set_value(12.5)

    asked = started(page, form, sent)

    assert asked.body == {
        "command": f"{COMMAND} \\\n  --max-model-len 1280",
        "name": "qwen",
        "gpu_count": 1,
        "credential": "hub",
        "env": {"LOG_LEVEL": "info", "A": "b=c"},
        "resources": {"memory_gib": 12.5},
    }
    assert page.query_params["id"] == f"create-deployment/{tag}/qwen"


def test_findings_stand_beside_the_word_at_fault_before_anything_is_asked_for(console: Console) -> None:
    page, tag = serving(console, "Deploy")
    form = f"{tag}/create-deployment"
    page.number_input(f"{form}/gpu_count").set_value(1)

    page.text_area(f"{form}/command").set_value("vllm serve Qwen/Qwen3-0.6B --tensor-parallel-size 4 <b>").run()

    assert ":red-background[" in texts(page)
    assert "<b>" not in texts(page).replace("\\<b\\>", "")
    page.text_area(f"{form}/command").set_value(COMMAND).run()
    assert ":red-background[" not in texts(page)


def test_without_a_number_of_gpus_nothing_is_planned_and_all_else_stays(console: Console) -> None:
    page, tag = serving(console, "Deploy")
    form = f"{tag}/create-deployment"
    page.text_area(f"{form}/command").set_value(COMMAND)
    page.text_input(f"{form}/name").set_value("qwen")
    assert page.number_input(f"{form}/gpu_count").value is None

    page.button(f"{form}/plan").click().run()

    assert any("how many GPUs" in each.value for each in page.markdown if each.value.startswith(":red["))
    assert page.text_area(f"{form}/command").value == COMMAND
    assert f"{form}/start" not in [each.key for each in page.button]


def test_a_server_for_everybody_wants_to_be_confirmed(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Deploy")
    form = f"{tag}/create-deployment"
    page.text_area(f"{form}/command").set_value(COMMAND)
    page.text_input(f"{form}/name").set_value("qwen")
    page.number_input(f"{form}/gpu_count").set_value(0)
    page.selectbox(f"{form}/service").set_value("public").run()
    page.selectbox(f"{form}/public").set_value("internet-facing").run()
    page.button(f"{form}/plan").click().run()
    assert any("everybody on the internet" in each.value for each in page.markdown)

    page.toggle(f"{form}/confirm_public").set_value(True)
    sent.clear()
    asked = started(page, form, sent)

    assert {name: asked.body[name] for name in ("service", "public", "confirm_public")} == {
        "service": "public",
        "public": "internet-facing",
        "confirm_public": True,
    }


def test_free_capacity_counts_what_ready_nodes_have_left_for_a_replica() -> None:
    def node(name: str, used: int, **more: Any) -> NodeView:
        gpus = NodeResource(name="nvidia.com/gpu", capacity=4, allocatable=4, used=used)
        return NodeView(
            name=name,
            kind=NodeKind.HYPERPOD,
            group="g",
            instance_type="ml.g6.12xlarge",
            resources=[gpus],
            **{"ready": True, **more},
        )

    nodes = [node("a", 1), node("b", 3), node("c", 0, ready=False), node("d", 0, unschedulable=True)]

    assert rooms_of(nodes) == [Room("ml.g6.12xlarge", nodes=2, total=8, free=4, most_on_one=3)]


def test_endpoints_are_shown_and_looked_at_closely(console: Console) -> None:
    page, _ = serving(console, "Managed endpoints")

    for expected in ("default/qwen", "2 of 2", "qwen-routing-service"):
        assert expected in cells(page)
    assert "qwen\\-1\\: Running" in texts(page)


def test_an_endpoint_is_asked_for_by_where_its_model_is(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Managed endpoints")
    form = f"{tag}/create-endpoint"
    page.text_input(f"{form}/name").set_value("qwen")
    page.multiselect(f"{form}/instance_types").set_value(["ml.g5.8xlarge"])
    page.text_input(f"{form}/source/bucket").set_value("models-bucket")
    page.text_input(f"{form}/worker/image").set_value("vllm/vllm-openai:v0.11.0")
    page.number_input(f"{form}/worker/gpu_count").set_value(1)
    page.text_area(f"{form}/worker/args").set_value("--model=/opt/ml/model\n--port=8000")

    asked = started(page, form, sent)

    assert asked.body == {
        "name": "qwen",
        "instance_types": ["ml.g5.8xlarge"],
        "source": {"type": "s3", "bucket": "models-bucket"},
        "worker": {
            "image": "vllm/vllm-openai:v0.11.0",
            "gpu_count": 1,
            "args": ["--model=/opt/ml/model", "--port=8000"],
        },
    }


def test_a_jumpstart_model_brings_its_own_server(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Managed endpoints")
    form = f"{tag}/create-endpoint"
    page.segmented_control(f"{form}/from").set_value("JumpStart").run()
    assert f"{form}/worker/image" not in [each.key for each in page.text_input]
    page.text_input(f"{form}/name").set_value("small")
    page.multiselect(f"{form}/instance_types").set_value(["ml.g5.8xlarge"])
    page.text_input(f"{form}/source/model_id").set_value("deepseek-llm")
    page.toggle(f"{form}/source/accept_eula").set_value(True)

    asked = started(page, form, sent)

    assert asked.body["source"] == {"type": "jumpstart", "model_id": "deepseek-llm", "accept_eula": True}


def test_an_endpoint_whose_model_is_nowhere_is_told_at_its_field(console: Console) -> None:
    page, tag = serving(console, "Managed endpoints")
    form = f"{tag}/create-endpoint"
    page.text_input(f"{form}/name").set_value("qwen")

    page.button(f"{form}/plan").click().run()

    assert any(each.value.startswith(":red[") for each in page.markdown)
    assert page.text_input(f"{form}/name").value == "qwen"


def test_an_endpoint_is_changed_as_a_whole_and_deleted_by_its_name(console: Console, sent: list[Sent]) -> None:
    page, tag = serving(console, "Managed endpoints")
    acted(page, "endpoint", "Update")
    form = f"{tag}/default/qwen/update-endpoint"
    page.text_area(f"{form}/body").set_value(
        '{"name": "qwen", "instance_types": ["ml.g5.8xlarge"], "replicas": 3,'
        ' "source": {"type": "s3", "bucket": "models-bucket"}, "worker": {"image": "vllm/x:v1", "gpu_count": 1}}'
    )
    asked = started(page, form, sent)
    assert (asked.method, asked.path) == ("PUT", f"/clusters/{tag}/endpoints/qwen")
    assert asked.body["replicas"] == 3

    page, tag = serving(console, "Managed endpoints")
    acted(page, "endpoint", "Delete")
    gone = deleted(page, f"{tag}/default/qwen/delete-endpoint", "qwen", sent)
    assert (gone.method, gone.path) == ("DELETE", f"/clusters/{tag}/endpoints/qwen")


def test_what_is_no_json_is_said_and_nothing_can_be_planned(console: Console) -> None:
    page, tag = serving(console, "Managed endpoints")
    acted(page, "endpoint", "Update")
    form = f"{tag}/default/qwen/update-endpoint"

    page.text_area(f"{form}/body").set_value("{").run()

    assert "This is no JSON" in texts(page)
    assert f"{form}/plan" not in [each.key for each in page.button]


@pytest.mark.parametrize("tab", ["Deploy", "Managed endpoints", "Model pools", "Routers", "Autoscalers"])
def test_a_viewer_sees_everything_and_starts_nothing(console: Console, tab: str) -> None:
    console.role = "viewer"
    page, _ = serving(console, tab)

    starting = [each for each in page.button if not str(each.key).startswith("cluster-picker/")]
    assert starting
    assert all(each.disabled for each in starting)
