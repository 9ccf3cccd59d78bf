"""Recipes: what all of them keep, and what they refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from contracts.problem import field_errors
from contracts.recipes import RECIPES
from contracts.recipes.catalogue import recipe_list
from contracts.recipes.configs import read_config
from contracts.recipes.launch import RECIPE_MOUNT
from contracts.recipes.shape import Shape
from tests.contracts.recipe_cases import (
    ADAPTER,
    GOOD,
    KEYS,
    TWO_BY_EIGHT,
    VALUES,
    Run,
    fault,
    recipe,
)


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
