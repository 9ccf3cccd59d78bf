"""The engine that every operation runs on: stages, decisions, blocks and their resolution, leases, progress."""

from workflows.engine.failures import Skipped
from workflows.engine.operation import Operation
from workflows.engine.stage import StagePlan, StageRun, together

__all__ = ["Operation", "Skipped", "StagePlan", "StageRun", "together"]
