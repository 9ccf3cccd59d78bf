"""What every kind of part can do."""

from __future__ import annotations

from typing import ClassVar

from activities.features.ground import Ground
from contracts.features import Feature, FeatureOptions, Part, PartDone, PartKind, PartSight, PartState


class PartHandler:
    """A part of a feature on one cluster. ``ensure`` and ``remove`` act only on the difference, do not wait, and may
    be repeated at any point; ``look`` says what is there now."""

    kind: ClassVar[PartKind]

    def __init__(self, ground: Ground, feature: Feature, part: Part, options: FeatureOptions) -> None:
        self.ground, self.feature, self.part, self.options = ground, feature, part, options

    def look(self) -> PartSight:
        raise NotImplementedError

    def ensure(self) -> PartDone:
        raise NotImplementedError

    def remove(self) -> PartDone:
        """Take away what is ours of it; what is not stays, and the answer says so."""
        raise NotImplementedError

    def seen(self, state: PartState, detail: str | None = None, **more: object) -> PartSight:
        return PartSight.model_validate({"part": self.part, "state": state, "detail": detail, **more})

    def done(self, changed: bool, detail: str | None = None) -> PartDone:
        return PartDone(name=self.part.name, changed=changed, detail=detail)

    def kept(self, why: str) -> PartDone:
        return self.done(False, f"{self.part.words} is kept: {why}")
