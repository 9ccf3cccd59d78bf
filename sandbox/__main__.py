"""``python -m sandbox``: the AWS APIs and the Kubernetes clusters behind EKS, in one process."""

from __future__ import annotations

import argparse
from pathlib import Path

from sandbox.aws.authorization.guard import read
from sandbox.clock import DEFAULT_SPEED
from sandbox.run import Sandbox


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="port of the AWS APIs and of the admin API")
    parser.add_argument("--kubernetes-port", type=int, required=True, help="port of the Kubernetes APIs")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--speed", type=float, default=DEFAULT_SPEED, help="sandbox seconds per second")
    parser.add_argument("--data", type=Path, help="folder that keeps the sandbox's state; without it nothing is kept")
    parser.add_argument(
        "--program",
        type=Path,
        action="append",
        default=[],
        help="a script that containers really run that have it in a ConfigMap; may be given several times",
    )
    parser.add_argument(
        "--enforce",
        type=Path,
        metavar="FOLDER",
        help="IAM policies of the sandbox's caller: all *.json of a folder; what they do not allow is refused",
    )
    options = parser.parse_args()
    try:
        policies = read(options.enforce) if options.enforce is not None else None
    except (OSError, ValueError) as error:
        parser.error(f"--enforce: {error}")
    sandbox = Sandbox(
        speed=options.speed,
        data=options.data,
        kubernetes_port=options.kubernetes_port,
        host=options.host,
        programs=options.program,
        policies=policies,
    )
    sandbox.run(options.port, options.host)


if __name__ == "__main__":
    main()
