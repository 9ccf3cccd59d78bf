"""What recipes start: words, files and configurations as each framework reads them."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from contracts.recipes.configs import flags, flattened, read_config
from contracts.recipes.launch import RECIPE_MOUNT
from contracts.recipes.torchtitan import toml_text
from contracts.recipes.verl import override
from tests.contracts.recipe_cases import (
    KEYS,
    VALUES,
    launched,
    program,
)


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
