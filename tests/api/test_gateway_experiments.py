"""Tracking servers and experiments through the gateway: pages, exports, links that are kept nowhere, and starts."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.worker import Worker

from contracts.sealing import new_key, parse_key, seal
from contracts.tracking_servers import link_context
from tests.api.conftest import Gateway, MakeCluster, running_gateway, written
from tests.api.fake_experiments import APP, ARN, RUNS, SEALED

CONTROL_PLANE = {"name": "eks", "arn": "arn:eks", "status": "ACTIVE", "kubernetes_version": "1.34"}
LINK = "https://t-x.us-west-2.experiments.sagemaker.aws/auth?authToken=canaryCanaryCanary"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sealing(
    temporal: Client, worker: Worker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Gateway, bytes]]:
    folder: Path = tmp_path_factory.mktemp("sealing-links")
    file = folder / "seal.key"
    file.write_text(new_key() + "\n")
    async with running_gateway(folder, temporal, seal_key_file=file) as running:
        yield running, parse_key(file.read_bytes())


@pytest_asyncio.fixture
async def url(make_cluster: MakeCluster) -> str:
    return f"/api/v1/clusters/{await make_cluster(control_plane=CONTROL_PLANE)}"


async def test_servers_are_listed_and_read_by_name_and_by_arn(gateway: Gateway, url: str) -> None:
    listed = await gateway.viewer.get(f"{url}/tracking-servers")
    assert [each["name"] for each in listed.json()["servers"]] == ["research"]
    named = await gateway.viewer.get(f"{url}/tracking-servers/research")
    assert named.json()["connections"][0]["namespace"] == "default"
    for path in (quote(APP, safe=""), APP):
        by_arn = await gateway.viewer.get(f"{url}/tracking-servers/{path}")
        assert by_arn.json()["server"]["kind"] == "app"
    assert (await gateway.viewer.get(f"{url}/tracking-servers/none")).status_code == 404
    wrong = await gateway.viewer.get(f"{url}/tracking-servers/a_b")
    assert (wrong.status_code, wrong.json()["field"]) == (422, "/tracking_server")


async def test_a_link_is_answered_to_people_and_is_in_no_history(
    sealing: tuple[Gateway, bytes], temporal: Client, make_cluster: MakeCluster
) -> None:
    gateway, key = sealing
    tag = await make_cluster(control_plane=CONTROL_PLANE)
    SEALED["research"] = seal(key, LINK, link_context(tag, "research"))
    path = f"/api/v1/clusters/{tag}/tracking-servers/research/link"
    answer = await gateway.operator.post(path)
    assert answer.json() == {"url": LINK, "expires_in_seconds": 300}
    assert answer.headers["cache-control"] == "no-store"
    assert (await gateway.viewer.post(path)).status_code == 403
    assert (await gateway.agent.post(path)).status_code == 403
    async for each in temporal.list_workflows("WorkflowType = 'open-tracking-server'"):
        assert b"canaryCanary" not in await written(temporal, each.id, each.run_id)
    trail = b"".join(file.read_bytes() for file in (gateway.settings.data_dir / "audit").iterdir())
    assert b"canaryCanary" not in trail


async def test_runs_come_in_pages_that_belong_to_their_question(gateway: Gateway, url: str) -> None:
    asked: dict[str, Any] = {"tracking_server": "research", "experiment": "qwen", "page_size": 2}
    found, token = [], None
    while True:
        page = (await gateway.viewer.get(f"{url}/experiments/runs", params={**asked, **(token or {})})).json()
        found += [each["run_id"] for each in page["runs"]]
        if "next_page_token" not in page:
            break
        token = {"page_token": page["next_page_token"]}
    assert found == RUNS
    other = await gateway.viewer.get(
        f"{url}/experiments/runs", params={**asked, "experiment": "other", **(token or {})}
    )
    assert (other.status_code, other.json()["field"]) == (422, "/page_token")
    wrong = await gateway.viewer.get(f"{url}/experiments/runs", params={**asked, "filter": "nonsense"})
    assert wrong.status_code == 422
    experiments = await gateway.viewer.get(f"{url}/experiments", params={"tracking_server": ARN, "page_size": 1})
    assert [each["name"] for each in experiments.json()["experiments"]] == ["qwen"]
    assert "next_page_token" in experiments.json()


async def test_an_export_has_all_pages_and_says_where_it_ends_early(gateway: Gateway, url: str) -> None:
    whole = await gateway.viewer.get(f"{url}/experiments/runs.csv", params={"tracking_server": "research"})
    rows = list(csv.DictReader(io.StringIO(whole.text, newline="")))
    assert [each["run_id"] for each in rows] == RUNS
    assert rows[1]["name"] == "'=run-1"
    assert rows[1]["metric.loss"] == "1.0"
    assert whole.headers["content-type"] == "text/csv; charset=utf-8"
    assert "instantstart-truncated" not in whole.headers
    cut = await gateway.viewer.get(f"{url}/experiments/runs.csv", params={"tracking_server": "research", "limit": 4})
    assert len(list(csv.DictReader(io.StringIO(cut.text)))) == 4
    assert cut.headers["instantstart-truncated"] == "true"


async def test_runs_are_read_and_compared(gateway: Gateway, url: str) -> None:
    one = await gateway.viewer.get(f"{url}/experiments/runs/{RUNS[2]}", params={"tracking_server": "research"})
    assert one.json()["run"]["run_id"] == RUNS[2]
    both = {"tracking_server": "research", "run": [RUNS[0], RUNS[1], RUNS[0]]}
    compared = await gateway.viewer.get(f"{url}/experiments/comparison", params=both)
    assert [each["run_id"] for each in compared.json()["runs"]] == RUNS[:2]
    wrong = await gateway.viewer.get(f"{url}/experiments/runs/no-run", params={"tracking_server": "research"})
    assert wrong.status_code == 422


async def test_a_connection_is_tested_by_who_may_only_read(gateway: Gateway, url: str) -> None:
    answer = await gateway.viewer.post(f"{url}/experiments/test", json={"tracking_server": "research"})
    assert answer.json()["passed"]


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "tracking-servers", {"name": "a_b"}, "/name"),
        ("POST", "tracking-servers", {"name": "a", "size": "Tiny"}, "/size"),
        ("DELETE", "tracking-servers/a_b", None, "/name"),
        ("POST", "experiments/connections", {"tracking_server": "research", "namespace": "No Such"}, "/namespace"),
        ("DELETE", "experiments/connections/No_Such", None, "/namespace"),
        ("POST", "experiments/sync", {"source": "a", "experiment": "x", "destination": "b"}, "/destination"),
        ("POST", "experiments/test", {"tracking_server": "arn:aws:s3:::b"}, "/tracking_server"),
    ],
)
async def test_a_wrong_request_is_refused_at_its_field(
    gateway: Gateway, url: str, method: str, path: str, body: Any, field: str
) -> None:
    answer = await gateway.operator.request(method, f"{url}/{path}", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
