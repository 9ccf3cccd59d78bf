"""Temporal's runtime as our processes use it: its log lines among ours, its metrics and ours on one endpoint."""

from __future__ import annotations

import logging

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)

from contracts.measures import ALL, Histogram
from telemetry import metrics
from telemetry.settings import TelemetrySettings

log = logging.getLogger(__name__)


class EndpointFaultError(Exception):
    """Metrics cannot be served where they are to be; the text says what to do."""


def begin(settings: TelemetrySettings) -> None:
    """Make the runtime that every client and worker of this process uses from now on. It serves metrics where
    ``settings.metrics_address`` says. Raises EndpointFaultError where nothing can be served there.
    """
    Runtime.set_default(_runtime(settings))


def _runtime(settings: TelemetrySettings) -> Runtime:
    logging_config = LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
        forwarding=LogForwardingConfig(logging.getLogger("temporalio"), append_target_to_name=False),
    )
    if settings.metrics_address is None:
        return Runtime(telemetry=TelemetryConfig(logging=logging_config))
    served = PrometheusConfig(
        bind_address=settings.metrics_address,
        counters_total_suffix=True,
        unit_suffix=True,
        durations_as_seconds=True,
        histogram_bucket_overrides={each.name: each.buckets for each in ALL if isinstance(each, Histogram)},
    )
    try:
        made = Runtime(telemetry=TelemetryConfig(logging=logging_config, metrics=served, attach_service_name=False))
    except (RuntimeError, ValueError) as error:
        raise EndpointFaultError(
            f"metrics cannot be served at {settings.metrics_address} ({error}): stop what listens there, or choose "
            "another address with INSTANTSTART_METRICS_ADDRESS"
        ) from error
    metrics.bind(made.metric_meter)
    log.info("metrics at http://%s/metrics", settings.metrics_address)
    return made
