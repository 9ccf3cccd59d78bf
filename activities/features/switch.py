"""Activities on features: read them, ensure and remove their parts, wait for these."""

from __future__ import annotations

from temporalio import activity

from activities.aws import AwsClients
from activities.errors import classify, fail
from activities.features.addons import AddonPart
from activities.features.buckets import BucketPart
from activities.features.cluster import SettingPart
from activities.features.foreign import foreign_installation
from activities.features.ground import Ground, ground
from activities.features.identities import PodIdentityPart, RolePart, ServiceAccountPart
from activities.features.kinds import PartHandler
from activities.features.objects import DefinitionsPart, NamespacePart
from activities.features.releases import ReleasePart
from activities.features.workspace import WorkspacePart
from activities.kubernetes import KubernetesClients
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.feature_catalogue import DEFINITIONS, status_of
from contracts.features import (
    ENSURE_PART,
    READ_FEATURES,
    REMOVE_PART,
    WAIT_FOR_PART,
    ChangePart,
    Feature,
    FeatureOptions,
    Features,
    FeatureStatus,
    Part,
    PartDone,
    PartKind,
    PartSight,
    PartState,
    ReadFeatures,
    WaitForPart,
)
from contracts.problem import ProblemCode

HANDLERS: dict[PartKind, type[PartHandler]] = {
    each.kind: each
    for each in (
        NamespacePart,
        RolePart,
        PodIdentityPart,
        ServiceAccountPart,
        BucketPart,
        WorkspacePart,
        AddonPart,
        ReleasePart,
        DefinitionsPart,
        SettingPart,
    )
}
FINAL_FAULTS = 3
"""How often in a row a part must be seen wrong before waiting for it ends: controllers mend some things themselves."""


class FeatureActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=READ_FEATURES.name)
    def read_features(self, request: ReadFeatures) -> Features:
        """What the features are now. What cannot be read is ``unknown``, never ``off``. Changes nothing."""
        with ground(request.site, self._aws, self._kubernetes, self._settings) as found:
            return Features(features=[read_feature(found, each)[0] for each in request.features])

    @activity.defn(name=ENSURE_PART.name)
    def ensure_part(self, request: ChangePart) -> PartDone:
        """A part as its feature needs it; does not wait until it works. What is not ours is used as it is, or refused
        as FOREIGN."""
        with ground(request.site, self._aws, self._kubernetes, self._settings) as found:
            return handler(found, request.feature, request.part, request.options).ensure()

    @activity.defn(name=REMOVE_PART.name)
    def remove_part(self, request: ChangePart) -> PartDone:
        """Take a part away, as far as it is ours; does not wait until it is gone. Raises NOT_READY where others use
        it."""
        with ground(request.site, self._aws, self._kubernetes, self._settings) as found:
            return handler(found, request.feature, request.part, request.options).remove()

    @activity.defn(name=WAIT_FOR_PART.name)
    async def wait_for_part(self, request: WaitForPart) -> PartSight:
        """Until a part works, or only nodes are missing; with ``gone``, until nothing of it is left that is ours.

        Raises NOT_READY for one that failed.
        """

        def look(memory: Memory) -> Seen[PartSight]:
            with ground(request.site, self._aws, self._kubernetes, self._settings) as found:
                seen = handler(found, request.feature, request.part, request.options).look()
            detail = seen.detail or f"{seen.part.words} {seen.state.value}"
            if request.gone:
                done = seen.state is PartState.ABSENT or not seen.ours
                return Seen(detail, seen if done else None)
            if seen.state in (PartState.PRESENT, PartState.WAITING_FOR_NODES):
                return Seen(detail, seen)
            if seen.state is PartState.ABSENT and seen.part.optional:
                return Seen(detail, seen)
            faults = memory.notes.get("faults", 0) + 1 if seen.state is PartState.WRONG else 0
            memory.notes["faults"] = faults
            if faults >= FINAL_FAULTS:
                fail(ProblemCode.NOT_READY, detail, "Mend what it names, then retry.", retryable=True)
            return Seen(detail)

        what = f"{request.part.words} {'gone' if request.gone else 'working'}"
        return await wait_until(look, what=what, limit=WAIT_FOR_PART.limit, poll_seconds=self._settings.poll_seconds)


def handler(found: Ground, feature: Feature, part: Part, options: FeatureOptions | None = None) -> PartHandler:
    """What looks after a part on a cluster."""
    return HANDLERS[part.kind](found, feature, part, options or FeatureOptions())


def read_feature(
    found: Ground, feature: Feature, options: FeatureOptions | None = None
) -> tuple[FeatureStatus, list[PartSight]]:
    """A feature and its parts as they are now. A part that cannot be read is UNKNOWN, with the reason."""
    sights = [_look(found, feature, part, options) for part in DEFINITIONS[feature].parts]
    try:
        foreign = foreign_installation(found, feature)
    except Exception as error:
        sights = [*sights, _unknown(DEFINITIONS[feature].parts[-1], error)]
        foreign = None
    return status_of(feature, sights, foreign), sights


def _look(found: Ground, feature: Feature, part: Part, options: FeatureOptions | None) -> PartSight:
    try:
        return handler(found, feature, part, options).look()
    except Exception as error:
        return _unknown(part, error)


def _unknown(part: Part, error: Exception) -> PartSight:
    why = str(classify(error))
    return PartSight(part=part, state=PartState.UNKNOWN, detail=f"{part.words} could not be read: {why}")
