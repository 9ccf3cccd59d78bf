"""Which pods of a pool go from where to where, so that its services have as many as asked. Plain and deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from contracts.model import Model

UNASSIGNED = "unassigned"
LEAVING = "leaving"
"""Out of a service, and not yet free: requests may be under way. No Service selects it."""
RESERVED = (UNASSIGNED, LEAVING)


class PoolPod(Model):
    """A pod of a pool, as far as its place matters."""

    name: str
    uid: str
    business: str = UNASSIGNED
    """Whom it serves; one of :data:`RESERVED` for nobody."""
    ready: bool = False
    ending: bool = False
    """It is being deleted."""


class Move(Model):
    """A pod that goes from one service to another; either may be :data:`UNASSIGNED`."""

    pod: str
    uid: str
    source: str
    target: str


def moves_for(wish: Mapping[str, int], pods: Iterable[PoolPod]) -> list[Move]:
    """What brings every service of ``wish`` to its number of Ready pods, as far as there are any.

    Only pods that a service has too many of leave it, and only as many pods come to it as it lacks. Free pods come
    first, so that nobody waits for another's requests to end; then those that leave anyway. A pod that is not Ready
    keeps its place only while no other can take it. All others that serve nobody of ``wish`` become free.
    """
    there = sorted((pod for pod in pods if not pod.ending), key=lambda pod: pod.name)
    kept: set[str] = set()
    lacking: list[str] = []
    for service, count in sorted(wish.items()):
        good = [pod.name for pod in there if pod.business == service and pod.ready][:count]
        kept |= set(good)
        lacking += [service] * (count - len(good))
    supply = sorted(
        (pod for pod in there if pod.ready and pod.name not in kept), key=lambda pod: (_order(pod.business), pod.name)
    )
    found = [_move(pod, service) for pod, service in zip(supply, lacking, strict=False)]
    taken = {move.pod for move in found}
    for service in lacking[len(supply) :]:
        poor = next((p for p in there if p.business == service and not p.ready and p.name not in kept), None)
        if poor is not None:
            kept.add(poor.name)
    free = (pod for pod in there if pod.business != UNASSIGNED and pod.name not in kept | taken)
    return [*found, *(_move(pod, UNASSIGNED) for pod in free)]


def counted(pods: Iterable[PoolPod]) -> dict[str, int]:
    """Ready pods by whom they serve."""
    found: dict[str, int] = {}
    for pod in pods:
        if pod.ready and not pod.ending:
            found[pod.business] = found.get(pod.business, 0) + 1
    return found


def reached(wish: Mapping[str, int], pods: Iterable[PoolPod]) -> bool:
    """Whether every service has its number of Ready pods."""
    have = counted(pods)
    return all(have.get(service, 0) == count for service, count in wish.items())


def told(wish: Mapping[str, int], pods: Iterable[PoolPod]) -> str:
    """Who has how many of the pods that it is to have, in a line."""
    have = counted(pods)
    parts = [f"{service} {have.get(service, 0)} of {count}" for service, count in sorted(wish.items())]
    return ", ".join([*parts, f"{have.get(UNASSIGNED, 0)} free"])


def _order(business: str) -> int:
    return {UNASSIGNED: 0, LEAVING: 1}.get(business, 2)


def _move(pod: PoolPod, target: str) -> Move:
    return Move(pod=pod.name, uid=pod.uid, source=pod.business, target=target)
