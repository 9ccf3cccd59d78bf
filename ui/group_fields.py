"""An instance group as a form: everything that is chosen when it is made."""

from __future__ import annotations

import streamlit as st

from contracts.capacity import InstanceGroupSpec, OnDemand, Spot, TrainingPlan
from contracts.options import Options
from ui.choices import described_type
from ui.faults import Faults
from ui.fields import Entered, Fields
from ui.marks import labels_field, taints_field

_CAPACITIES = {
    OnDemand.model_fields["kind"].default: "On-demand",
    Spot.model_fields["kind"].default: "Spot",
    TrainingPlan.model_fields["kind"].default: "Training plan",
}


def group_fields(key: str, known: Options, faults: Faults, pointer: str = "", *, disabled: bool = False) -> Entered:
    """Draw the fields of an instance group that stands at ``pointer`` in what is sent, and return what was entered.
    ``known``: what can be chosen. Widgets are called ``key`` and the member's name."""
    fields = Fields(InstanceGroupSpec, key, faults, pointer, disabled)
    types = [option.instance_type for option in known.instance_types]
    name, kind, count = st.columns([2, 4, 1])
    with name:
        entered = fields.text("name", "Name")
    with kind:
        entered |= fields.choice(
            "instance_type", "Instance type", types, described=lambda each: described_type(known, each), placeholder=""
        )
    with count:
        entered |= fields.number("count", "Instances", placeholder="")
    zone, bought, plan = st.columns([2, 2, 3])
    with zone:
        entered |= fields.choice("availability_zone", "Availability Zone", _zones(known, entered), placeholder="any")
    with bought:
        capacity = _capacity(fields)
    with plan:
        entered |= capacity | _training_plan(fields, known, capacity)
    faults.at(f"{pointer}/capacity")
    with st.expander("More of this group", icon=":material/tune:", expanded=faults.any(*_more(pointer))):
        entered |= _rarely(fields, types)
    return entered


def _zones(known: Options, entered: Entered) -> list[str]:
    chosen = entered.get("instance_type")
    offered = known.zones_of([chosen]) if chosen else []
    return offered or [zone.name for zone in known.zones]


def _capacity(fields: Fields) -> Entered:
    chosen = st.selectbox(
        "Capacity",
        list(_CAPACITIES),
        format_func=_CAPACITIES.__getitem__,
        key=f"{fields.key}/capacity",
        disabled=fields.disabled,
        help="How the capacity is bought.",
    )
    return {} if chosen == OnDemand().kind else {"capacity": {"kind": chosen}}


def _training_plan(fields: Fields, known: Options, entered: Entered) -> Entered:
    if entered.get("capacity", {}).get("kind") != TrainingPlan.model_fields["kind"].default:
        return {}
    inner = Fields(TrainingPlan, fields.key, fields.faults, f"{fields.pointer}/capacity", fields.disabled)
    plans = {plan.name: plan for plan in known.training_plans}

    def described(name: str) -> str:
        plan = plans.get(name)
        if plan is None:
            return name
        return f"{name} · {plan.instance_type} in {plan.availability_zone}, {plan.available} of {plan.total} free"

    named = inner.choice("training_plan", "Training plan", list(plans), described=described, placeholder="Name or ARN")
    return {"capacity": {**entered["capacity"], **named}}


_RARE = (
    "alternative_types",
    "min_count",
    "network_interface",
    "volume_gib",
    "threads_per_core",
    "deep_health_checks",
    "labels",
    "taints",
    "subnet_id",
    "subnet_placement",
)


def _more(pointer: str) -> list[str]:
    return [f"{pointer}/{name}" for name in _RARE]


def _rarely(fields: Fields, types: list[str]) -> Entered:
    left, right = st.columns(2)
    with left:
        entered = fields.choices("alternative_types", "Other types, in order of preference", types)
        entered |= fields.number("min_count", "At least", placeholder="any number")
        entered |= fields.number("volume_gib", "Volume of each instance (GiB)")
        entered |= fields.choices("deep_health_checks", "Deep health checks")
        entered |= labels_field(fields)
    with right:
        entered |= fields.choice("network_interface", "Network interfaces", placeholder="HyperPod's choice")
        threads = fields.choice("threads_per_core", "Threads per core", ["1", "2"], placeholder="by family")
        entered |= {name: int(text) if text.isdigit() else text for name, text in threads.items()}
        entered |= fields.text("subnet_id", "Subnet", placeholder="one that fits, or a new one")
        entered |= fields.choice("subnet_placement", "Placement")
        entered |= taints_field(fields)
    return entered
