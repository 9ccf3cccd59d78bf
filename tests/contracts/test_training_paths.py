"""Paths of submission in the contracts: which stages and approvals a run has, and which folders it names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.catalogue import RUN_TRAINING
from contracts.sagemaker_parts import folders_named
from contracts.training import TrainingSpec
from contracts.training_parts import Submission
from workflows.training import RunTraining

VERL = {
    "kind": "verl",
    "config": {"data.train_files": "/s3/datasets/a.parquet", "actor_rollout_ref.model.path": "/s3/models/m"},
}
IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/team/trainer:1.0"
PART = st.from_regex(r"[a-z][a-z0-9.-]{0,8}[a-z0-9]", fullmatch=True)


def spec_of(**more: Any) -> TrainingSpec:
    given: dict[str, Any] = {
        "name": "lone",
        "recipe": {"kind": "pytorch", "script_path": "/s3/code/train.py"},
        "instance_types": ["ml.g5.12xlarge"],
        "gpus_per_node": 4,
        "image": IMAGE,
    }
    return TrainingSpec.model_validate({**given, **more})


def stages(spec: TrainingSpec) -> list[str]:
    return [plan.name for plan in RunTraining.planned_stages(spec)]


def test_verl_runs_on_ray_and_others_where_they_are_asked_to() -> None:
    assert spec_of(recipe=VERL, image="verlai/verl:v1").path is Submission.RAY
    assert spec_of().path is Submission.HYPERPOD
    assert spec_of(submission="sagemaker").path is Submission.SAGEMAKER
    with pytest.raises(ValidationError) as caught:
        spec_of(recipe=VERL, submission="sagemaker")
    assert "the recipe verl is submitted by ray" in str(caught.value)


def test_sagemaker_keeps_the_logs_itself_so_that_no_stage_does() -> None:
    assert "logs" in stages(spec_of())
    assert "logs" in stages(spec_of(recipe=VERL, image="verlai/verl:v1"))
    assert "logs" not in stages(spec_of(submission="sagemaker"))


def test_what_is_paid_for_beside_the_cluster_needs_a_persons_word() -> None:
    assert RUN_TRAINING.grave is not None
    assert RUN_TRAINING.grave(spec_of(submission="sagemaker"))
    assert not RUN_TRAINING.grave(spec_of())
    assert not RUN_TRAINING.grave(spec_of(recipe=VERL, image="verlai/verl:v1"))


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"ray": {}}, "/ray"),
        ({"sagemaker": {}}, "/sagemaker"),
        (
            {"recipe": VERL, "image": "rayproject/ray:2.52.0", "ray": {"ray_version": "2.9.0"}},
            "/ray/ray_version",
        ),
        ({"recipe": VERL, "image": "verl:1", "spares": 1, "queue": {"queue": "q"}}, "/spares"),
    ],
)
def test_options_of_another_path_and_what_a_path_cannot_do_are_refused(members: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationError) as caught:
        spec_of(**members)
    (error,) = caught.value.errors()
    assert error["ctx"]["pointer"] == pointer


@pytest.mark.parametrize(
    ("document", "folders"),
    [
        ({"script": "/s3/code/train.py"}, ["/s3/code"]),
        ({"model": "/s3/models/Qwen2.5-7B"}, ["/s3/models/Qwen2.5-7B"]),
        (["--data=/s3/datasets/a.jsonl,/s3/datasets/b"], ["/s3/datasets"]),
        (["/s3/a/b", "/s3/a"], ["/s3/a"]),
        ("text about /s3 and /s30/other and x/s3/y", []),
        ({"output_dir": "/s3/checkpoints/lone/step-1"}, []),
        ("/s3/train.py", []),
        ("/s3/../etc/passwd", []),
    ],
)
def test_folders_are_found_where_a_recipe_names_them(document: Any, folders: list[str]) -> None:
    assert folders_named(document, ["/s3"], "/s3/checkpoints/lone") == folders


@given(st.lists(st.lists(PART, min_size=1, max_size=3), max_size=6))
def test_folders_never_lie_in_each_other_and_bring_everything_that_is_named(paths: list[list[str]]) -> None:
    named = ["/s3/" + "/".join(parts) for parts in paths]
    found = folders_named(named, ["/s3"], None)
    assert not [(a, b) for a in found for b in found if a != b and f"{a}/".startswith(f"{b}/")]
    for path in named:
        folder = path.rpartition("/")[0]
        covered = any(f"{path}/".startswith(f"{each}/") or f"{folder}/".startswith(f"{each}/") for each in found)
        assert covered or folder == "/s3"
