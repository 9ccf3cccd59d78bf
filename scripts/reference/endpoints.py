"""``docs/reference/endpoints.md``: the gateway's routes, from its OpenAPI document and the table of roles."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from api.app import create_app
from api.openapi import DOCUMENT
from api.settings import Settings
from contracts.queues import REGIONS
from scripts.reference.pages import MADE, first_sentence, paragraphs, table

ROLES = Path(__file__).parents[2] / "docs" / "roles.md"
METHODS = ("get", "post", "put", "patch", "delete")
CALLERS = ("anonymous", "viewer", "agent", "operator", "admin")
HEAD = f"""# Routes of the gateway

{MADE}
The contract is the gateway's own document, `GET {DOCUMENT}`: every member of every model is there. Paths have
`{{placeholders}}`. *From* is the least role that may call; agents `ask` (a person approves), `may ask`, or act on their
`own` operations alone: [roles.md](../roles.md). What starts something answers 202 with an `Operation`, and takes
`?validate_only=true` for its plan instead. Whatever fails is a [problem](problems.md).

Outside that document: `GET /docs` (a list for people), `POST /codec/decode` and `/codec/encode`
([temporal.md](../temporal.md#payloads-in-temporals-web-ui-and-command-line)), and `/mcp` ([mcp.md](../mcp.md)).
"""


def page() -> str:
    """The page."""
    document, cells = document_of_gateway(), roles()
    sections: dict[str, list[tuple[str, ...]]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if operation := item.get(method):
                sections.setdefault(operation["tags"][0], []).append(_row(method, path, operation, cells))
    head = ("name", "route", "what it does", "from", "body", "answer")
    return paragraphs(HEAD) + "".join(
        f"\n## {tag.capitalize()}\n\n{table(head, rows)}" for tag, rows in sections.items()
    )


def document_of_gateway() -> dict[str, Any]:
    """The OpenAPI document of a gateway with the settings that it has by default."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(data_dir=Path(folder), auth="on", host="127.0.0.1", regions=list(REGIONS))
        document: dict[str, Any] = create_app(settings).openapi()
    return document


def roles() -> dict[str, dict[str, str]]:
    """The cells of ``docs/roles.md``, which tests hold against the gateway, by route and caller."""
    section = ROLES.read_text().split("\n## Routes\n", 1)[1].split("\n## ", 1)[0]
    found = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for name in re.findall(r"`([^`]+)`", cells[0]) if line.startswith("|") else ():
            found[name] = dict(zip(CALLERS, cells[1:], strict=True))
    return found


def least(cells: dict[str, str]) -> str:
    """The least role that may call, with what an agent has to do for it. Raises KeyError for an unknown cell."""
    agents = {"yes": "", "no": "", "asks": " (agents ask)", "may ask": " (agents may ask)", "own": " (agents: own)"}
    caller = next(caller for caller in CALLERS if cells[caller] not in ("no", "401"))
    return ("everybody" if caller == "anonymous" else caller) + agents[cells["agent"]]


def _row(method: str, path: str, operation: dict[str, Any], cells: dict[str, dict[str, str]]) -> tuple[str, ...]:
    name = operation["operationId"]
    return (
        f"`{name}`",
        f"`{method.upper()} {path}`",
        first_sentence(operation.get("description") or operation.get("summary", "")),
        least(cells[name]),
        _content(operation.get("requestBody", {})),
        _answer(operation["responses"]),
    )


def _answer(responses: dict[str, Any]) -> str:
    good = [status for status in responses if status.startswith("2")]
    status = "202" if "202" in good else min(good)
    return f"{status} {_content(responses[status])}".strip()


def _content(part: dict[str, Any]) -> str:
    """The model of a body, or its media type where it has none."""
    for media, described in part.get("content", {}).items():
        schema = described.get("schema", {})
        named = _model(schema)
        return f"`{named}`" if named else f"`{media}`"
    return ""


def _model(schema: dict[str, Any]) -> str:
    if reference := schema.get("$ref"):
        return str(reference).rpartition("/")[2]
    names = [_model(each) for each in schema.get("anyOf", []) + schema.get("oneOf", []) if each.get("type") != "null"]
    return " or ".join(filter(None, names))
