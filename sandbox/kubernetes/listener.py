"""A port that serves an ASGI application from a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import uvicorn

from .certificates import Certificates

_STARTUP_SECONDS = 15


class Listener:
    """``port`` 0 takes a free one; :attr:`port` says which."""

    def __init__(self, application: Any, host: str, port: int, certificates: Certificates | None = None) -> None:
        # asyncio switches Nagle's algorithm off, but only where the protocol is named.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((host, port))
        self.port: int = self._socket.getsockname()[1]
        files: dict[str, str] = {}
        if certificates is not None:
            files = {"ssl_certfile": str(certificates.certificate_file), "ssl_keyfile": str(certificates.key_file)}
        self._server = uvicorn.Server(
            # A dropped connection is a feature here, not an error to report: hence the log level.
            uvicorn.Config(
                application,
                log_level="critical",
                access_log=False,
                lifespan="off",
                timeout_keep_alive=90,
                timeout_graceful_shutdown=1,
                proxy_headers=False,
                # The applications say the sandbox's own time.
                date_header=False,
                h11_max_incomplete_event_size=1 << 20,
                **files,  # type: ignore[arg-type]
            )
        )
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sandbox-kubernetes", daemon=True)

    def start(self) -> None:
        """Serve; returns when connections are accepted."""
        self._thread.start()
        if not self._ready.wait(_STARTUP_SECONDS):
            raise RuntimeError(f"the Kubernetes API did not start on port {self.port}")

    def stop(self) -> None:
        """Close the port and every connection, open watches included."""
        self._server.should_exit = self._server.force_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        serving = asyncio.ensure_future(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.005)
        self._ready.set()
        await serving
