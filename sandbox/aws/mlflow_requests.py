"""The way into tracking servers and apps: signed requests of MLflow's REST API that name a server by its ARN.

As AWS's plugin sends them: https://github.com/aws/sagemaker-mlflow . UNVERIFIED: how requests to a server that does not
run are refused.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qsl

from sandbox.aws import backends, signatures
from sandbox.aws.authorization.facts import MLFLOW_APP
from sandbox.aws.mlflow import APP, RUNNING, Mlflow
from sandbox.aws.overlay import Overlay, drop
from sandbox.aws.sts import MEMBER_ROLE
from sandbox.credentials import ROLE_ARN
from sandbox.mlflow import api
from sandbox.mlflow.errors import MlflowError

SERVICE = "sagemaker-mlflow"
ARN_HEADER = "HTTP_X_MLFLOW_SM_TRACKING_SERVER_ARN"


class MlflowRequests:
    """The one address of all tracking servers and apps of a region. (https://REGION.experiments.sagemaker.aws)

    As a WSGI application it leaves all other requests to others (None). Faults and the ledger know a request by the IAM
    action that it needs: service ``sagemaker-mlflow``, operation ``LogBatch``.
    """

    def __init__(self, mlflow: Mlflow, overlay: Overlay, touch: Callable[[], None]) -> None:
        self._mlflow, self._overlay, self._touch = mlflow, overlay, touch

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes] | None:
        path = environ.get("PATH_INFO", "")
        prefix = next((each for each in api.PREFIXES if path.startswith(each)), None)
        if prefix is None:
            return None
        route = path.removeprefix(prefix)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        stream = environ["wsgi.input"]
        body: bytes = stream.read() if environ.get("wsgi.input_terminated") else stream.read(length)
        status, answer = self._serve(environ, route, body)
        if status == 0:
            return drop(environ)
        content = json.dumps(answer).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        start_response(f"{status} {'OK' if status == 200 else 'Error'}", headers)
        return [content]

    def _serve(self, environ: dict[str, Any], route: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and answer; status 0: the connection is cut."""
        overlay, operation = self._overlay, api.operation_of(route)
        text, arn = body.decode(errors="replace"), environ.get(ARN_HEADER, "")
        agent = environ.get("HTTP_USER_AGENT", "")
        region = arn.split(":")[3] if arn.count(":") >= 5 else ""
        service, _, needed = _action(arn, operation).partition(":")
        overlay.calls.count(service, needed, region, signatures.claimed(environ), agent)
        before = overlay.faults.pick("aws", SERVICE, operation, "before", text)
        if before is not None and before.action != "latency":
            return _faulted(before)
        with overlay.lock:
            overlay.clock.run_due(0.2)
            status, answer = self._answer(environ, arn, route, operation, body)
        after = overlay.faults.pick("aws", SERVICE, operation, "after", text)
        if api.reads(route):
            overlay.ledger.count_read("aws", SERVICE, operation)
        else:
            overlay.ledger.record(
                api="aws",
                service=SERVICE,
                operation=operation,
                parameters=_json(body),
                resource=arn,
                time=overlay.clock.timestamp(),
                request_id=secrets.token_hex(8),
                status=status,
                effect=status == 200,
                region=region,
                user_agent=agent,
                response_lost=after is not None and after.action == "drop",
                error=str(answer.get("error_code") or answer.get("message") or "") if status != 200 else "",
            )
            self._mlflow.changed(arn)
            self._touch()
        return _faulted(after) if after is not None and after.action != "latency" else (status, answer)

    def _answer(
        self, environ: dict[str, Any], arn: str, route: str, operation: str, body: bytes
    ) -> tuple[int, dict[str, Any]]:
        try:
            signer = signatures.verify(environ, body, SERVICE)
        except signatures.InvalidSignature as error:
            return 403, {"message": str(error)}
        server = self._mlflow.by_arn(arn)
        if server is None or arn.split(":")[4] != signer.account or arn.split(":")[3] != signer.region:
            return 403, {"message": f"The tracking server {arn or '(none named)'} was not found or is not accessible."}
        needed = _action(arn, operation)
        if not _allowed(signer, arn, needed):
            return 403, {"message": f"User: {signer.role_arn} is not authorized to perform: {needed} on {arn}"}
        guard = self._overlay.guard if signer.role_arn == ROLE_ARN else None
        if guard is not None and (refusal := guard.refusal(needed, arn)):
            return 403, {"message": refusal}
        if server.status not in RUNNING:
            return 400, {"message": f"The tracking server {server.name} is not active (status {server.status})."}
        asked = dict(parse_qsl(environ.get("QUERY_STRING", ""))) if environ["REQUEST_METHOD"] == "GET" else _json(body)
        now = self._mlflow.world.clock.timestamp
        try:
            found = api.Api(self._mlflow.state.tracking[arn], lambda: int(now() * 1000)).answer(
                environ["REQUEST_METHOD"], route, asked
            )
        except MlflowError as error:
            return error.status, {"error_code": error.code, "message": error.message}
        return (404, {"error_code": "ENDPOINT_NOT_FOUND", "message": route}) if found is None else (200, found)


def _action(arn: str, operation: str) -> str:
    """The IAM action of a request: apps have one for all."""
    return MLFLOW_APP if f":{APP}/" in arn else f"{SERVICE}:{operation}"


def _allowed(signer: signatures.Signer, arn: str, action: str) -> bool:
    """Whether the role's inline policies allow the action; the sandbox's own caller is not asked here."""
    if signer.role_arn in (None, ROLE_ARN):
        return True
    name = str(signer.role_arn).rpartition("/")[2]
    role = backends.role(signer.account, name)
    if role is None:
        return name == MEMBER_ROLE
    statements = [each for text in role.policies.values() for each in _list(json.loads(text)["Statement"])]
    return any(
        each["Effect"] == "Allow"
        and any(fnmatchcase(action.lower(), pattern.lower()) for pattern in _list(each.get("Action", [])))
        and any(fnmatchcase(arn, pattern) for pattern in _list(each.get("Resource", [])))
        for each in statements
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _faulted(rule: Any) -> tuple[int, dict[str, Any]]:
    if rule.action == "drop":
        return 0, {}
    if rule.action == "http500":
        return 500, {"error_code": "INTERNAL_ERROR", "message": "An internal failure occurred."}
    return rule.status or 400, {"error_code": rule.code, "message": rule.message}
