"""A new instance group, with everything that is chosen when it is made."""

from __future__ import annotations

import streamlit as st

from contracts import endpoints
from contracts.cluster import ClusterRecord
from contracts.options import InstanceTypeOption, Options, TrainingPlanOption
from ui.capacity_groups import locked_note
from ui.choices import options
from ui.fields import Entered
from ui.group_fields import group_fields
from ui.problems import escaped
from ui.times import at
from ui.wishes import Wish, faults, plan_and_start


def add_tab(record: ClusterRecord, may: bool) -> None:
    """The form, what is known of what was chosen, the plan, and the start."""
    form = f"{record.tag}/add-group"
    known, found = options(record.region), faults(form)
    st.caption(locked_note())
    body = group_fields(form, known, found, disabled=not may)
    _chosen(known, body)
    st.caption(":material/trending_up: A group is scaled by hand until a node pool of managed Karpenter takes it.")
    wish = Wish(form, endpoints.ADD_INSTANCE_GROUP, {"tag": record.tag}, body)
    plan_and_start(wish, found, start="Add the group", may=may)


def _chosen(known: Options, body: Entered) -> None:
    name = body.get("instance_type")
    option = known.instance_type(name) if name else None
    if option is not None:
        st.info(_facts(option), icon=":material/memory:")
    plan = known.training_plan(body.get("capacity", {}).get("training_plan") or "")
    if plan is not None:
        st.info(_plan_facts(plan), icon=":material/event_available:")


def _facts(option: InstanceTypeOption) -> str:
    """What one instance has and takes."""
    devices = f"{option.accelerators} × {option.accelerator}, " if option.accelerators else ""
    efa = f", {option.efa_interfaces} EFA" if option.efa_interfaces else ""
    quota = "unknown" if option.quota is None else str(option.quota)
    return (
        f"**{option.instance_type}** — {escaped(devices)}{option.vcpus} vCPU, {option.memory_gib:g} GiB{efa}; takes "
        f"{option.addresses} addresses of its subnet. Offered in {', '.join(option.availability_zones) or 'no zone'}. "
        f"Quota of the account: {quota} in clusters."
    )


def _plan_facts(plan: TrainingPlanOption) -> str:
    span = " to ".join(at(moment) for moment in (plan.starts_at, plan.ends_at) if moment is not None)
    return (
        f"**{escaped(plan.name)}** — {plan.available} of {plan.total} × {plan.instance_type} free in "
        f"{plan.availability_zone}, which it pins. {escaped(plan.status)}{f', {span}' if span else ''}."
    )
