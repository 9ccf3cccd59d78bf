"""What containers do here, by their image and command line: model servers and routers. No code of theirs runs.

A program is data: what it prints and when, when it answers, or how it fails. Every other container just runs.
"""

from __future__ import annotations

from .identify import identify
from .model import Program, Server, Surroundings

__all__ = ["Program", "Server", "Surroundings", "identify"]
