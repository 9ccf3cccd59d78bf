"""``python -m server``: the gateway and its faces as one process; INSTANTSTART_FACES splits them into several."""

from __future__ import annotations

import os
import sys
from socket import socket

from pydantic import ValidationError

from api.__main__ import Server as GatewayServer
from api.__main__ import configuration
from api.observing import about
from api.settings import Settings as GatewaySettings
from server.app import OnePort, create_app
from server.faces import Face, Settings
from telemetry import logs, process
from temporal.connection import check_settings
from temporal.faults import ConnectionFaultError


class Server(GatewayServer):
    """A server that also ends the calls of tools that wait."""

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        app = self.config.app
        if isinstance(app, OnePort):
            app.stop()
        await super().shutdown(sockets)


def main() -> int:
    """Run until stopped; returns the exit status."""
    try:
        settings, gateway = Settings(), GatewaySettings()
        process.begin("instantstart-gateway", about, temporal=Face.API in settings.faces)
        if Face.API in settings.faces:
            check_settings()
            # The faces of this process call the gateway of this process, over HTTP as any other would.
            host = "127.0.0.1" if gateway.host in ("0.0.0.0", "::", "localhost") else gateway.host
            os.environ["INSTANTSTART_URL"] = f"http://{host}:{gateway.port}"
        url = os.environ.get("INSTANTSTART_URL", f"http://127.0.0.1:{gateway.port}")
        app = create_app(settings.faces, url)
        logs.adopt()  # Streamlit's and those of uvicorn, which Streamlit takes for its own
    except (ValidationError, process.TelemetryFaultError, ConnectionFaultError) as error:
        print(error, file=sys.stderr)
        return 2
    Server(configuration(app, gateway.host, gateway.port)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
