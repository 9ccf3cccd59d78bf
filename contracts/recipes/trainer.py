"""What LLaMA-Factory and MS-Swift share: the arguments of Hugging Face's Trainer.

(Transformers: TrainingArguments)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.commands import Finding, Severity
from contracts.recipes.arithmetic import positive
from contracts.recipes.base import finding
from contracts.recipes.configs import is_on, number

COUNTS = ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps")
VANISHING = ("/tmp", "/local", "/dev/shm", "/var", "/root", "/home")
"""Folders of the container or of the node: nobody finds there what a job has left."""


def examine(config: dict[str, Any], field: str) -> Iterator[Finding]:
    yield from positive({f"{field}/{name}": number(config.get(name)) for name in COUNTS})
    if is_on(config.get("bf16")) and is_on(config.get("fp16")):
        message = "bf16 and fp16 are both on"
        yield finding("precision", Severity.ERROR, f"{field}/fp16", message, "Keep bf16 on A10G and newer GPUs.")
    yield from output(config.get("output_dir"), f"{field}/output_dir")
    yield from saving(config, field)


def output(folder: Any, field: str) -> Iterator[Finding]:
    """Where checkpoints go to."""
    if not isinstance(folder, str) or not folder:
        yield finding(
            "output-missing",
            Severity.WARNING,
            field,
            "no output_dir is given: checkpoints would be written into the container and vanish with it",
            "Name a folder on the storage, e.g. /s3/checkpoints/my-run.",
        )
    elif vanishes(folder):
        yield finding(
            "output-vanishes",
            Severity.WARNING,
            field,
            f"{folder} is on the container or the node: checkpoints vanish with it, and no restart finds them",
            "Name a folder on the storage, e.g. /s3/checkpoints/my-run.",
        )


def vanishes(folder: str) -> bool:
    return not folder.startswith("/") or any(folder == each or folder.startswith(f"{each}/") for each in VANISHING)


def saving(config: dict[str, Any], field: str) -> Iterator[Finding]:
    """A job that saves nothing begins anew after each restart."""
    if config.get("save_strategy") == "no" or config.get("save_steps") == 0:
        yield finding(
            "never-saved",
            Severity.WARNING,
            f"{field}/save_strategy",
            "no checkpoint is saved: after a fault the job begins at step 0",
            "Set save_strategy to steps, and save_steps to what may be lost.",
        )


def reports(config: dict[str, Any]) -> bool:
    """Whether the configuration itself says whom it reports to."""
    return config.get("report_to") not in (None, [], "")


def full_precision_memory(config: dict[str, Any], field: str, shape_world: int, method: str) -> Iterator[Finding]:
    """Every parameter trained, and nothing parted over the GPUs: each holds weights, gradients and both moments."""
    parted = config.get("deepspeed") or config.get("fsdp") or config.get("fsdp_config")
    if method == "full" and shape_world > 1 and not parted:
        yield finding(
            "full-copy-per-gpu",
            Severity.INFO,
            f"{field}/deepspeed",
            "all parameters are trained and nothing is parted: each GPU holds the whole model with its optimizer, "
            "about 16 bytes per parameter",
            "Set deepspeed to a ZeRO 2 or 3 configuration for more than about a billion parameters.",
        )
