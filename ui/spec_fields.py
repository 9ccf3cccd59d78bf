"""Parts of a cluster's specification as forms: what several pages ask for."""

from __future__ import annotations

import streamlit as st

from contracts.hyperpod import HyperPodSpec
from contracts.network import NetworkSpec
from contracts.options import Options
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.group_fields import group_fields

_NEW, _REUSE = "A new one", "One that exists"
_LATER, _NOW = "Asked for when they can be made", "Chosen now"


def network_fields(key: str, found: Faults, pointer: str, *, disabled: bool = False) -> Entered:
    """Draw the fields of a network, new or in a VPC that exists, and return what was entered."""
    fields = Fields(NetworkSpec, key, found, pointer, disabled)
    reuse = st.radio("VPC", [_NEW, _REUSE], horizontal=True, key=f"{key}/vpc", disabled=disabled) == _REUSE
    left, right = st.columns(2)
    with left:
        if reuse:
            entered = fields.text("vpc_id", "ID of the VPC", placeholder="vpc-…")
        else:
            entered = fields.text("vpc_cidr", "Block of the VPC", placeholder="a free /16 of 10.0.0.0/8")
        entered |= fields.text("service_cidr", "Block of Kubernetes Services", placeholder="one that overlaps nothing")
        entered |= fields.number("compute_subnet_prefix", "Prefix length of compute subnets")
    with right:
        entered |= _pair(fields, "public_subnet_cidrs", "Blocks of public subnets")
        entered |= _pair(fields, "control_plane_subnet_cidrs", "Blocks of control plane subnets")
    found.at(pointer)
    return entered


def _pair(fields: Fields, name: str, label: str) -> Entered:
    """Two blocks, one for each zone, with a comma between them."""
    entered = fields.text(name, label, placeholder="chosen; else e.g. 10.90.0.0/24, 10.90.1.0/24")
    return {name: [part.strip() for part in text.split(",")] for name, text in entered.items()}


def hyperpod_fields(key: str, found: Faults, pointer: str, *, disabled: bool = False) -> Entered:
    """Draw how the cluster treats its nodes, and return what was entered."""
    fields = Fields(HyperPodSpec, key, found, pointer, disabled)
    left, right = st.columns(2)
    with left:
        entered = fields.choice("provisioning", "Provisioning")
    with right:
        entered |= fields.choice("node_recovery", "Recovery of faulty nodes")
    found.at(pointer)
    return entered


def groups_fields(form: str, known: Options, found: Faults, *, disabled: bool = False) -> list[Entered]:
    """Draw the instance groups at ``/instance_groups``, now or later, and return what was entered; nothing: later."""
    key = f"{form}/groups"
    now = st.radio("Instance groups", [_LATER, _NOW], horizontal=True, key=key, disabled=disabled) == _NOW
    entered = _groups(form, known, found, disabled=disabled) if now else []
    found.at("/instance_groups")
    return entered


def _groups(form: str, known: Options, found: Faults, *, disabled: bool) -> list[Entered]:
    counter = f"{form}/group-count"
    count = int(st.session_state.setdefault(counter, 1))
    entered = []
    for number in range(count):
        with st.container(border=True):
            pointer = f"/instance_groups/{number}"
            entered.append(group_fields(f"{form}/group/{number}", known, found, pointer, disabled=disabled))
    with st.container(horizontal=True):
        steps = [("Another group", "add", 1), *([("One less", "remove", -1)] if count > 1 else [])]
        for label, icon, change in steps:
            st.button(
                label,
                key=f"{form}/{icon}-group",
                icon=f":material/{icon}:",
                disabled=disabled,
                on_click=_count,
                args=(counter, change),
            )
    return entered


def _count(counter: str, change: int) -> None:
    st.session_state[counter] += change
