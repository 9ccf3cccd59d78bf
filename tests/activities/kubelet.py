"""A Kubernetes API that knows pods and their logs only, and does what tests say: cuts connections, restarts containers,
takes pods away. Times and whole seconds are as with a real kubelet."""

from __future__ import annotations

import json
import select
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import certifi

from activities.kubernetes import Connection
from contracts.log_lines import nanoseconds, stamp

CONTAINER = "pytorch"
START = 1_800_000_000_000_000_000
STEP = 7_000_001


@dataclass
class Run:
    """One start of a container."""

    lines: list[tuple[int, bytes]] = field(default_factory=list)
    readable: int = 0
    """Lines before this one are in a file that is not read any more."""


@dataclass
class FakePod:
    name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    uid: str
    created: str
    runs: list[Run]
    state: str = "running"
    """``waiting`` (not started), ``running``, ``ended`` or ``gone``."""

    def document(self, version: int) -> dict[str, Any]:
        status: dict[str, Any] = {"name": CONTAINER, "restartCount": max(len(self.runs) - 1, 0)}
        if self.state == "waiting":
            status["state"] = {"waiting": {"reason": "ContainerCreating"}}
        elif self.state == "running":
            status["state"] = {"running": {}}
        else:
            status["state"] = {"terminated": {"reason": "Completed", "exitCode": 0}}
        if len(self.runs) > 1:
            status["lastState"] = {"terminated": {"reason": "Error", "exitCode": 1}}
        phase = {"waiting": "Pending", "running": "Running"}.get(self.state, "Succeeded")
        return {
            "metadata": {
                "name": self.name,
                "namespace": "default",
                "uid": self.uid,
                "labels": self.labels,
                "annotations": self.annotations,
                "creationTimestamp": self.created,
                "resourceVersion": str(version),
            },
            "spec": {"containers": [{"name": CONTAINER}]},
            "status": {"phase": phase, "containerStatuses": [status]},
        }


class Kubelet:
    """What is there. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self.news = threading.Condition()
        self.pods: dict[str, FakePod] = {}
        self.events: list[tuple[int, str, FakePod]] = []
        self.owner: dict[str, Any] | None = {"status": {}}
        self.cuts = 0
        self.vanishing: set[str] = set()
        """Pods that are deleted in the moment in which their log is opened."""
        self.anew = False
        """In their place others are made, which never start."""
        self.readers = 0
        """Logs that are followed now."""
        self.most_readers = 0
        self.opened = 0
        self.refusal: tuple[int, str] | None = None
        """With which logs are refused."""
        self.clock = START
        self.step = STEP

    def pod(self, name: str, labels: dict[str, str] | None = None, state: str = "running", **more: str) -> FakePod:
        with self.news:
            created = stamp(self._tick() // 1_000_000_000 * 1_000_000_000)
            runs = [] if state == "waiting" else [Run()]
            made = FakePod(name, labels or {"run": "a"}, more, str(uuid.uuid4()), created, runs, state)
            self.pods[name] = made
            self._told("ADDED", made)
            return made

    def write(self, name: str, *lines: str | bytes, end: bytes = b"\n") -> None:
        with self.news:
            run = self.pods[name].runs[-1]
            for line in lines:
                raw = line.encode() if isinstance(line, str) else line
                run.lines.append((self._tick(), raw + end))
            self.news.notify_all()

    def start(self, name: str) -> None:
        """A waiting container starts; another starts again, as if it had crashed."""
        with self.news:
            pod = self.pods[name]
            pod.runs.append(Run())
            pod.state = "running"
            self._told("MODIFIED", pod)

    def finish(self, name: str) -> None:
        with self.news:
            self.pods[name].state = "ended"
            self._told("MODIFIED", self.pods[name])

    def delete(self, name: str) -> None:
        with self.news:
            pod = self.pods.pop(name)
            pod.state = "gone"
            self._told("DELETED", pod)

    def rotate(self, name: str) -> None:
        """The node begins a new file for the log: who opens it now does not see what is in the old one."""
        with self.news:
            run = self.pods[name].runs[-1]
            run.readable = len(run.lines)

    def cut(self) -> None:
        """Break every open connection off."""
        with self.news:
            self.cuts += 1
            self.news.notify_all()

    def end_owner(self) -> None:
        with self.news:
            self.owner = {"status": {"conditions": [{"type": "Completed", "status": "True"}]}}

    def printed(self, pod: FakePod) -> list[str]:
        return [line.decode(errors="replace").rstrip("\n") for run in pod.runs for _, line in run.lines]

    def _tick(self) -> int:
        self.clock += self.step
        return self.clock

    def _told(self, kind: str, pod: FakePod) -> None:
        self.events.append((len(self.events) + 1, kind, pod))
        self.news.notify_all()

    @contextmanager
    def served(self) -> Iterator[str]:
        """Its URL."""
        kubelet = self

        class Handler(_Handler):
            there = kubelet

        server = _Server(("127.0.0.1", 0), Handler)
        serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            self.cut()
            server.shutdown()
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections are broken off here on purpose."""


class _Handler(BaseHTTPRequestHandler):
    there: Kubelet
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        segments = parts.path.strip("/").split("/")
        if segments[0] == "apis":
            self._answer(200, self.there.owner) if self.there.owner is not None else self._none()
        elif segments[-1] == "log":
            self._log(segments[-2], query)
        elif segments[-1] == "pods":
            self._watch(query) if query.get("watch") else self._list(query)
        else:
            with self.there.news:
                pod = self.there.pods.get(segments[-1])
                document = None if pod is None else pod.document(len(self.there.events))
            self._answer(200, document) if document is not None else self._none()

    def _fits(self, pod: FakePod, query: dict[str, str]) -> bool:
        labels = dict(each.split("=", 1) for each in query.get("labelSelector", "").split(",") if each)
        name = query.get("fieldSelector", "").removeprefix("metadata.name=")
        return all(pod.labels.get(key) == value for key, value in labels.items()) and name in ("", pod.name)

    def _list(self, query: dict[str, str]) -> None:
        with self.there.news:
            version = len(self.there.events)
            items = [pod.document(version) for pod in self.there.pods.values() if self._fits(pod, query)]
        self._answer(200, {"metadata": {"resourceVersion": str(version)}, "items": items})

    def _watch(self, query: dict[str, str]) -> None:
        self._begin()
        seen, cuts = int(query["resourceVersion"] or 0), self.there.cuts
        while True:
            with self.there.news:
                while len(self.there.events) <= seen and self.there.cuts == cuts:
                    self.there.news.wait(0.5)
                if self.there.cuts != cuts:
                    self.close_connection = True
                    return
                fresh = self.there.events[seen:]
                seen = len(self.there.events)
                told = [
                    json.dumps({"type": kind, "object": pod.document(version)})
                    for version, kind, pod in fresh
                    if self._fits(pod, query)
                ]
            for line in told:
                self._piece(line.encode() + b"\n")

    def _log(self, name: str, query: dict[str, str]) -> None:
        there = self.there
        assert query["timestamps"] == "true"
        with there.news:
            there.opened += 1
            pod, cuts = there.pods.get(name), there.cuts
            if there.refusal is not None:
                status, message = there.refusal
                return self._answer(status, {"kind": "Status", "message": message})
            if pod is None:
                return self._none()
            number = len(pod.runs) - (2 if query.get("previous") else 1)
            if number < 0 or query.get("container") != CONTAINER:
                return self._answer(400, {"kind": "Status", "message": "is waiting to start"})
            run = pod.runs[number]
            since = nanoseconds(query["sinceTime"]) if "sinceTime" in query else None
            lines = [line for line in run.lines[run.readable :] if since is None or line[0] >= since]
            lines = lines[-int(query["tailLines"]) :] if "tailLines" in query else lines
            seen = len(run.lines)
            if name in there.vanishing:
                there.delete(name)
                if there.anew:
                    there.pod(name, state="waiting")
        self._begin()
        self._lines(lines)
        if not query.get("follow"):
            return self._end()
        with there.news:
            there.readers += 1
            there.most_readers = max(there.most_readers, there.readers)
        try:
            while True:
                with there.news:
                    while len(run.lines) == seen and there.cuts == cuts and self._lives(pod, run) and not self._left():
                        there.news.wait(0.2)
                    fresh, lives, cut = run.lines[seen:], self._lives(pod, run), there.cuts != cuts
                    seen = len(run.lines)
                if cut or self._left():
                    self.close_connection = True
                    return None
                self._lines(fresh)
                if not lives and not fresh:
                    return self._end()
        finally:
            with there.news:
                there.readers -= 1

    def _left(self) -> bool:
        """Whether the reader has hung up."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)

    def _lives(self, pod: FakePod, run: Run) -> bool:
        return pod.state == "running" and pod.runs[-1] is run

    def _lines(self, lines: list[tuple[int, bytes]]) -> None:
        text = b"".join(stamp(at).encode() + b" " + line for at, line in lines)
        for start in range(0, len(text), 3001):
            self._piece(text[start : start + 3001])

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _piece(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _end(self) -> None:
        self.wfile.write(b"0\r\n\r\n")

    def _none(self) -> None:
        self._answer(404, {"kind": "Status", "message": "not found"})

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class FakeClients:
    """In the place of KubernetesClients."""

    def __init__(self, url: str) -> None:
        self._url = url
        text = Path(certifi.where()).read_text()
        self._authority = text[text.index("-----BEGIN") : text.index("-----END CERTIFICATE-----") + 26]

    def connection(self, region: str, cluster: str) -> Connection:
        return Connection(cluster, "arn", self._url, self._authority, lambda: "a-token")
