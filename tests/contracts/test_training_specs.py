"""Specifications of training runs: what is refused, where, and with what help."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.names import TRAINING_NAME
from contracts.problem import field_errors
from contracts.recipes.progress import Reported
from contracts.training import ASK_FOR_GPUS, ASK_FOR_TYPES, TrainingSpec, without_secrets
from contracts.training_parts import Restarts, Submission, TrainingName, reported_text
from contracts.training_resilience import ElasticPolicy, hang_rule, outlier_rule

SPEC: dict[str, Any] = {
    "name": "demo",
    "recipe": {"kind": "pytorch", "script_path": "/s3/code/train.py"},
    "instance_types": ["ml.g5.12xlarge"],
    "gpus_per_node": 4,
    "image": "registry/trainer:1.0",
}


def faults(**change: Any) -> dict[str, str]:
    """Faults by field, with their texts."""
    with pytest.raises(ValidationError) as caught:
        TrainingSpec.model_validate({**SPEC, **change})
    return {each.field: each.detail for each in field_errors(caught.value)}


def test_the_defaults_are_the_documented_budget_and_storage() -> None:
    spec = TrainingSpec.model_validate(SPEC)
    budget = spec.recovery
    assert (budget.job_retries, budget.in_place_restarts, budget.window_seconds, budget.full_restarts) == (
        5,
        3,
        21_600,
        1,
    )
    assert budget.clean_pods.value == "All"
    assert [(each.claim, each.mount_path, each.read_only) for each in spec.mounts] == [("s3-claim", "/s3", False)]
    assert spec.path is Submission.HYPERPOD
    assert spec.processes_per_node == 4


def test_gpus_and_instance_type_have_no_default_and_are_asked_for() -> None:
    schema = TrainingSpec.model_json_schema()
    for name, asked in (("gpus_per_node", ASK_FOR_GPUS), ("instance_types", ASK_FOR_TYPES)):
        assert name in schema["required"]
        assert schema["properties"][name]["x-if-missing"] == asked


def test_a_specification_is_read_back_as_it_was_written_down() -> None:
    spec = TrainingSpec.model_validate({**SPEC, "elastic": {"min_nodes": 1, "max_nodes": 4}})
    assert TrainingSpec.model_validate(without_secrets(spec)) == spec
    assert TrainingSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"name": "Demo_Run"}, "/name", "Use for example 'demo-run'"),
        ({"name": "a" * 48}, "/name", "at most 47 characters"),
        ({"instance_types": ["ml.g5.12xlarge", "ml.p5.48xlarge"]}, "/instance_types", "one type"),
        ({"instance_types": ["g5.12xlarge"]}, "/instance_types", "ml.p5.48xlarge"),
        ({"submission": "ray"}, "/submission", "submitted by"),
        ({"env": {"RANK": "0"}}, "/env/RANK", "launcher"),
        ({"env": {"HF_TOKEN": "hf_abcdefghijklmnop"}}, "/env/HF_TOKEN", "secret"),
        ({"env": {"A": "1"}, "secret_env": {"A": "b"}}, "/secret_env/A", "twice"),
        ({"env": {"HF_TOKEN": "/path"}, "credential": "hub"}, "/env/HF_TOKEN", "twice"),
        ({"spares": 1}, "/spares", "queue"),
        ({"checkpoint_path": "/ckpt"}, "/checkpoint_path", "goes with the pod"),
        (
            {"checkpoint_path": "/s3/x", "storage": [{"claim": "c", "mount_path": "/s3", "read_only": True}]},
            "/checkpoint_path",
            "read only",
        ),
        ({"storage": [{"mount_path": "/local"}]}, "/storage/0/mount_path", "taken"),
        ({"storage": [{"mount_path": "/local/data"}]}, "/storage/0/mount_path", "taken"),
        ({"storage": [{"mount_path": "/opt/instantstart/recipe"}]}, "/storage/0/mount_path", "taken"),
        ({"storage": [{"mount_path": "/"}]}, "/storage/0/mount_path", "taken"),
        ({"storage": [{"mount_path": "/usr"}]}, "/storage/0/mount_path", "system"),
        ({"storage": [{"mount_path": "/proc/1"}]}, "/storage/0/mount_path", "system"),
        ({"storage": [{"mount_path": "//etc/"}]}, "/storage/0/mount_path", "system"),
        ({"storage": [{"mount_path": "/s3/../usr"}]}, "/storage/0/mount_path", "without .."),
        ({"storage": [{"sub_path": "a/../.."}]}, "/storage/0/sub_path", "without .."),
        ({"checkpoint_path": "/s3/../etc"}, "/checkpoint_path", "without .."),
        ({"image": "UPPER/x"}, "/image", "lower-case"),
        ({"image": "https://x/y:1"}, "/image", "without https://"),
        ({"image": "team/trainer:"}, "/image", "no name of an image"),
        ({"image": "team/trainer@sha256:abc"}, "/image", "no name of an image"),
        ({"tiered_checkpointing": True, "checkpointless": True}, "/checkpointless", "tiered"),
        ({"elastic": {"min_nodes": 1, "max_nodes": 4}, "checkpointless": True}, "/checkpointless", "elastic"),
        (
            {"elastic": {"min_nodes": 1, "max_nodes": 4}, "tiered_checkpointing": True},
            "/tiered_checkpointing",
            "elastic",
        ),
        ({"elastic": {"min_nodes": 2, "max_nodes": 4}}, "/nodes", "1 is no number"),
        ({"elastic": {"min_nodes": 4, "max_nodes": 2}}, "/elastic/min_nodes", "more than max_nodes"),
        (
            {"log_monitoring": [{"name": "x", "pattern": "(a+)+b", "every_seconds": 9}]},
            "/log_monitoring/0/pattern",
            "end",
        ),
        ({"log_monitoring": [{"name": "x", "pattern": ".*"}]}, "/log_monitoring/0/every_seconds", "asks for nothing"),
        (
            {"log_monitoring": [{"name": "x", "pattern": ".*", "metric_threshold": 3, "operator": "gt"}]},
            "/log_monitoring/0/pattern",
            "group",
        ),
        (
            {"log_monitoring": [{"name": "x", "pattern": ".*(1)", "metric_threshold": 3}]},
            "/log_monitoring/0/operator",
            "go together",
        ),
        ({"labels": {"training.sagemaker.amazonaws.com/job-name": "x"}}, "/labels", "not free"),
        (
            {"experiment": {"tracking_server": "m", "experiment": "e"}, "tiered_checkpointing": True},
            "/experiment/tracking_server",
            "cannot report",
        ),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(change: dict[str, Any], field: str, words: str) -> None:
    found = faults(**change)
    assert words in found[field]


@pytest.mark.parametrize(
    "image",
    [
        "trainer",
        "registry/trainer:1.0",
        "localhost:5000/team/trainer_a__b--c:v1",
        "Registry.Example.com:443/a/b.c:1-x",
        f"123456789012.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8-gpu@sha256:{'a' * 64}",
        "build:8080/x",
    ],
)
def test_names_of_images_that_a_kubelet_can_pull_are_admitted(image: str) -> None:
    assert TrainingSpec.model_validate({**SPEC, "image": image}).image == image


@pytest.mark.parametrize(
    "place", ["/models", "/usr/src/app/data", "/var/lib/data", "/opt/ml/input", "/home", "/data/usr"]
)
def test_storage_may_be_mounted_wherever_the_image_keeps_nothing_that_it_needs(place: str) -> None:
    TrainingSpec.model_validate({**SPEC, "storage": [{"mount_path": place}]})


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=70))
def test_a_name_that_is_admitted_leaves_room_for_the_endings_of_its_pods(name: str) -> None:
    try:
        TrainingName(name=name)
    except ValidationError:
        assert TRAINING_NAME.violation(name) is not None
        return
    assert len(f"{name}-pods-4999") <= 63
    assert len(f"{name}-pods-0123456789") <= 63, "a revision of its set is a label"


def test_an_elastic_policy_knows_its_numbers_of_nodes() -> None:
    steps = ElasticPolicy(min_nodes=2, max_nodes=8, step=3)
    assert [nodes for nodes in range(10) if steps.admits(nodes)] == [2, 5, 8]
    listed = ElasticPolicy(min_nodes=1, max_nodes=8, discrete=[1, 4, 8])
    assert [nodes for nodes in range(10) if listed.admits(nodes)] == [1, 4, 8]


def test_helpers_make_rules_that_are_admitted() -> None:
    assert hang_rule(".*loss.*").every_seconds == 600
    assert outlier_rule(".*tps: ([0-9.]+).*", threshold=3000).operator == "lt"


def test_progress_and_budget_are_told_in_words() -> None:
    reported = Reported(step=1200, total_steps=5000, loss=1.2345, throughput=5100, unit="tokens/s")
    assert reported_text(reported) == "step 1200 of 5000, loss 1.234, 5.1k tokens/s"
    assert reported_text(Reported()) is None
    used = Restarts(job=1, job_limit=5, in_place=1, in_place_limit=3, full=0, full_limit=1)
    assert used.text == "restarts 1 of 5 (in place 1 of 3)"
