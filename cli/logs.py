"""Logs on the terminal: a page, all of it as text, or live across broken connections."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import httpx

from cli.errors import CliError, Exit, say
from cli.follow import SILENCE, Patience
from cli.gateway import API, Gateway, checked
from client.events import Event, events

PAGE_LINES = 5000
PAGE_SECONDS = 70.0
"""A page of hundreds of logs may take a minute; the gateway says then that it has none."""
_AGO = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def show(
    gateway: Gateway,
    path: str,
    output: str,
    *,
    follow: bool,
    everything: bool,
    tail: int | None,
    since: str | None,
    timestamps: bool,
    merged: bool,
    **query: Any,
) -> None:
    """Print the log at ``path``. ``merged``: of several pods, so that each line says whose it is."""
    asked = {name: value for name, value in query.items() if value not in (None, False)}
    if since is not None:
        asked["since"] = moment(since)
    elif everything and follow:
        asked["since"] = "1970-01-01T00:00:00Z"
    elif not everything:
        asked["tail"] = 200 if tail is None else tail
    if follow:
        write = _as_json if output == "json" else lambda line: _write(line, timestamps, merged)
        _follow(gateway, path, asked, write)
    elif output in ("json", "yaml"):
        from cli.output import emit

        emit(output, _pages(gateway, path, asked), lambda answer: [])
    elif everything:
        _copy(gateway, path, asked, timestamps, merged)
    else:
        answer = _pages(gateway, path, asked)
        for line in answer["lines"]:
            _write(line, timestamps, merged)
        for gap in answer["gaps"]:
            say(_gap(gap))


def moment(text: str) -> str:
    """A time of RFC 3339 as it is, and ``10m`` as the time ten minutes ago. Raises click.BadParameter."""
    if found := _AGO.fullmatch(text):
        return (datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})).isoformat()
    try:
        if datetime.fromisoformat(text).tzinfo is not None:
            return text
    except ValueError:
        pass
    raise click.BadParameter(f"{text!r} is neither like 10m nor a time with its zone", param_hint="--since")


def _pages(gateway: Gateway, path: str, asked: dict[str, Any]) -> dict[str, Any]:
    """The newest lines are one page; the others are as many as there are."""
    answer: dict[str, Any] = gateway.get(path, within=PAGE_SECONDS, **asked)
    lines = answer["lines"]
    while not answer["end"]:
        answer = gateway.get(path, within=PAGE_SECONDS, **{**asked, "tail": None, "cursor": answer["cursor"]})
        lines += answer["lines"]
    return {**answer, "lines": lines}


def _copy(gateway: Gateway, path: str, asked: dict[str, Any], timestamps: bool, merged: bool) -> None:
    """All of it, page by page: a gateway that goes in the midst of it is waited for, and no line is lost or doubled."""
    cursor: str | None = None
    while True:
        answer = _patiently(gateway, path, {**asked, "limit": PAGE_LINES}, cursor)
        for line in answer["lines"]:
            begin = f"{line['at']} " if timestamps else ""
            begin += f"[{line['pod']}/{line['container']}] " if merged else ""
            sys.stdout.write(f"{begin}{line['text']}\n")
        for gap in answer["gaps"]:
            say(_gap(gap))
        if answer["end"]:
            sys.stdout.flush()
            return
        cursor = answer["cursor"]


def _patiently(gateway: Gateway, path: str, asked: dict[str, Any], cursor: str | None) -> dict[str, Any]:
    """A page. Behind a first one, a gateway that does not answer is asked again."""
    patience = Patience(say)
    while True:
        try:
            page: dict[str, Any] = gateway.get(path, within=PAGE_SECONDS, **asked, cursor=cursor)
            return page
        except CliError as error:
            if cursor is None or not _passes(error):
                raise
            if patience.lost("the gateway does not answer; trying again"):
                raise
        patience.rest()


def _passes(error: CliError) -> bool:
    """Whether the gateway, or what it speaks to, was not there."""
    return error.exit is Exit.FAILED and (error.problem is None or error.problem.get("status") in (502, 503, 504))


def _follow(gateway: Gateway, path: str, asked: dict[str, Any], write: Callable[[dict[str, Any]], None]) -> None:
    last_id: str | None = None
    patience = Patience(say)
    while True:
        try:
            for event in _stream(gateway, path, asked, last_id):
                if event is None:
                    patience.found()
                    continue
                last_id = event.id if event.id is not None else last_id
                if _take(event, write):
                    return
        except httpx.TransportError as error:
            if patience.lost(f"connection to the gateway lost ({type(error).__name__}); trying again"):
                raise gateway.silent(error) from None
        patience.rest()


def _stream(gateway: Gateway, path: str, asked: dict[str, Any], last_id: str | None) -> Iterator[Event | None]:
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id is not None else {})
    timeout = httpx.Timeout(SILENCE, connect=5.0)
    with gateway.http.stream("GET", f"{API}{path}/stream", params=asked, headers=headers, timeout=timeout) as answer:
        if answer.status_code >= 500 and last_id is not None:  # on its way down, or not yet connected to Temporal
            raise httpx.RemoteProtocolError(f"status {answer.status_code}")
        if not answer.is_success:
            answer.read()
            checked(answer)
        yield None
        yield from events(answer.iter_lines())


def _take(event: Event, write: Callable[[dict[str, Any]], None]) -> bool:
    """Show an event. Whether it was the last."""
    told = json.loads(event.data)
    match event.name:
        case "lines":
            for line in told["lines"]:
                write(line)
            sys.stdout.flush()
        case "gap":
            say(_gap(told))
        case "problem":
            raise CliError.of(told)
        case "end":
            say("the pod is gone" if told["reason"] == "gone" else "all containers have ended")
            return True
    return False


def _gap(gap: dict[str, Any]) -> str:
    after = f" after {gap['after']}" if gap.get("after") else ""
    return f"lines of {gap['pod']}/{gap['container']} are missing{after}: {gap['why']}"


def _write(line: dict[str, Any], timestamps: bool, merged: bool) -> None:
    begin = f"{line['at']} " if timestamps else ""
    if merged:
        rank = line["rank"]
        begin += f"[{line['pod'] if rank is None else rank}] "
    sys.stdout.write(f"{begin}{line['text']}\n")


def _as_json(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
