"""A query asked once of a Prometheus: in the cluster through the Kubernetes API, of AWS signed with our own identity.

(Prometheus: HTTP API, instant queries; AMP User Guide: query-compatible APIs; KEDA: Prometheus scaler)
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import URLLib3Session
from kubernetes import client

from activities.aws import AwsClients, user_agent
from activities.errors import clean
from activities.inference import proxy
from activities.inference.proxy import Upstream
from contracts.autoscalers import IN_CLUSTER

SECONDS = 8
QUERY = "/api/v1/query"


@dataclass(frozen=True)
class Reading:
    """What a query gives now. Without a value, ``problem`` says why."""

    value: float | None = None
    problem: str | None = None
    at: Literal["address", "query"] = "query"
    """What the problem is about."""
    passing: bool = False
    """It says nothing against the query: it may have a value later, or where the platform does not look."""


class Reader:
    """Asks for several triggers. A server that does not answer is not waited for again."""

    def __init__(self, api: client.ApiClient, aws: AwsClients, region: str) -> None:
        self._api, self._aws, self.region = api, aws, region
        self._silent: dict[str, Reading] = {}

    def read(self, address: str, query: str) -> Reading:
        """``address`` is what KEDA would ask. Never raises for what the server says or does not say."""
        if address not in self._silent:
            found = _read(self._api, self._aws, self.region, address, query)
            if found.problem is None or found.at != "address":
                return found
            self._silent[address] = found
        return self._silent[address]


def _read(api: client.ApiClient, aws: AwsClients, region: str, address: str, query: str) -> Reading:
    if (amp := _workspace(aws, region, address)) is not None:
        status, body = _signed(aws, region, f"{amp}{QUERY}?{urlencode({'query': query})}")
        return _reading(status, body)
    if (found := IN_CLUSTER.fullmatch(address)) is None:
        return Reading(problem=f"{address} is not in the cluster: the platform does not ask it", passing=True)
    scheme: Any = found["scheme"]
    port = int(found["port"] or (443 if scheme == "https" else 80))
    upstream = Upstream(found["namespace"], found["service"], port, scheme=scheme)
    try:
        answer = proxy.get(api, upstream, (found["path"] or "").rstrip("/") + QUERY, SECONDS, query=query)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        return Reading(problem=clean(f"{upstream} did not answer: {error}", 200), at="address")
    if answer.nobody_there:
        return Reading(problem=f"no pod behind Service {upstream} is ready", at="address")
    return _reading(answer.status, answer.body)


def _workspace(aws: AwsClients, region: str, address: str) -> str | None:
    """Where a workspace of AMP is asked; None for another server."""
    service, _, workspace = address.partition("/workspaces/")
    if service != f"https://aps-workspaces.{region}.amazonaws.com" or not workspace:
        return None
    endpoint = aws.read.amp(region).meta.endpoint_url
    return f"{endpoint.replace('//aps.', '//aps-workspaces.').rstrip('/')}/workspaces/{workspace.strip('/')}"


def _signed(aws: AwsClients, region: str, url: str) -> tuple[int, bytes]:
    session = aws.session
    credentials: Any = session.get_credentials()
    request: Any = AWSRequest("GET", url)
    try:
        if credentials is None:
            return 401, b'{"error": "the platform has no AWS credentials"}'
        SigV4Auth(credentials, "aps", region).add_auth(request)
        request.headers["User-Agent"] = user_agent()
        answer = URLLib3Session(timeout=SECONDS).send(request.prepare())
    except Exception as error:  # botocore has no common class for what a transport does
        return 503, json.dumps({"error": clean(str(error), 200)}).encode()
    return answer.status_code, answer.content


def _reading(status: int, body: bytes) -> Reading:
    try:
        document = json.loads(body)
    except ValueError:
        document = {}
    if not isinstance(document, dict):
        document = {}
    if status != 200 or document.get("status") != "success":
        said = document.get("error") or document.get("message") or body.decode(errors="replace")
        refused = status in (200, 400, 422)
        detail = clean(f"the server {'refuses the query' if refused else 'does not answer'} ({status}): {said}", 300)
        return Reading(problem=detail, at="query" if refused else "address")
    data = document.get("data") or {}
    result, kind = data.get("result"), data.get("resultType")
    if kind == "vector" and isinstance(result, list):
        if len(result) > 1:
            return Reading(
                problem=f"the query gives {len(result)} values, and KEDA takes one: aggregate it, e.g. sum()"
            )
        sample = result[0].get("value") if result else None
    else:
        sample = result if kind == "scalar" else None
    if not sample:
        return Reading(problem="the query gives no value now", passing=True)
    value = float(sample[1])
    if not math.isfinite(value):
        return Reading(problem=f"the query gives {sample[1]}", passing=True)
    return Reading(value)
