"""Recipes as forms: what each framework is asked with."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from contracts import endpoints
from contracts.recipes import RECIPES
from contracts.recipes.catalogue import RecipeInfo
from ui.fields import Entered, Fields
from ui.kept import kept
from ui.marks import lines_field
from ui.session import gateway

_SECONDS = 600.0
_PATH, _TEXT, _MODULE = "A file on the storage", "Text", "A module of the image"
_CONFIG_HEIGHT = 230
_LLAMA = """model_name_or_path: /s3/models/Qwen-Qwen3-0.6B
dataset: identity
template: qwen3
stage: sft
finetuning_type: lora
output_dir: /s3/checkpoints/qwen3-sft
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3
save_steps: 500
bf16: true
"""
_SWIFT = """model: /s3/models/Qwen-Qwen3-0.6B
dataset: /s3/datasets/alpaca
output_dir: /s3/checkpoints/qwen3-sft
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
save_steps: 500
"""
_VERL = """data:
  train_files: /s3/datasets/gsm8k/train.parquet
  val_files: /s3/datasets/gsm8k/test.parquet
  train_batch_size: 256
actor_rollout_ref:
  model:
    path: /s3/models/Qwen-Qwen3-0.6B
  rollout:
    n: 4
    tensor_model_parallel_size: 1
algorithm:
  adv_estimator: grpo
trainer:
  save_freq: 50
  default_local_dir: /s3/checkpoints/qwen3-grpo
"""
_TITAN = """[model]
name = "llama3"
flavor = "8B"
hf_assets_path = "/s3/models/Llama-3.1-8B"

[training]
steps = 1000
seq_len = 8192
local_batch_size = 1

[checkpoint]
enable = true
folder = "/s3/checkpoints/llama3-8b"
interval = 500
"""
_EXAMPLES = {"llama-factory": _LLAMA, "ms-swift": _SWIFT, "verl": _VERL, "torchtitan": _TITAN}


def recipes() -> dict[str, RecipeInfo]:
    """By kind, in the order that people are shown them. Raises GatewayProblem."""
    found = kept("recipes", _SECONDS, lambda: gateway().call(endpoints.LIST_RECIPES))
    return {each.kind: each for each in found.recipes if each.kind in RECIPES}


def recipe_fields(fields: Fields, info: RecipeInfo) -> Entered:
    """Draw the fields of a recipe and return what was entered. ``fields``: of the run, which the recipe is part of."""
    st.caption(info.description)
    recipe = Fields(RECIPES[info.kind], recipe_key(fields.key, info.kind), fields.faults, "/recipe", fields.disabled)
    return {"recipe": {"kind": info.kind} | _DRAWN[info.kind](recipe)}


def recipe_key(form: str, kind: str) -> str:
    """What widgets of a recipe are called: each kind has its own."""
    return f"{form}/recipe/{kind}"


def _source(recipe: Fields, options: list[str]) -> str:
    """Where the program or the configuration comes from."""
    chosen: str = st.segmented_control(
        "It comes from",
        options,
        default=options[0],
        required=True,
        key=f"{recipe.key}/source",
        disabled=recipe.disabled,
    )
    return chosen


def _pytorch(recipe: Fields) -> Entered:
    source = _source(recipe, [_PATH, _TEXT, _MODULE])
    if source == _TEXT:
        entered = recipe.area("script_text", "Text of the script", "import torch\n…", _CONFIG_HEIGHT)
    elif source == _MODULE:
        entered = recipe.text("module", "Module", "e.g. my_package.train")
    else:
        entered = recipe.text("script_path", "Script", "/s3/code/train.py")
    left, right = st.columns(2)
    with left:
        entered |= lines_field(recipe, "arguments", "Arguments", "--max-steps=5000")
    with right:
        entered |= recipe.text("working_directory", "Working directory", "the script's own folder")
        entered |= recipe.text("requirements", "Requirements to install", "none")
    return entered


def _script(recipe: Fields) -> Entered:
    folder, entry = st.columns(2)
    with folder:
        entered = recipe.text("project_path", "Folder of the project", "/s3/code/my-project")
        entered |= recipe.text("requirements", "Requirements to install")
    with entry:
        entered |= recipe.text("entry", "File to start", "train.py")
        entered |= lines_field(recipe, "arguments", "Arguments", "--max-steps=5000")
    return entered


def _config(recipe: Fields, kind: str, label: str) -> Entered:
    key = f"{recipe.key}/config"
    st.button(
        "Begin with an example",
        key=f"{recipe.key}/example",
        icon=":material/lightbulb:",
        type="tertiary",
        disabled=recipe.disabled or bool(st.session_state.get(key)),
        on_click=lambda: st.session_state.update({key: _EXAMPLES[kind]}),
    )
    return recipe.area("config", label, "", _CONFIG_HEIGHT)


def _overrides(recipe: Fields) -> Entered:
    left, right = st.columns(2)
    with left:
        entered = recipe.area("overrides", "Options that win, as YAML", "learning_rate: 2.0e-5", 110)
    with right:
        entered |= recipe.text("working_directory", "Working directory", "the image's own")
    return entered


def _configured(recipe: Fields, kind: str) -> Entered:
    if _source(recipe, [_TEXT, _PATH]) == _TEXT:
        entered = _config(recipe, kind, "Configuration, as YAML")
    else:
        entered = recipe.text("config_path", "Configuration", "/s3/configs/sft.yaml")
    return entered | _overrides(recipe)


def _llama_factory(recipe: Fields) -> Entered:
    return _configured(recipe, "llama-factory")


def _ms_swift(recipe: Fields) -> Entered:
    engine, command = st.columns(2)
    with engine:
        entered = recipe.choice("engine", "Engine")
    with command:
        entered |= recipe.choice("command", "Command")
    return entered | _configured(recipe, "ms-swift")


def _verl(recipe: Fields) -> Entered:
    entered = _config(recipe, "verl", "Options, as YAML")
    left, right = st.columns(2)
    with left:
        entered |= recipe.text("module", "Driver")
        entered |= recipe.text("script_path", "or a driver of your own", "/s3/code/my_driver.py")
    with right:
        entered |= recipe.text("config_path", "Configuration in place of the driver's", "/s3/configs/ppo.yaml")
        entered |= recipe.text("working_directory", "Working directory", "the image's own")
    return entered


def _torchtitan(recipe: Fields) -> Entered:
    source = _source(recipe, [_TEXT, _PATH, _MODULE])
    if source == _TEXT:
        entered = _config(recipe, "torchtitan", "Configuration, as TOML")
    elif source == _PATH:
        entered = recipe.text("config_path", "Configuration", "/s3/configs/llama3_8b.toml")
    else:
        left, right = st.columns(2)
        with left:
            entered = recipe.text("module", "Module", "e.g. llama3")
        with right:
            entered |= recipe.text("config_name", "Configuration of the module", "e.g. llama3_8b")
    entered |= _overrides(recipe)
    return entered | recipe.text("train_module", "What is started")


_DRAWN: dict[str, Callable[[Fields], Entered]] = {
    "pytorch": _pytorch,
    "script": _script,
    "llama-factory": _llama_factory,
    "ms-swift": _ms_swift,
    "verl": _verl,
    "torchtitan": _torchtitan,
}

SOURCES = {
    "pytorch": {"script_path": _PATH, "script_text": _TEXT, "module": _MODULE},
    "llama-factory": {"config": _TEXT, "config_path": _PATH},
    "ms-swift": {"config": _TEXT, "config_path": _PATH},
    "torchtitan": {"config": _TEXT, "config_path": _PATH, "module": _MODULE},
}
"""By kind: which member stands for which choice of where it comes from."""
