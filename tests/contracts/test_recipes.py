"""Recipes: what they start, what is reckoned beforehand, and what they refuse."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from contracts.commands import Finding, Severity
from contracts.model import Model
from contracts.problem import field_errors
from contracts.recipes import RECIPES, Recipe
from contracts.recipes.catalogue import recipe_list
from contracts.recipes.configs import flags, flattened, read_config
from contracts.recipes.launch import RECIPE_MOUNT, Launch
from contracts.recipes.shape import Shape
from contracts.recipes.torchtitan import toml_text
from contracts.recipes.verl import override


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


@pytest.mark.parametrize("kind", RECIPES)
def test_a_plain_recipe_has_nothing_wrong_and_keeps_the_data_contract(kind: str) -> None:
    made = recipe(kind, **GOOD[kind])
    assert made.findings(TWO_BY_EIGHT) == []
    for submission in made.submissions:
        launch = made.launch(TWO_BY_EIGHT, submission)
        assert launch.argv[:2] == ["python3", f"{RECIPE_MOUNT}/entry.py"]
        for name in ("HF_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TMPDIR"):
            assert launch.env[name].startswith("/local/")
        assert launch.env["FI_PROVIDER"] == "efa"
        assert "FI_PROVIDER" not in made.launch(Shape(nodes=1, gpus_per_node=1), submission).env


@pytest.mark.parametrize("kind", RECIPES)
def test_a_recipe_survives_its_own_json(kind: str) -> None:
    made = recipe(kind, **GOOD[kind])
    assert ADAPTER.validate_json(made.model_dump_json()) == made


def test_every_recipe_is_in_the_catalogue_with_a_schema_that_names_its_members() -> None:
    listed = {each.kind: each for each in recipe_list().recipes}
    assert list(listed) == list(RECIPES)
    for kind, info in listed.items():
        properties = info.json_schema["properties"]
        assert isinstance(properties, dict)
        assert set(properties) == set(RECIPES[kind].model_fields)
        assert info.defaults["kind"] == kind
        assert info.image is None or ":" in info.image.rpartition("/")[2]


SECRET = "hf_" + "a" * 30


@pytest.mark.parametrize(
    ("kind", "members", "pointer"),
    [
        ("pytorch", {"module": "a", "arguments": ["--hub_token", SECRET]}, "/arguments/1"),
        ("pytorch", {"module": "a", "arguments": ["--wandb-api-key", "0" * 40]}, "/arguments/1"),
        ("pytorch", {"module": "a", "arguments": ["--wandb-api-key=" + "0" * 40]}, "/arguments/0"),
        ("pytorch", {"script_text": f"import os\nos.environ['A'] = '{SECRET}'\n"}, "/script_text"),
        ("llama-factory", {"config": {"hf_hub_token": "x" * 20}}, "/config/hf_hub_token"),
        ("llama-factory", {"config": f"a: 1\nb: {SECRET}\n"}, "/config/b"),
        (
            "llama-factory",
            {"config": {"headers": ["Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.x"]}},
            "/config/headers/0",
        ),
        ("llama-factory", {"config": {"a": "Bearer 0123456789abcdef0123"}}, "/config/a"),
        ("llama-factory", {"config": {"url": "https://user:pass@example.com/x"}}, "/config/url"),
        ("llama-factory", {"config": {}, "overrides": {"swanlab_api_key": "abcdefgh"}}, "/overrides/swanlab_api_key"),
        ("pytorch", {"module": "a", "arguments": ["+wandb.api_key=abcdefgh"]}, "/arguments/0"),
        ("pytorch", {"module": "a", "arguments": ["++hub/login.token=abcdefgh"]}, "/arguments/0"),
        ("pytorch", {"module": "a", "arguments": ["--db-pwd", "abcdefgh"]}, "/arguments/1"),
        ("pytorch", {"module": "a", "arguments": ["--key-passphrase=abcdefgh"]}, "/arguments/0"),
        ("ms-swift", {"config": {"env": {"AWS_SECRET_ACCESS_KEY": "x" * 40}}}, "/config/env/AWS_SECRET_ACCESS_KEY"),
        ("verl", {"config": {"trainer": {"wandb_api_key": "k" * 40}}}, "/config/trainer/wandb_api_key"),
        ("torchtitan", {"config": "[a]\nkey = 'AKIA" + "A" * 16 + "'\n"}, "/config/a/key"),
    ],
)
def test_a_secret_anywhere_in_a_recipe_is_refused_where_it_stands_and_not_repeated(
    kind: str, members: dict[str, Any], pointer: str
) -> None:
    where, detail = fault(kind, **members)
    assert where == pointer
    assert "credential" in detail
    assert SECRET not in detail


@pytest.mark.parametrize(
    "config",
    [
        {"eos_token": "<|im_end|>", "pad_token": "PAD", "image_token": "IMG", "use_fast_tokenizer": True},
        {"max_new_tokens": 100, "hf_hub_token": None, "hub_private_repo": "true", "api_key": ""},
        {"url": "https://user:${PASSWORD}@example.com", "a": "https://example.com:443/@x", "b": "bearer of bad news"},
        {"resize_vocab": True, "new_special_tokens": "<a>,<b>", "sk": "sk-short"},
    ],
)
def test_words_of_a_vocabulary_and_switches_are_no_secrets(config: dict[str, Any]) -> None:
    recipe("llama-factory", config=config)


@pytest.mark.parametrize(
    ("kind", "members", "pointer"),
    [
        ("pytorch", {}, "/script_path"),
        ("pytorch", {"module": "a", "script_text": "b"}, "/script_path"),
        ("pytorch", {"script_path": "/s3/run.sh"}, "/script_path"),
        ("pytorch", {"script_path": "relative.py"}, "/script_path"),
        ("pytorch", {"script_path": "/s3/../etc/x.py"}, "/script_path"),
        ("pytorch", {"script_text": "def (:"}, "/script_text"),
        ("pytorch", {"module": "a; rm -rf /"}, "/module"),
        ("pytorch", {"module": "a", "arguments": ["a\0b"]}, "/arguments/0"),
        ("script", {"project_path": "/s3/a", "entry": "../b.py"}, "/entry"),
        ("script", {"project_path": "/s3/a", "entry": "/b.py"}, "/entry"),
        ("script", {"project_path": "/s3/a", "entry": "run.sh"}, "/entry"),
        ("llama-factory", {}, "/config"),
        ("llama-factory", {"config": {"learning_rate": float("nan")}}, "/config"),
        ("llama-factory", {"config": {"a": [{"b": float("inf")}]}}, "/config"),
        ("llama-factory", {"config": {}, "config_path": "/s3/a.yaml"}, "/config"),
        ("llama-factory", {"config_path": "/s3/a.json"}, "/config_path"),
        ("llama-factory", {"config": "- a\n- b\n"}, "/config"),
        ("llama-factory", {"config": "a: [1\n"}, "/config"),
        ("llama-factory", {"config": "a: &x [1]\nb: [*x, *x]\n"}, "/config"),
        ("llama-factory", {"config": "a: .nan\n"}, "/config"),
        ("llama-factory", {"config": "a: 1\nb: 2\na: 3\n"}, "/config"),
        ("llama-factory", {"config": {"a": "x" * 70_000}}, "/config"),
        ("llama-factory", {"config": {"a": json.loads("[" * 50 + "]" * 50)}}, "/config"),
        ("llama-factory", {"config": {"a": json.loads("[" * 900 + "]" * 900)}}, "/config"),
        ("torchtitan", {"config": {"a": json.loads("[" * 50 + "]" * 50)}}, "/config"),
        ("pytorch", {"module": "a", "arguments": ["x" * 30_000] * 5}, "/arguments"),
        ("llama-factory", {"config": "a: 1\n" + "#" * 70_000}, "/config"),
        ("llama-factory", {"config": "!!python/object/apply:os.system ['true']"}, "/config"),
        ("ms-swift", {"config": {}, "engine": "deepspeed"}, "/engine"),
        ("ms-swift", {"config": {}, "command": "infer"}, "/command"),
        ("verl", {"config": {"a b": 1}}, "/config"),
        ("verl", {"config": {"a": [{"b c": 1}]}}, "/config"),
        ("verl", {"config": {"a": [[{"null": 1}]]}}, "/config"),
        ("verl", {"script_path": "/s3/run.sh"}, "/script_path"),
        ("torchtitan", {"config": "[a\n"}, "/config"),
        ("torchtitan", {"module": "llama3"}, "/config_name"),
        ("torchtitan", {}, "/config"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_field(kind: str, members: dict[str, Any], pointer: str) -> None:
    assert fault(kind, **members)[0] == pointer


def test_a_kind_that_there_is_not_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ValidationError) as caught:
        Run.model_validate({"recipe": {"kind": "lama-factory", "config": {}}})
    (only,) = field_errors(caught.value, model=Run)
    assert all(kind in (only.remedy or "") for kind in RECIPES)


def test_llama_factory_reads_its_configuration_from_a_file_that_ends_in_yaml_and_is_told_to_train() -> None:
    launch = launched("llama-factory", config="model_name_or_path: m\nlearning_rate: 1e-5\n", overrides={"seed": 7})
    assert program(launch) == ["-m", "llamafactory.launcher", f"{RECIPE_MOUNT}/llama-factory.yaml"]
    (text,) = launch.files.values()
    expected = {"do_train": True, "model_name_or_path": "m", "learning_rate": 1e-05, "seed": 7}
    assert json.loads(text) == expected
    assert "--tracked=report_to=mlflow" in launch.argv
    assert launch.env["FORCE_TORCHRUN"] == "1"


def test_numbers_and_dates_in_yaml_are_what_omegaconf_takes_them_for() -> None:
    read = read_config("a: 1e-5\nb: 1.5E+3\nc: 2026-11-30\nd: 2026-11-30T10:00:00Z\ne: '7'\nf: 0x10\n")
    assert read == {"a": 1e-5, "b": 1500.0, "c": "2026-11-30", "d": "2026-11-30T10:00:00Z", "e": "7", "f": 16}


def test_overrides_of_a_file_on_the_storage_are_words_that_omegaconf_reads() -> None:
    overrides = {
        "seed": 7,
        "bf16": True,
        "lora_target": "all",
        "report_to": ["tensorboard"],
        "x": None,
        "run_name": "yes",
    }
    launch = launched("llama-factory", config_path="/s3/a.yaml", overrides=overrides)
    assert program(launch)[2:] == [
        *(
            "/s3/a.yaml",
            "seed=7",
            "bf16=true",
            "lora_target=all",
            'report_to=["tensorboard"]',
            "x=null",
            'run_name="yes"',
        ),
    ]
    assert not any(word.startswith("--tracked") for word in launch.argv)


def test_ms_swift_gets_what_its_own_config_option_would_be_turned_into() -> None:
    config = {"model": "m", "dataset": ["a b", "c"], "model_kwargs": {"x": 1}, "packing": True, "learning_rate": 1e-5}
    launch = launched("ms-swift", engine="megatron", command="pt", config=config)
    assert program(launch) == [
        *("-m", "swift.cli._megatron.pt", "--model", "m", "--dataset", "a b", "c"),
        *("--model_kwargs", '{"x": 1}', "--packing", "True", "--learning_rate", "1e-05"),
    ]
    assert "--tracked=mlflow" not in launch.argv
    assert "--tracked=mlflow" in launched("ms-swift", config={"model": "m"}).argv


def test_verl_is_told_nodes_and_gpus_and_does_not_ask_for_weights_and_biases() -> None:
    launch = launched("verl", config={"data": {"train_files": ["/s3/a b.parquet"]}, "+actor.x": None})
    assert launch.argv[:4] == ["python3", f"{RECIPE_MOUNT}/entry.py", "--launcher", "none"]
    assert program(launch) == [
        *("-m", "verl.trainer.main_ppo", "data.train_files=['/s3/a b.parquet']", "+actor.x=null"),
        *("trainer.nnodes=2", "trainer.n_gpus_per_node=8", "trainer.logger=[console]"),
    ]
    mine = launched("verl", config={"trainer": {"logger": ["console", "wandb"], "nnodes": 2}})
    assert program(mine)[2:4] == ["trainer.logger=[console,wandb]", "trainer.nnodes=2"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain/path-1.0", "plain/path-1.0"),
        ("a b", "'a b'"),
        ("it's", r"'it\'s'"),
        ("back\\", r"'back\\'"),
        ("null", "'null'"),
        ("True", "'True'"),
        ("1", "'1'"),
        ("", "''"),
        ("ĦÉ", "'ĦÉ'"),
        ("${oc.env:X}", "'${oc.env:X}'"),
        ({"a": [1, None]}, "{a:[1,null]}"),
        (1e-5, "1e-05"),
        (False, "false"),
    ],
)
def test_a_value_is_written_so_that_hydra_reads_the_same(value: Any, written: str) -> None:
    assert override("x", value) == f"x={written}"


def test_torchtitan_gets_toml_and_switches_as_its_command_line_has_them() -> None:
    overrides = {"training": {"steps": 5}, "checkpoint.enable": False, "compile": {"enable": True}, "metrics.x": None}
    launch = launched("torchtitan", config="[model]\nname = 'llama3'\n", overrides=overrides)
    assert tomllib.loads(launch.files["torchtitan.toml"]) == {"model": {"name": "llama3"}}
    assert program(launch) == [
        *("-m", "torchtitan.train", "--job.config_file", f"{RECIPE_MOUNT}/torchtitan.toml"),
        *("--training.steps", "5", "--checkpoint.no-enable", "--compile.enable", "--metrics.x", "None"),
    ]
    newer = launched("torchtitan", module="llama3", config_name="llama3_8b")
    assert program(newer) == ["-m", "torchtitan.train", "--module", "llama3", "--config", "llama3_8b"]


VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
KEYS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=10)


@given(st.dictionaries(KEYS, VALUES, max_size=5))
@example({"a": "\x7f\x00\U0001f600", "b.c": {"d e": {"": [{"x": 1}]}}})
def test_any_configuration_is_the_same_when_it_is_read_from_toml(config: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(config)) == config


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_any_configuration_is_the_same_when_it_is_given_as_yaml_or_json_text(config: dict[str, Any]) -> None:
    assert read_config(json.dumps(config, ensure_ascii=False)) == config
    assert read_config(yaml.safe_dump(config, default_style='"')) == config


@given(st.dictionaries(st.text("ab_", min_size=1, max_size=8), VALUES, max_size=5))
def test_options_become_one_word_for_each_value(config: dict[str, Any]) -> None:
    words = flags(config)
    assert len(words) == sum(1 + (len(value) if isinstance(value, list) else 1) for value in config.values())
    position = 0
    for key, value in config.items():
        assert words[position] == f"--{key}"
        position += 1 + (len(value) if isinstance(value, list) else 1)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=4))
def test_flattening_loses_no_value(config: dict[str, Any]) -> None:
    def leaves(value: Any) -> int:
        return sum(map(leaves, value.values())) if isinstance(value, dict) and value else 1

    if not any("." in key or not key for key in _keys(config)):
        assert len(flattened(config)) == (leaves(config) if config else 0)


def _keys(value: Any) -> list[str]:
    if not isinstance(value, dict):
        return []
    return [*value, *(key for inner in value.values() for key in _keys(inner))]


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


@given(kind=st.sampled_from(["llama-factory", "ms-swift", "verl", "torchtitan"]), config=st.dictionaries(KEYS, VALUES))
@example(kind="verl", config={"trainer": [], "data": {"train_batch_size": "x"}, "actor_rollout_ref": {"rollout": 3}})
@example(kind="torchtitan", config={"parallelism": {"tensor_parallel_degree": 0}, "training": {"seq_len": -1}})
@example(kind="llama-factory", config={"deepspeed": {"zero_optimization": 3, "train_batch_size": []}, "stage": []})
@example(kind="ms-swift", config={"rlhf_type": [], "deepspeed": {}, "sequence_parallel_size": "8"})
def test_no_configuration_makes_a_recipe_fail_otherwise_than_by_a_fault(kind: str, config: dict[str, Any]) -> None:
    try:
        made = recipe(kind, config=config)
    except ValidationError:
        return
    for shape in (Shape(), TWO_BY_EIGHT, Shape(nodes=3, gpus_per_node=0)):
        made.findings(shape)
        launch = made.launch(shape, made.submissions[0])
        assert all(isinstance(word, str) for word in launch.argv)


@pytest.mark.parametrize(
    "text",
    [
        "{" + ",".join(f"{number}" for number in range(11_000)) + "}",
        "x: [" + "a," * 32_000 + "]",
        "[" * 60_000,
        "{a: " * 9_000,
        "- " * 30_000,
        "{? {a: 1, b: *x} : 1}",
    ],
)
def test_a_text_that_would_keep_its_reader_busy_is_refused_while_it_is_read(text: str) -> None:
    with pytest.raises(PydanticCustomError, match="cannot be read as YAML: it "):
        read_config(text)


def test_a_name_that_is_given_twice_is_refused_however_deep_it_is() -> None:
    with pytest.raises(PydanticCustomError, match="'b' is given twice"):
        read_config("a: {b: 1, c: 2, b: 3}")
