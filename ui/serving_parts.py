"""What the lists of the Serving page have in common."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import streamlit as st

from contracts.endpoints import Endpoint
from contracts.managed_endpoints import EndpointCondition
from contracts.node_views import NodeCondition
from contracts.operation import Operation
from ui.links import parameter
from ui.problems import escaped
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start

_LONG = ("Address",)
"""Columns with host names of load balancers, which are read and copied whole."""
_WIDE, _SHORT = 540, 30
"""Pixels that a column takes, and characters that need fewer."""


class Named(Protocol):
    """An object of a namespace."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...


def full_name(each: Named) -> str:
    """``namespace/name``."""
    return f"{each.namespace}/{each.name}"


def named(tag: str, each: Named) -> dict[str, str]:
    """The parameters by which the gateway knows it."""
    return {"tag": tag, "name": each.name, "namespace": each.namespace}


def scaling(
    tag: str, each: Named, endpoint: Endpoint[Operation], *, label: str, replicas: int, says: str, may: bool
) -> None:
    """Another number than ``replicas``, which are asked for now. ``says``: what there is to know before."""
    form = f"{tag}/{full_name(each)}/{endpoint.name.replace('_', '-')}"
    found = faults(form)
    st.caption(says)
    count = st.number_input(label, value=replicas, step=1, key=f"{form}/{replicas}/replicas", width=200)
    found.at("/replicas")
    wish = Wish(form, endpoint, named(tag, each), {"replicas": count})
    plan_and_start(wish, found, start=f"Scale from {replicas} to {count}", may=may)


def deletion(tag: str, each: Named, endpoint: Endpoint[Operation], *, what: str, says: str, may: bool) -> None:
    """The end of an object, for which its name must be typed. ``says``: what goes with it, and what stays."""
    st.caption(says)
    form = f"{tag}/{full_name(each)}/{endpoint.name.replace('_', '-')}"
    confirm_and_start(
        Wish(form, endpoint, named(tag, each)),
        title=f"Delete {what} {escaped(each.name)}",
        name=each.name,
        verb=f"Delete the {what}",
        may=may,
    )


def table(rows: Sequence[dict[str, Any]], what: str, nothing: str) -> None:
    """Rows as a table; ``nothing`` where there are none. ``what``: plural, for those who do not see it."""
    if not rows:
        st.info(nothing, icon=":material/search_off:")
        return
    wide = {
        name: st.column_config.TextColumn(width=_WIDE)
        for name in _LONG
        if any(len(row.get(name) or "") > _SHORT for row in rows)
    }
    st.dataframe(
        rows,
        hide_index=True,
        height="content" if len(rows) <= 12 else 460,
        column_config=wide,
        alt=f"{len(rows)} {what}",
    )


def chosen_one(what: str, names: Collection[str], actions: list[str]) -> tuple[str | None, str]:
    """One of those that are listed, which the address names as ``what``, and what is to be done to it."""
    if not names:
        return None, actions[0]
    known, wanted = sorted(names), parameter(what)
    name = wanted if wanted in known else known[0]
    if name != wanted:
        # A link to the page is about the same one later, when others stand before it in the list.
        st.query_params[what] = name
    key = f"{what}/{name}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            what.capitalize(),
            known,
            index=known.index(name),
            key=key,
            on_change=lambda: _choose(what, st.session_state[key]),
            width=320,
        )
        action = st.segmented_control(
            "What to do",
            actions,
            default=actions[0],
            required=True,
            key=f"{what}/action",
            bind="query-params",
            label_visibility="collapsed",
        )
    return name, action


def _choose(what: str, name: str) -> None:
    st.query_params[what] = name


def conditions_table(conditions: Sequence[NodeCondition | EndpointCondition]) -> None:
    """What controllers say of an object, where they say something."""
    if not conditions:
        return
    st.dataframe(
        [
            {"Condition": each.type, "Status": each.status, "Reason": each.reason, "Message": each.message}
            for each in conditions
        ],
        hide_index=True,
        height="content",
        alt="Conditions",
    )
