"""Whatever fits the OpenAPI document, or nearly does, is answered as the document says, and never with a defect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from api.app import create_app
from api.settings import Settings
from contracts import queues
from contracts.inference import CALL_MODEL, CallModel, ModelAnswer
from tests.api.conftest import Gateway, MakeCluster
from tests.security.roles import CONTROL_PLANE, HYPERPOD

CALLS = 4
"""For each route, always the same: there are many routes. Others are sent by raising it."""
ENDLESS = [
    *("watch_operation", "watch_pod_log", "watch_training_log", "download_pod_log", "download_training_log"),
    *("read_pod_log", "read_training_log"),
]
"""Streams, files, and pages that wait for their reader long: their tests are in tests/api."""
PATIENCE = 60.0
"""Seconds. Only what hangs takes as long."""
AGREED = [status_code_conformance, content_type_conformance, response_schema_conformance]

schema = schemathesis.openapi.from_dict(create_app(Settings(data_dir=Path("/nonexistent"))).openapi())
schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])


@activity.defn(name=CALL_MODEL.name)
async def say_hello(request: CallModel) -> ModelAnswer:
    return ModelAnswer(namespace=request.namespace, service=request.service, model="m", text="Hello.", seconds=0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def model(temporal: Client) -> AsyncIterator[None]:
    """Models answer at once: a call to one that never does would end with the patience of whoever calls."""
    async with Worker(temporal, task_queue=queues.WAIT, activities=[say_hello]):
        yield


@pytest.fixture
async def there(make_cluster: MakeCluster) -> str:
    """A cluster that is there."""
    # schemathesis runs a test in what it takes for the current loop. A test before may have set another one, in which
    # neither gateway nor worker would go on.
    asyncio.set_event_loop(asyncio.get_running_loop())
    return await make_cluster(control_plane=CONTROL_PLANE, hyperpod=HYPERPOD)


def defect(answer: requests.Response) -> bool:
    """503 is what is answered where no worker does, and 502 where the account refused the platform."""
    if answer.status_code < 500:
        return False
    types = [str(value) for name, value in answer.headers.items() if name.lower() == "content-type"]
    return answer.status_code not in (502, 503, 504) or "application/" not in "".join(types)


@schema.exclude(operation_id=ENDLESS).parametrize()
@settings(
    # Not the document's examples: each combination of them would be a call, and other tests send what they show.
    phases=[Phase.generate, Phase.shrink],
    max_examples=CALLS,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
async def test_whatever_is_sent_is_answered_as_the_document_says(
    case: Any, gateway: Gateway, there: str, model: None
) -> None:
    parameters = case.path_parameters or {}
    # Half of the calls are about a cluster that is there: behind an unknown one lies nothing.
    if "tag" in parameters and len(str(parameters["tag"])) % 2 == 0:
        parameters["tag"] = there
    # Nothing happens that a long poll would be ended by.
    with suppress(KeyError, TypeError, ValueError, OverflowError):
        case.query["wait"] = min(int(float(case.query["wait"])), 1)
    # What else may be sent there, and is refused, is in test_roles.py.
    case.headers["Authorization"] = f"Bearer {gateway.tokens['admin']}"
    answer = await asyncio.to_thread(case.call, base_url=gateway.url, timeout=PATIENCE)
    assert not defect(answer), f"{answer.status_code} {answer.text}"
    case.validate_response(answer, checks=AGREED)
