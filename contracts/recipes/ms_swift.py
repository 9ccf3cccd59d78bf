"""MS-Swift: ``swift`` (Transformers) and ``megatron`` (Megatron-Core) with pt, sft and rlhf.

Its command line starts torch.distributed.run, which the path's own launcher takes the place of; so the module behind a
command is started, with the options that its ``--config`` would be turned into.
(ms-swift 3.11: swift/cli/main.py, swift/cli/_megatron, swift/llm/argument, swift/megatron/argument)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from contracts.commands import Finding, Severity
from contracts.model import fault
from contracts.recipes import deepspeed, trainer
from contracts.recipes.arithmetic import Batch, Degree, batches, parallel
from contracts.recipes.base import ContainerPath, RecipeBase, finding
from contracts.recipes.configs import Config, count, deep, flags, number
from contracts.recipes.launch import Launch, entry, environment
from contracts.recipes.shape import Shape

IMAGE = (
    "modelscope-registry.us-west-1.cr.aliyuncs.com/modelscope-repo/modelscope:"
    "ubuntu22.04-cuda12.8.1-py311-torch2.8.0-vllm0.11.0-modelscope1.32.0-swift3.11.3"
)
"""The project's own, with Megatron-Core. It has no EFA: for several nodes build recipes/ms_swift/Containerfile."""
ENGINES = {"swift": "swift.cli", "megatron": "swift.cli._megatron"}
RLHF_TYPES = {
    "swift": ("dpo", "orpo", "simpo", "kto", "cpo", "rm", "ppo", "grpo", "gkd"),
    "megatron": ("dpo", "kto", "grpo", "rm"),
}
ZERO_NAMES = frozenset({"zero0", "zero1", "zero2", "zero3", "zero2_offload", "zero3_offload"})
"""Configurations that MS-Swift brings. (swift/llm/ds_config)"""


class MsSwiftRecipe(RecipeBase):
    """MS-Swift: pre-training, fine-tuning and preference training, with Transformers or Megatron-Core."""

    kind: Literal["ms-swift"] = "ms-swift"
    engine: Literal["swift", "megatron"] = "swift"
    command: Literal["pt", "sft", "rlhf"] = "sft"
    config: Config | None = None
    """Options by name without their hyphens, as an object or as YAML or JSON text."""
    config_path: ContainerPath | None = None
    """Or a YAML or JSON file on the storage, which is not looked into here."""
    overrides: Config = Field(default_factory=dict)
    """Options that win."""
    working_directory: ContainerPath | None = None

    title: ClassVar[str] = "MS-Swift"
    image: ClassVar[str | None] = IMAGE
    progress: ClassVar[str] = "trainer"

    @model_validator(mode="after")
    def _one_source(self) -> MsSwiftRecipe:
        if (self.config is None) == (self.config_path is None):
            raise fault("/config", "give either config or config_path")
        if self.config_path is not None and not self.config_path.endswith((".yaml", ".yml", ".json")):
            raise fault("/config_path", "name a file of YAML or JSON")
        return self

    @property
    def options(self) -> dict[str, Any]:
        return {**(self.config or {}), **self.overrides}

    @property
    def planned_steps(self) -> int | None:
        return count(self.options.get("train_iters" if self.engine == "megatron" else "max_steps"))

    def launch(self, shape: Shape, submission: str) -> Launch:
        program = ["-m", f"{ENGINES[self.engine]}.{self.command}", *flags(self.options)]
        # Megatron's own option is another, and it writes to TensorBoard and W&B only.
        tracks = self.engine == "swift" and not trainer.reports(self.options)
        argv = entry(
            shape,
            submission,
            program,
            chdir=self.working_directory,
            arguments_from=self.config_path,
            tracked=("--report_to", "mlflow") if tracks else (),
        )
        return Launch(argv=argv, env=environment(shape), image=self.image)

    def examine(self, shape: Shape) -> Iterator[Finding]:
        options, field = self.options, "overrides" if self.config is None else "config"
        rlhf_type = options.get("rlhf_type")
        if rlhf_type is not None and rlhf_type not in RLHF_TYPES[self.engine]:
            yield finding(
                "rlhf-type",
                Severity.ERROR,
                f"{field}/rlhf_type",
                f"{self.engine} has no rlhf_type {rlhf_type!r}",
                f"Use one of {', '.join(RLHF_TYPES[self.engine])}.",
            )
        if rlhf_type is not None and self.command != "rlhf":
            message = f"rlhf_type goes with the command rlhf, not {self.command}"
            yield finding("rlhf-type", Severity.ERROR, f"{field}/rlhf_type", message, "Set command to rlhf.")
        length = number(options.get("max_length"))
        if length is not None and length < 1:
            message = f"max_length is {length}"
            yield finding("length", Severity.ERROR, f"{field}/max_length", message, "Use a number of tokens.")
        if self.engine == "megatron":
            yield from _megatron(options, field, shape)
        else:
            yield from _swift(options, field, shape, self.config is not None)
        if self.config is not None and not options.get("model") and not options.get("load"):
            remedy = "Name a folder such as /s3/models/Qwen-Qwen3-0.6B, or an ID of a hub."
            yield finding("missing", Severity.ERROR, f"{field}/model", "there is no model", remedy)
        if self.config is not None and not options.get("dataset") and not options.get("cached_dataset"):
            yield finding("missing", Severity.ERROR, f"{field}/dataset", "there is no dataset")


def _swift(options: dict[str, Any], field: str, shape: Shape, whole: bool) -> Iterator[Finding]:
    yield from deepspeed.examine(options.get("deepspeed"), f"{field}/deepspeed", shape, ZERO_NAMES)
    sequence = number(options.get("sequence_parallel_size"))
    if sequence is not None and sequence > 1:
        yield from parallel(shape, [Degree("sequence parallel", sequence, f"{field}/sequence_parallel_size")])
    if whole:
        yield from trainer.examine(options, field)
        # 3.x calls it train_type, 4 tuner_type.
        method = options.get("train_type") or options.get("tuner_type") or "lora"
        yield from trainer.full_precision_memory(options, field, shape.world, str(method))


def _megatron(options: dict[str, Any], field: str, shape: Shape) -> Iterator[Finding]:
    named = {
        "tensor parallel": "tensor_model_parallel_size",
        "pipeline parallel": "pipeline_model_parallel_size",
        "context parallel": "context_parallel_size",
    }
    degrees = [
        Degree(name, size, f"{field}/{key}")
        for name, key in named.items()
        if (size := number(options.get(key))) is not None
    ]
    yield from parallel(shape, degrees, frozenset({"tensor parallel"}))
    split = 1
    for degree in degrees:
        split *= max(1, degree.size)
    if shape.world % split == 0:
        replicas = shape.world // split
        batch = Batch(
            per_device=number(options.get("micro_batch_size", 1)),
            accumulation=None,
            total=number(options.get("global_batch_size", 16)),
            per_device_field=f"{field}/micro_batch_size",
            accumulation_field=field,
            total_field=f"{field}/global_batch_size",
        )
        yield from batches(shape, batch, replicas)
        yield from _experts(options, field, shape)
    if options.get("deepspeed"):
        message = "Megatron-Core parts the model itself; it has no deepspeed"
        yield finding("deepspeed", Severity.ERROR, f"{field}/deepspeed", message, "Remove it, or use engine swift.")
    folder = options.get("save") or deep(options, "output_dir")
    yield from trainer.output(folder, f"{field}/save")


def _experts(options: dict[str, Any], field: str, shape: Shape) -> Iterator[Finding]:
    """Experts are laid over the processes of one pipeline stage: expert × expert-tensor × pipeline divides them all.

    (Megatron-Core: parallel_state.initialize_model_parallel)
    """
    experts = number(options.get("expert_model_parallel_size")) or 1
    if experts < 2:
        return
    tensor, pipeline = "expert_tensor_parallel_size", "pipeline_model_parallel_size"
    degrees = [
        Degree("pipeline parallel", number(options.get(pipeline)) or 1, f"{field}/{pipeline}"),
        Degree("expert tensor parallel", number(options.get(tensor)) or 1, f"{field}/{tensor}"),
        Degree("expert parallel", experts, f"{field}/expert_model_parallel_size"),
    ]
    yield from parallel(shape, degrees)
