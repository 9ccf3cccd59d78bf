"""How a process begins to tell of itself: logs, traces, metrics, in that order, before anything else."""

from __future__ import annotations

from telemetry import logs, tracing
from telemetry.settings import TelemetrySettings


class TelemetryFaultError(Exception):
    """What is asked for cannot be told as it is set; the text says what to change."""


def begin(service: str, about: logs.About = logs.nobody, *, temporal: bool = True) -> None:
    """Set up what the environment asks for. ``service``: the name of the process in traces. ``temporal``: whether it
    speaks to Temporal, whose runtime then tells with it; without, and without metrics, that is not loaded.

    Raises pydantic.ValidationError and TelemetryFaultError.
    """
    settings = TelemetrySettings()
    logs.setup(settings, about)
    try:
        tracing.start(service)
    except tracing.TracingFaultError as error:
        raise TelemetryFaultError(str(error)) from error
    if temporal or settings.metrics_address is not None:
        from telemetry import runtime

        try:
            runtime.begin(settings)
        except runtime.EndpointFaultError as error:
            raise TelemetryFaultError(str(error)) from error
