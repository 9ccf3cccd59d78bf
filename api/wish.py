"""What somebody wants to be started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from contracts.catalogue import OperationKind
from contracts.model import fingerprint
from contracts.names import operation_id


@dataclass(frozen=True)
class Wish:
    """What somebody wants to be started."""

    kind: OperationKind[Any]
    tag: str
    region: str
    spec: BaseModel
    wait_for_leases: bool = True
    plan_facts: str | None = None
    """Hash of the facts of the plan that it is started with."""

    @property
    def target(self) -> str | None:
        return self.kind.target(self.spec)

    @property
    def workflow_id(self) -> str:
        return operation_id(self.kind.name, self.tag, self.target)

    @property
    def spec_hash(self) -> str:
        return fingerprint(self.spec)
