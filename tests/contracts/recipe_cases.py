"""Recipes that are well, what is made of them, and configurations of any kind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from contracts.commands import Finding
from contracts.model import Model
from contracts.problem import field_errors
from contracts.recipes import Recipe
from contracts.recipes.launch import Launch
from contracts.recipes.shape import Shape


class Run(Model):
    """What has a recipe as one of its members."""

    recipe: Recipe


ADAPTER: TypeAdapter[Any] = TypeAdapter(Recipe)
TWO_BY_EIGHT = Shape(nodes=2, gpus_per_node=8, efa_per_node=4)
GOOD: dict[str, dict[str, Any]] = {
    "pytorch": {"script_path": "/s3/code/train.py"},
    "script": {"project_path": "/s3/code", "entry": "src/train.py"},
    "llama-factory": {
        "config": {
            "model_name_or_path": "/s3/models/Qwen-Qwen3-8B",
            "dataset": "alpaca",
            "template": "qwen3",
            "output_dir": "/s3/out",
            "deepspeed": "examples/deepspeed/ds_z3_config.json",
        }
    },
    "ms-swift": {"config": {"model": "/s3/m", "dataset": ["a"], "output_dir": "/s3/out"}},
    "verl": {
        "config": {
            "data": {"train_files": "/s3/a.parquet", "train_batch_size": 256},
            "actor_rollout_ref": {"model": {"path": "/s3/m"}, "rollout": {"n": 8}},
            "trainer": {"save_freq": 10, "default_local_dir": "/s3/out"},
        }
    },
    "torchtitan": {
        "config": {
            "job": {"dump_folder": "/s3/out"},
            "training": {"steps": 10, "seq_len": 4096},
            "checkpoint": {"enable": True},
        }
    },
}


def recipe(kind: str, **members: Any) -> Any:
    return ADAPTER.validate_python({"kind": kind, **members})


def launched(kind: str, shape: Shape = TWO_BY_EIGHT, **members: Any) -> Launch:
    made = recipe(kind, **members)
    found: Launch = made.launch(shape, made.submissions[0])
    return found


def program(launch: Launch) -> list[str]:
    return launch.argv[launch.argv.index("--") + 1 :]


def rules(kind: str, shape: Shape = TWO_BY_EIGHT, **members: Any) -> dict[str, Finding]:
    return {found.rule: found for found in recipe(kind, **members).findings(shape)}


def fault(kind: str, **members: Any) -> tuple[str, str]:
    """Pointer and text of the first fault."""
    with pytest.raises(ValidationError) as caught:
        Run.model_validate({"recipe": {"kind": kind, **members}})
    first = field_errors(caught.value, model=Run)[0]
    return first.field.removeprefix("/recipe"), first.detail


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=10)
