"""``python -m tests.chaos``: one seed, or many, several at once; a summary is printed and written to a file."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from tests.chaos.generate import generate
from tests.chaos.run import Result, run
from tests.chaos.standby import Standby, standby

RESULTS = Path(".chaos")


def main() -> int:
    """Run seeds; 0 if all have passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("-n", type=int, default=10, help="so many seeds, from --first on")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, action="append", help="only this one; may be given several times")
    parser.add_argument("--without", default="", help="numbers of events to leave out, as 3,5")
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    parser.add_argument("--show", action="store_true", help="print the schedules and carry nothing out")
    parser.add_argument("--into", type=Path, default=RESULTS, help="folder of the summary and of evidence of failures")
    options = parser.parse_args()
    seeds = options.seed or list(range(options.first, options.first + options.n))
    without = tuple(int(number) for number in options.without.split(",") if number)
    if options.show:
        for seed in seeds:
            print(generate(seed).without(without))
        return 0
    options.into.mkdir(parents=True, exist_ok=True)
    verbose = len(seeds) == 1
    began, results = time.monotonic(), []
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as place,
        standby(Path(place)) as through,
        ProcessPoolExecutor(options.jobs) as pool,
    ):
        asked = {pool.submit(one, seed, without, options.into, through, verbose): seed for seed in seeds}
        for each in as_completed(asked):
            result = each.result()
            results.append(result)
            print(verdict(result, without, options.into), flush=True)
            summary = summarize(results, time.monotonic() - began)
            (options.into / "summary.json").write_text(json.dumps(summary, indent=2))
    print(json.dumps(summarize(results, time.monotonic() - began), indent=2))
    return int(any(result.faults for result in results))


def one(seed: int, without: tuple[int, ...], into: Path, through: Standby, verbose: bool) -> Result:
    """Carry out the schedule of a seed."""
    schedule = generate(seed).without(without)

    log = into / f"{seed}.log"
    log.write_text("")

    def say(line: str) -> None:
        with log.open("a") as output:
            output.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        if verbose:
            print(line, flush=True)

    with tempfile.TemporaryDirectory(prefix=f"chaos-{seed}-") as folder:
        return run(schedule, Path(folder), into / str(seed), through, say)


def verdict(result: Result, without: tuple[int, ...], into: Path) -> str:
    """One line of a seed that has passed; of one that has not, everything that is needed to look into it."""
    head = f"seed {result.seed}: {'passed' if not result.faults else 'FAILED'} in {result.seconds:.0f} s"
    if not result.faults:
        return head
    left_out = f" WITHOUT={','.join(map(str, without))}" if without else ""
    schedule = str(generate(result.seed).without(without))
    again = f"again: make chaos SEED={result.seed}{left_out}; evidence: {into / str(result.seed)}"
    return "\n".join([head, schedule, *(f"  ! {fault}" for fault in result.faults), again])


def summarize(results: list[Result], seconds: float) -> dict[str, object]:
    """What was run and what came of it."""
    operations: Counter[str] = Counter()
    misfortunes: Counter[str] = Counter()
    answers: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    checks: Counter[str] = Counter()
    for result in results:
        operations += result.operations
        misfortunes += result.misfortunes
        answers += result.answers
        rules += result.rules
        checks += result.checks
    return {
        "seeds": len(results),
        "failed": {str(each.seed): each.faults for each in results if each.faults},
        "seconds": round(seconds),
        "seconds_by_seed": {str(each.seed): round(each.seconds) for each in results},
        "operations": sum(operations.values()),
        "effects": sum(each.effects for each in results),
        "healed_early": sum(each.helped for each in results),
        "operations_by_end": dict(sorted(operations.items())),
        "misfortunes": dict(misfortunes.most_common()),
        "checks": dict(sorted(checks.items())),
        "rules": dict(sorted(rules.items())),
        "answers": dict(sorted(answers.items())),
    }


if __name__ == "__main__":
    sys.exit(main())
