"""Comparing a cluster's record with what there is, by meaning. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from contracts.cluster import ClusterRecord, HistoryEntry
from contracts.drift import (
    MOST_DIFFERENCES,
    Change,
    Difference,
    DriftKind,
    DriftReport,
    DriftState,
    Member,
    Properties,
    Severity,
    Sight,
    Unread,
    leases_of,
)
from contracts.drift_recorded import EXPECTED, recorded
from contracts.drift_touched import kept_after, touches
from contracts.drift_ways import Found, judged
from contracts.lease import Lease, conflicts

FILLED = frozenset({"min_count", "threads_per_core", "network_interface", "gpu_limit"})
"""Properties that somebody else fills in where nothing was asked: not asked is no other value."""
SERVICE_LABELS = ("sagemaker.amazonaws.com/", "instantstart.dev/", "node.kubernetes.io/", "topology.kubernetes.io/")
"""Labels that services put beside those that were asked for."""
KEPT_AS_SEEN = frozenset(
    {
        DriftKind.DEPLOYMENT,
        DriftKind.MODEL_POOL,
        DriftKind.ROUTER,
        DriftKind.ENDPOINT,
        DriftKind.TRACKING_SERVER,
        DriftKind.FEATURE,
    }
)
"""Kinds that the record tells nothing, or not all of: it keeps what a check has seen after the operation that made
it."""
MAY_BE_EXTRA = (KEPT_AS_SEEN - {DriftKind.FEATURE}) | {
    *(DriftKind.NAT_GATEWAY, DriftKind.HYPERPOD, DriftKind.INSTANCE_GROUP),
    *(DriftKind.NODE_GROUP, DriftKind.NODE_POOL, DriftKind.STORAGE),
}
"""Kinds of which others could have made one more with this cluster's tags; of the others only recorded ones count."""
INSIDE: dict[DriftKind, tuple[DriftKind, ...]] = {
    DriftKind.VPC: (
        *(DriftKind.SUBNET, DriftKind.NAT_GATEWAY, DriftKind.S3_ENDPOINT, DriftKind.SECURITY_GROUP),
        *(DriftKind.CONTROL_PLANE, DriftKind.HYPERPOD),
    ),
    DriftKind.CONTROL_PLANE: (
        *(DriftKind.ACCESS_ENTRY, DriftKind.POD_IDENTITY, DriftKind.COMPONENT, DriftKind.NODE_GROUP),
        *(DriftKind.NODE_POOL, DriftKind.FEATURE, DriftKind.STORAGE, DriftKind.DEPLOYMENT, DriftKind.MODEL_POOL),
        *(DriftKind.ROUTER, DriftKind.ENDPOINT, DriftKind.HYPERPOD),
    ),
    DriftKind.HYPERPOD: (DriftKind.INSTANCE_GROUP,),
    DriftKind.BUCKET: (DriftKind.LIFECYCLE_SCRIPTS,),
}
"""What is gone with its surroundings is told once, with these."""
ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


def plain(value: JsonValue, path: str = "") -> JsonValue:
    """A value in the one form that everything of its meaning has: lists without order, nothing for what is empty,
    labels without those of services."""
    if isinstance(value, dict):
        items = {
            key: plain(item)
            for key, item in value.items()
            if not (path == "labels" and key.startswith(SERVICE_LABELS)) and plain(item) is not None
        }
        return dict(sorted(items.items())) or None
    if isinstance(value, list):
        return sorted((plain(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True)) or None
    return None if value == "" else value


def same(path: str, before: JsonValue, now: JsonValue) -> bool:
    """Whether two values of a property mean the same."""
    if path in FILLED and before is None:
        return True
    return plain(before, path) == plain(now, path)


@dataclass
class _Judging:
    """One comparison."""

    record: ClusterRecord
    held: Sequence[Lease]
    ended: Sequence[HistoryEntry]
    now: datetime
    unread: set[DriftKind]
    known: dict[str, Properties]
    found: list[Difference] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    left_out: dict[str, datetime | None] = field(default_factory=dict)

    def held_by(self, member: Member) -> str | None:
        """The operation that is at work on a member."""
        wanted = leases_of(member.kind, member.name)
        return next((each.operation for each in self.held if conflicts(wanted, each.leases)), None)

    def left_out_for(self, member: Member) -> bool:
        """Whether the member is passed over, because an operation is at work on it."""
        operation = self.held_by(member)
        if operation is not None:
            self.skipped.append(f"{member.key}: {operation}")
            self.left_out[member.key] = self.looked_at(member)
        return operation is not None

    def looked_at(self, member: Member) -> datetime | None:
        """When a check looked at it before this one; None where none could yet."""
        before = self.record.drift
        if before is None:
            return None
        if member.key in before.left_out:
            return before.left_out[member.key]
        return before.report.checked_at if before.looked_at is None else before.looked_at.get(member.kind)

    def touching(self, member: Member) -> list[HistoryEntry]:
        """The operations that have ended since it was looked at, and may have changed it."""
        since = self.looked_at(member)
        ended = (each for each in self.ended if since is None or each.finished_at > since)
        return [each for each in ended if touches(each, member.kind, member.name)]

    def forget(self, member: Member, touching: Sequence[HistoryEntry]) -> None:
        """What was known of it and these operations may have changed."""
        known = self.known.pop(member.key, {})
        for each in touching:
            known = kept_after(each, member.kind, known)
        if known:
            self.known[member.key] = known

    def note(
        self, member: Member, change: Change, path: str | None = None, before: JsonValue = None, now: JsonValue = None
    ) -> None:
        found = Found(member.kind, member.name, path, change, before, now, self.now, member.by)
        self.found.append(judged(found, self.record))


def judge(
    record: ClusterRecord,
    sights: Iterable[Sight],
    held: Sequence[Lease] = (),
    history: Sequence[HistoryEntry] = (),
    *,
    now: datetime,
) -> DriftState:
    """What is otherwise than recorded.

    ``held``: leases of operations that run, whose members are left out. ``history``: operations that have ended; what
    those did since the last check is no drift. ``now``: when looking began.
    """
    looked = list(sights)
    before = record.drift
    state = _Judging(
        record=record,
        held=held,
        ended=history,
        now=now,
        unread={kind for sight in looked for each in sight.unread for kind in each.kinds},
        known=dict(before.known) if before else {},
    )
    seen = {kind for sight in looked for kind in sight.kinds} - state.unread
    members = _without_autoscaled([each for sight in looked for each in sight.members], record, state.unread)
    told = {each.key: each for each in recorded(record)}
    there = {each.key: each for each in members}
    for key, member in there.items():
        _compare(state, member, told.get(key))
    for key, member in told.items():
        if key not in there and member.kind in seen and member.owned:
            _gone(state, member)
    for key in [each for each in state.known if each not in there and each not in told]:
        _forgotten(state, key, seen)
    return _reported(state, looked, seen)


def _compare(state: _Judging, member: Member, told: Member | None) -> None:
    key = member.key
    if state.left_out_for(member):
        return
    touched = state.touching(member)
    state.forget(member, touched)
    kept, derived = state.known.get(key), told.properties if told is not None else {}
    if told is None and kept is None:
        first = touched or state.looked_at(member) is None
        if member.kind is DriftKind.FEATURE or (member.kind in KEPT_AS_SEEN and member.owned and first):
            state.known[key] = dict(member.properties)
        elif member.owned and member.kind in MAY_BE_EXTRA:
            state.note(member, Change.EXTRA, now=member.properties)
        return
    adopted = {path: value for path, value in (kept or {}).items() if path != "gone"}
    expected = member.kind in EXPECTED
    for path, value in member.properties.items():
        if path in derived and same(path, derived[path], value):
            # What was adopted is over when it is as it should be again.
            adopted.pop(path, None)
            continue
        before = adopted if path in adopted and (expected or path not in derived) else derived
        if path not in before:
            adopted[path] = value
        elif not same(path, before[path], value):
            state.note(member, Change.CHANGED, path, before[path], value)
    if adopted:
        state.known[key] = adopted
    else:
        state.known.pop(key, None)


def _gone(state: _Judging, member: Member) -> None:
    if state.left_out_for(member):
        return
    if state.known.get(member.key, {}).get("gone") is not True and member.kind is not DriftKind.FEATURE:
        state.note(member, Change.GONE, before=member.properties)


def _forgotten(state: _Judging, key: str, seen: set[DriftKind]) -> None:
    """A member that only ``known`` tells and that is not there."""
    kind, _, name = key.partition("/")
    member = Member(kind=DriftKind(kind), name=name, properties=state.known[key])
    if member.kind not in seen or state.left_out_for(member):
        return
    if member.kind not in KEPT_AS_SEEN or member.kind is DriftKind.FEATURE or state.touching(member):
        del state.known[key]
    else:
        state.note(member, Change.GONE, before=member.properties)


def _without_autoscaled(members: list[Member], record: ClusterRecord, unread: set[DriftKind]) -> list[Member]:
    """Members without the counts of instance groups that Karpenter sets."""
    pools = [each for each in members if each.kind is DriftKind.NODE_POOL]
    scaled = {str(name) for pool in pools for name in _listed(pool.properties.get("instance_groups"))}
    scaled |= {name for pool in record.node_pools for name in pool.instance_groups}
    karpenter = any(
        each.kind is DriftKind.HYPERPOD and each.properties.get("autoscaling") == "Enable" for each in members
    )
    every = DriftKind.NODE_POOL in unread and karpenter

    def told(member: Member) -> Member:
        if member.kind is not DriftKind.INSTANCE_GROUP or not (every or member.name in scaled):
            return member
        return member.model_copy(
            update={"properties": {key: value for key, value in member.properties.items() if key != "target"}}
        )

    return [told(each) for each in members]


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _reported(state: _Judging, looked: list[Sight], seen: set[DriftKind]) -> DriftState:
    before = state.record.drift
    earlier = {each.place: each for each in (before.report.differences if before else ())}
    found = _told_once(state.found)
    # What could not be looked at is as it was last seen.
    found += [each for each in earlier.values() if each.kind in state.unread]
    dated = [
        each.model_copy(update={"since": earlier[each.place].since}) if each.place in earlier else each
        for each in {each.id: each for each in found}.values()
    ]
    ordered = sorted(dated, key=lambda each: (ORDER[each.severity], each.id))
    unread: list[Unread] = [each for sight in looked for each in sight.unread]
    report = DriftReport(
        checked_at=state.now,
        differences=ordered[:MOST_DIFFERENCES],
        more=max(0, len(ordered) - MOST_DIFFERENCES),
        skipped=sorted(set(state.skipped)),
        unread=unread,
    )
    return DriftState(
        report=report,
        known=dict(sorted(state.known.items())),
        looked_at=_looked_at(before, seen, state.now),
        left_out=dict(sorted((_still_left_out(before, seen) | state.left_out).items())),
    )


def _looked_at(before: DriftState | None, seen: set[DriftKind], now: datetime) -> dict[DriftKind, datetime]:
    earlier: dict[DriftKind, datetime] = {}
    if before is not None:
        earlier = (
            before.looked_at if before.looked_at is not None else dict.fromkeys(DriftKind, before.report.checked_at)
        )
    both = earlier | dict.fromkeys(seen, now)
    return {kind: both[kind] for kind in DriftKind if kind in both}


def _still_left_out(before: DriftState | None, seen: set[DriftKind]) -> dict[str, datetime | None]:
    """Members that were left out before, and whose kinds could not be looked at now."""
    known = before.left_out if before is not None else {}
    return {key: since for key, since in known.items() if DriftKind(key.partition("/")[0]) not in seen}


def _told_once(found: list[Difference]) -> list[Difference]:
    """Without what follows from another difference: what was in something that is gone, and routes to a gateway that
    is gone."""
    gone = {each.kind for each in found if each.change is Change.GONE}
    inside = {each for kind in gone for each in _inside(kind)}
    kept = [each for each in found if each.kind not in inside]
    if DriftKind.NAT_GATEWAY in gone:
        kept = [each for each in kept if (each.kind, each.path) != (DriftKind.SUBNET, "leads_to")]
    return kept


def _inside(kind: DriftKind) -> set[DriftKind]:
    """What goes with a member of the kind."""
    within = INSIDE.get(kind, ())
    return set(within) | {each for one in within for each in _inside(one)}
