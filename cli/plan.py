"""A plan as text."""

from __future__ import annotations

from typing import Any

from cli.output import columns, pairs
from cli.view import compact

_MARKS = {"create": "+", "change": "~", "delete": "-", "keep": " ", "nothing": "="}


def plan_lines(plan: dict[str, Any]) -> list[str]:
    """What would be done, in order, with what it costs and needs, and what stands in its way."""
    lines = pairs(
        [
            ("Would start", plan.get("operation")),
            ("Region", plan.get("region")),
            ("Plan", plan.get("plan")),
            ("Valid until", plan.get("valid_until")),
            ("Checked", _checked(plan)),
            ("Approval", "needed" if plan.get("needs_approval") else None),
            ("Cost", _cost(plan.get("cost"))),
        ]
    )
    sections = [
        ("Changes", [_change(each) for each in plan.get("changes") or []]),
        ("Cost for every hour", _cost_items(plan.get("cost"))),
        ("Quotas", [_quota(each) for each in plan.get("quotas") or []]),
        ("Addresses", [_addresses(each) for each in plan.get("addresses") or []]),
        ("Prerequisites", [_check(each) for each in plan.get("checks") or []]),
        ("Warnings", [f"! {each}" for each in plan.get("warnings") or []]),
        ("In the way", [_blocker(each) for each in plan.get("blockers") or []]),
    ]
    for title, content in sections:
        if content:
            lines += ["", title, *(f"  {line}" for line in content)]
    return lines


def _checked(plan: dict[str, Any]) -> str:
    return "against the account" if plan.get("checked_against_account") else "alone; the operation will check more"


def _change(change: dict[str, Any]) -> str:
    said = f"{_MARKS[change['action']]} {change['kind']} {change['name']}"
    before, after = change.get("before"), change.get("after")
    if before is not None:
        said += f": {compact(before)} → {'none' if after is None else compact(after)}"
    elif after is not None:
        said += f": {compact(after)}"
    return f"{said} ({change['detail']})" if change.get("detail") else said


def _cost(cost: dict[str, Any] | None) -> str | None:
    if cost is None:
        return None
    if cost.get("per_hour") is None:
        return f"{cost['known_per_hour']:+.2f} {cost['currency']} an hour and what is unknown; {cost['source']}"
    return f"{cost['per_hour']:+.2f} {cost['currency']} an hour; {cost['source']}"


def _cost_items(cost: dict[str, Any] | None) -> list[str]:
    items = (cost or {}).get("items") or []
    rows = [
        (each["item"], f"{each['quantity']:g}", "unknown" if each["per_hour"] is None else f"{each['per_hour']:.4f}")
        for each in items
    ]
    return columns(("ITEM", "QUANTITY", "PER HOUR"), rows) if rows else []


def _quota(need: dict[str, Any]) -> str:
    limit = "unknown" if need.get("limit") is None else need["limit"]
    used = "unknown" if need.get("used") is None else need["used"]
    return f"{need['quota']}: {need['needed']} more, {used} in use, of {limit}"


def _addresses(need: dict[str, Any]) -> str:
    free = "in a subnet that is made" if need.get("free") is None else f"of {need['free']} free"
    return f"{need['subnet']}: {need['needed']} {free}"


def _check(check: dict[str, Any]) -> str:
    said = f"{'✔' if check['passed'] else '✖'} {check['name']}"
    said += f": {check['detail']}" if check.get("detail") else ""
    return said if check["passed"] or not check.get("remedy") else f"{said} – {check['remedy']}"


def _blocker(error: dict[str, Any]) -> str:
    where = f" ({error['field']})" if error.get("field") else ""
    return f"✖ {error['detail']}{where}" + (f" – {error['remedy']}" if error.get("remedy") else "")
