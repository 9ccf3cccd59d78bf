"""DeepSpeed's configuration as Hugging Face's Trainer takes it: a stage's name, a file, or an object.

(DeepSpeed configuration JSON: batch size related parameters, ZeRO optimizations; Transformers: DeepSpeed)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.commands import Finding, Severity
from contracts.recipes.arithmetic import Batch, batches
from contracts.recipes.base import finding
from contracts.recipes.configs import deep, number
from contracts.recipes.shape import Shape

STAGES = (0, 1, 2, 3)


def examine(value: Any, field: str, shape: Shape, names: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """``names``: what the framework takes besides a file and an object."""
    if isinstance(value, dict):
        yield from _object(value, field, shape)
    elif isinstance(value, str) and names and value not in names and not value.endswith(".json") and value[:1] != "{":
        yield finding(
            "deepspeed-name",
            Severity.ERROR,
            field,
            f"{value!r} is no DeepSpeed configuration",
            f"Use one of {', '.join(sorted(names))}, or a path to a JSON file.",
        )


def _object(value: dict[str, Any], field: str, shape: Shape) -> Iterator[Finding]:
    stage = deep(value, "zero_optimization.stage")
    if stage is not None and stage not in STAGES:
        yield finding(
            "zero-stage",
            Severity.ERROR,
            f"{field}/zero_optimization/stage",
            f"ZeRO has the stages 0, 1, 2 and 3, not {stage!r}",
            "Use 2 to part optimizer and gradients, 3 to part the parameters too.",
        )
    per_device, accumulation = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
    stated = Batch(
        per_device=number(value.get(per_device)),
        accumulation=number(value.get(accumulation)),
        total=number(value.get("train_batch_size")),
        per_device_field=f"{field}/{per_device}",
        accumulation_field=f"{field}/{accumulation}",
        total_field=f"{field}/train_batch_size",
    )
    yield from batches(shape, stated)
