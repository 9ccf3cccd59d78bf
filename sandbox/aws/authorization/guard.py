"""Policies in force for the sandbox's own caller: what they do not allow is refused as the services refuse it.

Without any policy everything is allowed. Other principals of the sandbox (pods, sessions of other roles) and what runs
inside the simulated services are never asked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moto.core.utils import get_service_model

from sandbox import credentials
from sandbox.admin import AdminError, AdminRequest
from sandbox.aws.authorization.policies import Request, UnknownElement, check, evaluate
from sandbox.aws.authorization.requests import Needs
from sandbox.aws.call import AwsError, Call

CODES = {"ec2": "UnauthorizedOperation"}
"""Services with a code of their own. (EC2 API reference: error codes)"""


class Guard:
    """Holds the policies. The callers' lock protects it."""

    def __init__(self, needs: Needs) -> None:
        self._needs = needs
        self._documents: dict[str, Mapping[str, Any]] = {}
        self._refused: Counter[tuple[str, str, str]] = Counter()
        """By action, resource and the operation that needed it."""

    @property
    def on(self) -> bool:
        return bool(self._documents)

    def enforce(self, documents: Mapping[str, Any]) -> None:
        """Put these policies in force in place of all others; none: everything is allowed. Raises UnknownElement."""
        for document in documents.values():
            check(document)
        self._documents = dict(documents)
        self._refused.clear()

    def __call__(self, call: Call) -> None:
        """Raises AwsError for a call of the sandbox's caller that the policies do not allow."""
        if not self.on or call.access_key != credentials.ACCESS_KEY_ID:
            return
        try:
            refused = next((each for each in self._needs.of(call) if not self._allows(each)), None)
        except LookupError as error:
            refused = Request(f"{call.service}:{call.operation} ({error})", "*")
        if refused is None:
            return
        self._refused[(refused.action, refused.resource, f"{call.service}:{call.operation}")] += 1
        code, status = _code(call.service)
        raise AwsError(code, self.message(refused), status)

    def refusal(self, action: str, arn: str) -> str | None:
        """Why a request of a data plane is refused; None if it is allowed."""
        if not self.on:
            return None
        request = self._needs.data(action, arn)
        if self._allows(request):
            return None
        self._refused[(action, arn, action)] += 1
        return self.message(request)

    @staticmethod
    def message(request: Request) -> str:
        """(IAM User Guide: access denied error messages)"""
        return (
            f"User: {credentials.SESSION_ARN} is not authorized to perform: {request.action} on resource: "
            f"{request.resource} because no identity-based policy allows the {request.action} action"
        )

    def _allows(self, request: Request) -> bool:
        return evaluate(list(self._documents.values()), request)

    # The admin API

    def answer(self, request: AdminRequest) -> dict[str, Any]:
        """``/_sandbox/policies``: GET them, PUT others (an object of documents by name), DELETE all."""
        if request.method == "PUT":
            if not isinstance(request.body, dict):
                raise AdminError("policies are an object: a name for each document")
            try:
                self.enforce(request.body)
            except UnknownElement as error:
                raise AdminError(str(error)) from error
        elif request.method == "DELETE":
            self.enforce({})
        refused = [
            {"action": action, "resource": resource, "call": call, "count": count}
            for (action, resource, call), count in sorted(self._refused.items())
        ]
        return {"policies": sorted(self._documents), "refused": refused}

    def dump(self) -> bytes:
        return json.dumps(self._documents).encode()

    def load(self, dumped: bytes) -> None:
        self.enforce(json.loads(dumped))


def read(folder: Path) -> dict[str, Any]:
    """The policies of a folder: each of its ``*.json``, by the file's name. Raises ValueError where there is none, or
    one is no JSON."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    if not found:
        raise ValueError(f"{folder} holds no policy (*.json)")
    return found


def _code(service: str) -> tuple[str, int]:
    """The error code and the HTTP status that a service refuses with."""
    protocol = str(get_service_model(service).protocol)
    if protocol in ("query", "rest-xml", "ec2"):
        return CODES.get(service, "AccessDenied"), 403
    return "AccessDeniedException", 403 if protocol == "rest-json" else 400
