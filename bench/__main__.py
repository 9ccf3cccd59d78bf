"""``python -m bench [NAME…]``: run benchmarks and write a report with tables and pictures; all by default.

``--from FILE…`` writes the report of earlier runs instead of running anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from bench import (
    capacity,
    console,
    diagnosis,
    faces,
    features,
    gateway,
    logs,
    pipeline,
    restarts,
    scale,
    serving,
    startup,
    training,
)
from bench.rendering import render
from bench.report import Report, together


def benchmarks(rounds: int) -> dict[str, Callable[[Report], None]]:
    """Every benchmark by its name, the quick ones first."""
    return {
        "startup": startup.run,
        "restarts": restarts.run,
        "diagnosis": diagnosis.run,
        "gateway": gateway.run,
        "faces": faces.run,
        "console": console.run,
        "pipeline": lambda report: pipeline.run(report, rounds),
        "features": lambda report: features.run(report, rounds),
        "serving": lambda report: serving.run(report, rounds),
        "logs": logs.run,
        "capacity": lambda report: capacity.run(report, rounds),
        "parked": scale.parked,
        "training": training.run,
        "together": scale.together,
    }


def main() -> None:
    known = benchmarks(1)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(known)}; none: all")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of pipeline, capacity, features and serving")
    parser.add_argument("--before", type=Path, metavar="FILE", help="results of an earlier run, shown beside these")
    parser.add_argument("--from", type=Path, nargs="+", metavar="FILE", dest="earlier", help="results to report on")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="where the report goes; default: beside the results")
    options = parser.parse_args()
    if unknown := set(options.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.earlier:
        report = together([_read(path) for path in options.earlier])
        saved = options.earlier[-1]
    else:
        report, chosen = Report(), benchmarks(options.rounds)
        for name in options.names or known:
            with report.benchmark(name):
                chosen[name](report)
            # What was found is kept, whatever becomes of the next one.
            saved = report.save()
        report.show()
    page = render(report, options.to or saved.with_suffix(""), _read(options.before) if options.before else None)
    print(f"results: {saved}\nreport: {page}")


def _read(path: Path) -> Report:
    return Report.model_validate_json(path.read_text())


if __name__ == "__main__":
    main()
