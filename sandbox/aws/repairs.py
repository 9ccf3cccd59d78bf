"""Where moto decides wrongly, and no operation of ours takes its place: repaired in moto itself.

- moto judges by a bucket policy without reading its conditions, so that the usual "deny what does not come over TLS"
  denies everything. Here a statement with a condition does not count.
- moto's DescribeNatGateways leaves filters by tag out.
- moto's routes stay active when the NAT gateway that they lead to is gone; EC2 calls them blackholes.
- moto's ListObjectsV2 fails with an internal error for a continuation token that it did not give.
"""

from __future__ import annotations

import json
from typing import Any

from moto.ec2.models.nat_gateways import NatGateway, NatGatewayBackend
from moto.ec2.models.route_tables import Route
from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.exceptions import InvalidContinuationToken
from moto.s3.models import FakeBucket, S3Backend

_describe_nat_gateways = NatGatewayBackend.describe_nat_gateways
_keys_after = S3Backend._get_results_from_token


def apply() -> None:
    """Repair moto in this process. May be repeated."""
    FakeBucket.get_permission = _permission  # type: ignore[method-assign,assignment]
    NatGatewayBackend.describe_nat_gateways = _nat_gateways_by_tag  # type: ignore[method-assign,assignment]
    Route.state = property(_route_state)  # type: ignore[method-assign,assignment]
    S3Backend._get_results_from_token = _keys_after_known  # type: ignore[method-assign,assignment]


def _permission(bucket: FakeBucket, action: str, resource: str) -> Any:
    if bucket.policy is None:
        return PermissionResult.NEUTRAL
    policy = json.loads(bucket.policy)
    statements = policy.get("Statement", [])
    statements = statements if isinstance(statements, list) else [statements]
    unconditional = [statement for statement in statements if not statement.get("Condition")]
    if not unconditional:
        return PermissionResult.NEUTRAL
    return IAMPolicy(json.dumps(policy | {"Statement": unconditional})).is_action_permitted(action, resource)


def _nat_gateways_by_tag(
    backend: NatGatewayBackend, filters: dict[str, list[str]] | None, nat_gateway_ids: list[str] | None
) -> list[NatGateway]:
    found = _describe_nat_gateways(backend, filters, nat_gateway_ids)
    for name, values in (filters or {}).items():
        if name.startswith("tag:"):
            key = name.removeprefix("tag:")
            found = [nat for nat in found if any(t["key"] == key and t["value"] in values for t in nat.get_tags())]
    return found


def _route_state(route: Route) -> str:
    """(EC2 API: Route, state)"""
    gone = route.nat_gateway is not None and route.nat_gateway.state in ("deleting", "deleted")
    return "blackhole" if gone else "active"


def _keys_after_known(backend: S3Backend, keys: Any, token: Any) -> Any:
    if token is None:
        raise InvalidContinuationToken()
    return _keys_after(backend, keys, token)
