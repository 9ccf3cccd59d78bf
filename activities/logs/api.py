"""The part of the Kubernetes API that logs need, without a thread per stream.

API: GET /api/v1/namespaces/{namespace}/pods/{name}/log, and list and watch of pods
(https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/).
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import httpx
from kubernetes.client.exceptions import ApiException

from activities.kubernetes import Connection, KubernetesClients
from activities.kubernetes_calls import asked_for
from contracts.log_lines import since_text

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
SILENT_SECONDS = 300.0
"""A followed log may say nothing for so long before it is asked for again: the connection may be dead."""
WATCH_SECONDS = 240
KEPT_SECONDS = 60.0
_MINTING = ThreadPoolExecutor(4, thread_name_prefix="log-tokens")


@dataclass(frozen=True)
class LogRequest:
    """Which part of a container's log."""

    namespace: str
    pod: str
    container: str
    previous: bool = False
    follow: bool = False
    since: int | None = None
    """Nanoseconds since 1970; lines from up to two seconds before it come too."""
    tail: int | None = None

    def query(self) -> dict[str, str]:
        asked = {"container": self.container, "timestamps": "true"}
        if self.previous:
            asked["previous"] = "true"
        if self.follow:
            asked["follow"] = "true"
        if self.since is not None:
            asked["sinceTime"] = since_text(self.since)
        if self.tail is not None:
            asked["tailLines"] = str(self.tail)
        return asked


class LogApi:
    """One cluster. Raises ApiException for a refusal, ConnectionError where there is no answer."""

    def __init__(self, connection: Connection, http: httpx.AsyncClient) -> None:
        self._connection, self._http = connection, http

    async def get(self, path: str, **query: str) -> Any:
        """An object or a list; None where Kubernetes says that there is none."""
        headers = await self._headers()
        try:
            with asked_for(path) as noting:
                answer = await self._http.get(path, params=query, headers=headers, timeout=READ_SECONDS)
                noting(answer.status_code)
        except httpx.HTTPError as error:
            raise _lost(error) from None
        if answer.status_code == 404:
            return None
        _check(answer.status_code, answer.reason_phrase, answer.text)
        return answer.json()

    async def watch(self, path: str, version: str, **query: str) -> AsyncIterator[tuple[str, Any]]:
        """Changes behind ``version``: their types and objects. Ends when the server ends it; ApiException 410 where
        ``version`` is too old."""
        asked = {**query, "watch": "true", "resourceVersion": version, "timeoutSeconds": str(WATCH_SECONDS)}
        async with self._streamed(path, asked, WATCH_SECONDS + READ_SECONDS) as response:
            try:
                async for line in response.aiter_lines():
                    if not line.strip():
                        continue
                    event = json.loads(line)
                    found = event["object"]
                    if event["type"] == "ERROR":
                        raise ApiException(status=int(found.get("code") or 500), reason=str(found.get("message")))
                    yield event["type"], found
            except (httpx.HTTPError, httpx.StreamError) as error:
                raise _lost(error) from None

    @asynccontextmanager
    async def log(self, asked: LogRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of a log as they come."""
        path = f"/api/v1/namespaces/{quote(asked.namespace)}/pods/{quote(asked.pod)}/log"
        silence = SILENT_SECONDS if asked.follow else READ_SECONDS
        async with self._streamed(path, asked.query(), silence) as response:
            yield _bytes(response)

    @asynccontextmanager
    async def _streamed(self, path: str, query: dict[str, str], silence: float) -> AsyncIterator[httpx.Response]:
        timeout = httpx.Timeout(silence, connect=CONNECT_SECONDS)
        request = self._http.build_request("GET", path, params=query, headers=await self._headers(), timeout=timeout)
        try:
            with asked_for(path) as noting:
                response = await self._http.send(request, stream=True)
                noting(response.status_code)
        except httpx.HTTPError as error:
            raise _lost(error) from None
        try:
            if response.status_code >= 400:
                try:
                    said = (await response.aread()).decode(errors="replace")
                except httpx.HTTPError as error:
                    raise _lost(error) from None
                _check(response.status_code, response.reason_phrase, said)
            yield response
        finally:
            await response.aclose()

    async def _headers(self) -> dict[str, str]:
        # Minting may ask STS or an instance's metadata for credentials. Not in the threads of waits, which may all be
        # busy: logs would not be read meanwhile.
        token = await asyncio.get_running_loop().run_in_executor(_MINTING, self._connection.token)
        return {"Authorization": f"Bearer {token}"}


class Connections:
    """Where clusters answer, remembered for a minute: a download asks for page after page, and EKS limits how often it
    is asked."""

    def __init__(self, kubernetes: KubernetesClients) -> None:
        self._kubernetes = kubernetes
        self._kept: dict[tuple[str, str], tuple[float, Connection]] = {}

    def connection(self, region: str, cluster: str) -> Connection:
        """Raises as ``KubernetesClients.connection`` does."""
        kept = self._kept.get((region, cluster))
        if kept is not None and time.monotonic() < kept[0]:
            return kept[1]
        found = self._kubernetes.connection(region, cluster)
        self._kept[region, cluster] = (time.monotonic() + KEPT_SECONDS, found)
        return found


@asynccontextmanager
async def log_api(
    kubernetes: KubernetesClients | Connections, region: str, eks_cluster: str, idle: int = 10
) -> AsyncIterator[LogApi]:
    """The API of a cluster, for as many streams as are wanted. ``idle``: connections that stay open for the next
    request. Raises as ``KubernetesClients.connection`` does."""
    connection = await asyncio.to_thread(kubernetes.connection, region, eks_cluster)
    context = _trusting(connection.certificate_authority)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=idle)
    async with httpx.AsyncClient(
        base_url=connection.endpoint, verify=context, limits=limits, trust_env=False, headers={"Accept": "*/*"}
    ) as http:
        yield LogApi(connection, http)


@lru_cache(maxsize=64)
def _trusting(authority: str) -> ssl.SSLContext:
    """What trusts a cluster's certificate authority; one for all who speak to it, as it takes some time and memory."""
    context = ssl.create_default_context(cadata=authority)
    # EKS's CA has no key identifiers; see activities.kubernetes.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


async def _bytes(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_bytes():
            yield piece
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise _lost(error) from None


def _lost(error: Exception) -> ConnectionError:
    return ConnectionError(f"The Kubernetes API did not answer: {type(error).__name__} {error}".strip())


def _check(status: int, reason: str, body: str) -> None:
    if status >= 400:
        refusal: Any = ApiException(status=status, reason=reason)
        refusal.body = body
        raise refusal
