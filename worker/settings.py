"""Settings of a worker process, from the environment (prefix ``INSTANTSTART_``)."""

from __future__ import annotations

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from contracts.queues import REGIONS


class WorkerSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="INSTANTSTART_", extra="ignore")

    regions: str = ",".join(REGIONS)
    """AWS regions that the deployment serves, with commas between."""
    roles: str = "workflows,platform,aws,wait,kubernetes"
    """What this process hosts."""
    aws_calls_per_second: float = Field(10.0, gt=0)
    """Activities started per second on a region's queue, over all workers (AWS throttles per account and region)."""
    aws_threads: int = Field(16, ge=1)
    """AWS activities at a time, for each region."""
    kubernetes_threads: int = Field(16, ge=1)
    """Activities of Kubernetes and helm at a time."""
    wait_threads: int = Field(32, ge=1)
    """Looks of waits at a time."""
    wait_slots: int = Field(4000, ge=1)
    """Waits at the same time: they sleep most of it. A training run has two (its watch, its logs)."""
    workflow_tasks: int = Field(8, ge=2)
    """Steps of workflows at a time. They are computation alone: more of them at once are all slower, and those that
    take longer than ten seconds count for nothing and are done again. What waits for its turn waits at Temporal."""
    sticky_seconds: float = Field(10.0, gt=0)
    """How long a workflow's next step waits for the worker that has it in memory, before any worker takes it."""
    build_id: str | None = None
    """Turns Worker Versioning on: operations stay on the build that started them."""
    deployment: str = Field("instantstart", min_length=1)
    """Name of the Worker Deployment that builds are versions of; one for each installation in a namespace."""

    @field_validator("roles")
    @classmethod
    def _roles(cls, text: str) -> str:
        known = {"workflows", "platform", "aws", "wait", "kubernetes"}
        named = _listed(text)
        if unknown := set(named) - known:
            raise ValueError(f"unknown roles {sorted(unknown)}; known: {sorted(known)}")
        if not named:
            raise ValueError(f"no role is named; known: {sorted(known)}")
        return ",".join(named)

    @property
    def region_list(self) -> list[str]:
        return _listed(self.regions)


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
