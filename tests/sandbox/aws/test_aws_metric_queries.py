"""The query API of a workspace for Prometheus: signed requests, over the metrics of clusters with real Kubernetes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlencode

import pytest
from aws_support import REGION, Api
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sandbox import credentials
from sandbox.kubernetes.dataplane import KubernetesDataPlane


@pytest.fixture
def workspace(behind: KubernetesDataPlane, api: Api, eks_cluster: str) -> str:
    made: str = api.client("amp").create_workspace(alias="metrics")["workspaceId"]
    api.advance(300)
    return made


def ask(api: Api, workspace: str, query: str, post: bool = False, signed: bool = True) -> tuple[int, Any]:
    url, form = f"{api.url}/workspaces/{workspace}/api/v1/query", urlencode({"query": query})
    data = form.encode() if post else None
    prepared: Any = AWSRequest("POST" if post else "GET", url if post else f"{url}?{form}", data=data)
    if signed:
        keys = Credentials(credentials.ACCESS_KEY_ID, credentials.SECRET_ACCESS_KEY)
        SigV4Auth(keys, "aps", REGION).add_auth(prepared)
    sent = prepared.prepare()
    headers = {key: value for key, value in sent.headers.items() if key.lower() != "content-length"}
    request = urllib.request.Request(sent.url, data=data, headers=headers, method=sent.method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("post", [False, True])
def test_a_workspace_answers_what_a_script_says(
    api: Api, behind: KubernetesDataPlane, workspace: str, post: bool
) -> None:
    behind.clusters.pod_faults.queries.set("queue_depth", [7.0])
    status, body = ask(api, workspace, "sum(queue_depth)", post)
    assert (status, body["status"], body["data"]["resultType"]) == (200, "success", "vector")
    assert [sample["value"][1] for sample in body["data"]["result"]] == ["7"]


def test_a_query_that_prometheus_refuses(api: Api, behind: KubernetesDataPlane, workspace: str) -> None:
    behind.clusters.pod_faults.queries.set("queue_depth", None, "parse error")
    status, body = ask(api, workspace, "sum(queue_depth)")
    assert (status, body) == (400, {"status": "error", "errorType": "bad_data", "error": "parse error"})


def test_no_signature_and_no_workspace(api: Api, workspace: str) -> None:
    assert ask(api, workspace, "up", signed=False)[0] == 403
    assert ask(api, "ws-none", "up")[0] == 404
