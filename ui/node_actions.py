"""What can be done to nodes: reboot, replace, delete, each after a look at what lives there."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from contracts import endpoints
from contracts.endpoints import Endpoint
from contracts.nodes import NodesSpec
from contracts.operation import Operation
from ui.fields import Entered, Fields
from ui.problems import escaped
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start


@dataclass(frozen=True)
class Action:
    """One of the three. ``keeps``: it loses nothing but the pods' time."""

    title: str
    endpoint: Endpoint[Operation]
    says: str
    keeps: bool = False


REBOOT = Action(
    "Reboot",
    endpoints.REBOOT_NODES,
    "The operating systems restart; instances and volumes stay. Pods that are not moved first are interrupted.",
    keeps=True,
)
REPLACE = Action(
    "Replace",
    endpoints.REPLACE_NODES,
    "Other instances take the nodes' place: names, addresses and everything on local volumes are lost. Investigate "
    "first, then reboot; replace what a reboot does not mend.",
)
DELETE = Action("Delete", endpoints.DELETE_NODES, "The nodes go, and their groups are smaller by as many.")
ACTIONS = {each.title: each for each in (REBOOT, REPLACE, DELETE)}


def actions(tag: str, nodes: list[str], may: bool) -> None:
    """Draw the choice and its form for these nodes. What lives there is in the plan, node by node."""
    with st.container(border=True):
        st.markdown(f"**{_named(nodes)}**")
        chosen = st.segmented_control(
            "What to do",
            list(ACTIONS),
            default=REBOOT.title,
            required=True,
            key=f"{tag}/nodes/action",
            label_visibility="collapsed",
        )
        action = ACTIONS[chosen]
        st.caption(
            f"{action.says} The plan names the pods that live there, whose they are, and their last checkpoints."
        )
        node_form(tag, nodes, action, may, f"{tag}/nodes/{action.title.lower()}")


def node_form(tag: str, nodes: list[str], action: Action, may: bool, form: str) -> None:
    """Draw the form of one action on these nodes, under the name ``form``."""
    found = faults(form)
    body: Entered = {"nodes": nodes} | _drain(Fields(NodesSpec, form, found, disabled=not may))
    found.at("/nodes")
    wish = Wish(form, action.endpoint, {"tag": tag}, body)
    if action.keeps:
        plan_and_start(wish, found, start=f"{action.title} {_named(nodes)}", may=may)
        return
    found.rest()
    confirm_and_start(
        wish,
        title=f"{action.title} {escaped(_named(nodes))}",
        name=nodes[0] if len(nodes) == 1 else f"{action.title.lower()} {len(nodes)} nodes",
        verb=action.title,
        may=may,
        icon=":material/swap_horiz:" if action is REPLACE else ":material/delete:",
    )


def _drain(fields: Fields) -> Entered:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        entered = fields.switch("drain", "Move the pods first, within their disruption budgets")
        if entered:
            entered |= fields.number("drain_timeout_minutes", "Minutes for that")
    return entered


def _named(nodes: list[str]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
