"""Which resource a mutating call was about: an ARN, id or name out of its result, or else of its parameters."""

from __future__ import annotations

import re
from typing import Any

IGNORED = frozenset({"ResponseMetadata", "Tags", "tags", "OwnerId", "RequestId", "AccountId", "clientRequestToken"})
KINDS = re.compile(
    r"^(?:Create|Delete|Update|Put|Allocate|Release|Attach|Detach|Associate|Disassociate|Modify)([A-Z]\w*)$"
)


def resource_of(operation: str, params: dict[str, Any], result: dict[str, Any]) -> str:
    """The best name there is for what the call changed; empty if it names nothing."""
    if "Bucket" in params:
        return "/".join(str(params[k]) for k in ("Bucket", "Key") if params.get(k))
    if isinstance(params.get("Resources"), list):
        return ",".join(str(r) for r in params["Resources"])
    kind = match[1].lower() if (match := KINDS.match(operation)) else ""
    for source in (result, params):
        candidates: list[tuple[str, str, int]] = list(_names(source, depth=2))
        for suffix in ("arn", "id", "name"):
            ranked = [c for c in candidates if c[0].endswith(suffix)]
            # CreateNatGateway answers a NatGatewayId beside the ids of its subnet and VPC.
            ranked.sort(key=lambda c: (not (kind and c[0] in (kind + suffix, suffix)), c[2]))
            if ranked and (source is result or ranked[0][0] == suffix or kind in ranked[0][0]):
                return ranked[0][1]
        if candidates and source is params:
            return candidates[0][1]
    return ""


def _names(value: Any, depth: int, level: int = 0) -> Any:
    """(lower-case key, text, level) of every member that may name a resource."""
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else {}
    if not isinstance(value, dict) or level > depth:
        return
    for key, item in value.items():
        if key in IGNORED:
            continue
        if isinstance(item, str) and key.lower().endswith(("arn", "id", "ids", "name", "bucket", "key")):
            yield key.lower(), item, level
        elif isinstance(item, dict | list):
            yield from _names(item, depth, level + 1)
