"""Server-sent events of the gateway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    name: str
    data: str
    id: str | None


def events(lines: Iterator[str]) -> Iterator[Event]:
    """Server-sent events (WHATWG) from the lines of a stream; one that is cut off is dropped."""
    name, id = "message", None
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                yield Event(name, "\n".join(data), id)
            name, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "data":
                data.append(value)
            case "id" if "\0" not in value:
                id = value
