"""Faults are inflicted as scripted, and the standalone server is what a contract test needs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3
from kubernetes import client
from kubernetes.client.rest import ApiException
from kubernetes_support import Standalone


def test_errors_with_headers(standalone: Standalone, core: client.CoreV1Api, namespace: str) -> None:
    rules = [
        {
            "api": "kubernetes",
            "operation": "GET .*/configmaps/m",
            "code": "TooManyRequests",
            "times": 1,
            "headers": {"Retry-After": "1"},
        }
    ]
    assert standalone.request("POST", "/_sandbox/faults", rules)[0] == 200
    with pytest.raises(ApiException) as error:
        core.read_namespaced_config_map("m", namespace)
    assert (error.value.status, error.value.headers["Retry-After"]) == (429, "1")
    assert json.loads(error.value.body)["reason"] == "TooManyRequests"
    with pytest.raises(ApiException) as error:
        core.read_namespaced_config_map("m", namespace)
    assert error.value.status == 404
    assert len(standalone.request("GET", "/_sandbox/faults")[1]["fired"]) == 1


@pytest.mark.parametrize(("phase", "happened"), [("before", False), ("after", True)])
def test_lost_requests_and_lost_responses(
    standalone: Standalone, core: client.CoreV1Api, namespace: str, phase: str, happened: bool
) -> None:
    standalone.faults.replace([{"operation": "POST .*/configmaps", "action": "drop", "phase": phase, "times": 1}])
    with pytest.raises(urllib3.exceptions.HTTPError):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "lost"}})
    found = core.list_namespaced_config_map(namespace, field_selector="metadata.name=lost").items
    assert bool(found) == happened
    entries = standalone.ledger.query(operation=f"POST /api/v1/namespaces/{namespace}/configmaps")
    assert [(e["effect"], e["response_lost"]) for e in entries] == [(happened, True)]


def test_a_call_that_is_held_up_goes_on_when_its_rule_is_taken_away(
    standalone: Standalone, core: client.CoreV1Api, namespace: str
) -> None:
    held = {"operation": "POST .*/configmaps", "action": "latency", "latency": 100, "times": 1}
    standalone.faults.replace([held])
    with ThreadPoolExecutor(1) as thread:
        made = thread.submit(core.create_namespaced_config_map, namespace, {"metadata": {"name": "held"}})
        while not standalone.faults.report()["fired"]:
            time.sleep(0.01)
        assert core.list_namespaced_config_map(namespace, field_selector="metadata.name=held").items == []
        standalone.faults.clear()
        assert made.result(timeout=60).metadata.name == "held"


def test_ledger_counts_effects_once(standalone: Standalone, core: client.CoreV1Api, namespace: str) -> None:
    body = {"metadata": {"name": "one"}}
    core.create_namespaced_config_map(namespace, body, dry_run="All")
    core.create_namespaced_config_map(namespace, body, field_manager="me")
    with pytest.raises(ApiException):
        core.create_namespaced_config_map(namespace, body)
    entries = standalone.ledger.query(operation=f"POST /api/v1/namespaces/{namespace}/configmaps")
    assert [(e["status"], e["effect"]) for e in entries] == [(201, False), (201, True), (409, False)]
    assert entries[1]["user_agent"].startswith("OpenAPI-Generator")


def test_versions_of_the_future_are_refused(standalone: Standalone) -> None:
    code, answer = standalone.request("GET", "/api/v1/nodes?resourceVersion=99999999")
    assert (code, answer["reason"]) == (504, "Timeout")


def test_speed_of_single_requests(standalone: Standalone, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    started = time.perf_counter()
    for number in range(100):
        standalone.request("POST", path, {"metadata": {"name": f"c{number}"}, "data": {"a": "1"}})
    creates = time.perf_counter() - started
    # Generous: the machine may be busy. Idle, a create takes about a millisecond.
    assert creates / 100 < 0.03


def test_standalone_process_serves_and_stops_at_once() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sandbox.kubernetes", "--port", "0", "--speed", "100"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        http = urllib3.PoolManager(retries=False)
        names = [
            n["metadata"]["name"] for n in json.loads(http.request("GET", f"{url}/api/v1/namespaces").data)["items"]
        ]
        assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
        account = http.request("GET", f"{url}/api/v1/namespaces/default/serviceaccounts/default")
        service = http.request("GET", f"{url}/api/v1/namespaces/default/services/kubernetes")
        assert (account.status, service.status) == (200, 200)
        clock = http.request("POST", f"{url}/_sandbox/clock", body=b'{"advance": 3600, "paused": true}')
        assert json.loads(clock.data)["paused"] is True
        assert http.request("GET", f"{url}/_sandbox/health").status == 200
        open_watch = http.request("GET", f"{url}/api/v1/pods?watch=1", preload_content=False)
        process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        assert process.wait(10) == 0
        assert time.monotonic() - started < 3
        open_watch.close()
    finally:
        process.kill()
