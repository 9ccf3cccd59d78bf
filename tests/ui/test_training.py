"""Training: runs as they are, forms of every framework, presets, and what is sent for what was entered."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from contracts.recipes import RECIPES
from contracts.training import TrainingSpec
from tests.api.fake_training import SPEC
from tests.ui.conftest import Console, texts
from tests.ui.sent import Sent, recorded
from tests.ui.serving_page import PLANE, acted, cells, deleted, started
from ui.training_filling import of_spec

HYPERPOD = {"name": "hp", "arn": "arn:hp", "status": "InService"}
GROUP = {"name": "workers", "instance_type": "ml.g5.12xlarge", "current": 0, "target": 3, "status": "InService"}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    return recorded(monkeypatch)


def training(console: Console, tab: str = "Runs", **query: str) -> tuple[AppTest, str]:
    """The page of a cluster at a tab, and the cluster's tag."""
    tag = console.cluster(control_plane=PLANE, hyperpod={**HYPERPOD, "groups": [GROUP]})
    page = console.page("training", cluster=tag, tab=tab, **query).run()
    assert not page.exception
    return page, tag


def preset(console: Console, document: dict[str, Any], shared: bool = False) -> str:
    name = f"preset-{uuid.uuid4().hex[:8]}"
    with console.http() as http:
        http.put(f"/presets/{name}", json={"document": document, "shared": shared}).raise_for_status()
    console.until(lambda: name in [each["name"] for each in console.get("/presets", page_size=200)["presets"]])
    return name


def test_a_run_is_shown_with_its_state_its_budget_and_what_it_reports(console: Console) -> None:
    page, _ = training(console)

    for expected in ("default/qwen3-sft", "running", "2 of 2", "1 of 5", "step 1200, loss 1.23", "2 × ml.g5.12xlarge"):
        assert expected in cells(page)
    facts = {each.label: each.value for each in page.metric}
    assert (facts["Step"], facts["Loss"], facts["Pods ready"]) == ("1,200", "1.23", "2 of 2")


def test_a_run_is_stopped_when_its_name_was_typed_with_the_reason(console: Console, sent: list[Sent]) -> None:
    page, tag = training(console)
    acted(page, "run", "Stop")
    form = f"{tag}/default/qwen3-sft/stop-training"
    page.text_input(f"{form}/reason").set_value("loss has diverged").run()

    asked = deleted(page, form, "qwen3-sft", sent)

    assert (asked.method, asked.path) == ("POST", f"/clusters/{tag}/training-runs/qwen3-sft/stop")
    assert (asked.body, asked.query["namespace"]) == ({"reason": "loss has diverged"}, "default")


def test_a_run_is_resumed_after_a_look_at_the_plan(console: Console, sent: list[Sent]) -> None:
    page, tag = training(console)
    acted(page, "run", "Resume")

    asked = started(page, f"{tag}/default/qwen3-sft/resume-training", sent)

    assert asked.path == f"/clusters/{tag}/training-runs/qwen3-sft/resume"


def test_a_run_is_asked_for_as_entered(console: Console, sent: list[Sent]) -> None:
    page, tag = training(console, "New run")
    form = f"{tag}/run-training/new"
    page.text_input(f"{form}/name").set_value("tuned")
    page.selectbox(f"{form}/instance_types").set_value("ml.g5.12xlarge")
    page.number_input(f"{form}/gpus_per_node").set_value(4)
    page.text_input(f"{form}/recipe/pytorch/script_path").set_value("/s3/code/train.py")
    page.text_area(f"{form}/recipe/pytorch/arguments").set_value("--max-steps=10\n--name\nwith a space")
    page.number_input(f"{form}/recovery/job_retries").set_value(2)
    page.selectbox(f"{form}/experiment/tracking_server").set_value("research")
    page.text_input(f"{form}/experiment/experiment").set_value("qwen")
    page.text_input(f"{form}/experiment/run_name").set_value("first")
    page.button(f"{form}/rules/1").click().run()
    page.text_input(f"{form}/rule/0/name").set_value("hang")
    page.text_input(f"{form}/rule/0/pattern").set_value(".*loss.*")
    page.number_input(f"{form}/rule/0/every_seconds").set_value(600)
    page.text_area(f"{form}/rest").set_value('{"experiment": {"tags": {"team": "a"}}}')

    asked = started(page, form, sent)

    assert (asked.method, asked.path) == ("POST", f"/clusters/{tag}/training-runs")
    assert asked.body == {
        "name": "tuned",
        "instance_types": ["ml.g5.12xlarge"],
        "gpus_per_node": 4,
        "recipe": {
            "kind": "pytorch",
            "script_path": "/s3/code/train.py",
            "arguments": ["--max-steps=10", "--name", "with a space"],
        },
        "recovery": {"job_retries": 2},
        "log_monitoring": [{"name": "hang", "pattern": ".*loss.*", "every_seconds": 600}],
        "experiment": {
            "tracking_server": "research",
            "experiment": "qwen",
            "run_name": "first",
            "tags": {"team": "a"},
        },
    }
    assert page.query_params["id"] == f"run-training/{tag}/tuned"


def test_what_is_wrong_stands_at_its_field_and_all_else_stays(console: Console) -> None:
    page, tag = training(console, "New run")
    form = f"{tag}/run-training/new"
    page.text_input(f"{form}/name").set_value("tuned")
    page.text_input(f"{form}/recipe/pytorch/script_path").set_value("/s3/code/train.sh").run()

    page.button(f"{form}/plan").click().run()

    assert "Say how many GPUs each node is to use" in texts(page)
    assert page.text_input(f"{form}/name").value == "tuned"
    assert not any(each.key == f"{form}/start" for each in page.button)


EXAMPLES: dict[str, dict[str, str]] = {
    "pytorch": {"script_path": "/s3/code/train.py"},
    "script": {"project_path": "/s3/code/project", "entry": "train.py"},
}


@pytest.mark.parametrize("kind", RECIPES)
def test_a_form_of_each_framework_makes_a_plan(console: Console, sent: list[Sent], kind: str) -> None:
    page, tag = training(console, "New run")
    form = f"{tag}/run-training/new"
    page.segmented_control(f"{form}/kind").set_value(kind).run()
    assert not page.exception
    page.text_input(f"{form}/name").set_value("each")
    page.selectbox(f"{form}/instance_types").set_value("ml.g5.12xlarge")
    page.number_input(f"{form}/gpus_per_node").set_value(4)
    page.text_input(f"{form}/image").set_value("111122223333.dkr.ecr.us-west-2.amazonaws.com/trainer:ray2.52.0")
    for name, value in EXAMPLES.get(kind, {}).items():
        page.text_input(f"{form}/recipe/{kind}/{name}").set_value(value)
    if kind not in EXAMPLES:
        page.button(f"{form}/recipe/{kind}/example").click().run()

    page.button(f"{form}/plan").click().run()

    assert not page.exception
    assert sent[-1].body["recipe"]["kind"] == kind
    assert page.button(f"{form}/start").label == "Submit the run", texts(page)


def test_a_run_that_was_is_done_again_with_what_is_changed(console: Console, sent: list[Sent]) -> None:
    page, tag = training(console, "New run", again="default/qwen3-sft")
    form = f"{tag}/run-training/again/default/qwen3-sft/"
    assert page.number_input(f"{form}/nodes").value == 2
    page.number_input(f"{form}/nodes").set_value(3)
    page.text_input(f"{form}/name").set_value("larger")

    asked = started(page, form, sent)

    assert asked.body == {**SPEC, "name": "larger", "nodes": 3}


def test_a_form_begins_with_a_preset_and_is_saved_as_its_next_version(console: Console) -> None:
    document = {
        **{name: value for name, value in SPEC.items() if name != "name"},
        "recipe": {"kind": "llama-factory", "config": {"model_name_or_path": "m", "dataset": "d", "template": "t"}},
        "storage": [{"claim": "s3-claim", "mount_path": "/s3", "read_only": True}],
        "elastic": {"min_nodes": 1, "max_nodes": 4, "discrete": [1, 2, 4]},
    }
    name = preset(console, document)
    page, tag = training(console, "New run", preset=name)
    form = f"{tag}/run-training/preset/{name}@1"
    assert page.segmented_control(f"{form}/kind").value == "llama-factory"
    assert "model_name_or_path: m" in str(page.text_area(f"{form}/recipe/llama-factory/config").value)
    assert page.text_area(f"{form}/storage").value == "s3-claim:/s3:ro"
    assert '"discrete"' in str(page.text_area(f"{form}/rest").value)

    page.number_input(f"{form}/nodes").set_value(4)
    page.button(f"{form}/save/sent").click().run()

    assert not page.exception
    saved = console.get(f"/presets/{name}")
    assert saved["preset"]["version"] == 2
    assert saved["version"]["document"] == {**document, "nodes": 4}


def test_another_preset_is_not_overwritten_by_its_name(console: Console) -> None:
    document = {name: value for name, value in SPEC.items() if name != "name"}
    there = preset(console, document)
    page, tag = training(console, "New run", again="default/qwen3-sft")
    form = f"{tag}/run-training/again/default/qwen3-sft/"
    key = f"{form}/save"
    page.number_input(f"{form}/nodes").set_value(7)
    page.text_input(f"{key}/name").set_value(there).run()
    page.button(f"{key}/sent").click().run()

    assert console.get(f"/presets/{there}")["preset"]["version"] == 1
    assert "It has changed meanwhile" in page.error[0].value
    assert "Load it, and change that" in texts(page)


def test_presets_are_listed_looked_at_and_deleted(console: Console) -> None:
    name = preset(console, {key: value for key, value in SPEC.items() if key != "name"}, shared=True)
    page, _ = training(console, "Presets", **{"looked-at": name})

    assert name in cells(page)
    assert "/s3/code/train.py" in page.code[0].value
    page.button(f"presets/{name}/delete").click().run()
    with console.http() as http:
        assert http.get(f"/presets/{name}").status_code == 404


def test_a_document_that_is_read_back_is_the_run_that_it_was_made_from() -> None:
    spec = TrainingSpec.model_validate(SPEC)
    assert TrainingSpec.model_validate(of_spec(spec)) == spec


def test_ray_clusters_are_shown_made_and_deleted(console: Console, sent: list[Sent]) -> None:
    page, tag = training(console, "Ray clusters")
    for expected in ("default/notebooks", "ready", "2 of 2", "notebooks-head-svc"):
        assert expected in cells(page)
    form = f"{tag}/create-ray-cluster"
    page.text_input(f"{form}/name").set_value("study")
    page.number_input(f"{form}/gpus_per_worker").set_value(1)
    asked = started(page, form, sent)
    assert (asked.path, asked.body) == (f"/clusters/{tag}/ray-clusters", {"name": "study", "gpus_per_worker": 1})

    page = console.page("training", cluster=tag, tab="Ray clusters").run()
    acted(page, "ray", "Delete")
    asked = deleted(page, f"{tag}/default/notebooks/delete-ray-cluster", "notebooks", sent)
    assert (asked.method, asked.path) == ("DELETE", f"/clusters/{tag}/ray-clusters/notebooks")


def test_who_may_only_read_sees_everything_and_can_click_nothing(console: Console) -> None:
    console.role = "viewer"
    page, tag = training(console, "New run")
    assert page.button(f"{tag}/run-training/new/plan").disabled
    page = console.page("training", cluster=tag, tab="Runs").run()
    assert "default/qwen3-sft" in cells(page)
    acted(page, "run", "Stop")
    assert page.button(f"{tag}/default/qwen3-sft/stop-training/ask").disabled
