"""Draining nodes: no new pods come, and those that run are moved within their disruption budgets."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from contracts.activity import Act, Queue, Wait
from contracts.model import Ensured, Model
from contracts.network import Scope


class CordonNodes(Model):
    """``nodes``: Kubernetes names. Nodes that are not there are left out."""

    scope: Scope
    eks_cluster: str
    nodes: list[str]


class Cordoned(Ensured):
    nodes: list[str]
    """Those that were changed; others were so already."""


class DrainNodes(Model):
    scope: Scope
    eks_cluster: str
    nodes: list[str]
    timeout_minutes: int = Field(30, ge=1, le=1440)


class Drained(Model):
    """``evicted`` counts the pods that had to leave."""

    nodes: list[str]
    evicted: int = 0


CORDON_NODES = Act("drain.cordon", CordonNodes, Cordoned, queue=Queue.KUBERNETES)
UNCORDON_NODES = Act("drain.uncordon", CordonNodes, Cordoned, queue=Queue.KUBERNETES)
DRAIN_NODES = Wait("drain.drain", DrainNodes, Drained, limit=timedelta(hours=24))
"""``timeout_minutes`` bounds the wait itself."""


class DrainAnswer(Model):
    """The answer where pods do not leave their nodes in time."""

    choice: Literal["wait", "go-on", "stop"]
    """Wait as long again; go on, and let the pods that are left end with their nodes; or end the operation, and let
    pods come to the nodes again."""
