"""``python -m api``: the gateway as a process."""

from __future__ import annotations

import logging
import sys
from socket import socket

import uvicorn
from pydantic import ValidationError
from starlette.types import ASGIApp

from api.app import create_app
from api.observing import about
from api.settings import Settings
from telemetry import process
from temporal.connection import check_settings
from temporal.faults import ConnectionFaultError

GRACE_SECONDS = 10
KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept: longer than clients do (httpx 5 seconds), since a request that comes in the
moment in which it is closed is lost."""


logger = logging.getLogger("instantstart.api")


class Server(uvicorn.Server):
    """A server that ends its streams and long polls when it is told to stop, instead of waiting for their readers."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            # uvicorn has said which call failed; whoever reads it wants to know what to do.
            if not self.lifespan.should_exit:
                logger.error(
                    "cannot listen on port %d of %s: stop what listens there, or choose another with INSTANTSTART_PORT",
                    self.config.port,
                    self.config.host,
                )
            raise

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        services = getattr(self.config.app.state, "services", None)  # type: ignore[union-attr]
        if services is not None:
            await services.hub.close()
        await super().shutdown(sockets)


def configuration(app: ASGIApp, host: str, port: int, log_level: str = "info") -> uvicorn.Config:
    """How ``app`` is served."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        log_config=None,  # its lines go where all others go
        access_log=False,  # the gateway logs its requests itself: with request ids, without queries
        log_level=log_level,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


def server(settings: Settings) -> Server:
    """The gateway's server, ready to run."""
    return Server(configuration(create_app(settings), settings.host, settings.port))


def main() -> int:
    """Run until stopped; returns the exit status."""
    try:
        settings = Settings()
        process.begin("instantstart-gateway", about)
        check_settings()
    except (ValidationError, process.TelemetryFaultError, ConnectionFaultError) as error:
        print(error, file=sys.stderr)
        return 2
    server(settings).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
