"""Answers, and the forms in which clients ask for objects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from . import eventapi
from .requests import Call
from .resources import Json, ResourceType
from .tables import partial, table

JSON = "application/json"


@dataclass
class Reply:
    body: bytes
    code: int = 200
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
    delay: float = 0.0
    """Real seconds until it is sent."""


@dataclass
class Stream:
    """An answer in pieces: a watch, a log that is followed, events. Breaks off if the iterator raises."""

    chunks: Callable[[], AsyncIterator[bytes]]
    content_type: str = JSON
    headers: list[tuple[str, str]] = field(default_factory=list)
    delay: float = 0.0


def encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def reply(value: object, code: int = 200, content_type: str = JSON) -> Reply:
    return Reply(encode(value), code, content_type)


def text(value: str, code: int = 200) -> Reply:
    return Reply(value.encode(), code, "text/plain; charset=utf-8")


def presented(kind: ResourceType, obj: Json) -> Json:
    """A stored object in the version that is asked for. Versions of custom resources differ in name only."""
    if kind.group == "events.k8s.io":
        return eventapi.from_storage(kind, obj)
    if obj.get("apiVersion") != kind.group_version:
        return {**obj, "apiVersion": kind.group_version}
    return obj


def wants_table(call: Call) -> bool:
    return "as=Table" in call.accept


def object_form(call: Call, kind: ResourceType, obj: Json, now: float) -> Json:
    """An object as the Accept header asks for it: itself, a table of one row, its metadata."""
    obj = presented(kind, obj)
    if wants_table(call):
        meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return table(kind, [obj], now, meta, call.query.get("includeObject", "Metadata"))
    if "as=PartialObjectMetadata" in call.accept:
        return partial(obj)
    return obj


def list_form(call: Call, kind: ResourceType, objects: list[Json], meta: Json, now: float) -> Json:
    objects = [presented(kind, obj) for obj in objects]
    if wants_table(call):
        return table(kind, objects, now, meta, call.query.get("includeObject", "Metadata"))
    if "as=PartialObjectMetadataList" in call.accept:
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": meta,
            "items": [partial(obj) for obj in objects],
        }
    return {"kind": kind.list_kind, "apiVersion": kind.group_version, "metadata": meta, "items": objects}


def object_reply(call: Call, kind: ResourceType, obj: Json, now: float, code: int = 200) -> Reply:
    """An object with the warnings that its request earned."""
    answer = reply(object_form(call, kind, obj, now), code)
    for warning in call.warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        answer.headers.append(("warning", f'299 - "{quoted}"'))
    return answer


def success(details: Json | None = None, code: int = 200) -> Reply:
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = details
    if code != 200:
        body["code"] = code
    return reply(body, code)
