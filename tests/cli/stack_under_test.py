"""``stack_under_test.py FOLDER SERVICES``: a supervisor of small fake services, for tests.

SERVICES is JSON: name, code (Python, run with ``NAME`` and ``FOLDER`` set), grace. A service works once it has made the
file ``<name>.ready``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from cli.stack.child import Service
from cli.stack.supervisor import BACKOFF, Signals, StackError, Stopped, Supervisor

PRELUDE = """
import os, pathlib, signal, sys, time
NAME, FOLDER = os.environ["NAME"], pathlib.Path(os.environ["FOLDER"])
def note(what):
    with open(FOLDER / "events", "a") as file: file.write(f"{NAME} {what} {os.getpid()}\\n")
def ready():
    note("started"); (FOLDER / f"{NAME}.ready").touch()
def on_term(number, frame):
    note("stopped"); sys.exit(0)
signal.signal(signal.SIGTERM, on_term)
"""


def main() -> int:
    folder, described = Path(sys.argv[1]), json.loads(sys.argv[2])
    services = [
        Service(
            name=each["name"],
            argv=[sys.executable, "-c", PRELUDE + each["code"]],
            env={**os.environ, "NAME": each["name"], "FOLDER": str(folder)},
            ready=(folder / f"{each['name']}.ready").exists,
            grace=each.get("grace", 10.0),
        )
        for each in described
    ]

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    signals = Signals(sys.stdin.fileno() if "--tied" in sys.argv else None)
    supervisor = Supervisor(services, folder, say, signals, (0.01,) if "--quick" in sys.argv else BACKOFF)
    with signals.caught():
        try:
            supervisor.start()
            print("ready", flush=True)
            supervisor.run()
        except Stopped:
            return 0
        except StackError as error:
            say(str(error))
            return 1
        finally:
            supervisor.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
