"""What the watch of a run remembers from look to look: it travels in heartbeats, so it is small and bounded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from contracts.recipes.progress import Reported
from contracts.training_parts import StateChange, TrainingState

MOST_CHANGES = 40
LONGEST_DETAIL = 160


class Notes:
    """A view of the plain values in a wait's memory."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self._kept = kept

    @property
    def history(self) -> list[StateChange]:
        return [StateChange.model_validate(each) for each in self._kept.get("history") or ()]

    def enter(self, state: TrainingState, detail: str) -> None:
        """Remember a state that was entered; of very many, the first and the last are kept."""
        history = self._kept.setdefault("history", [])
        if history and history[-1]["state"] == state.value:
            return
        change = StateChange(at=datetime.now(UTC), state=state, detail=detail[:LONGEST_DETAIL])
        history.append(change.model_dump(mode="json"))
        if len(history) > MOST_CHANGES:
            del history[MOST_CHANGES // 2]

    @property
    def reported(self) -> Reported:
        return Reported.model_validate(self._kept.get("reported") or {})

    def report(self, reported: Reported) -> None:
        """What the log says now, with the time of a checkpoint that was not there before."""
        before = self.reported
        after = before.after(reported)
        if reported.checkpoint is not None and reported.checkpoint != before.checkpoint:
            self._kept["checkpoint_at"] = (reported.at or datetime.now(UTC)).isoformat()
        self._kept["reported"] = after.model_dump(mode="json", exclude_none=True)

    @property
    def checkpoint_at(self) -> datetime | None:
        text = self._kept.get("checkpoint_at")
        return datetime.fromisoformat(text) if text else None

    @property
    def cause(self) -> tuple[str | None, str | None]:
        """The cause that logs named last, and the line that did."""
        return self._kept.get("cause"), self._kept.get("line")

    def blame(self, cause: str | None, line: str | None) -> None:
        if cause is not None or line is not None:
            self._kept["cause"], self._kept["line"] = cause, line

    def due(self, what: str, now: float, every: float) -> bool:
        """Whether something that is done every ``every`` seconds is to be done now."""
        at = self._kept.setdefault("at", {})
        if now - float(at.get(what, 0)) < every:
            return False
        at[what] = now
        return True

    def since(self, what: str, now: float) -> float:
        """Seconds since ``what`` was first told, and it was told at every look since."""
        return now - float(self._kept.setdefault("since", {}).setdefault(what, now))

    def over(self, *kinds: str) -> None:
        """These are not so any more."""
        for kind in kinds:
            self._kept.setdefault("since", {}).pop(kind, None)

    def differs(self, what: str, value: Any) -> bool:
        """Whether ``value`` is another than at the last look; it is remembered."""
        if self._kept.get(what) == value:
            return False
        self._kept[what] = value
        return True

    def value(self, what: str, otherwise: Any = None) -> Any:
        return self._kept.get(what, otherwise)
