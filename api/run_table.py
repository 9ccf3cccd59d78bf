"""Runs as CSV: one row each, for spreadsheets. (RFC 4180)"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from datetime import datetime

from contracts.experiment_runs import RunView

FIXED = (
    "run_id",
    "name",
    "experiment",
    "status",
    "started_at",
    "ended_at",
    "user",
    "training",
    "instance_type",
    "nodes",
    "gpus_per_node",
    "efa_per_node",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a cell begins with that Excel, LibreOffice or Google Sheets would take for a formula. (OWASP: CSV injection)"""
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


def table(runs: Sequence[RunView]) -> str:
    """A header and a row for each run; metrics, parameters and tags each have columns of their own, in alphabetical
    order, prefixed by what they are."""
    groups = [
        (f"{prefix}.", member, sorted({name for run in runs for name in getattr(run, member)}))
        for prefix, member in (("metric", "metrics"), ("param", "parameters"), ("tag", "tags"))
    ]
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow([*FIXED, *(_safe(f"{prefix}{name}") for prefix, _, names in groups for name in names)])
    for run in runs:
        row = [_cell(getattr(run, name)) for name in FIXED]
        row += [_cell(getattr(run, member).get(name)) for _, member, names in groups for name in names]
        writer.writerow(row)
    return written.getvalue()


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case float() | int():
            return repr(value)
    return _safe(str(value))


def _safe(text: str) -> str:
    """Texts that look like formulas and are no numbers are marked as texts; NUL, which CSV cannot hold, is left out."""
    kept = text.replace("\0", "")
    return f"'{kept}" if kept.startswith(_FORMULA) and not _NUMBER.fullmatch(kept) else kept
