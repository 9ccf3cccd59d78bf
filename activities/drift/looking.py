"""Looking at several kinds of members, one after the other, whatever becomes of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from activities.errors import classify
from contracts.drift import DriftKind, Member, Sight, Unread

Look = Callable[[], Iterable[Member]]


def looked(looks: Iterable[tuple[tuple[DriftKind, ...], Look]]) -> Sight:
    """What each look sees. One that fails leaves its kinds unread, with why; the others go on."""
    kinds: list[DriftKind] = []
    members: list[Member] = []
    unread: list[Unread] = []
    for seen, look in looks:
        try:
            members += list(look())
            kinds += seen
        except Exception as error:
            unread.append(Unread(kinds=list(seen), detail=classify(error).message[:300]))
    return Sight(kinds=kinds, members=members, unread=unread)
