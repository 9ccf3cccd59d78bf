"""A small gateway for tests: it speaks the contract, remembers what it was asked, and breaks off where it is told."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from contracts.cluster import ClusterRecord, ClusterSummary, ClusterView
from contracts.decision import Decision
from contracts.hyperpod import HyperPodCluster, Node
from contracts.operation import Operation, Phase, Stage, StageState
from contracts.problem import ProblemCode, problem
from contracts.storage import Claim

TOKEN = "isk_test"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
ID = "create-cluster/demo"


def operation(phase: Phase = Phase.RUNNING, *states: StageState, **changes: Any) -> Operation:
    """An operation with two stages."""
    first, second = (*states, StageState.PENDING, StageState.PENDING)[:2]
    return Operation(
        id=changes.pop("id", ID),
        kind="create-cluster",
        cluster="demo",
        phase=phase,
        stages=[
            Stage(name="network", title="Network", state=first, attempt=1, started_at=NOW, detail="vpc-1"),
            Stage(name="capacity", title="Capacity", state=second, attempt=2, **changes.pop("stage", {})),
        ],
        plan_hash="0123456789abcdef",
        started_by="tester",
        started_at=NOW,
        updated_at=NOW,
        run_id="run-1",
        **changes,
    )


RUNNING = operation(Phase.RUNNING, StageState.RUNNING)
LATER = operation(Phase.RUNNING, StageState.DONE, StageState.RUNNING)
SUCCEEDED = operation(Phase.SUCCEEDED, StageState.DONE, StageState.DONE)
DECISION = Decision(
    id="capacity",
    question="Which capacity?",
    answer_schema={
        "type": "object",
        "properties": {"instance_type": {"type": "string"}, "count": {"type": "integer", "default": 1}},
        "required": ["instance_type"],
    },
    options={"instance_type": ["ml.g5.8xlarge", "ml.p5.48xlarge"]},
    asked_at=NOW,
    default={"instance_type": "ml.g5.8xlarge", "count": 2},
)
WAITING = operation(
    Phase.WAITING_FOR_DECISION, StageState.DONE, StageState.WAITING, decision=DECISION, detail="needs capacity"
)
SHORTAGE = problem(ProblemCode.CAPACITY, "no ml.g5.8xlarge left", remedy="Choose another zone.", field="/x")
BLOCKED = operation(
    Phase.BLOCKED,
    StageState.DONE,
    StageState.BLOCKED,
    problem=SHORTAGE,
    stage={"problem": SHORTAGE, "skippable": True},
)
RECORD = ClusterRecord(
    tag="demo",
    region="us-west-2",
    created_by="tester",
    created_at=NOW,
    updated_at=NOW,
    hyperpod=HyperPodCluster(name="hp-cluster-demo", arn="arn:aws:sagemaker:::cluster/x", status="InService"),
    nodes=[
        Node(
            name="hyperpod-i-1",
            instance_id="i-1",
            instance_group="workers",
            instance_type="ml.g5.8xlarge",
            zone="us-west-2a",
            capacity_type="on-demand",
            ready=True,
            accelerators=1,
            accelerator_resource="nvidia.com/gpu",
        )
    ],
    storage=[Claim(claim="s3-claim", namespace="default", volume="pv", bucket="sagemaker-demo", phase="Bound")],
)


@dataclass
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Gateway:
    """``script``: the states of the one operation, in order; each stream goes through those that come after the last
    one that its reader has seen. ``cuts``: after which state a stream breaks off, once for each."""

    script: list[Operation] = field(default_factory=lambda: [RUNNING, LATER, SUCCEEDED])
    now: int = 0
    cuts: list[int] = field(default_factory=list)
    answers: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    """Fixed answers by method and path."""
    turns: dict[tuple[str, str], list[tuple[int, Any]]] = field(default_factory=dict)
    """Answers by method and path that are given once each, in turn, before any other."""
    streams: dict[tuple[str, str], str] = field(default_factory=dict)
    """Fixed server-sent events by method and path."""
    asked: list[Asked] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    """While clear, streams stay open behind the last state."""
    port: int = 0
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def requests(self, method: str, ending: str) -> list[Asked]:
        return [each for each in self.asked if each.method == method and each.path.endswith(ending)]

    def start(self) -> None:
        app = Starlette(routes=[Route("/{path:path}", self._serve, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])])
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [listener]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.005)

    def stop(self, *, wait: bool = True) -> None:
        self.hold.set()
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = True
        if wait:
            self._thread.join()

    async def _serve(self, request: Request) -> Response:
        raw = await request.body()
        path = unquote(request.url.path)
        body = json.loads(raw) if raw else None
        self.asked.append(Asked(request.method, path, dict(request.query_params), dict(request.headers), body))
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return refused(problem(ProblemCode.CREDENTIALS, "the bearer token is unknown or revoked"))
        if turns := self.turns.get((request.method, path)):
            status, told = turns.pop(0)
            return JSONResponse(told, status_code=status)
        if fixed := self.answers.get((request.method, path)):
            return JSONResponse(fixed[1], fixed[0])
        if (stream := self.streams.get((request.method, path))) is not None:
            return Response(stream, media_type="text/event-stream")
        match request.method, path.removeprefix("/api/v1"):
            case "GET", "/clusters":
                known = ClusterSummary(tag="demo", region="us-west-2", created_by="me", created_at=NOW, updated_at=NOW)
                return JSONResponse({"clusters": [known.model_dump(mode="json")]})
            case "GET", "/clusters/demo":
                return JSONResponse(ClusterView(record=RECORD).model_dump(mode="json"))
            case "GET", "/operations":
                return JSONResponse({"operations": [document(self.script[self.now])]})
            case "GET", where if where == f"/operations/{ID}/events":
                last = request.headers.get("last-event-id")
                return StreamingResponse(self._events(int(last) if last else -1), media_type="text/event-stream")
            case "GET", where if where == f"/operations/{ID}":
                if "wait" in request.query_params:
                    self.now = min(self.now + 1, len(self.script) - 1)
                return JSONResponse(document(self.script[self.now]))
            case "POST", where if where.startswith(("/clusters", f"/operations/{ID}/")):
                if where.startswith("/operations"):
                    self.now = min(self.now + 1, len(self.script) - 1)
                return JSONResponse(document(self.script[self.now]), 202)
            case "PATCH" | "DELETE", where if where.startswith("/clusters/"):
                return JSONResponse(document(self.script[self.now]), 202)
        return refused(problem(ProblemCode.NOT_FOUND, f"there is no {path}", remedy="Look elsewhere."))

    async def _events(self, last: int) -> AsyncIterator[str]:
        yield "retry: 100\n: watching\n\n"
        for version in range(max(last + 1, self.now), len(self.script)):
            self.now = version
            yield f"id: {version}\nevent: progress\ndata: {json.dumps(document(self.script[version]))}\n\n"
            if self.script[version].phase.needs_attention:
                break
            if version in self.cuts:
                self.cuts.remove(version)
                raise ConnectionResetError("cut off, as the test wants")
        else:
            if self.script[-1].phase.ended:
                return
        while not self.hold.is_set():
            await asyncio.sleep(0.02)


def document(value: Operation) -> Any:
    return value.model_dump(mode="json", by_alias=True)


def refused(body: Any) -> Response:
    return JSONResponse(body.model_dump(mode="json", exclude_none=True), body.status)
