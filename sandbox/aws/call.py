"""A call to an AWS API as handlers see it, and the errors that they answer with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from moto.core.exceptions import ServiceException

READ_PREFIXES = (
    "Describe",
    "List",
    "Get",
    "Head",
    "Search",
    "BatchGet",
    "Lookup",
    "Simulate",
    "Query",
    "Scan",
    "Select",
)
READS = frozenset({"DecodeAuthorizationMessage", "AssumeRole", "AssumeRoleWithWebIdentity", "ValidateTemplate"})


class AwsError(ServiceException):
    """An AWS error. Its HTTP status comes from the service's model, or ``status``, or is 400."""

    def __init__(self, code: str, message: str, status: int | None = None, **members: Any) -> None:
        super().__init__(code, message)
        self.status = status
        for name, value in members.items():
            setattr(self, name, value)


@dataclass(frozen=True)
class Response:
    """An HTTP response of an AWS API."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


@dataclass
class Call:
    """One call: who asks which service in which region for what."""

    service: str
    operation: str
    account: str
    region: str
    params: dict[str, Any]
    access_key: str = ""
    request_id: str = ""
    forward: Callable[[], Response] = field(default=lambda: Response(500, [], b""), repr=False)
    """Let moto carry the call out."""
    dry_run: bool = False

    @property
    def place(self) -> tuple[str, str]:
        return (self.account, self.region)

    def arn(self, service: str, resource: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{resource}"


def is_read(operation: str) -> bool:
    """Whether an operation changes nothing, by its name."""
    return operation.startswith(READ_PREFIXES) or operation in READS
