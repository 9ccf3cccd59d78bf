"""``python -m sandbox.aws``: the AWS APIs alone, without Kubernetes behind EKS."""

from __future__ import annotations

import argparse
from pathlib import Path

from sandbox.clock import DEFAULT_SPEED
from sandbox.run import Sandbox


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sandbox.aws", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--speed", type=float, default=DEFAULT_SPEED, help="sandbox seconds per second")
    parser.add_argument("--data", type=Path, help="folder that keeps the sandbox's state; without it nothing is kept")
    options = parser.parse_args()
    Sandbox(speed=options.speed, data=options.data).run(options.port, options.host)


if __name__ == "__main__":
    main()
