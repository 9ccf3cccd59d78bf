"""What the sandbox's ledger tells of a benchmark."""

from __future__ import annotations

from collections import Counter

from tests.local_stack import LocalStack


def called(stack: LocalStack) -> Counter[str]:
    """AWS calls since the ledger was emptied, by ``service:Operation``."""
    ledger = stack.sandbox.get("/ledger", params={"api": "aws"}).json()
    counts = Counter(f"{row['service']}:{row['operation']}" for row in ledger["entries"])
    for row in ledger["reads"]:
        if row["api"] == "aws":
            counts[f"{row['service']}:{row['operation']}"] += row["count"]
    return counts
