"""Credentials and models through the gateway: a token comes in and never out, lists come in pages."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import Worker

from contracts.credentials import seal_context
from contracts.sealing import Unsealable, new_key, parse_key, unseal
from tests.api.conftest import Gateway, MakeCluster, running_gateway, written
from tests.api.fake_models import HUB, PATHS

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
TOKEN = "hf_canaryCanaryCanaryCanaryCanary00"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sealing(
    temporal: Client, worker: Worker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Gateway, bytes]]:
    """A gateway with a key to seal with, and the key."""
    folder: Path = tmp_path_factory.mktemp("sealing")
    file = folder / "seal.key"
    file.write_text(new_key() + "\n")
    async with running_gateway(folder, temporal, seal_key_file=file) as running:
        yield running, parse_key(file.read_bytes())


async def spec_of(client: Client, operation: str) -> dict[str, Any]:
    found: dict[str, Any] = await client.get_workflow_handle(operation).query("spec")
    return found


async def test_a_token_is_sealed_before_it_is_written_down(
    sealing: tuple[Gateway, bytes], temporal: Client, make_cluster: MakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    gateway, key = sealing
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    url = f"/api/v1/clusters/{tag}/credentials/hub"
    body = {"token": TOKEN, "namespace": "team"}
    with caplog.at_level(logging.DEBUG):
        planned = await gateway.operator.put(url, json=body, params={"validate_only": "true"})
        started = await gateway.operator.put(url, json=body)
        again = await gateway.operator.put(url, json=body)
    assert (planned.status_code, started.status_code, again.status_code) == (200, 202, 202)
    operation = f"store-credential/{tag}/team/hub"
    assert started.json()["id"] == again.json()["id"] == operation
    assert started.json()["run_id"] == again.json()["run_id"]
    spec = await spec_of(temporal, operation)
    assert unseal(key, spec["sealed"], seal_context(tag, "team", "hub")) == TOKEN
    with pytest.raises(Unsealable):
        unseal(key, spec["sealed"], seal_context(tag, "default", "hub"))
    stored = await written(temporal, operation)
    assert spec["sealed"].encode() in stored
    trail = b"".join(path.read_bytes() for path in (gateway.settings.data_dir / "audit").iterdir())
    assert b"credentials/hub" in trail
    for place in (stored, trail, planned.content, started.content, again.content, caplog.text.encode()):
        assert TOKEN.encode() not in place


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"token": f"{TOKEN}\n"}, "/token"),
        ({"token": f"{TOKEN} {TOKEN}"}, "/token"),
        ({"token": ""}, "/token"),
        ({"token": "hf_" + "x" * 5000}, "/token"),
        ({"token": f"{TOKEN}é"}, "/token"),
        ({"token": [TOKEN]}, "/token"),
        ({"tokn": TOKEN}, "/tokn"),
        ({"token": TOKEN, "namespace": "No Such"}, "/namespace"),
        ({"token": TOKEN, "key": TOKEN}, "/key"),
    ],
)
async def test_a_wrong_token_is_refused_without_repeating_it(
    sealing: tuple[Gateway, bytes], make_cluster: MakeCluster, body: dict[str, Any], field: str
) -> None:
    gateway, _ = sealing
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    refused = await gateway.operator.put(f"/api/v1/clusters/{tag}/credentials/hub", json=body)
    assert (refused.status_code, field in {each["field"] for each in refused.json()["errors"]}) == (422, True)
    assert TOKEN not in refused.text
    assert "x" * 100 not in refused.text


async def test_a_name_that_no_secret_can_have_is_refused(
    sealing: tuple[Gateway, bytes], make_cluster: MakeCluster
) -> None:
    gateway, _ = sealing
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    for name in ("Hub", "a_b", "x" * 45):
        for method in ("PUT", "DELETE"):
            body = {"token": TOKEN} if method == "PUT" else None
            url = f"/api/v1/clusters/{tag}/credentials/{name}"
            refused = await gateway.operator.request(method, url, json=body)
            assert (refused.status_code, refused.json()["field"]) == (422, "/name")


async def test_without_a_key_nothing_is_stored_and_the_remedy_is_said(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    refused = await gateway.operator.put(f"/api/v1/clusters/{tag}/credentials/hub", json={"token": TOKEN})
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert "INSTANTSTART_SEAL_KEY_FILE" in refused.json()["remedy"]


async def test_who_only_reads_stores_nothing(sealing: tuple[Gateway, bytes], make_cluster: MakeCluster) -> None:
    gateway, _ = sealing
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    refused = await gateway.viewer.put(f"/api/v1/clusters/{tag}/credentials/hub", json={"token": TOKEN})
    assert refused.status_code == 403


async def test_credentials_are_listed_without_values(gateway: Gateway, make_cluster: MakeCluster) -> None:
    url = f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}/credentials"
    listed = (await gateway.viewer.get(url)).json()
    assert listed["credentials"] == [HUB.model_dump(mode="json")]
    bare = (await gateway.viewer.get(f"/api/v1/clusters/{await make_cluster()}/credentials")).json()
    assert bare["credentials"] == []


async def test_models_come_in_pages_that_belong_to_their_listing(gateway: Gateway, make_cluster: MakeCluster) -> None:
    url = f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}/models"
    query = {"claim": "other", "page_size": "2"}
    first = page = (await gateway.viewer.get(url, params=query)).json()
    assert [each["path"] for each in first["running"]] == ["models/coming"]
    paths = [each["path"] for each in first["models"]]
    while token := page.get("next_page_token"):
        page = (await gateway.viewer.get(url, params={**query, "page_token": token})).json()
        assert page["running"] == []
        paths += [each["path"] for each in page["models"]]
    assert paths == PATHS
    wrong = await gateway.viewer.get(url, params={"page_token": first["next_page_token"]})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "/page_token")
    missing = await gateway.viewer.get(url, params={"claim": "none"})
    assert (missing.status_code, "default/s3-claim" in missing.json()["detail"]) == (404, True)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "/repository"),
        ({"repository": "gpt2"}, "/repository"),
        ({"repository": "a/b/c"}, "/repository"),
        ({"repository": "../etc/passwd"}, "/repository"),
        ({"repository": "a/b", "path": "../../up"}, "/path"),
        ({"repository": "a/b", "path": "models//x"}, "/path"),
        ({"repository": "a/b", "revision": "refs/../x"}, "/revision"),
        ({"repository": "a/b", "repository_type": "space"}, "/repository_type"),
        ({"repository": "a/b", "cpu": 0}, "/cpu"),
        ({"repository": "a/b", "deadline_hours": 1000}, "/deadline_hours"),
        ({"repository": "a/b", "credential": "A B"}, "/credential"),
        ({"repository": "a/b", "image": "an image"}, "/image"),
        ({"repository": "a/b", "hf_token": TOKEN}, "/hf_token"),
    ],
)
async def test_a_wrong_download_is_refused_at_its_field(
    gateway: Gateway, make_cluster: MakeCluster, body: dict[str, Any], field: str
) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    refused = await gateway.operator.post(f"/api/v1/clusters/{tag}/models/downloads", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert TOKEN not in refused.text


async def test_a_download_is_one_operation_for_each_place(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    url = f"/api/v1/clusters/{tag}/models/downloads"
    body = {"repository": "Qwen/Qwen3-8B"}
    first = (await gateway.operator.post(url, json=body)).json()
    again = (await gateway.operator.post(url, json=body)).json()
    other = (await gateway.operator.post(url, json={**body, "path": "models/elsewhere"})).json()
    assert (first["id"], first["run_id"]) == (again["id"], again["run_id"])
    assert first["id"].startswith(f"download-model/{tag}/qwen-qwen3-8b-")
    assert other["id"] != first["id"]
