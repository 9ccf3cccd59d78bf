"""Arithmetic that every framework has in common: what must divide what, so that a job does not find it out by itself
after ten minutes of starting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from contracts.commands import Finding, Severity
from contracts.recipes.base import finding
from contracts.recipes.shape import Shape


@dataclass(frozen=True)
class Degree:
    """How many ways something is split. ``field`` is where it was asked for, e.g. ``config/tensor_parallel_size``."""

    name: str
    size: int
    field: str


@dataclass(frozen=True)
class Batch:
    """Samples of one step. What is None was not stated, and nothing is said about it."""

    per_device: int | None
    accumulation: int | None
    total: int | None
    per_device_field: str
    accumulation_field: str
    total_field: str


def positive(values: Mapping[str, int | None]) -> Iterator[Finding]:
    """Counts that must be at least 1, by their field."""
    for field, value in values.items():
        if value is not None and value < 1:
            yield finding("not-positive", Severity.ERROR, field, f"{_last(field)} is {value}", "Use at least 1.")


def parallel(shape: Shape, degrees: list[Degree], within_node: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """The product of all degrees must divide the number of processes. ``within_node``: degrees that go slowly, or not
    at all, over more than one node."""
    asked = [degree for degree in degrees if degree.size > 1]
    product = 1
    for degree in asked:
        product *= degree.size
    if product > 1 and shape.world % product:
        parts = " × ".join(f"{degree.name} {degree.size}" for degree in asked)
        reckoned = f"{parts} = {product}" if len(asked) > 1 else parts
        yield finding(
            "parallel-sizes",
            Severity.ERROR,
            asked[-1].field,
            f"{reckoned} does not divide the {shape.world} processes ({_world(shape)})",
            f"Choose sizes whose product divides {shape.world}: {_divisors(shape.world)}.",
        )
    for degree in asked:
        if degree.name in within_node and degree.size > shape.processes_per_node:
            yield finding(
                "parallel-over-nodes",
                Severity.WARNING,
                degree.field,
                f"{degree.name} {degree.size} goes over nodes of {shape.processes_per_node} GPUs: each layer waits for "
                "the network",
                f"Use at most {shape.processes_per_node}, and more pipeline parallelism instead.",
            )


def batches(shape: Shape, batch: Batch, replicas: int | None = None) -> Iterator[Finding]:
    """Global batch = per device × accumulation × data-parallel replicas, as far as stated.

    ``replicas``: data-parallel copies; null: one per process.
    """
    copies = replicas if replicas is not None else shape.world
    named = {
        batch.per_device_field: batch.per_device,
        batch.accumulation_field: batch.accumulation,
        batch.total_field: batch.total,
    }
    wrong = list(positive(named))
    yield from wrong
    if wrong or batch.total is None or copies < 1:
        return
    each = batch.per_device or 1
    if batch.per_device is not None and batch.accumulation is not None:
        product = each * batch.accumulation * copies
        if product != batch.total:
            yield finding(
                "global-batch",
                Severity.ERROR,
                batch.total_field,
                f"{each} per device × {batch.accumulation} accumulated × {copies} replicas = {product}, "
                f"not {batch.total}",
                f"Set {_last(batch.total_field)} to {product}.",
            )
    elif batch.total % (each * copies):
        nearest = max(1, round(batch.total / (each * copies))) * each * copies
        yield finding(
            "global-batch",
            Severity.ERROR,
            batch.total_field,
            f"{batch.total} is no multiple of {each} per device × {copies} replicas = {each * copies}",
            f"Use {nearest}, for example.",
        )


def _world(shape: Shape) -> str:
    return f"{shape.nodes} × {shape.processes_per_node}"


def _divisors(count: int) -> str:
    found = [size for size in range(1, count + 1) if count % size == 0]
    return ", ".join(str(size) for size in found[:12]) + ("…" if len(found) > 12 else "")


def _last(field: str) -> str:
    return field.rpartition("/")[2]
