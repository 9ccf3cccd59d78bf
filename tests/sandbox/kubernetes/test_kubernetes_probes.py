"""Probes are computed, not carried out: what holds for them whatever their settings."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sandbox.kubernetes.controllers.probes import LIVENESS, STARTUP, Verdict, verdict
from sandbox.kubernetes.programs import Server
from sandbox.kubernetes.serving import Outlook

BEGUN = 1000.0
SERVER = Server("vllm", 8000, names=("m",))
settings = st.fixed_dictionaries(
    {
        "initialDelaySeconds": st.integers(0, 60),
        "periodSeconds": st.integers(1, 30),
        "failureThreshold": st.integers(1, 10),
        "httpGet": st.just({"path": "/health", "port": 8000}),
    }
)
probes = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("startupProbe", "readinessProbe", "livenessProbe"), settings)
)
loads = st.integers(0, 800).map(lambda halves: halves / 2)


def judge(container: dict[str, Any], load: float, at: float, broken: float | None = None) -> Verdict:
    outlook = Outlook(BEGUN + load, None if broken is None else BEGUN + broken, server=SERVER, known=True)
    return verdict({"name": "main", **container}, BEGUN, outlook, BEGUN + at)


@given(probes, loads, st.integers(0, 2000).map(lambda halves: halves / 2))
def test_with_a_readiness_probe_only_a_server_that_answers_is_ready(
    container: dict[str, Any], load: float, at: float
) -> None:
    found = judge(container, load, at)
    if "readinessProbe" in container and found.ready:
        assert at >= load
        assert at >= container["readinessProbe"]["initialDelaySeconds"]
    assert not (found.killer and found.ready)


@given(probes, loads, st.integers(0, 2000).map(lambda halves: halves / 2))
def test_nothing_changes_before_the_time_that_is_named(container: dict[str, Any], load: float, at: float) -> None:
    found = judge(container, load, at)
    if found.killer:
        return
    until = 10_000.0 if found.next is None else found.next - BEGUN
    assert until > at
    later = judge(container, load, (at + until) / 2)
    assert (later.started, later.ready, later.killer) == (found.started, found.ready, found.killer)


@given(settings, loads)
def test_a_startup_probe_gives_as_long_as_its_settings_say(settings: dict[str, Any], load: float) -> None:
    last = settings["initialDelaySeconds"] + (settings["failureThreshold"] - 1) * settings["periodSeconds"]
    found = judge({"startupProbe": settings}, load, 1000)
    assert (found.killer == STARTUP) == (load > last)
    assert last == 0 or judge({"startupProbe": settings}, load, last - 0.5).killer == ""


@given(settings, loads)
def test_liveness_waits_for_the_startup_probe(liveness: dict[str, Any], load: float) -> None:
    patient = {"periodSeconds": 1, "failureThreshold": 1000, "httpGet": {"path": "/health", "port": 8000}}
    assert judge({"startupProbe": patient, "livenessProbe": liveness}, load, 900).killer == ""


@given(settings, st.integers(0, 100).map(float))
def test_a_server_that_breaks_is_killed_after_so_many_failures(liveness: dict[str, Any], broken: float) -> None:
    broken += 400
    limit = liveness["failureThreshold"] * liveness["periodSeconds"]
    container = {"livenessProbe": liveness, "startupProbe": {"failureThreshold": 1000, "httpGet": {"port": 8000}}}
    assert judge(container, 0, broken + limit - 0.5, broken).killer == ""
    assert judge(container, 0, broken + limit, broken).killer in (LIVENESS, STARTUP)


def test_what_no_server_is_asked_for_is_fulfilled() -> None:
    container = {"name": "main", "readinessProbe": {"httpGet": {"port": 80}, "initialDelaySeconds": 5}}
    outlook = Outlook(BEGUN)
    assert not verdict(container, BEGUN, outlook, BEGUN + 4).ready
    assert verdict(container, BEGUN, outlook, BEGUN + 5).ready


def test_a_path_that_a_server_does_not_have_fails() -> None:
    container = {"readinessProbe": {"httpGet": {"path": "/healthz", "port": 8000}}}
    found = judge(container, 10, 100)
    assert (found.ready, found.failure) == (False, "HTTP probe failed with statuscode: 404")
