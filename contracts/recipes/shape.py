"""The hardware that a recipe is started on."""

from __future__ import annotations

from pydantic import Field

from contracts.model import Model


class Shape(Model):
    """Nodes of one type. A recipe reckons with it; nothing of it is looked up here."""

    nodes: int = Field(1, ge=1)
    gpus_per_node: int = Field(1, ge=0)
    """As many processes are started on each node; 0: one process, on CPUs."""
    efa_per_node: int = Field(0, ge=0)
    instance_type: str | None = None

    @property
    def processes_per_node(self) -> int:
        return max(1, self.gpus_per_node)

    @property
    def world(self) -> int:
        """Processes of the whole job."""
        return self.nodes * self.processes_per_node
