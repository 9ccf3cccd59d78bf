"""One HTTP request to a cluster, and the forms its body may have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

import yaml

from . import protobuf
from .errors import ApiError
from .identity import Principal
from .registry import Write

TRUE = ("true", "True", "1", "")


class _Loader(yaml.CSafeLoader):
    """YAML without dates: Kubernetes' fields are strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def decode_body(raw: bytes, content_type: str) -> Any:
    if not raw:
        return {}
    if content_type.startswith(protobuf.MEDIA_TYPE) or raw.startswith(protobuf.MAGIC):
        return protobuf.decode(raw)
    if "cbor" in content_type:
        raise ApiError(
            415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )
    try:
        if raw.lstrip()[:1] in (b"{", b"[") or "yaml" not in content_type:
            return json.loads(raw)
        return yaml.load(raw, _Loader)
    except (ValueError, yaml.YAMLError) as error:
        raise ApiError(400, f"error decoding the body: {error}") from error


@dataclass
class Call:
    """A request, its path already without the cluster's prefix."""

    method: str
    path: str
    query_string: str
    headers: Mapping[str, str]
    raw_body: bytes
    principal: Principal
    warnings: list[str] = field(default_factory=list)
    proxied: bool = False
    """Whether it is for a server in a pod, and changes nothing in the cluster."""

    @cached_property
    def parameters(self) -> list[tuple[str, str]]:
        return parse_qsl(self.query_string, keep_blank_values=True)

    @cached_property
    def query(self) -> dict[str, str]:
        return dict(self.parameters)

    def flag(self, name: str) -> bool:
        return name in self.query and self.query[name] in TRUE

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.parameters if key == name]

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "application/json").split(";")[0].strip()

    @property
    def accept(self) -> str:
        """The first media type of the Accept header, with its parameters."""
        return self.headers.get("accept", "").split(",")[0]

    @cached_property
    def body(self) -> Any:
        return decode_body(self.raw_body, self.content_type)

    @property
    def body_object(self) -> dict[str, Any]:
        if not isinstance(self.body, dict):
            raise ApiError(400, "the body of the request is not an object")
        return self.body

    @property
    def manager(self) -> str:
        """Who writes: the field manager, or what comes before the slash of the user agent."""
        return self.query.get("fieldManager") or (self.headers.get("user-agent") or "unknown").split("/")[0]

    @property
    def dry_run(self) -> bool:
        return "All" in self.values("dryRun")

    def write(self, subresource: str = "", operation: str = "Update") -> Write:
        return Write(
            self.manager,
            operation,
            subresource,
            self.dry_run,
            self.query.get("fieldValidation") or "Warn",
            self.warnings,
        )

    def delete_options(self) -> dict[str, Any]:
        """DeleteOptions from the body, which the query's parameters complete."""
        options = dict(self.body) if isinstance(self.body, dict) else {}
        for name in ("propagationPolicy", "gracePeriodSeconds", "orphanDependents"):
            if name in self.query and name not in options:
                value = self.query[name]
                options[name] = int(value) if name == "gracePeriodSeconds" else value
        if isinstance(options.get("orphanDependents"), str):
            options["orphanDependents"] = options["orphanDependents"] in TRUE
        return options
