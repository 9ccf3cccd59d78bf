"""What is reckoned of a recipe beforehand: arithmetic that does not come out, and what may surprise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.commands import Severity
from contracts.recipes.shape import Shape
from tests.contracts.recipe_cases import GOOD, recipe, rules

LF = GOOD["llama-factory"]["config"]
SW = GOOD["ms-swift"]["config"]
TT = {"checkpoint.enable": True, "job": {"dump_folder": "/s3/o"}}


@pytest.mark.parametrize(
    ("kind", "members", "rule", "field"),
    [
        ("llama-factory", {"config": {**LF, "stage": "grpo"}}, "stage", "/recipe/config/stage"),
        ("llama-factory", {"config": {**LF, "finetuning_type": "qlora"}}, "method", "/recipe/config/finetuning_type"),
        ("llama-factory", {"config": {**LF, "cutoff_len": 0}}, "cutoff", "/recipe/config/cutoff_len"),
        (
            "llama-factory",
            {"config": {**LF, "finetuning_type": "full", "quantization_bit": 4}},
            "quantization",
            "/recipe/config/quantization_bit",
        ),
        ("llama-factory", {"config": {**LF, "streaming": True}}, "streaming", "/recipe/config/max_steps"),
        ("llama-factory", {"config": {**LF, "stage": "ppo"}}, "reward-model", "/recipe/config/reward_model"),
        ("llama-factory", {"config": {**LF, "bf16": True, "fp16": "true"}}, "precision", "/recipe/config/fp16"),
        (
            "llama-factory",
            {"config": {**LF, "val_size": 0.1, "eval_dataset": "x"}},
            "evaluation",
            "/recipe/config/val_size",
        ),
        ("llama-factory", {"config": {"model_name_or_path": "m"}}, "missing", "/recipe/config/dataset"),
        (
            "llama-factory",
            {"config": {**LF, "deepspeed": {"zero_optimization": {"stage": 4}}}},
            "zero-stage",
            "/recipe/config/deepspeed/zero_optimization/stage",
        ),
        (
            "llama-factory",
            {
                "config": {
                    **LF,
                    "deepspeed": {
                        "train_batch_size": 100,
                        "train_micro_batch_size_per_gpu": 2,
                        "gradient_accumulation_steps": 4,
                    },
                }
            },
            "global-batch",
            "/recipe/config/deepspeed/train_batch_size",
        ),
        (
            "llama-factory",
            {"config": {**LF, "per_device_train_batch_size": 0}},
            "not-positive",
            "/recipe/config/per_device_train_batch_size",
        ),
        (
            "llama-factory",
            {"config_path": "/s3/a.yaml", "overrides": {"stage": "x"}},
            "stage",
            "/recipe/overrides/stage",
        ),
        ("ms-swift", {"config": {**SW, "deepspeed": "zero4"}}, "deepspeed-name", "/recipe/config/deepspeed"),
        (
            "ms-swift",
            {"command": "rlhf", "config": {**SW, "rlhf_type": "rloo"}},
            "rlhf-type",
            "/recipe/config/rlhf_type",
        ),
        ("ms-swift", {"config": {**SW, "rlhf_type": "dpo"}}, "rlhf-type", "/recipe/config/rlhf_type"),
        (
            "ms-swift",
            {"engine": "megatron", "config": {**SW, "tensor_model_parallel_size": 3}},
            "parallel-sizes",
            "/recipe/config/tensor_model_parallel_size",
        ),
        (
            "ms-swift",
            {"engine": "megatron", "config": {**SW, "global_batch_size": 20}},
            "global-batch",
            "/recipe/config/global_batch_size",
        ),
        (
            "ms-swift",
            {"engine": "megatron", "config": {**SW, "expert_model_parallel_size": 5}},
            "parallel-sizes",
            "/recipe/config/expert_model_parallel_size",
        ),
        (
            "ms-swift",
            {"engine": "megatron", "config": {**SW, "deepspeed": "zero3"}},
            "deepspeed",
            "/recipe/config/deepspeed",
        ),
        ("verl", {"config": {"trainer": {"nnodes": 3}}}, "shape", "/recipe/config/trainer/nnodes"),
        ("verl", {"config": {"trainer.n_gpus_per_node": 4}}, "shape", "/recipe/config/trainer.n_gpus_per_node"),
        (
            "verl",
            {"config": {"actor_rollout_ref.rollout.tensor_model_parallel_size": 3}},
            "parallel-sizes",
            "/recipe/config/actor_rollout_ref.rollout.tensor_model_parallel_size",
        ),
        (
            "verl",
            {"config": {"data": {"train_batch_size": 100}}},
            "global-batch",
            "/recipe/config/data/train_batch_size",
        ),
        (
            "verl",
            {"config": {"data.train_batch_size": 16, "actor_rollout_ref.actor.ppo_mini_batch_size": 32}},
            "mini-batch",
            "/recipe/config/actor_rollout_ref.actor.ppo_mini_batch_size",
        ),
        (
            "torchtitan",
            {"config": {**TT, "parallelism": {"tensor_parallel_degree": 3}}},
            "parallel-sizes",
            "/recipe/config/parallelism/tensor_parallel_degree",
        ),
        (
            "torchtitan",
            {"config": {**TT, "parallelism": {"data_parallel_shard_degree": 4, "tensor_parallel_degree": 2}}},
            "parallel-sizes",
            "/recipe/config/parallelism/data_parallel_shard_degree",
        ),
        (
            "torchtitan",
            {"config": {**TT, "parallelism": {"expert_parallel_degree": 3}}},
            "parallel-sizes",
            "/recipe/config/parallelism/expert_parallel_degree",
        ),
        (
            "torchtitan",
            {"config": {**TT, "training": {"seq_len": 1001}, "parallelism": {"context_parallel_degree": 2}}},
            "sequence-length",
            "/recipe/config/training/seq_len",
        ),
        (
            "torchtitan",
            {"config": {**TT, "training": {"local_batch_size": 1, "global_batch_size": 24}}},
            "global-batch",
            "/recipe/config/training/global_batch_size",
        ),
        (
            "torchtitan",
            {"config": TT, "overrides": {"training": {"steps": 0}}},
            "not-positive",
            "/recipe/overrides/training/steps",
        ),
    ],
)
def test_arithmetic_that_does_not_come_out_is_an_error_at_its_field(
    kind: str, members: dict[str, Any], rule: str, field: str
) -> None:
    found = rules(kind, **members)[rule]
    assert (found.severity, found.field) == (Severity.ERROR, field)


@pytest.mark.parametrize(
    ("kind", "members", "rule"),
    [
        ("llama-factory", {"config": {**LF, "output_dir": "/tmp/out"}}, "output-vanishes"),
        ("llama-factory", {"config": {**LF, "output_dir": "saves/x"}}, "output-vanishes"),
        ("llama-factory", {"config": {**LF, "output_dir": None}}, "output-missing"),
        ("llama-factory", {"config": {**LF, "save_strategy": "no"}}, "never-saved"),
        ("llama-factory", {"config": {**LF, "template": None}}, "template"),
        ("ms-swift", {"config": {**SW, "output_dir": "/local/out"}}, "output-vanishes"),
        ("verl", {"config": {"data.train_files": "a", "actor_rollout_ref.model.path": "m"}}, "never-saved"),
        ("verl", {"config": {"algorithm": {"adv_estimator": "grpo"}}}, "samples"),
        ("torchtitan", {"config": {"training": {"steps": 1}}}, "never-saved"),
        ("torchtitan", {"config": {"checkpoint": {"enable": True}}}, "output-vanishes"),
        ("pytorch", {"module": "a", "arguments": ["--tensor-parallel-size", "3"]}, "parallel-sizes"),
        (
            "pytorch",
            {"module": "a", "arguments": ["--global_batch_size=100", "--micro-batch-size", "2"]},
            "global-batch",
        ),
    ],
)
def test_what_may_surprise_is_a_warning(kind: str, members: dict[str, Any], rule: str) -> None:
    assert rules(kind, **members)[rule].severity is Severity.WARNING


def test_what_a_shell_would_expand_is_told_of() -> None:
    found = rules("pytorch", module="a", arguments=["--out", "${HOME}/x"])["not-expanded"]
    assert (found.severity, found.field) == (Severity.INFO, "/recipe/arguments/1")


@given(
    nodes=st.integers(1, 64),
    gpus=st.integers(1, 8),
    tensor=st.integers(1, 16),
    pipeline=st.integers(1, 16),
    context=st.integers(1, 8),
    micro=st.integers(1, 8),
    total=st.integers(1, 4096),
)
def test_megatrons_sizes_are_admitted_exactly_where_they_divide(
    nodes: int, gpus: int, tensor: int, pipeline: int, context: int, micro: int, total: int
) -> None:
    config = {
        **SW,
        "tensor_model_parallel_size": tensor,
        "pipeline_model_parallel_size": pipeline,
        "context_parallel_size": context,
        "micro_batch_size": micro,
        "global_batch_size": total,
    }
    found = recipe("ms-swift", engine="megatron", config=config).findings(Shape(nodes=nodes, gpus_per_node=gpus))
    split, world = tensor * pipeline * context, nodes * gpus
    fits = world % split == 0 and total % (micro * (world // split)) == 0
    assert fits == (not any(each.severity is Severity.ERROR for each in found))
