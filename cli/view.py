"""An operation on a terminal: as lines that are added, or as a live table."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from cli.errors import problem_lines, say
from cli.follow import ENDS
from cli.output import columns, duration, pairs
from contracts.left_behind import remains_lines, remains_of

if TYPE_CHECKING:
    from rich.console import RenderableType

Operation = dict[str, Any]

MARKS = {
    "pending": ("·", "dim"),
    "running": ("▸", "cyan"),
    "waiting": ("?", "yellow"),
    "blocked": ("✗", "red"),
    "done": ("✓", "green"),
    "skipped": ("-", "dim"),
    "unchanged": ("=", "green"),
}


class View(Protocol):
    """Shows an operation at each of its changes."""

    def show(self, operation: Operation) -> None: ...

    def note(self, text: str) -> None:
        """Something about the connection, not the operation."""

    def pause(self) -> None:
        """Leave the terminal to others until something is shown again."""


class Lines:
    """A line for each stage that changes state, and for each phase but the last, which who follows it tells when all
    is shown. Details that only tick are left out."""

    def __init__(self) -> None:
        self._phase: str | None = None
        self._stages: dict[str, tuple[str, int]] = {}

    def show(self, operation: Operation) -> None:
        if operation["phase"] != self._phase and operation["phase"] not in ENDS:
            self._phase = operation["phase"]
            detail = operation.get("detail")
            self.note(f"{operation['id']} {self._phase}" + (f": {detail}" if detail else ""))
        for stage in operation["stages"]:
            now = (stage["state"], stage.get("attempt", 0))
            if stage["state"] != "pending" and self._stages.get(stage["name"]) != now:
                self._stages[stage["name"]] = now
                again = f" (attempt {stage['attempt']})" if stage.get("attempt", 0) > 1 else ""
                took = f" in {took}" if (took := elapsed(stage)) and stage.get("finished_at") else ""
                detail = f": {stage['detail']}" if stage.get("detail") else ""
                self.note(f"  {stage['title']} {stage['state']}{took}{again}{detail}")

    def note(self, text: str) -> None:
        say(f"{datetime.now().astimezone():%H:%M:%S} {text}")

    def pause(self) -> None:
        pass


class Live:
    """A table that is drawn anew in place; times tick."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._operation: Operation | None = None
        self._note: str | None = None
        self._live = RichLive(
            console=Console(stderr=True), get_renderable=self._render, refresh_per_second=4, redirect_stdout=False
        )

    def show(self, operation: Operation) -> None:
        self._operation, self._note = operation, None
        self._live.start()
        self._live.refresh()

    def note(self, text: str) -> None:
        self._note = text

    def pause(self) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        if self._operation is None:
            return Text("…")
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for _ in range(3):
            table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for stage in self._operation["stages"]:
            mark, style = MARKS.get(stage["state"], ("?", ""))
            attempt = f" (attempt {stage['attempt']})" if stage.get("attempt", 0) > 1 else ""
            quiet = "dim" if stage["state"] == "pending" else ""
            table.add_row(
                Text(mark, style),
                Text(stage["title"] + attempt, quiet),
                Text(elapsed(stage), "dim"),
                Text(stage.get("detail") or "", "dim" if stage["state"] in ("done", "unchanged", "pending") else ""),
            )
        head = Text.assemble((self._operation["id"], "bold"), "  ", (self._operation["phase"], "cyan"))
        detail = self._operation.get("detail")
        return Group(
            head, *([Text(detail)] if detail else []), table, *([Text(self._note, "yellow")] if self._note else [])
        )


def make_view() -> View:
    """Live on a terminal that can redraw, lines anywhere else."""
    import os

    return Live() if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb" else Lines()


def elapsed(stage: dict[str, Any]) -> str:
    """How long a stage took, or has been going on; empty before it starts."""
    if not stage.get("started_at"):
        return ""
    end = datetime.fromisoformat(stage["finished_at"]) if stage.get("finished_at") else datetime.now(UTC)
    return duration((end - datetime.fromisoformat(stage["started_at"])).total_seconds())


def operation_lines(operation: Operation) -> list[str]:
    """An operation as it is, in full."""
    links = operation.get("links") or {}
    lines = pairs(
        [
            ("Operation", operation["id"]),
            ("Phase", operation["phase"]),
            ("Because" if operation["phase"] in ENDS else "Waits for", operation.get("detail")),
            ("Started", f"{operation['started_at']} by {operation['started_by']}"),
            ("Asked anew", "; ".join((operation.get("result") or {}).get("asked_anew") or []) or None),
            ("Temporal", links.get("temporal")),
        ]
    )
    rows = [
        (stage["title"], stage["state"], elapsed(stage), stage.get("detail") or "")
        for stage in operation.get("stages") or []
    ]
    if rows:
        lines += ["", *columns(("STAGE", "STATE", "TIME", "DETAIL"), rows)]
    titles = {stage["name"]: stage["title"] for stage in operation.get("stages") or []}
    if (remains := remains_of(operation.get("result"), titles)) is not None:
        lines += ["", *remains_lines(remains)]
    return lines


def attention_lines(operation: Operation) -> list[str]:
    """What an operation waits for from people, and the commands that answer; empty if it waits for nobody."""
    id = operation["id"]
    match operation["phase"]:
        case "waiting_for_decision":
            decision = operation.get("decision") or {}
            lines = [f"Decision needed ({decision.get('id')}): {decision.get('question')}"]
            for field, values in (decision.get("options") or {}).items():
                lines.append(f"  {field}: {', '.join(map(compact, values))}")
            if decision.get("default") is not None:
                lines.append(f"  default: {compact(decision['default'])}")
            return [*lines, f"  answer: instantstart operation decide {id} {_example(decision)}"]
        case "waiting_for_approval":
            return [
                f"Approval needed: {operation.get('detail') or operation['kind']}",
                f"  answer: instantstart operation approve {id}   or   instantstart operation reject {id} --reason …",
            ]
        case "blocked":
            stage = blocked_stage(operation)
            problem = operation.get("problem") or (stage or {}).get("problem") or {"detail": operation.get("detail")}
            verbs = ["retry", *(["skip"] if stage and stage.get("skippable") else []), "abort"]
            return [
                f"Blocked at {stage['title'] if stage else 'a stage'}",
                *problem_lines(problem),
                *(f"  {verb}: instantstart operation {verb} {id}" for verb in verbs),
            ]
        case _:
            return []


def _example(decision: dict[str, Any]) -> str:
    """How an option of several members, or of one, is written as an answer."""
    for field, values in (decision.get("options") or {}).items():
        objects = [value for value in values if isinstance(value, dict)]
        if objects:
            members = max(objects[:2], key=len)
            return " ".join(f"--answer {field}.{key}={value}" for key, value in members.items() if value is not None)
    return "[--answer FIELD=VALUE …]"


def blocked_stage(operation: Operation) -> dict[str, Any] | None:
    """The stage that blocks an operation."""
    return next((stage for stage in operation.get("stages") or [] if stage["state"] == "blocked"), None)


def compact(value: Any) -> str:
    """A value of a decision in one line."""
    if isinstance(value, dict):
        said = {key: compact(item) for key, item in value.items() if item is not None}
        # How capacity is bought is an object that often has nothing but its kind.
        return said["kind"] if set(said) == {"kind"} else " ".join(f"{key}={text}" for key, text in said.items())
    if isinstance(value, list):
        return ",".join(compact(item) for item in value)
    return str(value)
