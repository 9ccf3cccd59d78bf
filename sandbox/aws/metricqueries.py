"""The query API of Prometheus workspaces: what servers in the clusters show.

https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-APIReference-Prometheus-Compatible-Apis.html . A workspace
has the metrics of every cluster, and the first one with an answer gives it; signatures are read and not verified.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs

from sandbox import credentials
from sandbox.aws import signatures
from sandbox.aws.authorization.facts import METRICS
from sandbox.aws.overlay import Overlay
from sandbox.aws.workspaces import Prometheus

PATH = re.compile(r"/workspaces/(ws-[\w-]+)/api/v1/query")
SCOPE = re.compile(r"Credential=[^/]+/\d+/([a-z0-9-]+)/aps/aws4_request")

Answered = tuple[int, dict[str, Any]]


class MetricQueries:
    def __init__(self, workspaces: Prometheus, overlay: Overlay) -> None:
        self._workspaces, self._overlay = workspaces, overlay

    def answer(self, environ: dict[str, Any]) -> Answered | None:
        """None for a request that is no query."""
        found = PATH.fullmatch(environ.get("PATH_INFO", ""))
        if found is None:
            return None
        scope = SCOPE.search(environ.get("HTTP_AUTHORIZATION", ""))
        if scope is None:
            return 403, {"message": "Missing Authentication Token"}
        caller, agent = signatures.claimed(environ), environ.get("HTTP_USER_AGENT", "")
        service, _, operation = METRICS.partition(":")
        self._overlay.calls.count(service, operation, scope[1], caller, agent)
        arn = f"arn:aws:aps:{scope[1]}:{credentials.ACCOUNT}:workspace/{found[1]}"
        guard = self._overlay.guard if caller == credentials.ROLE_ARN else None
        with self._overlay.lock:
            refusal = guard.refusal(METRICS, arn) if guard is not None else None
        if refusal is not None:
            return 403, {"message": refusal}
        workspace = self._workspaces.held((credentials.ACCOUNT, scope[1])).get(found[1])
        if workspace is None:
            return 404, {"message": f"Workspace not found: {found[1]}"}
        if workspace.status != "ACTIVE":
            return 400, {"message": f"Workspace {found[1]} is in status {workspace.status}"}
        given = parse_qs(environ.get("QUERY_STRING", ""))
        if environ["REQUEST_METHOD"] == "POST":
            length = int(environ.get("CONTENT_LENGTH") or 0)
            given |= parse_qs(environ["wsgi.input"].read(length).decode(errors="replace"))
        query = (given.get("query") or [""])[0]
        try:
            data = self._workspaces.world.dataplane.query_metrics(query)
        except ValueError as error:
            return 400, {"status": "error", "errorType": "bad_data", "error": str(error)}
        return 200, {"status": "success", "data": data}

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes] | None:
        """As a WSGI application that leaves all other requests to others (None)."""
        answered = self.answer(environ)
        if answered is None:
            return None
        body = json.dumps(answered[1]).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(f"{answered[0]} {'OK' if answered[0] == 200 else 'Error'}", headers)
        return [body]
