"""Prometheus: https://prometheus.io/docs/prometheus/latest/getting_started/"""

from __future__ import annotations

import re

from .model import PROMETHEUS, Program, Server

IMAGE = re.compile(r"(?:.*/)?(?:prom|prometheus)/prometheus(?:[:@].*)?")
PORT = 9090
START_SECONDS = 3.0


def serve(words: list[str]) -> Program:
    """The server, on the port of ``--web.listen-address``."""
    given = re.search(r"--web\.listen-address[= ]\S*:(\d+)", " ".join(words))
    port = int(given[1]) if given else PORT
    lines = ((START_SECONDS, f'level=info msg="Server is ready to receive web requests." port={port}'),)
    return Program(PROMETHEUS, lines, START_SECONDS, Server(PROMETHEUS, port, metrics=False))
