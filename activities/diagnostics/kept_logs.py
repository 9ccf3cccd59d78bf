"""Logs of a training run's pods that are gone, as they were kept in the cluster's bucket."""

from __future__ import annotations

from collections.abc import Iterator

from activities.aws import AwsClients
from activities.diagnostics.log_entries import of_log
from activities.logs.chunks import Chunks, newest_run
from contracts.diagnostics import TimelineEntry
from contracts.logs import KeptPlace

MOST_KEPT = 24
"""Containers whose kept logs are read."""
MOST_CHUNKS = 6
"""Of one container: one that went on writing under the same name may fill many."""
TAIL_LINES = 600


def entries(
    aws: AwsClients, region: str, place: KeptPlace, run: str | None, live: dict[str, str], ran_on: dict[str, str]
) -> Iterator[TimelineEntry]:
    """What rules know of the logs of ``run`` (or of the one of which something was kept last).

    ``live``: UIDs of the pods that are there, by name. Their own logs are read; of a pod that had the name before them,
    what was kept. ``ran_on``: nodes of pods that are gone, where they are known.
    """
    chosen = run or newest_run(aws, region, place.bucket, place.prefix)
    if chosen is None:
        return
    chunks = Chunks(aws, region, place.bucket, f"{place.prefix}/{chosen}")
    folders = [folder for _, folder in sorted(chunks.folders().items())]
    for folder in folders[:MOST_KEPT]:
        lines = chunks.tail(folder, TAIL_LINES, MOST_CHUNKS, without=live.get(folder.pod))
        yield from of_log(folder.pod, ran_on.get(folder.pod), lines)
