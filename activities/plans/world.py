"""What planners look at the world with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients
from activities.options import Lookup
from activities.settings import Settings
from contracts.plans import MakePlan, PlanDraft

Planner = Callable[[MakePlan], PlanDraft]
"""Finds out what an operation would do. Reads only; raises like an activity where it cannot tell."""


@dataclass(frozen=True)
class World:
    """Clients for reading, shared by all planners."""

    aws: AwsClients
    kubernetes: KubernetesClients
    lookup: Lookup
    settings: Settings
