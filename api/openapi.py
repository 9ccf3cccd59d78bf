"""The OpenAPI document: the contract from which the faces are tested."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from api.problems import MEDIA_TYPE
from api.streams import EVENTS
from contracts.defences import PLAIN_PAGE
from contracts.problem import Problem

DOCUMENT = "/api/v1/openapi.json"
_REFERENCE = "#/components/schemas/{model}"
_OPEN = ("/health", "/ready")
_METHODS = ("get", "post", "put", "patch", "delete")

_TAGS = [
    {"name": "clusters", "description": "What there is, and what may be started. Starts answer 202 with an operation."},
    {"name": "operations", "description": "Every start is an operation: one shape, whatever it does."},
    {"name": "decisions", "description": "Answers to operations that wait or are blocked."},
    {"name": "streams", "description": "Server-sent events."},
    {"name": "options", "description": "What can be chosen now, looked up in the account."},
    {"name": "access", "description": "Who calls, and who did what."},
    {"name": "health", "description": "For probes; without authentication."},
]

_EXAMPLES: dict[str, dict[str, Any]] = {
    "create_cluster": {
        "everything chosen for you": {"value": {"tag": "demo"}},
        "a GPU group": {
            "value": {
                "tag": "demo",
                "region": "us-west-2",
                "network": {"vpc_cidr": "10.90.0.0/16"},
                "instance_groups": [{"name": "workers", "instance_type": "ml.g5.8xlarge", "count": 2}],
            }
        },
    },
    "create_control_plane": {"another version": {"value": {"kubernetes_version": "1.34"}}},
    "install_dependencies": {"one component": {"value": {"components": ["coredns"]}}},
    "create_hyperpod": {
        "spot": {
            "value": {
                "instance_groups": [
                    {"instance_type": "ml.g5.8xlarge", "count": 4, "capacity": {"kind": "spot"}, "name": "spot"}
                ]
            }
        }
    },
    "create_storage": {"a prefix of a bucket": {"value": {"claim": "data", "bucket": "my-data", "prefix": "train/"}}},
    "retry_operation": {
        "as it was": {"value": {}},
        "with a correction": {"value": {"corrections": {"network": {"vpc_cidr": "10.91.0.0/16"}}}},
    },
    "decide_operation": {
        "capacity": {"value": {"decision": "capacity", "answer": {"instance_type": "ml.g5.8xlarge", "count": 2}}}
    },
    "approve_operation": {"the plan shown": {"value": {"plan_hash": "0123456789abcdef", "reason": "budgeted"}}},
    "abort_operation": {"with a reason": {"value": {"reason": "wrong region"}}},
}

_PROBLEMS = {
    "401": "The token is missing or unknown.",
    "403": "The token's role may not do this.",
    "404": "There is no such thing.",
    "409": "Something else runs or exists; `operation` names it where one stands in the way.",
    "422": "The input breaks a rule; `errors` holds a JSON pointer to each fault.",
    "503": "Temporal or a worker does not answer; send the request again after Retry-After.",
    "default": "A problem (RFC 9457).",
}
_STARTED_HEADERS = {
    "Operation-Location": "Absolute URL of the status monitor.",
    "Location": "The same.",
    "Retry-After": "Seconds until it is worth asking.",
}


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=_TAGS
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template=_REFERENCE, mode="serialization")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A token, or a session's."}
    }
    components["parameters"] = {
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            "description": "Repeating a request with its key gives its first outcome; another request with it is 422.",
        }
    }
    document["security"] = [{"bearer": []}]
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                _describe(path, method, item[method])
    return document


def _describe(path: str, method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    if path in _OPEN:
        operation["security"] = []
        responses.pop("422", None)
        return
    body = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, description in _PROBLEMS.items():
        responses[status] = {"description": description, "content": body}
    if method == "post" and operation["tags"] != ["access"]:
        operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/IdempotencyKey"})
        headers = {name: {"description": text, "schema": {"type": "string"}} for name, text in _STARTED_HEADERS.items()}
        responses.get("202", {}).setdefault("headers", headers)
        examples = _EXAMPLES.get(operation["operationId"])
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if examples and content is not None:
            content["examples"] = examples
    if operation["operationId"] == "watch_operation":
        responses["200"] = {
            "description": "A stream of `progress` and `end` events, each with the operation as its data.",
            "content": EVENTS,
        }
    if operation["operationId"] == "get_operation":
        responses["304"] = {"description": "If-None-Match still matches."}


def install(app: FastAPI) -> None:
    """Serve the document, and a plain list of what it holds: pages that load scripts from elsewhere fail offline."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]

    async def openapi_json(_: Request) -> Response:
        return JSONResponse(app.openapi())

    async def docs(_: Request) -> Response:
        return HTMLResponse(_page(app.openapi()), headers={"Content-Security-Policy": PLAIN_PAGE})

    app.add_route(DOCUMENT, openapi_json, include_in_schema=False)
    app.add_route("/docs", docs, include_in_schema=False)


def _page(document: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{method.upper()}</td><td><code>{path}</code></td><td><code>{item[method]['operationId']}</code></td>"
        f"<td>{_text(item[method].get('description', ''))}</td></tr>"
        for path, item in document["paths"].items()
        for method in _METHODS
        if method in item
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>InstantStart API</title>"
        "<style>body{font:15px/1.5 system-ui;margin:2rem}td{padding:.3rem .8rem;vertical-align:top}</style>"
        f"<h1>InstantStart API</h1><p>The contract: <a href={DOCUMENT}>{DOCUMENT}</a></p><table>{rows}</table></html>"
    )


def _text(description: str) -> str:
    """As HTML. Of its Markdown, names in code are all there is."""
    return re.sub(r"(`{1,2})(.+?)\1", r"<code>\2</code>", escape(description))
