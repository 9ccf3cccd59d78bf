"""``python -m bench [NAME…]``: run benchmarks and print a report; all by default."""

from __future__ import annotations

import argparse

from bench import capacity, console, faces, features, gateway, pipeline, scale, serving
from bench.report import Report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = "pipeline, gateway, parked, together, capacity, features, faces, console, serving"
    parser.add_argument("names", nargs="*", help=f"{known}; none: all")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of pipeline, capacity, features and serving")
    options = parser.parse_args()
    report = Report()
    benchmarks = {
        "pipeline": lambda: pipeline.run(report, options.rounds),
        "gateway": lambda: gateway.run(report),
        "parked": lambda: scale.parked(report),
        "together": lambda: scale.together(report),
        "capacity": lambda: capacity.run(report, options.rounds),
        "features": lambda: features.run(report, options.rounds),
        "faces": lambda: faces.run(report),
        "console": lambda: console.run(report),
        "serving": lambda: serving.run(report, options.rounds),
    }
    if unknown := set(options.names) - set(benchmarks):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    for name in options.names or benchmarks:
        benchmarks[name]()
    report.show()
    print(f"saved as {report.save()}")


if __name__ == "__main__":
    main()
