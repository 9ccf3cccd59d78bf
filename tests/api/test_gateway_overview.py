"""What an overview page asks for: usage, durations, clusters by search, operations by time, kinds and phases."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client

from api import searching
from contracts import queues
from contracts.answers import ClusterUsage
from contracts.cluster import ClusterRecord
from contracts.durations import Durations
from contracts.hyperpod import Node
from tests.api.conftest import Eventually, Gateway, MakeCluster, Name
from tests.api.fake_workflows import NODE_READINGS


async def found(gateway: Gateway, **query: Any) -> list[str]:
    answer = await gateway.viewer.get("/api/v1/operations", params={"page_size": 200, **query})
    assert answer.status_code == 200, answer.text
    return [each["id"] for each in answer.json()["operations"]]


async def clusters(gateway: Gateway, size: int, **query: Any) -> list[list[str]]:
    """Tags, page by page."""
    pages: list[list[str]] = []
    while True:
        answer = await gateway.viewer.get("/api/v1/clusters", params={"page_size": size, **query})
        assert answer.status_code == 200, answer.text
        body = answer.json()
        pages.append([each["tag"] for each in body["clusters"]])
        if "next_page_token" not in body:
            return pages
        query["page_token"] = body["next_page_token"]


async def test_usage_is_read_once_for_all_who_ask(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    url = f"/api/v1/clusters/{tag}/usage"
    answers = await asyncio.gather(*(gateway.viewer.get(url) for _ in range(20)))
    assert [each.status_code for each in answers] == [200] * 20
    assert len({each.text for each in answers}) == 1
    usage = ClusterUsage.model_validate_json(answers[0].content)
    (gpus,) = usage.summary.resources
    assert (usage.summary.nodes, usage.summary.ready, usage.summary.unhealthy, usage.summary.pods) == (5, 4, 1, 9)
    assert (gpus.name, gpus.capacity, gpus.used, gpus.pending) == ("nvidia.com/gpu", 40, 24, 16)
    assert NODE_READINGS[tag] == 1


async def test_usage_of_what_does_not_answer_is_a_problem_and_is_asked_anew(
    gateway: Gateway, make_cluster: MakeCluster
) -> None:
    tag = await make_cluster("mute")
    for times in (1, 2):
        answer = await gateway.viewer.get(f"/api/v1/clusters/{tag}/usage")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["Retry-After"]
        assert NODE_READINGS[tag] == times
    assert (await gateway.viewer.get("/api/v1/clusters/nowhere/usage")).status_code == 404


async def test_usage_without_a_worker_is_a_problem(
    abandoned: tuple[Gateway, Client], make_cluster: MakeCluster
) -> None:
    gateway, client = abandoned
    tag = await make_cluster(client=client)
    answer = await gateway.viewer.get(f"/api/v1/clusters/{tag}/usage")
    assert (answer.status_code, answer.json()["detail"]) == (503, "no worker is running")


async def test_durations_are_of_operations_that_succeeded(
    gateway: Gateway, temporal: Client, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    url = "/api/v1/durations?kind=verify-access"
    tag = await make_cluster()
    for _ in range(2):
        started = await gateway.operator.post(f"/api/v1/clusters/{tag}/access")
        await temporal.get_workflow_handle(started.json()["id"]).signal("finish")
        await temporal.get_workflow_handle(started.json()["id"]).result()
    aborted = await gateway.operator.post(f"/api/v1/clusters/{await make_cluster()}/access")
    await temporal.get_workflow_handle(aborted.json()["id"]).terminate()
    await eventually(lambda: found(gateway, cluster=tag, phase="succeeded"), lambda ids: len(ids) == 2)
    answer = await gateway.viewer.get(url)
    durations = Durations.model_validate_json(answer.content)
    assert (durations.kind, durations.samples) == ("verify-access", 2)
    assert [each.stage for each in durations.stages] == ["network", "nodes"]
    assert durations.total_median_seconds is not None
    assert durations.stages[1].ends_seconds == durations.total_median_seconds
    assert (await gateway.viewer.get(url)).content == answer.content


async def test_durations_of_what_was_never_done_are_empty_and_of_no_kind_a_problem(gateway: Gateway) -> None:
    none = await gateway.viewer.get("/api/v1/durations?kind=delete-node-pool")
    assert none.json() == {"kind": "delete-node-pool", "samples": 0, "stages": [], "total_median_seconds": None}
    wrong = await gateway.viewer.get("/api/v1/durations?kind=create")
    assert (wrong.status_code, wrong.json()["field"]) == (422, "/kind")
    assert (await gateway.viewer.get("/api/v1/durations")).json()["errors"][0]["field"] == "/kind"


async def test_operations_are_found_by_when_they_started(
    gateway: Gateway, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    tag = await make_cluster()
    started = []
    for claim in ("one", "two", "three"):
        answer = await gateway.operator.post(f"/api/v1/clusters/{tag}/storage", json={"claim": claim})
        started.append(datetime.fromisoformat(answer.json()["started_at"]))
    await eventually(lambda: found(gateway, cluster=tag), lambda ids: len(ids) == 3)
    one, two, three = (f"create-storage/{tag}/{claim}" for claim in ("one", "two", "three"))
    second = started[1].isoformat()
    assert await found(gateway, cluster=tag, started_after=second) == [three, two]
    assert await found(gateway, cluster=tag, started_before=second) == [one]
    elsewhere = (started[1].replace(tzinfo=None) + timedelta(hours=5)).isoformat() + "+05:00"
    assert await found(gateway, cluster=tag, started_after=elsewhere) == [three, two]
    assert await found(gateway, cluster=tag, started_after=second, started_before=started[2].isoformat()) == [two]


@pytest.mark.parametrize("moment", ["2026-01-31T12:00:00", "2026-01-31", "1769860800", "yesterday", ""])
@pytest.mark.parametrize("name", ["started_after", "started_before"])
async def test_a_time_without_a_zone_or_a_day_is_refused(gateway: Gateway, name: str, moment: str) -> None:
    answer = await gateway.viewer.get("/api/v1/operations", params={name: moment})
    assert answer.status_code == 422
    assert answer.json()["field"] == f"/{name}"


async def test_kinds_and_phases_may_be_several(
    gateway: Gateway, temporal: Client, name: Name, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    asking, tag = name("ask"), await make_cluster()
    for body in ({"tag": asking}, {"tag": tag}):
        await gateway.operator.post("/api/v1/clusters", json=body)
    await gateway.operator.post(f"/api/v1/clusters/{tag}/access")
    await gateway.operator.post(f"/api/v1/clusters/{tag}/storage", json={"claim": "one"})
    await temporal.get_workflow_handle(f"create-cluster/{tag}").terminate()
    create, access, storage = f"create-cluster/{tag}", f"verify-access/{tag}", f"create-storage/{tag}/one"
    # A list may lag: none of these is right before what it tells has come.
    await eventually(lambda: found(gateway, cluster=tag, phase="aborted"), lambda ids: ids == [create])
    await eventually(
        lambda: found(gateway, cluster=tag, phase=["aborted", "running"]),
        lambda ids: set(ids) == {create, access, storage},
    )
    await eventually(
        lambda: found(gateway, phase="waiting_for_decision"), lambda ids: f"create-cluster/{asking}" in ids
    )
    kinds = await found(gateway, cluster=tag, kind=["create-cluster", "verify-access"])
    assert set(kinds) == {create, access}
    assert await found(gateway, cluster=tag, kind=["create-cluster", "verify-access"], phase="aborted") == [create]
    assert await found(gateway, cluster=tag, phase=["succeeded", "failed"]) == []
    waiting = await found(gateway, phase=["waiting_for_decision", "aborted"])
    assert {f"create-cluster/{asking}", create} <= set(waiting)
    assert not {access, storage} & set(waiting)
    assert (await gateway.viewer.get("/api/v1/operations?phase=running&phase=lost")).status_code == 422


async def test_clusters_are_found_by_a_part_of_tag_or_region_on_pages_that_hold_each_once(
    gateway: Gateway, make_cluster: MakeCluster, name: Name, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = name("w").partition("-")[2]
    tags = []
    for number in range(7):
        tags.append(await make_cluster(f"x{number}-{word}" if number % 2 else f"other{number}"))
    wanted = [tag for tag in reversed(tags) if word in tag]
    await eventually(lambda: clusters(gateway, 200), lambda pages: set(tags) <= set(pages[0]))
    monkeypatch.setattr(searching, "ROWS", 2)
    monkeypatch.setattr(searching, "MOST_CALLS", 500)
    assert await clusters(gateway, 2, search=word.upper()) == [wanted[:2], wanted[2:]]
    assert await clusters(gateway, 1, search=f" {word} ") == [[tag] for tag in wanted]
    assert await clusters(gateway, 3, search=word) == [wanted]
    assert await clusters(gateway, 3, search=f"{word}%") == [[]]
    blank = await clusters(gateway, 200, search=" ")
    assert set(tags) <= set(blank[0])


async def test_a_summary_from_before_it_told_of_accelerators_is_completed_from_the_record(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    tag, now = name("old"), "2026-01-01T00:00:00Z"
    about = {"tag": tag, "region": "us-west-2", "created_by": "test", "created_at": now, "updated_at": now}
    node = Node(
        name="n-1",
        instance_id="i-1",
        instance_group="workers",
        instance_type="ml.p5.48xlarge",
        zone="us-west-2a",
        capacity_type="on-demand",
        ready=True,
        accelerators=8,
    )
    record = ClusterRecord.model_validate({**about, "nodes": [node]})
    memo = {"record": record, "summary": {**about, "nodes": 1}}
    await temporal.start_workflow("cluster", record, id=f"cluster/{tag}", task_queue=queues.ENTITIES, memo=memo)

    async def listed() -> list[dict[str, Any]]:
        answer = await gateway.viewer.get("/api/v1/clusters", params={"search": tag})
        found: list[dict[str, Any]] = answer.json()["clusters"]
        return found

    (summary,) = await eventually(listed, bool)
    assert (summary["nodes"], summary["nodes_ready"], summary["accelerators"]) == (1, 1, 8)


async def test_clusters_are_found_by_region(
    gateway: Gateway, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    east, west = await make_cluster(region="us-east-1"), await make_cluster()
    pages = await eventually(lambda: clusters(gateway, 200, search="EAST"), lambda pages: east in pages[0])
    assert west not in pages[0]


async def test_a_search_that_looks_at_too_many_goes_on_where_it_stopped(
    gateway: Gateway, make_cluster: MakeCluster, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest = await make_cluster("needle")
    made = {oldest, *[await make_cluster("hay") for _ in range(4)]}
    everything = await eventually(lambda: clusters(gateway, 200), lambda pages: made <= set(pages[0]))
    monkeypatch.setattr(searching, "ROWS", 2)
    monkeypatch.setattr(searching, "MOST_CALLS", 1)
    pages = await clusters(gateway, 5, search=oldest)
    assert [tag for page in pages for tag in page] == [oldest]
    assert pages[0] == []
    assert len(pages) == (len(everything[0]) + 1) // 2


async def test_a_search_goes_on_although_the_cluster_where_it_stopped_is_gone(
    gateway: Gateway,
    temporal: Client,
    make_cluster: MakeCluster,
    name: Name,
    eventually: Eventually,
) -> None:
    word = name("gone").partition("-")[2]
    first, second, third = [await make_cluster(f"g{number}-{word}") for number in range(3)]
    await eventually(lambda: clusters(gateway, 9, search=word), lambda pages: pages == [[third, second, first]])
    query = {"search": word, "page_size": "1"}
    page = (await gateway.viewer.get("/api/v1/clusters", params=query)).json()
    assert page["clusters"][0]["tag"] == third
    await temporal.get_workflow_handle(f"cluster/{third}").terminate()
    await eventually(lambda: clusters(gateway, 9, search=word), lambda pages: pages == [[second, first]])
    query["page_token"] = page["next_page_token"]
    page = (await gateway.viewer.get("/api/v1/clusters", params=query)).json()
    assert page["clusters"][0]["tag"] == second
    other = await gateway.viewer.get("/api/v1/clusters", params={**query, "search": "else"})
    assert (other.status_code, other.json()["field"]) == (422, "/page_token")
