"""What may be asked for, and what is refused before a process begins."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from pydantic import ValidationError

from telemetry.settings import TelemetrySettings
from telemetry.tracing import TracingFaultError, wanted


@pytest.mark.parametrize("address", ["127.0.0.1:9464", "[::1]:9464", "localhost:9464"])
def test_metrics_are_served_to_this_machine(address: str) -> None:
    served = TelemetrySettings(metrics_address=address).metrics_address
    assert served == address.replace("localhost", "127.0.0.1")


@pytest.mark.parametrize("address", ["0.0.0.0:9464", "10.0.0.7:9464", "[::]:9464"])
def test_metrics_are_served_to_others_only_where_that_is_said(address: str) -> None:
    with pytest.raises(ValidationError, match="INSTANTSTART_METRICS_OPEN"):
        TelemetrySettings(metrics_address=address)
    assert TelemetrySettings(metrics_address=address, metrics_open=True).metrics_address == address


@pytest.mark.parametrize("address", ["9464", "here:9464", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="no IP address with a port"):
        TelemetrySettings(metrics_address=address)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, False),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
    ],
)
def test_traces_are_on_where_the_standard_variables_say_so(environment: dict[str, str], expected: bool) -> None:
    assert wanted(environment) is expected


@pytest.mark.parametrize(
    "environment",
    [
        {"OTEL_TRACES_EXPORTER": "zipkin"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_an_exporter_that_is_not_here_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(TracingFaultError):
        wanted(environment)


@pytest.mark.parametrize("module", ["worker", "api"])
def test_a_process_that_cannot_tell_as_asked_does_not_begin(module: str) -> None:
    env = {**os.environ, "INSTANTSTART_METRICS_ADDRESS": "0.0.0.0:9464"}
    run = subprocess.run([sys.executable, "-m", module], env=env, capture_output=True, text=True)
    assert run.returncode == 2
    assert "INSTANTSTART_METRICS_OPEN" in run.stderr


def test_where_traces_are_off_nothing_of_opentelemetrys_sdk_is_loaded() -> None:
    code = (
        "import sys; from telemetry import process, tracing; process.begin('t', temporal=False); "
        "span = tracing.begin('x', {}); tracing.end(span, {}); tracing.annotate(a=1); "
        "print(span, tracing.trace_id(), tracing.interceptors(), "
        "sorted(name for name in sys.modules if name.startswith('opentelemetry.')))"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "None None [] []"
