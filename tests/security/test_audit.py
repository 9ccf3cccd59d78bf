"""What is said of advisories is what was looked up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scripts.audit import verdict

CLEAN = {"name": "idna", "version": "3.11", "vulns": []}
SKIPPED = {"name": "idna", "skip_reason": "Dependency not found and could not be audited"}
FAULTY = {"name": "idna", "version": "3.6", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.7"]}]}


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        ([CLEAN], 0, "none has an advisory"),
        ([CLEAN, FAULTY], 1, "idna 3.6: PYSEC-1, mended in 3.7"),
        ([SKIPPED], 3, "1 of 1 packages could not be looked up"),
        ([FAULTY, SKIPPED], 1, "1 of 2 packages could not be looked up"),
        ([], 3, "0 of 0"),
    ],
)
def test_nothing_is_called_clean_that_was_not_looked_up(packages: list[Any], status: int, said: str) -> None:
    found, lines = verdict(json.dumps({"dependencies": packages}))
    assert found == status
    assert any(said in line for line in lines)


@pytest.mark.parametrize("report", ["", "connection refused", "[]", "null", "{}"])
def test_no_report_is_no_verdict(report: str) -> None:
    assert verdict(report)[0] == 3
