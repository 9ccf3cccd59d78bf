"""HTTP to a Service or a pod, through the Kubernetes API: no port is opened, and no address but the cluster's is known.

(Kubernetes API reference: ``GET|POST /api/v1/namespaces/{namespace}/services/{name}/proxy/{path}``, where the name is
``[scheme:]name[:port]``; a Service is answered by one of its ready endpoints)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode

from kubernetes import client
from kubernetes.client.exceptions import ApiException

CONNECT_SECONDS = 5
READ_SECONDS = 30.0
MOST_BYTES = 4 * 1024 * 1024
"""Of an answer that is read whole."""
NO_ENDPOINTS = "no endpoints available"
"""What the API server says (503) where no pod of a Service is ready."""


@dataclass(frozen=True)
class Upstream:
    """A Service, or a pod, by its port. ``port`` is a number, or of a Service the port's name."""

    namespace: str
    name: str
    port: int | str
    kind: Literal["services", "pods"] = "services"
    scheme: Literal["http", "https"] = "http"

    def path(self, path: str) -> str:
        """The Kubernetes API's path to ``path`` behind it."""
        name = f"{self.name}:{self.port}"
        if self.scheme == "https":
            name = f"https:{name}"
        return (
            f"/api/v1/namespaces/{quote(self.namespace)}/{self.kind}/{quote(name, safe=':')}/proxy/{path.lstrip('/')}"
        )

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port}"


@dataclass(frozen=True)
class Answer:
    """``body`` is what was sent, cut to :data:`MOST_BYTES`."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    @property
    def document(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def words(self) -> str:
        """What a refusal says: of OpenAI's error format, of Kubernetes' Status, or the body itself."""
        document = self.document
        if isinstance(document, dict):
            error = document.get("error", document)
            said = error.get("message") or error.get("detail") if isinstance(error, dict) else error
            if said:
                return str(said)
        return self.text.strip() or f"HTTP {self.status}"

    @property
    def nobody_there(self) -> bool:
        """Whether no pod behind the Service is ready."""
        return self.status == 503 and NO_ENDPOINTS in self.text


def get(api: client.ApiClient, upstream: Upstream, path: str, seconds: float = READ_SECONDS, **query: Any) -> Answer:
    """Raises as the transport does; a refusal of any status is an answer."""
    with _asked(api, "GET", upstream.path(path) + (f"?{urlencode(query)}" if query else ""), None, seconds) as response:
        return Answer(response.status, response.read(MOST_BYTES))


def post(api: client.ApiClient, upstream: Upstream, path: str, body: Any, seconds: float = READ_SECONDS) -> Answer:
    """Send ``body`` as JSON. Raises as the transport does; a refusal of any status is an answer."""
    with _asked(api, "POST", upstream.path(path), body, seconds) as response:
        return Answer(response.status, response.read(MOST_BYTES))


@contextmanager
def streamed(
    api: client.ApiClient, upstream: Upstream, path: str, body: Any, seconds: float = READ_SECONDS
) -> Iterator[tuple[Answer | None, Iterator[str]]]:
    """Send ``body`` as JSON and read server-sent events: the ``data`` of each, as they come.

    Where the request is refused, the answer is given instead, and there are no events. ``seconds`` may pass between two
    pieces. (HTML standard: server-sent events)
    """
    with _asked(api, "POST", upstream.path(path), body, seconds) as response:
        refused = None if response.status == 200 else Answer(response.status, response.read(MOST_BYTES))
        yield refused, iter(()) if refused else _events(response)


def _events(response: Any) -> Iterator[str]:
    data: list[str] = []
    pending = b""
    for piece in response.stream(4096, decode_content=True):
        *lines, pending = (pending + piece).split(b"\n")
        for line in (each.rstrip(b"\r").decode(errors="replace") for each in lines):
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
            elif not line and data:
                yield "\n".join(data)
                data = []
    if data:
        yield "\n".join(data)


@contextmanager
def _asked(api: client.ApiClient, method: str, path: str, body: Any, seconds: float) -> Iterator[Any]:
    headers: dict[str, Any] = {"Accept": "application/json, text/event-stream, text/plain, */*"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    method, url, headers, body, _ = api.param_serialize(
        method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
    )
    try:
        answer = api.call_api(method, url, headers, body, _request_timeout=(CONNECT_SECONDS, seconds))
    except ApiException as error:  # TLS: the only thing that the client raises here itself
        raise ConnectionError(str(error.reason)) from error
    # The client's own wrapper reads bodies whole.
    response = answer.response
    try:
        yield response
    finally:
        response.close()
        response.release_conn()
