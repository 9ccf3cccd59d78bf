"""A Temporal dev server, a worker with fake workflows, and the gateway behind real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import uvicorn
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, FetchWorkflowHistoryEventsInput, Interceptor, OutboundInterceptor
from temporalio.common import SearchAttributeKey
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from api.__main__ import Server, configuration
from api.app import create_app
from api.settings import Settings
from api.tokens import TokenStore
from contracts import queues, visibility
from contracts.access import Role
from contracts.cluster import ClusterRecord, ClusterSummary
from temporal.converter import data_converter
from temporal.keys import KEY_BYTES, Key, KeyRing
from tests.api.fake_workflows import WORKFLOWS, Cluster, wait_for_nodes
from workflows.presets import Preset

CODEC_KEY = Key(b"t" * KEY_BYTES)
SEARCH_ATTRIBUTES: list[SearchAttributeKey[Any]] = [
    *(SearchAttributeKey.for_keyword(name) for name in visibility.KEYWORDS),
    *(SearchAttributeKey.for_bool(name) for name in visibility.BOOLS),
]


Name = Callable[[str], str]
Eventually = Callable[..., Awaitable[Any]]
MakeCluster = Callable[..., Awaitable[str]]


class LongPolls(Interceptor):
    """Counts the long-polls of histories that the gateway opens."""

    def __init__(self) -> None:
        self.opened: list[str] = []

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        opened = self.opened

        class Counting(OutboundInterceptor):
            def fetch_workflow_history_events(self, input: FetchWorkflowHistoryEventsInput) -> Any:
                if input.wait_new_event:
                    opened.append(input.id)
                return super().fetch_workflow_history_events(input)

        return Counting(next)


@dataclass
class Gateway:
    """A gateway that runs, and a client for each role."""

    url: str
    settings: Settings
    tokens: dict[str, str]
    operator: httpx.AsyncClient
    agent: httpx.AsyncClient
    viewer: httpx.AsyncClient
    admin: httpx.AsyncClient
    anonymous: httpx.AsyncClient
    server: uvicorn.Server
    long_polls: LongPolls


@asynccontextmanager
async def dev_server(keys: Sequence[Key] = (CODEC_KEY,)) -> AsyncIterator[Client]:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=f"{sys.prefix}/bin/temporal",
        search_attributes=SEARCH_ATTRIBUTES,
        # Encrypted, so that nothing of the gateway reads payloads past the codec; the local stack's are readable.
        data_converter=data_converter(KeyRing(keys)),
        dev_server_log_level="error",
    ) as environment:
        yield environment.client


async def written(client: Client, workflow_id: str, run_id: str | None = None) -> bytes:
    """All that a history says, its payloads decrypted: a secret must not be found there either."""
    history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    codec = client.data_converter.payload_codec
    assert codec is not None
    payloads = await codec.decode([payload for event in history.events for payload in _payloads(event)])
    return b"".join(part.SerializeToString() for part in (*history.events, *payloads))


def _payloads(message: Message) -> Iterator[Payload]:
    """Every payload in a message, however deep."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        repeated = value.values() if field.message_type.GetOptions().map_entry else value
        for each in repeated if field.is_repeated else [value]:
            if isinstance(each, Message):
                yield from _payloads(each)


@asynccontextmanager
async def running_gateway(
    folder: Path, client: Client, known: dict[str, str] | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    """A gateway that keeps its data in ``folder``. ``known``: tokens of an earlier gateway there; else new ones."""
    given: dict[str, Any] = {
        "data_dir": folder,
        "port": 0,
        "regions": ["us-west-2", "us-east-1"],
        "check_timeout": 1.0,
        "update_timeout": 3.0,
        "query_timeout": 1.0,
        "detail_seconds": 0.2,
        **settings,
    }
    chosen = Settings(**given)
    store = TokenStore(chosen.tokens_path)
    tokens = known or {role.value: store.add(f"{role.value}-1", role) for role in Role}
    long_polls = LongPolls()
    config = client.config()
    config["interceptors"] = [long_polls]
    app = create_app(chosen, Client(**config))
    server = Server(configuration(app, "127.0.0.1", 0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
        if serving.done():
            serving.result()
    port = server.servers[0].sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"

    def caller(role: str | None) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {tokens[role]}"} if role else {}
        return httpx.AsyncClient(base_url=url, headers=headers, timeout=20)

    try:
        async with contextlib.AsyncExitStack() as stack:
            callers = {name: await stack.enter_async_context(caller(name)) for name in tokens}
            anonymous = await stack.enter_async_context(caller(None))
            yield Gateway(url, chosen, tokens, **callers, anonymous=anonymous, server=server, long_polls=long_polls)
    finally:
        # Also where its test failed: streams of other gateways would take its end for theirs.
        server.should_exit = True
        await asyncio.wait_for(serving, 10)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def temporal() -> AsyncIterator[Client]:
    async with dev_server() as client:
        yield client


@asynccontextmanager
async def running_worker(temporal: Client) -> AsyncIterator[Worker]:
    """Workers that host the fake workflows."""
    async with (
        Worker(
            temporal,
            task_queue=queues.ENTITIES,
            workflows=[Cluster, Preset],
            workflow_runner=UnsandboxedWorkflowRunner(),
        ),
        Worker(
            temporal,
            task_queue=queues.WORKFLOWS,
            workflows=WORKFLOWS,
            activities=[wait_for_nodes],
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_heartbeat_throttle_interval=timedelta(milliseconds=100),
            default_heartbeat_throttle_interval=timedelta(milliseconds=100),
        ) as running,
    ):
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def worker(temporal: Client) -> AsyncIterator[Worker]:
    async with running_worker(temporal) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway(temporal: Client, worker: Worker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path_factory.mktemp("gateway"), temporal) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def abandoned(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Gateway, Client]]:
    """A gateway whose Temporal has never seen a worker."""
    async with (
        dev_server() as client,
        running_gateway(tmp_path_factory.mktemp("abandoned"), client, update_timeout=0.5) as running,
    ):
        yield running, client


async def start_cluster(
    client: Client, tag: str, region: str = "us-west-2", summary: dict[str, Any] | None = None, **parts: Any
) -> str:
    """Start the entity of a cluster with these parts of its record, and of its summary; gives its tag."""
    now = datetime.now(UTC)
    about = {"tag": tag, "region": region, "created_by": "test", "created_at": now, "updated_at": now}
    record = ClusterRecord.model_validate({**about, **parts})
    eks_cluster = record.control_plane.name if record.control_plane else None
    listed = ClusterSummary.model_validate({**about, "eks_cluster": eks_cluster, **(summary or {})})
    await client.start_workflow(
        "cluster",
        record,
        id=f"cluster/{tag}",
        task_queue=queues.ENTITIES,
        memo={"record": record, "summary": listed},
    )
    return tag


@pytest.fixture
def name() -> Name:
    """Makes tags that no other test uses; what the fake workflows do follows from the first word."""
    return lambda first: f"{first}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def eventually() -> Eventually:
    """Ask again until the answer satisfies, for at most a minute."""

    async def ask(call: Callable[[], Awaitable[Any]], satisfies: Callable[[Any], Any]) -> Any:
        async with asyncio.timeout(60):
            while not satisfies(answer := await call()):
                await asyncio.sleep(0.03)
            return answer

    return ask


@pytest.fixture
def make_cluster(temporal: Client, name: Name) -> MakeCluster:
    """Starts the entity of a cluster and gives its tag."""

    async def make(first: str = "known", region: str = "us-west-2", client: Client = temporal, **parts: Any) -> str:
        return await start_cluster(client, name(first), region, **parts)

    return make
