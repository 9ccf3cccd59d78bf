"""How a program that speaks to Temporal runs, and ends."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from enum import IntEnum
from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from telemetry import logs
from telemetry.settings import TelemetrySettings
from temporal.connection import connect
from temporal.faults import ConnectionFaultError

Result = TypeVar("Result")

_CREDENTIALS = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)
_NO_ANSWER = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED)


class Status(IntEnum):
    """Exit status of a program that asks Temporal for something, and ends."""

    DONE = 0
    REFUSED = 1
    """It is not as was asked for, and a person must see to it."""
    MISCONFIGURED = 2
    """Temporal, or this program, cannot be used with these settings."""
    SILENT = 3
    """Temporal does not answer."""


def run_program(main: Coroutine[Any, Any, Result]) -> Result:
    """``asyncio.run``, for the last thing that a process does."""
    try:
        return asyncio.run(main)
    finally:
        # temporalio's native threads may still be ending; leaving at once crashes now and then (sdk-python issue 300).
        time.sleep(0.1)


def run_once(work: Callable[[Client], Awaitable[int]], patience: float) -> int:
    """Run a program that connects, does ``work`` and ends; returns its exit status, which ``work`` gives.

    ``patience``: seconds that Temporal may take to answer at first. What goes wrong is said on standard error, where
    the log goes too.
    """
    try:
        logs.setup(TelemetrySettings())
        return run_program(_once(work, patience))
    except (ConnectionFaultError, ValidationError) as error:
        return _say(Status.MISCONFIGURED, str(error))


async def _once(work: Callable[[Client], Awaitable[int]], patience: float) -> int:
    try:
        client = await asyncio.wait_for(connect(), patience)
    except TimeoutError:
        return _say(Status.SILENT, f"Temporal did not answer within {patience:g} seconds.")
    try:
        return await work(client)
    except RPCError as error:
        if error.status in _CREDENTIALS:
            return _say(Status.MISCONFIGURED, f"Temporal refuses these credentials: {error.message}")
        silent = error.status in _NO_ANSWER
        said = f"Temporal did not do it: {error.status.name}: {error.message}"
        return _say(Status.SILENT if silent else Status.REFUSED, said)


def _say(status: Status, text: str) -> Status:
    print(text, file=sys.stderr)
    return status
