"""LLaMA-Factory: ``llamafactory-cli train`` with its YAML, started by the launcher of the path.

Its own command line starts torchrun, which hyperpodrun takes the place of; so the module behind it is started, as
LLaMA-Factory's torchrun does. It reads the first argument as a file only where it ends in ``.yaml`` (its branch for
``.json`` fails in 0.9.3 to 0.9.5), and ``key=value`` behind it as corrections.
(llamafactory/launcher.py; llamafactory/hparams/parser.py: read_args, get_train_args; finetuning_args.py)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from contracts.commands import Finding, Severity
from contracts.model import fault
from contracts.recipes import deepspeed, trainer
from contracts.recipes.base import ContainerPath, RecipeBase, finding
from contracts.recipes.configs import Config, count, is_on, number, read_value
from contracts.recipes.launch import RECIPE_MOUNT, Launch, entry, environment
from contracts.recipes.shape import Shape

FILE = "llama-factory.yaml"
IMAGE = "docker.io/hiyouga/llamafactory:0.9.4"
"""The project's own. It has no EFA: for several nodes build recipes/llama_factory/Containerfile."""
STAGES = ("pt", "sft", "rm", "ppo", "dpo", "kto")
METHODS = ("lora", "oft", "freeze", "full")


class LlamaFactoryRecipe(RecipeBase):
    """LLaMA-Factory: pre-training, fine-tuning and preference training by a configuration."""

    kind: Literal["llama-factory"] = "llama-factory"
    config: Config | None = None
    """Its YAML or JSON, as an object or as text."""
    config_path: ContainerPath | None = None
    """Or a YAML file on the storage, which is not looked into here."""
    overrides: Config = Field(default_factory=dict)
    """Options that win over the file's or the configuration's."""
    working_directory: ContainerPath | None = None
    """Where relative paths of the configuration begin, e.g. of ``dataset_dir``; null: the image's own."""

    title: ClassVar[str] = "LLaMA-Factory"
    image: ClassVar[str | None] = IMAGE
    progress: ClassVar[str] = "trainer"

    @model_validator(mode="after")
    def _one_source(self) -> LlamaFactoryRecipe:
        if (self.config is None) == (self.config_path is None):
            raise fault("/config", "give either config or config_path")
        if self.config_path is not None and not self.config_path.endswith((".yaml", ".yml")):
            raise fault("/config_path", "LLaMA-Factory takes a file for its configuration only where it ends in .yaml")
        return self

    @property
    def options(self) -> dict[str, Any]:
        """What is known of the configuration here."""
        return {**(self.config or {}), **self.overrides}

    @property
    def planned_steps(self) -> int | None:
        return count(self.options.get("max_steps"))

    def launch(self, shape: Shape, submission: str) -> Launch:
        if self.config is None:
            files, path = {}, str(self.config_path)
            words = [f"{key}={_value(value)}" for key, value in self.overrides.items()]
        else:
            # JSON is YAML, and LLaMA-Factory would write nothing without do_train.
            merged = {"do_train": True, **self.options}
            files, path = {FILE: json.dumps(merged, indent=2, ensure_ascii=False) + "\n"}, f"{RECIPE_MOUNT}/{FILE}"
            words = []
        program = ["-m", "llamafactory.launcher", path, *words]
        tracked = () if trainer.reports(self.options) else ("report_to=mlflow",)
        argv = entry(
            shape,
            submission,
            program,
            chdir=self.working_directory,
            tracked=tracked,
            look_into=self.config_path,
        )
        # Without it LLaMA-Factory refuses DeepSpeed, although it was started by a launcher.
        return Launch(argv=argv, files=files, env={**environment(shape), "FORCE_TORCHRUN": "1"}, image=self.image)

    def examine(self, shape: Shape) -> Iterator[Finding]:
        options = self.options
        if self.config is None:
            # The file says the rest; only what stands here can be wrong here.
            yield from _examine_stated(options, shape, "overrides")
            return
        yield from _examine_stated(options, shape, "config")
        yield from trainer.examine(options, "config")
        method = str(options.get("finetuning_type", "lora"))
        yield from trainer.full_precision_memory(options, "config", shape.world, method)
        for name, remedy in (
            ("model_name_or_path", "Name a folder such as /s3/models/Qwen-Qwen3-0.6B, or an ID of Hugging Face."),
            ("dataset", "Name a data set of dataset_info.json."),
        ):
            if not options.get(name):
                yield finding("missing", Severity.ERROR, f"config/{name}", f"there is no {name}", remedy)
        if options.get("stage", "sft") != "pt" and not options.get("template"):
            yield finding(
                "template",
                Severity.WARNING,
                "config/template",
                "there is no template: the model's own chat template is guessed",
                "Name the model family's template, e.g. qwen3.",
            )


def _examine_stated(options: dict[str, Any], shape: Shape, field: str) -> Iterator[Finding]:
    """Rules of the parser, each about options that are there."""

    def error(rule: str, name: str, message: str, remedy: str | None = None) -> Finding:
        return finding(rule, Severity.ERROR, f"{field}/{name}", message, remedy)

    stage, method = options.get("stage", "sft"), options.get("finetuning_type", "lora")
    if stage not in STAGES:
        yield error("stage", "stage", f"there is no stage {stage!r}", f"Use one of {', '.join(STAGES)}.")
    if method not in METHODS:
        message = f"there is no method {method!r}"
        yield error("method", "finetuning_type", message, f"Use one of {', '.join(METHODS)}.")
    cutoff = number(options.get("cutoff_len"))
    if cutoff is not None and cutoff < 1:
        yield error("cutoff", "cutoff_len", f"cutoff_len is {cutoff}", "Use the longest sequence in tokens, e.g. 2048.")
    if options.get("quantization_bit") is not None and method not in ("lora", "oft"):
        message = f"a quantized model is trained with lora or oft, not {method}"
        yield error("quantization", "quantization_bit", message)
    if options.get("val_size") and options.get("eval_dataset"):
        message = "val_size and eval_dataset are both given"
        yield error("evaluation", "val_size", message, "Keep one of them.")
    if is_on(options.get("streaming")):
        if (number(options.get("max_steps")) or -1) <= 0:
            message = "a streamed data set has no length, so max_steps must say when to end"
            yield error("streaming", "max_steps", message)
        if options.get("max_samples") is not None:
            yield error("streaming", "max_samples", "max_samples does not go with streaming", "Remove it.")
    if stage == "ppo":
        if not options.get("reward_model"):
            yield error("reward-model", "reward_model", "PPO needs a reward_model")
        targets = options.get("report_to")
        named = targets if isinstance(targets, list) else [targets]
        if "mlflow" in named or "all" in named:
            message = "LLaMA-Factory's PPO reports to wandb, tensorboard or trackio only"
            yield error("reporting", "report_to", message, "Set report_to to tensorboard.")
    if is_on(options.get("predict_with_generate")) and stage != "sft":
        yield error("generation", "predict_with_generate", "predict_with_generate goes with stage sft only")
    yield from deepspeed.examine(options.get("deepspeed"), f"{field}/deepspeed", shape)


def _value(value: Any) -> str:
    """A value as OmegaConf reads it on a command line: YAML. Text that YAML would take for something else is quoted."""
    if isinstance(value, str) and read_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False)
