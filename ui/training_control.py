"""Stopping, suspending and resuming a training run."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from contracts import endpoints
from contracts.endpoints import Endpoint
from contracts.operation import Operation
from contracts.training import StopTrainingSpec
from ui.fields import Fields
from ui.problems import escaped
from ui.wishes import Wish, confirm_and_start, faults, plan_and_start

STOP, SUSPEND, RESUME = "Stop", "Suspend", "Resume"


@dataclass(frozen=True)
class _Action:
    endpoint: Endpoint[Operation]
    says: str
    loses: bool = True
    icon: str = ":material/stop_circle:"


_ACTIONS = {
    STOP: _Action(
        endpoints.STOP_TRAINING,
        "Its job goes, with its pods. Logs and checkpoints stay; its operation ends as stopped.",
    ),
    SUSPEND: _Action(
        endpoints.SUSPEND_TRAINING,
        "Its pods go and the job waits. What it computed since its last checkpoint is lost.",
        icon=":material/pause_circle:",
    ),
    RESUME: _Action(endpoints.RESUME_TRAINING, "A suspended job goes on, from its last checkpoint.", loses=False),
}


def control(tag: str, namespace: str, name: str, action: str, may: bool) -> None:
    """Draw one of the three; for what is lost, the name must be typed."""
    chosen = _ACTIONS[action]
    form = f"{tag}/{namespace}/{name}/{chosen.endpoint.name.replace('_', '-')}"
    found = faults(form)
    st.caption(chosen.says)
    body = Fields(StopTrainingSpec, form, found, disabled=not may).text("reason", "Why", "others will read it")
    wish = Wish(form, chosen.endpoint, {"tag": tag, "name": name, "namespace": namespace}, body)
    if not chosen.loses:
        plan_and_start(wish, found, start=f"{action} the run", may=may)
        return
    found.rest()
    confirm_and_start(
        wish,
        title=f"{action} {escaped(name)}",
        name=name,
        verb=f"{action} the run",
        may=may,
        icon=chosen.icon,
    )
