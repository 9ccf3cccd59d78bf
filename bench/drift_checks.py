"""What a check for drift costs: wall clock, and calls of AWS by the sandbox's ledger."""

from __future__ import annotations

import time
from collections import Counter

from bench.ledger import called
from bench.report import Report
from tests.local_stack import LocalStack

CHECKS = 5


def measure(report: Report, stack: LocalStack, tag: str, what: str) -> None:
    """Check the cluster ``tag`` some times; ``what`` says in the report what it has."""
    took: list[float] = []
    calls: list[Counter[str]] = []
    for _ in range(CHECKS):
        stack.sandbox.delete("/ledger").raise_for_status()
        began = time.perf_counter()
        stack.gateway.post(f"/clusters/{tag}/drift/check").raise_for_status()
        took.append(time.perf_counter() - began)
        calls.append(called(stack))
    report.add(f"a check for drift, {what}", "s", took)
    report.add("AWS calls of a check", "", [each.total() for each in calls])
