"""Settings of a worker process, from the environment (prefix ``INSTANTSTART_``)."""

from __future__ import annotations

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from contracts.queues import REGIONS


class WorkerSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="INSTANTSTART_", extra="ignore", use_attribute_docstrings=True)

    regions: str = ",".join(REGIONS)
    """AWS regions that the deployment serves, with commas between."""
    roles: str = "workflows,platform,aws,wait,kubernetes"
    """What this process hosts."""
    aws_calls_per_second: float = Field(10.0, gt=0)
    """Activities started per second on a region's queue, over all workers (AWS throttles per account and region)."""
    aws_threads: int = Field(16, ge=1)
    kubernetes_threads: int = Field(16, ge=1)
    wait_threads: int = Field(32, ge=1)
    wait_slots: int = Field(1000, ge=1)
    sticky_seconds: float = Field(10.0, gt=0)
    """How long a workflow's next step waits for the worker that has it in memory, before any worker takes it."""
    build_id: str | None = None
    """Turns Worker Versioning on: operations stay on the build that started them."""
    metrics_address: str | None = None
    """Where to serve Prometheus metrics, e.g. ``127.0.0.1:9464``."""

    @field_validator("roles")
    @classmethod
    def _roles(cls, text: str) -> str:
        known = {"workflows", "platform", "aws", "wait", "kubernetes"}
        if unknown := set(text.split(",")) - known:
            raise ValueError(f"unknown roles {sorted(unknown)}; known: {sorted(known)}")
        return text

    @property
    def region_list(self) -> list[str]:
        return [region.strip() for region in self.regions.split(",") if region.strip()]
