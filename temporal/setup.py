"""``python -m temporal.setup``: what a namespace must have before workers and gateway come.

It is safe to repeat, and says of each part whether it was there, was made, or is missing. With ``--check`` it only
looks. Exit status: 0 all is there; 1 something is missing or differs, and a person must see to it; 2 Temporal cannot be
used as it is configured; 3 Temporal does not answer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from temporalio.client import Client

from temporal.attributes import search_attributes
from temporal.findings import Finding, Found
from temporal.namespace import namespace
from temporal.running import Status, run_once

Ensure = Callable[[Client, bool], Awaitable[list[Finding]]]
"""Makes a part of what a namespace must have, or only looks (True), and says what it found."""

AFTER_NAMESPACE: tuple[Ensure, ...] = (search_attributes,)
"""What is in the namespace, in this order. Each is safe to repeat."""

DEFAULT_RETENTION = timedelta(days=30)
"""How long Temporal keeps an ended operation, where this makes the namespace."""


async def set_up(client: Client, retention: timedelta | None, only_look: bool) -> list[Finding]:
    """See to everything in the client's namespace; ``retention`` None: that of a namespace that exists is left alone.

    Raises RPCError for what Temporal refuses beyond what a finding tells.
    """
    findings = await namespace(client, retention, DEFAULT_RETENTION, only_look)
    if all(finding.good for finding in findings):
        for ensure in AFTER_NAMESPACE:
            findings += await ensure(client, only_look)
    return findings


async def run(client: Client, retention: timedelta | None, only_look: bool) -> Status:
    """See to everything, and print the findings. Raises what :func:`set_up` does."""
    findings = await set_up(client, retention, only_look)
    for finding in findings:
        print(finding)
    return Status.DONE if all(finding.good for finding in findings) else Status.REFUSED


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m temporal.setup", description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--check", action="store_true", help="only look")
    parser.add_argument(
        "--retention-days",
        type=_days,
        help=f"how long ended operations are kept; without it, a new namespace keeps them {DEFAULT_RETENTION.days} "
        "days, and one that exists is left as it is",
    )
    parser.add_argument("--wait", type=float, default=60.0, metavar="SECONDS", help="for Temporal to answer (60)")
    chosen = parser.parse_args(arguments)
    return run_once(lambda client: run(client, chosen.retention_days, chosen.check), chosen.wait)


def _days(text: str) -> timedelta:
    days = int(text)
    if days < 1:
        raise ValueError("at least one day")
    return timedelta(days=days)


__all__ = ["Ensure", "Finding", "Found", "set_up"]

if __name__ == "__main__":
    sys.exit(main())
