"""Operations that were asked for, and what is known of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.schedule import ENDED, FINISHED, Seen, Wish


@dataclass
class Asked:
    """A wish that was asked, and its operation."""

    wish: Wish
    id: str = ""
    """Empty: it was refused."""
    run_id: str = ""
    view: dict[str, Any] = field(default_factory=dict)
    """As the gateway last showed it."""
    effects: int = 0
    retries: int = 0
    decisions: int = 0
    waits: int = 0
    """How often it was told to wait for instances that it could not have."""
    terminated: bool = False
    """Its workflow, in Temporal."""

    @property
    def phase(self) -> str:
        return str(self.view.get("phase", "running"))

    @property
    def ended(self) -> bool:
        return not self.id or self.phase in ENDED

    @property
    def seen(self) -> Seen:
        if not self.id:
            return Seen("aborted")
        stages = sum(stage["state"] in FINISHED for stage in self.view.get("stages", ()))
        return Seen(self.phase, stages, self.effects)

    @property
    def blocked(self) -> dict[str, Any] | None:
        """The first stage that is blocked."""
        found: dict[str, Any] | None = next(
            (each for each in self.view.get("stages", ()) if each["state"] == "blocked"), None
        )
        return found

    @property
    def reason(self) -> str:
        """Why it waits, or what runs, in one line."""
        stages = self.view.get("stages", ())
        problems = [each["problem"]["detail"] for each in stages if each.get("problem")]
        running = [f"{each['name']}: {each.get('detail')}" for each in stages if each["state"] == "running"]
        own = [str(self.view["detail"])] if self.view.get("detail") else []
        return "; ".join([*own, *problems, *running])

    def caused(self, row: dict[str, Any]) -> bool:
        """Whether an entry of the ledger counts as its effect. Calls of Kubernetes do not name their operation."""
        if row["api"] == "kubernetes":
            return bool(row["service"] == f"eks-cluster-{self.wish.cluster}")
        return f" op/{self.id} " in f"{row['user_agent']} "


@dataclass
class Log:
    """What happened, as summaries count it."""

    faults: list[str] = field(default_factory=list)
    """Violations that were seen on the way."""
    misfortunes: Counter[str] = field(default_factory=Counter)
    rules: dict[str, bool] = field(default_factory=dict)
    """Of faults, by the numbers of their events: whether they have met a call."""
    answers: Counter[str] = field(default_factory=Counter)
    """Statuses of what was asked and answered."""
    checks: Counter[str] = field(default_factory=Counter)
    """Whether checks have told of what others changed."""
    helped: int = 0
    """How often something was healed because everything waited for it."""
    lines: list[str] = field(default_factory=list)
    """What was done, in order."""
