"""A plan for people: what would be done in order, what it would cost, what stands in its way."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from typing import Any, Literal

import streamlit as st
from pydantic import JsonValue

from contracts.plans import Action, Check, Cost, Plan, PlannedChange
from ui.decision_form import in_words
from ui.faults import fault_lines
from ui.problems import escaped
from ui.times import at

_Color = Literal["green", "orange", "red", "blue", "gray"]
_ACTIONS: dict[Action, tuple[str, str, _Color]] = {
    Action.CREATE: ("to create", ":material/add_circle:", "green"),
    Action.CHANGE: ("to change", ":material/change_circle:", "orange"),
    Action.DELETE: ("to delete", ":material/delete:", "red"),
    Action.KEEP: ("kept", ":material/lock:", "blue"),
    Action.NOTHING: ("as asked already", ":material/check_circle:", "gray"),
}
_DETAIL_CHARACTERS = 56
"""Of a detail that one line shows."""
_MOST_LINES = 8


def plan_shown(plan: Plan) -> None:
    """Draw the plan. It changes nothing, and says until when it holds."""
    _verdict(plan)
    _numbers(plan)
    for action, changes in groupby(enumerate(plan.changes, 1), key=lambda change: change[1].action):
        _changes(action, [_row(number, change) for number, change in changes])
    if not plan.changes and plan.checked_against_account:
        st.info("Nothing would be changed.", icon=":material/check_circle:")
    _needs(plan)
    with st.expander("What exactly is asked for", icon=":material/data_object:"):
        st.code(json.dumps(plan.spec, indent=2), language="json")
        st.caption(f"Names that derive from the tag: {_names(plan)}")


def _verdict(plan: Plan) -> None:
    if plan.blockers:
        st.error(f"**This stands in the way**\n\n{fault_lines(plan.blockers)}", icon=":material/block:")
    if not plan.checked_against_account:
        st.warning(
            "The account gave no answer in time: what would be done is not known here. The operation itself checks.",
            icon=":material/cloud_off:",
        )
    if plan.warnings:
        said = [escaped(each) for each in plan.warnings]
        st.warning(said[0] if len(said) == 1 else "\n".join(f"- {each}" for each in said), icon=":material/warning:")
    if plan.needs_approval:
        st.info("A person must approve this plan before anything is done.", icon=":material/approval:")


def _numbers(plan: Plan) -> None:
    counted = Counter(change.action for change in plan.changes)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        for action, (words, icon, color) in _ACTIONS.items():
            if counted[action]:
                st.badge(f"{counted[action]} {words}", icon=icon, color=color)
        if plan.cost is not None:
            st.badge(_hourly(plan.cost), icon=":material/payments:", color="violet")
        holds = f" · holds until {at(plan.valid_until)}" if plan.plan is not None else ""
        st.caption(f"{plan.region} · computed {at(plan.computed_at)}{holds}")


def _hourly(cost: Cost) -> str:
    if cost.per_hour is not None:
        return f"{_money(cost.per_hour, cost.currency)} per hour"
    return f"{_money(cost.known_per_hour, cost.currency)} per hour, and what has no known price"


def _money(amount: float, currency: str) -> str:
    digits = 2 if abs(amount) >= 0.1 or amount == 0 else 4
    return f"{amount:+,.{digits}f} {currency}"


def _changes(action: Action, rows: list[dict[str, Any]]) -> None:
    words, icon, _ = _ACTIONS[action]
    st.markdown(f"{icon} **{words.capitalize()}** ({len(rows)})")
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    st.dataframe(
        [{name: row[name] for name in columns} for row in rows],
        hide_index=True,
        height="content" if len(rows) <= 12 else 420,
        row_height=_row_height(rows),
        column_config={
            "#": st.column_config.NumberColumn(width=40),
            "Detail": st.column_config.TextColumn(width="large"),
        },
        alt=f"{len(rows)} changes: {words}",
    )


def _row_height(rows: list[dict[str, Any]]) -> int | None:
    """Rows that show all of a long detail, which is wrapped; None: the usual ones."""
    lines = min(_MOST_LINES, -(-max(len(row["Detail"]) for row in rows) // _DETAIL_CHARACTERS))
    return 14 + 21 * lines if lines > 1 else None


def _row(number: int, change: PlannedChange) -> dict[str, Any]:
    return {
        "#": number,
        "What": change.kind,
        "Name": change.name,
        "Detail": change.detail or "",
        "Now": _text(change.before),
        "Then": _text(change.after),
    }


def _text(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else in_words(value)


def _needs(plan: Plan) -> None:
    if failed := [check for check in plan.checks if not check.passed]:
        st.error("**Not fulfilled**\n\n" + "\n".join(map(_line, failed)), icon=":material/rule:")
    quotas = [
        {"Quota": each.quota, "Needed": each.needed, "Used": each.used, "Limit": _known(each.limit)}
        for each in plan.quotas
    ]
    addresses = [
        {"Subnet": each.subnet, "Needed": each.needed, "Free": "to be made" if each.free is None else str(each.free)}
        for each in plan.addresses
    ]
    checks = [
        {"Check": each.name, "Detail": each.detail or "", "Fulfilled": "yes" if each.passed else "no"}
        for each in plan.checks
    ]
    tables: list[tuple[str, list[dict[str, Any]]]] = [("Quotas", quotas), ("Addresses", addresses), ("Checks", checks)]
    if plan.cost is not None:
        tables.insert(0, ("Cost", _items(plan.cost)))
    shown = [table for table in tables if table[1]]
    for column, (title, rows) in zip(st.columns(max(1, min(2, len(shown)))) * 2, shown, strict=False):
        with column:
            st.markdown(f"**{title}**")
            st.dataframe(rows, hide_index=True, height="content", alt=title)
            if title == "Cost" and plan.cost is not None:
                st.caption(f"Prices: {escaped(plan.cost.source)}.")


def _line(check: Check) -> str:
    said = " ".join(escaped(text) for text in (check.detail, check.remedy) if text)
    return f"- **{escaped(check.name)}** {said}"


def _items(cost: Cost) -> list[dict[str, Any]]:
    return [
        {
            "Paid by the hour": item.item,
            "Quantity": item.quantity,
            f"{cost.currency} per hour": "unknown" if item.per_hour is None else f"{item.per_hour:,.3f}",
        }
        for item in cost.items
    ]


def _known(number: int | None) -> str:
    return "unknown" if number is None else str(number)


def _names(plan: Plan) -> str:
    given = plan.names.model_dump(exclude_none=True)
    return ", ".join(f"{name.replace('_', ' ')} `{value}`" for name, value in given.items())
