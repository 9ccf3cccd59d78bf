"""The services of the local stack, in the order in which they need each other."""

from __future__ import annotations

import os
import sys

from cli.stack import environment, probe
from cli.stack.child import Service
from cli.stack.folder import ROOT
from cli.stack.ports import HOST
from cli.stack.settings import StackSettings
from contracts import queues, visibility

READY = "/ready"
"""Answers with success once Temporal answers the gateway and a worker polls every task queue that it needs."""


def services(settings: StackSettings) -> list[Service]:
    """Temporal, sandbox, worker, gateway."""
    ports = settings.ports
    plain = environment.base(os.environ)
    platform = environment.platform(settings, os.environ)
    return [
        Service(
            name="temporal",
            argv=temporal_argv(settings),
            env=plain,
            ready=lambda: probe.temporal_knows(ports.temporal_ui, visibility.ATTRIBUTES),
        ),
        Service(
            name="sandbox",
            argv=python(
                "sandbox",
                *("--port", str(ports.sandbox)),
                *("--kubernetes-port", str(ports.kubernetes)),
                *("--speed", f"{settings.speed:g}"),
                *("--data", str(settings.folder.sandbox)),
                *(word for path in sorted((ROOT / "recipes").rglob("*.py")) for word in ("--program", str(path))),
            ),
            env=plain,
            ready=lambda: probe.answers(ports.sandbox, "/_sandbox/health"),
        ),
        Service(
            name="worker",
            argv=python("worker"),
            env=platform,
            ready=lambda: probe.temporal_polled(ports.temporal_ui, queues.WORKFLOWS),
            grace=20.0,
        ),
        Service(
            name="gateway",
            argv=python("server"),
            env=environment.beside(platform) | {"INSTANTSTART_MCP_STATE_KEY": settings.folder.mcp_state_key()},
            ready=lambda: probe.answers(ports.gateway, READY),
        ),
    ]


def python(module: str, *arguments: str) -> list[str]:
    """Run one of the project's programs."""
    return [sys.executable, "-m", module, *arguments]


def temporal_argv(settings: StackSettings) -> list[str]:
    # WAL doubles the throughput of Temporal's SQLite and survives a killed server as well as the default does.
    pragmas = ("journal_mode=WAL", "synchronous=NORMAL")
    attributes = [f"{name}={kind}" for name, kind in visibility.ATTRIBUTES.items()]
    return [
        *(environment.temporal_binary(), "server", "start-dev", "--ui-disable-news-fetch"),
        *("--ip", HOST, "--port", str(settings.ports.temporal), "--ui-port", str(settings.ports.temporal_ui)),
        *("--db-filename", str(settings.folder.temporal), "--log-level", "warn"),
        *(part for pragma in pragmas for part in ("--sqlite-pragma", pragma)),
        *(part for attribute in attributes for part in ("--search-attribute", attribute)),
        # As in deploy/compose/temporal/dynamic.yaml: memos are some kilobytes, where the default warns of two.
        *("--dynamic-config-value", "limit.memoSize.warn=32768"),
        *(("--ui-codec-endpoint", f"{settings.gateway_url}/codec") if settings.folder.codec_keys.exists() else ()),
    ]
