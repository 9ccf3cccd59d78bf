"""One empty cluster over plain HTTP, without authentication: ``python -m sandbox.kubernetes --port 8001``."""

from __future__ import annotations

import argparse
import signal
import threading

from sandbox.clock import DEFAULT_SPEED, Clock
from sandbox.faults import Faults
from sandbox.ledger import Ledger
from sandbox.state import State

from .adminroutes import Administration
from .asgi import Application
from .clusterset import SingleCluster
from .listener import Listener


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sandbox.kubernetes", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001, help="0 takes a free one")
    parser.add_argument("--speed", type=float, default=DEFAULT_SPEED, help="sandbox seconds in a second")
    arguments = parser.parse_args()

    clock, faults, ledger = Clock(arguments.speed), Faults(), Ledger()
    clusters = SingleCluster(clock)
    administration = Administration(clock, faults, ledger, State(), clusters)
    application = Application(clusters, faults, ledger, authenticate=False, admin=administration.answer)
    listener = Listener(application, arguments.host, arguments.port)

    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    clock.start()
    listener.start()
    print(f"Kubernetes API of the sandbox on http://{arguments.host}:{listener.port}", flush=True)
    stopped.wait()
    listener.stop()
    clock.stop()


if __name__ == "__main__":
    main()
