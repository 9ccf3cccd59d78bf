"""The one way to Temporal, for worker, gateway and setup."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from temporalio.client import Client, Interceptor, PayloadLimitsConfig
from temporalio.runtime import Runtime

from temporal.converter import data_converter
from temporal.faults import closed_at_once, fault_of
from temporal.keys import key_ring
from temporal.profile import connect_config
from temporal.settings import ConnectionSettings

log = logging.getLogger(__name__)

_PAUSE = 1.0
_LONGEST_PAUSE = 5.0
_MOST_CLOSED = 4
"""Connections in a row that the server ends at once, until that is taken for a refusal."""

_LIMITS = PayloadLimitsConfig(memo_warn_size=32 * 1024)
"""An operation's progress and a cluster's record are in memos, which pages are read from: some kilobytes, where the SDK
warns of 2. Temporal refuses 2 MiB (limit.memoSize.error)."""


def check_settings() -> None:
    """Raises ConnectionFaultError where profile or keys cannot be used: for who connects with the first call alone."""
    connect_config()
    key_ring(ConnectionSettings())


async def connect(
    settings: ConnectionSettings | None = None,
    *,
    interceptors: Sequence[Interceptor] = (),
    runtime: Runtime | None = None,
    lazy: bool = False,
) -> Client:
    """A client by Temporal's profile (see ``temporal/profile.py``).

    ``lazy``: connects with its first call, so that a gateway starts before Temporal does. Else it waits until Temporal
    answers, and says so. Raises ConnectionFaultError where waiting does not help.
    """
    converter = data_converter(key_ring(settings or ConnectionSettings()))
    pause, closed = _PAUSE, 0
    while True:
        config = connect_config()
        address = config["target_host"]
        try:
            return await Client.connect(
                **config,
                data_converter=converter,
                interceptors=interceptors,
                runtime=runtime,
                lazy=lazy,
                payload_limits=_LIMITS,
            )
        except RuntimeError as error:
            refusal = closed_at_once(error, address)
            closed = closed + 1 if refusal is not None else 0
            fault = fault_of(error, address) or (refusal if closed >= _MOST_CLOSED else None)
            if fault is not None:
                raise fault from error
            log.warning("%s does not answer yet: %s", address, error)
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)
