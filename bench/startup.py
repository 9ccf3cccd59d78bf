"""How soon a command line says something: ours against the public one of SageMaker HyperPod.

The public one is a package of its own, with dependencies that ours must not be mixed with: it gets an environment for
itself, once, in ``.tools``.
"""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from pathlib import Path

from bench.report import Report

ROUNDS = 10
HYPERPOD_CLI = "sagemaker-hyperpod==3.12.0"
"""``hyp`` (https://github.com/aws/sagemaker-hyperpod-cli)."""
PLACE = Path(__file__).resolve().parent.parent / ".tools" / "hyperpod-cli"


def run(report: Report) -> None:
    """Alternate the two, so that both see the same machine; each has run once before, so that its files are warm."""
    hyp = _public()
    ours: dict[str, list[float]] = {"instantstart --help": [], "instantstart train submit --help": []}
    theirs: dict[str, list[float]] = {"hyp --help": [], "hyp create hyp-pytorch-job --help": []}
    for number in range(ROUNDS + 1):
        for name, samples in (*ours.items(), *theirs.items()):
            program, *arguments = name.split()
            command = [str(hyp)] if program == "hyp" else [sys.executable, "-m", "cli"]
            seconds = _timed([*command, *arguments])
            if number:
                samples.append(seconds * 1000)
    for name, samples in ours.items():
        report.add(name, "ms", samples, "well under 500 ms")
    for name, samples in theirs.items():
        report.add(name, "ms", samples, baseline=True)
    ratios = [each / other for each, other in zip(*(next(iter(both.values())) for both in (ours, theirs)), strict=True)]
    report.add("instantstart --help / hyp --help", "", ratios, "< 1")


def _public() -> Path:
    """The public command line, installed. Raises subprocess.CalledProcessError where it cannot be."""
    program = PLACE / "bin" / "hyp"
    if not program.exists():
        venv.create(PLACE, with_pip=True, clear=True)
        subprocess.run([str(PLACE / "bin" / "pip"), "install", "--quiet", HYPERPOD_CLI], check=True)
    return program


def _timed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return time.perf_counter() - began
