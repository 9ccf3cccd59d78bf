"""Temporal's remote codec: who may read payloads, and which pages may ask."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from temporalio.client import Client

from api.codec import LARGEST_BODY
from contracts.access import SESSION_COOKIE
from temporal.converter import data_converter
from temporal.keys import Key, KeyRing
from tests.api.conftest import Gateway, running_gateway

WEB_UI = "https://temporal.example.com"
KEY, LOST = Key(b"k" * 32), Key(b"l" * 32)
PLAIN = {"metadata": {"encoding": base64.b64encode(b"json/plain").decode()}, "data": base64.b64encode(b'"x"').decode()}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """A gateway with a codec key; its Temporal is not there."""
    client = await Client.connect("127.0.0.1:1", lazy=True, data_converter=data_converter(KeyRing([KEY])))
    folder = tmp_path_factory.mktemp("codec")
    async with running_gateway(folder, client, temporal_ui_url=f"{WEB_UI}/ui") as running:
        yield running


async def _sealed(caller: httpx.AsyncClient) -> dict[str, Any]:
    answer = await caller.post("/codec/encode", json={"payloads": [PLAIN]}, headers={"X-Namespace": "default"})
    (sealed,) = answer.raise_for_status().json()["payloads"]
    found: dict[str, Any] = sealed
    return found


async def test_what_is_encoded_is_decoded_again(gateway: Gateway) -> None:
    sealed = await _sealed(gateway.operator)
    assert base64.b64decode(sealed["metadata"]["encoding"]) == b"binary/encrypted"
    answer = await gateway.admin.post("/codec/decode", json={"payloads": [sealed, PLAIN]})
    assert answer.json()["payloads"] == [PLAIN, PLAIN]
    assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/codec/decode", "/codec/encode"])
async def test_only_people_who_operate_may_read_payloads(gateway: Gateway, path: str) -> None:
    for caller, status in ((gateway.anonymous, 401), (gateway.viewer, 403), (gateway.agent, 403)):
        assert (await caller.post(path, json={"payloads": [PLAIN]})).status_code == status


async def test_each_reading_is_in_the_audit_trail(gateway: Gateway) -> None:
    await gateway.operator.post("/codec/decode", json={"payloads": [PLAIN] * 3}, headers={"X-Namespace": "default"})
    (entry, *_) = (await gateway.admin.get("/api/v1/audit")).json()["entries"]
    assert (entry["path"], entry["by"]) == ("/codec/decode", "operator-1")
    assert entry["detail"] == "3 payloads of namespace default"


async def test_a_payload_of_a_lost_key_is_given_back_as_it_is(gateway: Gateway) -> None:
    sealed = await _sealed(gateway.operator)
    lost = replace_key(sealed, LOST)
    answer = await gateway.operator.post("/codec/decode", json={"payloads": [lost, sealed]})
    assert answer.json()["payloads"] == [lost, PLAIN]


async def test_as_much_is_decoded_as_temporal_holds_together(gateway: Gateway) -> None:
    # Two payloads of the largest size that Temporal takes fill the largest transaction of a history.
    largest = base64.b64encode(os.urandom(1024) * 2048).decode()
    payloads = [{**PLAIN, "data": largest}] * 2
    sealed = (await gateway.operator.post("/codec/encode", json={"payloads": payloads})).raise_for_status().json()
    answer = await gateway.operator.post("/codec/decode", json=sealed)
    assert answer.json()["payloads"] == payloads


async def test_more_than_that_is_refused_as_everywhere(gateway: Gateway) -> None:
    answer = await gateway.operator.post("/codec/decode", content=b"x" * (LARGEST_BODY + 1))
    assert answer.status_code == 413
    assert str(LARGEST_BODY) in answer.json()["detail"]


def replace_key(sealed: dict[str, Any], key: Key) -> dict[str, Any]:
    named = {"encryption-key-id": base64.b64encode(key.id.encode()).decode()}
    return {**sealed, "metadata": {**sealed["metadata"], **named}}


@pytest.mark.parametrize("body", [b"", b"{", b'{"payloads": 3}', b'{"payloads": [{"data": 3}]}', b"\xff"])
async def test_what_is_no_list_of_payloads_is_a_problem(gateway: Gateway, body: bytes) -> None:
    answer = await gateway.operator.post("/codec/decode", content=body)
    assert answer.status_code == 400
    assert answer.json()["remedy"]


async def _session(gateway: Gateway) -> str:
    found = await gateway.operator.post("/api/v1/sessions")
    token: str = found.raise_for_status().json()["token"]
    return f"{SESSION_COOKIE}={token}"


async def test_the_web_ui_reads_with_the_session_of_the_console(gateway: Gateway) -> None:
    asked = {"Origin": WEB_UI, "Cookie": await _session(gateway)}
    answer = await gateway.anonymous.post("/codec/decode", json={"payloads": [PLAIN]}, headers=asked)
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == WEB_UI
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"


@pytest.mark.parametrize("origin", ["https://evil.example", "http://temporal.example.com", None])
async def test_no_other_page_reads_with_it(gateway: Gateway, origin: str | None) -> None:
    asked = {"Cookie": await _session(gateway), **({"Origin": origin} if origin else {})}
    answer = await gateway.anonymous.post("/codec/decode", json={"payloads": [PLAIN]}, headers=asked)
    assert answer.status_code == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_page_of_the_web_ui_sees_why_it_may_not(gateway: Gateway) -> None:
    answer = await gateway.anonymous.post("/codec/decode", json={"payloads": []}, headers={"Origin": WEB_UI})
    assert answer.status_code == 401
    assert answer.headers["Access-Control-Allow-Origin"] == WEB_UI


async def test_the_browser_may_ask_beforehand_for_the_codec_and_nothing_else(gateway: Gateway) -> None:
    asked = {
        "Origin": WEB_UI,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-namespace",
    }
    allowed = await gateway.anonymous.request("OPTIONS", "/codec/decode", headers=asked)
    assert allowed.status_code == 200
    assert allowed.headers["Access-Control-Allow-Origin"] == WEB_UI
    foreign = await gateway.anonymous.request("OPTIONS", "/codec/decode", headers={**asked, "Origin": "https://evil"})
    assert "Access-Control-Allow-Origin" not in foreign.headers
    for path in ("/api/v1/clusters", "/api/v1/sessions", "/codec"):
        refused = await gateway.anonymous.request("OPTIONS", path, headers=asked)
        assert "Access-Control-Allow-Origin" not in refused.headers


async def test_the_session_opens_nothing_else_as_a_cookie(gateway: Gateway) -> None:
    asked = {"Origin": WEB_UI, "Cookie": await _session(gateway)}
    assert (await gateway.anonymous.get("/api/v1/clusters", headers=asked)).status_code == 401
