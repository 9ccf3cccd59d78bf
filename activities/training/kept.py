"""What a run said at last, by its kept log: its pods may have gone between two looks at them."""

from __future__ import annotations

from activities.aws import AwsClients
from activities.logs.chunks import Chunks
from contracts.logs import LOGS_FOLDER
from contracts.recipes.progress import Reported, read_progress
from contracts.training_activities import RecordTraining

TAIL_LINES = 120
MOST_CHUNKS = 4
FIRST_RANKS = 2
"""Ranks whose logs are read: Ray's driver need not be of the first."""
MOST_READ = 4


def last_words(aws: AwsClients, request: RecordTraining) -> Reported | None:
    """What the last attempt reported, where its kept log says more of it than was heard while it ran. Raises as S3
    does, but for what is not there."""
    if request.logs is None or not request.attempts:
        return None
    end, spec = request.attempts[-1], request.spec
    chunks = Chunks(aws, request.scope.region, request.bucket, request.logs.removesuffix(LOGS_FOLDER))
    rows = [row for row in chunks.index().get("streams", ()) if row["rank"] < FIRST_RANKS and row["lines"]]
    rows.sort(key=lambda row: (row["rank"], row["pod"], row["container"]))
    names = list(dict.fromkeys((row["pod"], row["container"]) for row in rows))[:MOST_READ]
    folders = chunks.folders() if names else {}
    found = [
        read_progress(spec.recipe.kind, chunks.tail(folders[name], TAIL_LINES, MOST_CHUNKS), spec.recipe.planned_steps)
        for name in names
        if name in folders
    ]
    known, begun = end.reported, end.started_at
    newer = [
        each
        for each in found
        if each.step is not None
        and each.step > (known.step or 0)
        and (begun is None or each.at is None or each.at >= begun)
    ]
    return known.after(max(newer, key=lambda each: each.step or 0)) if newer else None
