"""Serving a WSGI application on threads, with keep-alive and connections that can be cut."""

from __future__ import annotations

import logging
import socket
import threading
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server


class RequestHandler(MotoRequestHandler):
    """HTTP/1.1, so that clients keep their connections; no log line per request."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...

    def setup(self) -> None:
        super().setup()
        # An answer goes out in two writes (head, body); Nagle would hold the second back for 40 ms.
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)


class Server:
    """An HTTP server in a thread of its own."""

    def __init__(self, application: Any, port: int, host: str = "127.0.0.1") -> None:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._server: BaseWSGIServer = make_server(
            host, port, application, threaded=True, request_handler=RequestHandler
        )
        self._server.daemon_threads = True  # type: ignore[attr-defined]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="sandbox-http", daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.port)

    @property
    def url(self) -> str:
        return f"http://{self._server.host}:{self.port}"

    def start(self) -> Server:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def serve(application: Any, port: int, host: str = "127.0.0.1") -> Server:
    """Start serving; ``port`` 0 picks a free one."""
    return Server(application, port, host).start()
