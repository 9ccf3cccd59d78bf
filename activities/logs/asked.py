"""Whether what a reader of a run's log asks for is there: silence would look like a log without lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from activities.errors import fail
from activities.logs.owners import Owner
from contracts.logs import LogSource
from contracts.problem import ProblemCode
from contracts.words import some

_SHOWN = 10
"""Names that a problem tells."""


def must_have(source: LogSource, places: Collection[tuple[str, str]]) -> None:
    """``places``: pods and containers of the run that are there, or of which something is kept.

    Raises NOT_FOUND for a pod or a container that is none of them. A run without any has them still to come.
    """
    if not places:
        return
    pods, containers = sorted({pod for pod, _ in places}), sorted({container for _, container in places})
    if source.pod is not None and source.pod not in pods:
        detail = f"There is no log of pod {source.namespace}/{source.pod} in this run"
        fail(ProblemCode.NOT_FOUND, detail, f"Its pods: {some(pods, _SHOWN)}.", field="/pod")
    if source.container is not None and source.container not in containers:
        detail = f"No pod of this run has a container {source.container}"
        fail(ProblemCode.NOT_FOUND, detail, f"They have: {some(containers, _SHOWN)}.", field="/container")


def must_have_rank(rank: int | None, there: Iterable[int], owners: Sequence[Owner]) -> None:
    """``there``: the ranks of the run's pods. ``owners``: what makes them, as far as it is in the cluster.

    Raises NOT_FOUND for a rank that no pod has, and none will have.
    """
    ranks = sorted(set(there))
    if rank is None or not ranks or rank in ranks:
        return
    to_come = [owner.most_pods for owner in owners if not owner.finished]
    if any(most is None or rank < most for most in to_come):
        return
    fail(
        ProblemCode.NOT_FOUND,
        f"No pod of this run has rank {rank}",
        f"Its ranks go from {ranks[0]} to {ranks[-1]}." if len(ranks) > 1 else f"Its only rank is {ranks[0]}.",
        field="/rank",
    )
