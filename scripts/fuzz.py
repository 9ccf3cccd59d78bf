"""Tries the parsers of tests/security/targets.py with as many inputs as there is time for.

``python scripts/fuzz.py --seconds 60 [NAME…]``. With atheris (``pip install atheris``: Linux, no part of the locks),
coverage guides it, and what was interesting is kept in .fuzz/NAME; without it, hypothesis makes inputs at random.
Exit status 1 where a law is broken; the input is shown as small as it can be made.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from hypothesis import settings

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / ".fuzz"
_GUIDED = """
import sys, atheris
with atheris.instrument_imports(include=["contracts", "api", "ui"]):
    from tests.security.targets import TARGETS
atheris.Setup(sys.argv[1:], TARGETS[sys.argv[1]].hypothesis.fuzz_one_input)
atheris.Fuzz()
"""


def guided(name: str, seconds: int) -> bool:
    """Fuzz a target with atheris. Whether its law held."""
    corpus = CORPUS / name
    corpus.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", "-timeout=30", f"-artifact_prefix={CORPUS}/{name}-", str(corpus)]
    return subprocess.run([sys.executable, "-c", _GUIDED, name, *options], cwd=ROOT).returncode == 0


def at_random(name: str, seconds: int) -> bool:
    """Fuzz a target with hypothesis, in rounds of ever other inputs. Whether its law held."""
    from tests.security.targets import TARGETS

    end = time.monotonic() + seconds
    more = settings(parent=settings.default, max_examples=1000, derandomize=False, database=None, deadline=None)
    rounds = 0
    while time.monotonic() < end:
        try:
            more(TARGETS[name])()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", *getattr(error, "__notes__", ()), sep="\n")
            return False
        rounds += 1
    print(f"{name}: the law held in {rounds} rounds of 1000")
    return True


def main() -> int:
    from tests.security.targets import TARGETS

    parser = argparse.ArgumentParser(description="Fuzz the parsers.")
    parser.add_argument("--seconds", type=int, default=30, help="for each of them")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TARGETS)}")
    given = parser.parse_args()
    unknown = set(given.names) - set(TARGETS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    fuzz = guided if find_spec("atheris") else at_random
    broken = [name for name in given.names or TARGETS if not fuzz(name, given.seconds)]
    if broken:
        print(f"broken: {', '.join(broken)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
