"""Watches show every change once and in order, and say when they cannot."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import urllib3
from kubernetes import aio, client, watch
from kubernetes.client.rest import ApiException
from kubernetes_support import Standalone, wait_for


def stream(standalone: Standalone, path: str) -> list[Any]:
    answer = standalone.http.request("GET", standalone.url + path, preload_content=False)
    lines = [json.loads(line) for line in answer.read().splitlines()]
    return lines


def test_changes_since_a_version(core: client.CoreV1Api, namespace: str) -> None:
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "w"}, "data": {"a": "1"}})
    core.patch_namespaced_config_map("w", namespace, {"data": {"a": "2"}})
    core.delete_namespaced_config_map("w", namespace)
    events = []
    for event in watch.Watch().stream(
        core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=5
    ):
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == 3:
            break
    assert events == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]


def test_a_watch_shows_what_happens_while_it_is_open(core: client.CoreV1Api, namespace: str) -> None:
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    names = [f"live-{number}" for number in range(50)]

    def write() -> None:
        for name in names:
            core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    for event in watch.Watch().stream(
        core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=10
    ):
        seen.append(event["object"].metadata.name)
        if len(seen) == len(names):
            break
    writer.join()
    assert seen == names


def test_leaving_a_selection_is_a_deletion(core: client.CoreV1Api, standalone: Standalone, namespace: str) -> None:
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "s", "labels": {"in": "yes"}}})
    core.patch_namespaced_config_map("s", namespace, {"metadata": {"labels": {"in": "no"}}})
    core.patch_namespaced_config_map("s", namespace, {"metadata": {"labels": {"in": "yes"}}})
    query = f"watch=1&labelSelector=in%3Dyes&resourceVersion={since}&timeoutSeconds=0.2"
    path = f"/api/v1/namespaces/{namespace}/configmaps?{query}"
    assert [event["type"] for event in stream(standalone, path)] == ["ADDED", "DELETED", "ADDED"]


def test_too_old_is_410(standalone: Standalone, core: client.CoreV1Api, namespace: str) -> None:
    since = core.list_namespaced_config_map(namespace).metadata.resource_version
    first = core.list_namespaced_config_map(namespace, limit=1)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "later"}})
    assert standalone.request("POST", "/_sandbox/compact")[0] == 200
    path = f"/api/v1/namespaces/{namespace}/configmaps?watch=1&resourceVersion={since}&timeoutSeconds=1"
    (event,) = stream(standalone, path)
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    with pytest.raises(ApiException) as error:
        next(
            iter(
                watch.Watch().stream(
                    core.list_namespaced_config_map, namespace, resource_version=since, timeout_seconds=1
                )
            )
        )
    assert error.value.status == 410
    if first.metadata._continue:
        with pytest.raises(ApiException) as error:
            core.list_namespaced_config_map(namespace, _continue=first.metadata._continue)
        assert error.value.status == 410


def test_initial_events_end_with_a_bookmark(standalone: Standalone, core: client.CoreV1Api, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "i"}})
    query = (
        "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=0.2"
    )
    events = stream(standalone, f"/api/v1/namespaces/{namespace}/configmaps?{query}")
    assert {event["object"]["metadata"]["name"] for event in events[:-1]} >= {"i"}
    assert events[-1]["type"] == "BOOKMARK"
    assert events[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_dropped_watch_is_a_broken_connection(standalone: Standalone, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps?watch=1&timeoutSeconds=20"
    answer = standalone.http.request("GET", standalone.url + path, preload_content=False)
    assert answer.status == 200
    wait_for(lambda: standalone.request("POST", "/_sandbox/drop-watches")[1]["sandbox"])
    with pytest.raises(urllib3.exceptions.HTTPError):
        answer.read()


async def test_the_asynchronous_client(standalone: Standalone, namespace: str) -> None:
    configuration = aio.client.Configuration(host=standalone.url)
    async with aio.client.ApiClient(configuration) as api:
        core = aio.client.CoreV1Api(api)
        await core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}, "data": {"x": "1"}})
        found = await core.list_namespaced_config_map(namespace)
        assert "a" in [item.metadata.name for item in found.items]
        watcher = aio.watch.Watch()
        async for event in watcher.stream(core.list_namespaced_config_map, namespace, timeout_seconds=5):
            if event["object"].metadata.name == "a":
                break
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"y": "2"}}
        applied = await core.patch_namespaced_config_map(
            "a", namespace, body, field_manager="me", force=True, _content_type="application/apply-patch+yaml"
        )
        assert applied.data == {"x": "1", "y": "2"}
