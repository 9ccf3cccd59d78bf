"""Log lines of a process: text for a terminal, or JSON, one object in a line; without secrets in either.

Every line says on whose behalf it is written, as far as the process knows: the operation and its cluster, the run, the
activity and its attempt, the request, the trace.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from telemetry import tracing
from telemetry.redaction import scrub
from telemetry.settings import TelemetrySettings
from telemetry.subject import subject

About = Callable[[], Mapping[str, Any]]

FIELDS = ("operation", "cluster", "run_id", "activity", "attempt", "request_id")
"""What a line may say of whom it is about; ``trace_id`` comes beside where traces are on."""
QUIET = ("httpx", "httpcore", "mcp", "botocore")
"""Libraries whose lines of requests and calls would show what is in queries and arguments."""
OWN_MINDED = ("streamlit", "uvicorn", "websockets")
"""Libraries that write lines in a form of their own unless they are told not to."""


def nobody() -> Mapping[str, Any]:
    """Of a process that knows nothing of whom it writes about."""
    return {}


def setup(settings: TelemetrySettings, about: About = nobody) -> None:
    """Write everything that is logged to standard error. ``about`` gives :data:`FIELDS` of what now goes on in the
    thread or task that logs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(Bind(about))
    handler.setFormatter(JsonLines() if settings.log_format == "json" else TextLines())
    root = logging.getLogger()
    for former in list(root.handlers):
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(settings.log_level)
    for library in QUIET:
        logging.getLogger(library).setLevel(logging.WARNING)


def adopt() -> None:
    """Take the lines of libraries that have set up handlers of their own as they were imported."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in OWN_MINDED:
            logger.handlers.clear()
            logger.propagate = True


class Bind(logging.Filter):
    """Gives every record :data:`FIELDS` and ``trace_id``: those of the work that it comes from, ``None`` where there
    is no such thing."""

    def __init__(self, about: About) -> None:
        super().__init__()
        self._about = about

    def filter(self, record: logging.LogRecord) -> bool:
        known = {**self._about(), **_of_workflow(record)}
        for name in FIELDS:
            setattr(record, name, known.get(name))
        record.trace_id = tracing.trace_id()
        return True


def _of_workflow(record: logging.LogRecord) -> dict[str, Any]:
    """What ``workflow.logger`` says of the workflow that logs."""
    said = getattr(record, "temporal_workflow", None)
    if not isinstance(said, dict):
        return {}
    workflow_id = str(said.get("workflow_id") or "")
    return {"operation": workflow_id or None, "cluster": subject(workflow_id).cluster, "run_id": said.get("run_id")}


class TextLines(logging.Formatter):
    """``time level logger [cluster operation request] message``."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s [%(cluster)s %(operation)s %(request_id)s] %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        shown = logging.makeLogRecord(record.__dict__)
        for name in FIELDS:
            setattr(shown, name, getattr(record, name, None) or "-")
        return scrub(super().format(shown))


class JsonLines(logging.Formatter):
    """One object in a line; what is not known is left out."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: getattr(record, name, None) for name in (*FIELDS, "trace_id")}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        clean = {name: _clean(value) for name, value in line.items() if value not in (None, "-", "")}
        return json.dumps(clean, ensure_ascii=False)


def _clean(value: Any) -> Any:
    return value if isinstance(value, int | float) else scrub(str(value))
