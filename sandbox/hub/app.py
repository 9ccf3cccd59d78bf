"""The Hub's HTTP API, as far as ``huggingface_hub`` needs it to look at repositories and to download files.

Headers and error codes: ``huggingface_hub.utils.hf_raise_for_status`` and ``huggingface_hub.file_download``.
"""

from __future__ import annotations

import json
import pickle
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode

from sandbox.admin import Admin, AdminError, AdminRequest
from sandbox.faults import Faults, Rule

from .repositories import TOKENS, File, Repositories, Repository, parse

PREFIX = "/_hub"
PAGE = 5
"""Entries of a tree on a page: few, so that paging is seen with small repositories."""
CHUNK = 16 * 1024
_API = re.compile(r"/api/(?P<kind>model|dataset)s/(?P<name>[^/]+/[^/]+)(?P<rest>/.*)?")
_FILE = re.compile(r"/(?P<sets>datasets/)?(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    """Bytes after which the connection breaks."""


class Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Hub:
    """A WSGI application below :data:`PREFIX`. Faults are those of the sandbox, with ``api`` ``hub``."""

    def __init__(self, faults: Faults, touch: Callable[[], None] = lambda: None) -> None:
        self.repositories = Repositories()
        self._faults, self._touch = faults, touch

    def register(self, admin: Admin) -> None:
        """Routes that tests and demos steer it with."""
        admin.route("GET", "hub", self._list)
        admin.route("PUT", "hub", self._put)
        admin.on_reset(self.repositories.reset)

    def dump(self) -> bytes:
        return pickle.dumps(self.repositories.all)

    def load(self, dumped: bytes) -> None:
        self.repositories.all = pickle.loads(dumped)

    def _list(self, request: AdminRequest) -> list[dict[str, Any]]:
        return [
            {
                "repository": each.name,
                "type": each.kind,
                "commit": each.commit,
                "gated": each.gated,
                "private": each.private,
                "files": {path: file.size for path, file in each.files.items()},
            }
            for each in self.repositories.all.values()
        ]

    def _put(self, request: AdminRequest) -> dict[str, Any]:
        if not isinstance(request.body, dict):
            raise AdminError("a repository is an object with repository, files, type, gated, private and seed")
        made = parse(request.body)
        self.repositories.put(made)
        self._touch()
        return {"repository": made.name, "commit": made.commit}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(PREFIX)
        rule = self._faults.pick("hub", "huggingface", f"{method} {path}", "before")
        rule = rule or self._faults.pick("hub", "huggingface", f"{method} {path}", "after")
        for pause in self._faults.pauses(rule) if rule is not None else ():
            time.sleep(pause)
        if rule is not None and rule.action == "drop" and rule.phase == "before":
            _break(environ)
        answer = self._faulty(rule) or self._answer(environ, method, path)
        if rule is not None and rule.action == "drop":
            answer.cut_after = len(answer.body) // 2
        headers = {"Content-Length": str(len(answer.body)), **answer.headers}
        start_response(f"{answer.status} {'OK' if answer.status < 400 else 'Error'}", list(headers.items()))
        return self._sent(environ, answer, method)

    @staticmethod
    def _sent(environ: dict[str, Any], answer: Answer, method: str) -> Iterator[bytes]:
        if method == "HEAD":
            yield b""
            return
        end = len(answer.body) if answer.cut_after is None else answer.cut_after
        for begin in range(0, end, CHUNK):
            yield answer.body[begin : min(begin + CHUNK, end)]
        if answer.cut_after is not None:
            _break(environ)

    @staticmethod
    def _faulty(rule: Rule | None) -> Answer | None:
        if rule is None or rule.action in ("latency", "drop"):
            return None
        status = 500 if rule.action == "http500" else rule.status or 429
        code = {} if status in (429, 500) else {"X-Error-Code": rule.code}
        return Answer(status, rule.message.encode(), {"X-Error-Message": rule.message, **code, **rule.headers})

    def _answer(self, environ: dict[str, Any], method: str, path: str) -> Answer:
        token = environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ").strip()
        try:
            if method not in ("GET", "HEAD"):
                raise Refused(405, "", f"{method} is not served")
            if token and token not in TOKENS:
                raise Refused(401, "", "Invalid credentials in Authorization header")
            if found := _API.fullmatch(path):
                repository = self._repository(found["kind"], found["name"], token)
                return self._told(environ, repository, found["rest"] or "")
            if found := _FILE.fullmatch(path):
                repository = self._repository("dataset" if found["sets"] else "model", found["name"], token)
                return self._file(environ, repository, found["revision"], unquote(found["path"]), token)
            raise Refused(404, "", f"nothing is served at {path}")
        except Refused as refused:
            text = str(refused)
            headers = {"X-Error-Message": text, **({"X-Error-Code": refused.code} if refused.code else {})}
            return _json({"error": text}, refused.status, headers)

    def _repository(self, kind: str, name: str, token: str) -> Repository:
        found = self.repositories.find(kind, name)
        if found is None or (found.private and not TOKENS.get(token)):
            # The Hub does not tell a stranger what is private and what is not there.
            raise Refused(404 if token else 401, "RepoNotFound", "Repository not found")
        return found

    def _told(self, environ: dict[str, Any], repository: Repository, rest: str) -> Answer:
        parts = rest.strip("/").split("/")
        if parts[0] in ("", "revision"):
            _check_revision(repository, unquote("/".join(parts[1:])) or "main")
            return _json(repository.info())
        if parts[0] == "tree" and len(parts) > 1:
            _check_revision(repository, unquote(parts[1]))
            return self._tree(environ, repository, rest, "/".join(parts[2:]))
        raise Refused(404, "", f"nothing is served at {rest}")

    @staticmethod
    def _tree(environ: dict[str, Any], repository: Repository, rest: str, folder: str) -> Answer:
        query = {key: values[0] for key, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        deep = query.get("recursive", "").lower() in ("true", "1")
        below = f"{folder}/" if folder else ""
        entries = [
            each
            for each in repository.entries()
            if each["path"].startswith(below) and (deep or "/" not in each["path"][len(below) :])
        ]
        begin = int(query.get("cursor", "0") or 0)
        headers = {}
        if begin + PAGE < len(entries):
            following = urlencode({**query, "cursor": begin + PAGE})
            url = f"http://{environ['HTTP_HOST']}{environ['PATH_INFO']}?{following}"
            headers["Link"] = f'<{url}>; rel="next"'
        return _json(entries[begin : begin + PAGE], headers=headers)

    @staticmethod
    def _file(environ: dict[str, Any], repository: Repository, revision: str, path: str, token: str) -> Answer:
        if repository.gated and not TOKENS.get(token):
            raise Refused(
                403 if token else 401, "GatedRepo", f"Access to {repository.kind} {repository.name} is restricted"
            )
        _check_revision(repository, revision)
        file = repository.files.get(path)
        if file is None:
            raise Refused(404, "EntryNotFound", "Entry not found")
        return _content(environ, repository, file)


def _content(environ: dict[str, Any], repository: Repository, file: File) -> Answer:
    headers = {
        "Content-Type": "application/octet-stream",
        "Accept-Ranges": "bytes",
        "ETag": f'"{file.etag}"',
        "X-Repo-Commit": repository.commit,
        "X-Linked-Size": str(file.size),
        "X-Linked-ETag": f'"{file.etag}"',
    }
    asked = _RANGE.fullmatch(environ.get("HTTP_RANGE", ""))
    if asked is None:
        return Answer(200, file.content, headers)
    begin, end = int(asked[1]), min(int(asked[2]) if asked[2] else file.size - 1, file.size - 1)
    if begin >= file.size:
        return Answer(416, b"", {**headers, "Content-Range": f"bytes */{file.size}"})
    headers["Content-Range"] = f"bytes {begin}-{end}/{file.size}"
    return Answer(206, file.content[begin : end + 1], headers)


def _check_revision(repository: Repository, revision: str) -> None:
    if revision not in ("main", repository.commit):
        raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return Answer(status, json.dumps(content).encode(), {"Content-Type": "application/json", **(headers or {})})


def _break(environ: dict[str, Any]) -> None:
    """Cut the connection."""
    connection = environ.get("werkzeug.socket")
    if connection is not None:
        connection.shutdown(socket.SHUT_RDWR)
    raise ConnectionError("sandbox fault: connection dropped")
