"""Reading: lists, long polls, streams, clusters, options, and the contract itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jsonschema_rs
from openapi_spec_validator import validate
from temporalio.client import Client

from contracts.catalogue import KINDS
from tests.api.conftest import Eventually, Gateway, MakeCluster, Name


async def create(gateway: Gateway, tag: str) -> dict[str, Any]:
    answer = await gateway.operator.post("/api/v1/clusters", json={"tag": tag})
    assert answer.status_code == 202, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def at_version(gateway: Gateway, eventually: Eventually, url: str, version: int) -> httpx.Response:
    answer: httpx.Response = await eventually(
        lambda: gateway.viewer.get(url), lambda r: int(r.headers.get("Operation-Version", "-1")) >= version
    )
    return answer


async def events(response: httpx.Response) -> AsyncIterator[dict[str, str]]:
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        if not line:
            if "event" in event:
                yield event
            event = {}
            continue
        field, _, value = line.partition(": ")
        event[field or "comment"] = value


async def test_lists_are_paged_filtered_and_without_a_token_on_the_last_page(
    gateway: Gateway, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    tag = await make_cluster()
    for claim in ("one", "two", "three", "four"):
        await gateway.operator.post(f"/api/v1/clusters/{tag}/storage", json={"claim": claim})
    url = f"/api/v1/operations?cluster={tag}&kind=create-storage&page_size=2"
    whole = f"/api/v1/clusters/{tag}/operations"
    await eventually(lambda: gateway.viewer.get(whole), lambda r: len(r.json()["operations"]) == 4)
    first = (await gateway.viewer.get(url)).json()
    second = (await gateway.viewer.get(url, params={"page_token": first["next_page_token"], "cluster": tag})).json()
    second = (await gateway.viewer.get(f"{url}&page_token={first['next_page_token']}")).json()
    ids = [each["id"].rpartition("/")[2] for each in (*first["operations"], *second["operations"])]
    assert ids == ["four", "three", "two", "one"]
    assert "next_page_token" not in second
    other = await gateway.viewer.get(f"/api/v1/operations?page_token={first['next_page_token']}")
    assert other.status_code == 422
    assert other.json()["field"] == "/page_token"
    assert (await gateway.viewer.get("/api/v1/operations?page_size=0")).json()["errors"][0]["field"] == "/page_size"


async def test_lists_filter_by_phase_attention_and_caller(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    asking, terminated = name("ask"), name("run")
    await create(gateway, asking)
    await create(gateway, terminated)
    await temporal.get_workflow_handle(f"create-cluster/{terminated}").terminate()

    async def ids(query: str) -> set[str]:
        found = await gateway.viewer.get(f"/api/v1/operations?page_size=200&{query}")
        assert found.status_code == 200, found.text
        return {each["cluster"] for each in found.json()["operations"]}

    await eventually(lambda: ids("needs_attention=true"), lambda found: asking in found)
    assert asking in await ids("phase=waiting_for_decision&started_by=operator-1")
    assert asking not in await ids("phase=running")
    assert asking not in await ids("needs_attention=false")
    assert asking not in await ids("started_by=o%27 OR %27x%27%3D%27x")
    await eventually(lambda: ids("phase=aborted"), lambda found: terminated in found)
    assert terminated not in await ids("phase=running")


async def test_an_id_may_stand_as_a_path_or_percent_encoded(gateway: Gateway, make_cluster: MakeCluster) -> None:
    tag = await make_cluster()
    await gateway.operator.post(f"/api/v1/clusters/{tag}/storage", json={"claim": "events"})
    plain = await gateway.viewer.get(f"/api/v1/operations/create-storage%2F{tag}%2Fevents")
    assert plain.json()["id"] == f"create-storage/{tag}/events"
    assert plain.json()["links"]["self"].endswith(f"/create-storage%2F{tag}%2Fevents")
    aborted = await gateway.operator.post(f"/api/v1/operations/create-storage%2F{tag}%2Fevents/abort")
    assert aborted.status_code == 202
    slashes = await gateway.viewer.get(f"/api/v1/operations/create-storage/{tag}/other")
    assert slashes.status_code == 404


async def test_a_long_poll_returns_at_the_next_change(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    tag = name("run")
    await create(gateway, tag)
    url = f"/api/v1/operations/create-cluster/{tag}"
    known = await at_version(gateway, eventually, url, 1)
    version = known.headers["Operation-Version"]
    waiting = asyncio.create_task(gateway.viewer.get(f"{url}?wait=30&since={version}"))
    await eventually(
        lambda: asyncio.sleep(0, gateway.long_polls.opened), lambda opened: f"create-cluster/{tag}" in opened
    )
    await temporal.get_workflow_handle(f"create-cluster/{tag}").signal("nudge", "moving")
    answer = await asyncio.wait_for(waiting, 5)
    assert answer.json()["detail"] == "moving"
    missed = await gateway.viewer.get(f"{url}?wait=30&since={version}")
    assert missed.json()["detail"] == "moving"
    assert missed.elapsed.total_seconds() < 2


async def test_a_long_poll_without_a_change_ends_with_its_wait(
    gateway: Gateway, name: Name, eventually: Eventually
) -> None:
    tag = name("run")
    await create(gateway, tag)
    url = f"/api/v1/operations/create-cluster/{tag}"
    known = await at_version(gateway, eventually, url, 1)
    same = await gateway.viewer.get(f"{url}?wait=0.3", headers={"If-None-Match": known.headers["ETag"]})
    assert same.status_code == 304
    assert same.elapsed.total_seconds() >= 0.3
    assert (await gateway.viewer.get(f"{url}?wait=61")).status_code == 422


async def test_a_stream_shows_every_change_and_ends_with_the_end(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    tag = name("run")
    await create(gateway, tag)
    url = f"/api/v1/operations/create-cluster/{tag}"
    await at_version(gateway, eventually, url, 1)
    handle = temporal.get_workflow_handle(f"create-cluster/{tag}")
    async with asyncio.timeout(60), gateway.viewer.stream("GET", f"{url}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        seen = events(response)
        first = await anext(seen)
        assert (first["event"], first["id"]) == ("progress", "1")
        await handle.signal("nudge", "moving")
        second = await anext(seen)
        assert json.loads(second["data"])["detail"] == "moving"
        await handle.signal("finish")
        rest = [event async for event in seen]
    assert [event["event"] for event in rest] == ["progress", "end"]
    assert json.loads(rest[-1]["data"])["phase"] == "succeeded"


async def test_a_stream_resumes_behind_what_its_reader_has_seen(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    tag = name("run")
    await create(gateway, tag)
    url = f"/api/v1/operations/create-cluster/{tag}"
    handle = temporal.get_workflow_handle(f"create-cluster/{tag}")
    await at_version(gateway, eventually, url, 1)
    resumed = {"Last-Event-ID": "1"}
    async with asyncio.timeout(60), gateway.viewer.stream("GET", f"{url}/events", headers=resumed) as response:
        await handle.signal("nudge", "new")
        assert json.loads((await anext(events(response)))["data"])["detail"] == "new"
    async with asyncio.timeout(60), gateway.viewer.stream("GET", f"{url}/events", headers=resumed) as response:
        assert (await anext(events(response)))["id"] == "2"
    await handle.signal("finish")
    await at_version(gateway, eventually, url, 3)
    over = await gateway.viewer.get(f"{url}/events", headers={"Last-Event-ID": "3"})
    assert "event: progress" not in over.text
    assert "event: end" in over.text
    assert "retry: 3000" in over.text


async def test_many_watchers_share_one_long_poll(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    tag = name("run")
    await create(gateway, tag)
    operation = f"create-cluster/{tag}"
    await at_version(gateway, eventually, f"/api/v1/operations/{operation}", 1)
    ready = asyncio.Barrier(21)

    async def watch() -> list[str]:
        found = []
        async with gateway.viewer.stream("GET", f"/api/v1/operations/{operation}/events") as response:
            async for event in events(response):
                found.append(event["event"])
                if len(found) == 1:
                    await ready.wait()
        return found

    async with asyncio.timeout(60):
        watchers = [asyncio.create_task(watch()) for _ in range(20)]
        await ready.wait()
        await temporal.get_workflow_handle(operation).signal("finish")
        for found in await asyncio.gather(*watchers):
            assert found == ["progress", "progress", "end"]
    assert gateway.long_polls.opened.count(operation) == 1


async def test_live_details_of_a_running_activity_are_shown_and_streamed(gateway: Gateway, name: Name) -> None:
    tag = name("beat")
    await create(gateway, tag)
    url = f"/api/v1/operations/create-cluster/{tag}"
    details = set()
    async with asyncio.timeout(60), gateway.viewer.stream("GET", f"{url}/events") as response:
        async for event in events(response):
            stages = {each["name"]: each for each in json.loads(event["data"])["stages"]}
            if stages and (stages["nodes"]["detail"] or "").endswith("nodes are Ready"):
                details.add(stages["nodes"]["detail"])
            if len(details) == 2:
                break
    polled = await gateway.viewer.get(url)
    assert polled.json()["stages"][1]["detail"].endswith("nodes are Ready")


async def test_what_ends_without_an_outcome_is_a_failure_or_an_abortion(
    gateway: Gateway, temporal: Client, name: Name, eventually: Eventually
) -> None:
    crashed, terminated = name("crash"), name("run")
    await create(gateway, crashed)
    await create(gateway, terminated)
    await temporal.get_workflow_handle(f"create-cluster/{terminated}").terminate("by an operator")
    url = f"/api/v1/operations/create-cluster/{crashed}"
    failed = await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["phase"] == "failed")
    assert failed.json()["problem"]["code"] == "internal"
    aborted = (await gateway.viewer.get(f"/api/v1/operations/create-cluster/{terminated}")).json()
    assert aborted["phase"] == "aborted"
    assert "terminated" in aborted["detail"]


async def test_clusters_are_listed_and_shown(
    gateway: Gateway, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    tag = await make_cluster()

    async def listed() -> list[str]:
        tags, token = [], None
        while True:
            params = {"page_size": 3, **({"page_token": token} if token else {})}
            page = (await gateway.viewer.get("/api/v1/clusters", params=params)).json()
            tags += [each["tag"] for each in page["clusters"]]
            if not (token := page.get("next_page_token")):
                return tags

    await eventually(listed, lambda tags: tags.count(tag) == 1)
    view = (await gateway.viewer.get(f"/api/v1/clusters/{tag}")).json()
    assert view["record"]["kubernetes_version"] == "1.34"
    missing = await gateway.viewer.get("/api/v1/clusters/nobody")
    assert missing.status_code == 404
    assert missing.json()["code"] == "not_found"


async def test_options_are_looked_up_once_for_many_callers(gateway: Gateway) -> None:
    answers = await asyncio.gather(*(gateway.viewer.get("/api/v1/options?region=us-east-1") for _ in range(5)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["looked_up_at"] for answer in answers}) == 1
    assert (await gateway.viewer.get("/api/v1/options?region=mars-1")).json()["field"] == "/region"
    denied = await gateway.viewer.get("/api/v1/options?instance_type=ml.denied.xlarge")
    assert (denied.status_code, denied.json()["code"]) == (502, "denied")
    assert "servicequotas" in denied.json()["detail"]


async def test_answers_are_what_the_openapi_document_says(
    gateway: Gateway, name: Name, make_cluster: MakeCluster, eventually: Eventually
) -> None:
    document = (await gateway.anonymous.get("/api/v1/openapi.json")).json()
    tag = name("ask")
    await create(gateway, tag)
    url = f"/api/v1/operations/create-cluster/{tag}"
    await eventually(lambda: gateway.viewer.get(url), lambda r: r.json()["decision"])
    for path, schema in {
        url: "Operation",
        "/api/v1/operations": "OperationPage",
        "/api/v1/clusters": "ClusterPage",
        f"/api/v1/clusters/{await make_cluster()}": "ClusterView",
        "/api/v1/options": "Options",
        "/api/v1/operations/create-cluster/nobody": "Problem",
    }.items():
        answer = await gateway.viewer.get(path)
        reference = {"$ref": f"#/components/schemas/{schema}", "components": document["components"]}
        jsonschema_rs.validate(reference, answer.json())


async def test_the_openapi_document_is_valid_and_names_every_route_and_problem(gateway: Gateway) -> None:
    document = (await gateway.anonymous.get("/api/v1/openapi.json")).json()
    validate(document)
    ids = {operation["operationId"] for item in document["paths"].values() for operation in item.values()}
    assert {"create_cluster", "get_operation", "decide_operation", "watch_operation", "list_audit"} <= ids
    assert {kind.replace("-", "_") for kind in KINDS} <= ids
    for path, item in document["paths"].items():
        for operation in item.values():
            assert operation["tags"]
            if path.startswith("/api"):
                assert "application/problem+json" in operation["responses"]["default"]["content"]
    assert document["security"] == [{"bearer": []}]
    listing = await gateway.anonymous.get("/docs")
    assert "create_cluster" in listing.text
    assert "<code>search</code>" in listing.text
    assert "`" not in listing.text
    assert "http" not in listing.text.replace("http-equiv", "")
