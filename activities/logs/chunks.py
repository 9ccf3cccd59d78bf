"""Kept logs in a bucket: ``<prefix>/logs/<pod>/<container>/<number>.log.gz``, and ``<prefix>/logs/index.json``.

A chunk is gzip of lines, each with its time before it, of one start of one container. Its metadata says from which
position to which, so that whoever goes on after a kill knows what is kept. A number is written once
(``If-None-Match``): of two that write at the same time, one goes on behind the other.

API: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from activities.aws import AwsClients, pages
from activities.errors import code_of, is_absent
from activities.logs.splitting import MOST_BYTES, Numbering
from contracts.log_lines import Line, Position, StreamKey, stamp
from contracts.logs import LOGS_FOLDER

_KEY = re.compile(r"(?P<pod>[^/]+)/(?P<container>[^/]+)/(?P<number>\d{6,})\.log\.gz$")


@dataclass(frozen=True)
class Told:
    """What a chunk's metadata says."""

    uid: str
    rank: int
    first: Position
    last: Position
    lines: int
    """In all chunks of the stream up to this one."""
    size: int
    """Bytes of all chunks of the stream before this one."""
    gaps: int

    def metadata(self) -> dict[str, str]:
        return {name: str(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def parse(cls, metadata: dict[str, str]) -> Told:
        """Raises ValueError and KeyError for an object that is none of ours."""
        numbers = {name: int(metadata[name]) for name in ("rank", "lines", "size", "gaps")}
        first, last = Position.parse(metadata["first"]), Position.parse(metadata["last"])
        return cls(uid=metadata["uid"], first=first, last=last, **numbers)


@dataclass
class Folder:
    """The chunks of one container's name in one pod's name."""

    pod: str
    container: str
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes by number."""

    @property
    def newest(self) -> int:
        return max(self.sizes, default=0)


class Chunks:
    """The kept logs below a prefix."""

    def __init__(self, aws: AwsClients, region: str, bucket: str, prefix: str) -> None:
        self._read, self._act = aws.read.s3(region), aws.act.s3(region)
        self._bucket, self._base = bucket, f"{prefix}{LOGS_FOLDER}"

    def folders(self) -> dict[tuple[str, str], Folder]:
        """By pod and container. None where there is no bucket any more."""
        found: dict[tuple[str, str], Folder] = {}
        try:
            for item in pages(self._read, "list_objects_v2", "Contents", Bucket=self._bucket, Prefix=self._base):
                match = _KEY.match(str(item["Key"]).removeprefix(self._base))
                if match is not None:
                    pod, container = unquote(match["pod"]), unquote(match["container"])
                    folder = found.setdefault((pod, container), Folder(pod, container))
                    folder.sizes[int(match["number"])] = int(item["Size"])
        except Exception as error:
            if not is_absent(error, "NoSuchBucket"):
                raise
        return found

    def told(self, pod: str, container: str, number: int) -> Told | None:
        """What is in a chunk; None where there is none."""
        try:
            answer = self._read.head_object(Bucket=self._bucket, Key=self._key(pod, container, number))
        except Exception as error:
            if is_absent(error, "404", "NoSuchKey", "NotFound", "NoSuchBucket"):
                return None
            raise
        return Told.parse(answer["Metadata"])

    def write(self, pod: str, container: str, number: int, lines: Iterable[Line], told: Told) -> int | None:
        """Keep a chunk. Its bytes; None where another has this number already."""
        body = gzip.compress(text_of(lines), 6, mtime=0)
        try:
            self._act.put_object(
                Bucket=self._bucket,
                Key=self._key(pod, container, number),
                Body=body,
                ContentType="application/gzip",
                Metadata=told.metadata(),
                IfNoneMatch="*",
            )
        except Exception as error:
            if code_of(error) in ("PreconditionFailed", "ConditionalRequestConflict", "412"):
                return None
            raise
        return len(body)

    def lines(self, pod: str, container: str, number: int) -> Iterator[Line]:
        """The lines of a chunk, unpacked as they are asked for."""
        return self.opened(pod, container, number)[1]

    def tail(self, folder: Folder, lines: int, most_chunks: int, without: str | None = None) -> list[str]:
        """The newest lines of a container, with their times in front as Kubernetes gives them. ``without``: not those
        of the pod of this UID."""
        found: list[str] = []
        for number in sorted(folder.sizes, reverse=True)[:most_chunks]:
            kept = self.lines(folder.pod, folder.container, number)
            found = [f"{stamp(line.position.at)} {line.text}" for line in kept if line.stream.uid != without] + found
            if len(found) >= lines:
                break
        return found[-lines:]

    def opened(self, pod: str, container: str, number: int) -> tuple[Told, Iterator[Line]]:
        """A chunk: what it says of itself, and its lines, unpacked as they are asked for."""
        answer = self._read.get_object(Bucket=self._bucket, Key=self._key(pod, container, number))
        told = Told.parse(answer["Metadata"])
        return told, _unpacked(StreamKey(pod, container, told.uid), told.first, answer["Body"].read())

    def index(self) -> dict[str, Any]:
        """What was last said to be kept; empty where nothing was."""
        try:
            answer = self._read.get_object(Bucket=self._bucket, Key=f"{self._base}index.json")
        except Exception as error:
            if is_absent(error, "NoSuchKey", "NoSuchBucket", "404"):
                return {}
            raise
        found = json.loads(answer["Body"].read())
        return found if isinstance(found, dict) else {}

    def write_index(self, index: dict[str, Any]) -> None:
        body = json.dumps(index, indent=1).encode()
        key = f"{self._base}index.json"
        self._act.put_object(Bucket=self._bucket, Key=key, Body=body, ContentType="application/json")

    def _key(self, pod: str, container: str, number: int) -> str:
        return f"{self._base}{quote(pod, safe='')}/{quote(container, safe='')}/{number:06d}.log.gz"


def text_of(lines: Iterable[Line]) -> bytes:
    return "".join(f"{stamp(line.position.at)} {line.text}\n" for line in lines).encode(errors="replace")


def newest_run(aws: AwsClients, region: str, bucket: str, prefix: str) -> str | None:
    """The folder below ``prefix`` in which logs were kept last; None where there is none."""
    s3 = aws.read.s3(region)
    newest: tuple[Any, str] | None = None
    try:
        asked: dict[str, Any] = {"Bucket": bucket, "Prefix": f"{prefix}/", "Delimiter": "/"}
        for item in pages(s3, "list_objects_v2", "CommonPrefixes", **asked):
            run = str(item["Prefix"]).removeprefix(f"{prefix}/").rstrip("/")
            found = s3.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/{run}/logs/index.json", MaxKeys=1)
            for index in found.get("Contents", ()):
                if newest is None or index["LastModified"] > newest[0]:
                    newest = (index["LastModified"], run)
    except Exception as error:
        if not is_absent(error, "NoSuchBucket"):
            raise
    return None if newest is None else newest[1]


def _unpacked(stream: StreamKey, first: Position, body: bytes) -> Iterator[Line]:
    numbering = Numbering(stream, first.restart, first)
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as text:
        while raw := text.readline(MOST_BYTES):
            yield numbering.line(raw.removesuffix(b"\n"))
