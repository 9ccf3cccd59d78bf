"""The head of a Ray cluster, as far as its dashboard's API answers: its version, and that no job was submitted.

https://docs.ray.io/en/latest/cluster/running-applications/job-submission/api.html . UNVERIFIED: what ``ray_commit`` and
``session_name`` look like.
"""

from __future__ import annotations

import re

from sandbox.kubernetes.resources import Json

from .exchange import Answer, Request, as_json, as_text
from .model import RAY, Program, Server, Surroundings

DASHBOARD = 8265
START_SECONDS = 8.0
VERSION = "2.52.0"
"""Of an image whose tag tells none."""
_TAG = re.compile(r"ray[-a-z]*:?(\d+\.\d+\.\d+)")


def head(container: Json, around: Surroundings) -> Program | None:
    """The head's program; None for a container that is none of a Ray cluster's head."""
    if around.labels.get("ray.io/node-type") != "head":
        return None
    found = _TAG.search(str(container.get("image", "")))
    version = found[1] if found else VERSION
    lines = ((START_SECONDS, "Ray runtime started."), (START_SECONDS, "--block"))
    return Program(RAY, lines, START_SECONDS, Server(RAY, DASHBOARD, model=version, metrics=False))


def respond(server: Server, request: Request) -> Answer:
    match request.method, request.path.split("?")[0].rstrip("/"):
        case "GET", "/api/version":
            told = {"version": "4", "ray_version": server.model, "ray_commit": "0" * 40, "session_name": "session_1"}
            return as_json(told)
        case "GET", "/api/jobs":
            return as_json([])
        case "GET", "/api/gcs_healthz":
            return as_text("success")
    return as_text("404: Not Found", status=404)
