"""The files of a run where its command goes through others' hands: the start script, and the words that it starts."""

from __future__ import annotations

import json

from activities.training.manifests import scripts_of
from contracts.recipes.launch import Launch

SCRIPT, WORDS = "start.py", "start.json"
"""(recipes/start/start.py)"""


def with_starter(
    launch: Launch, links: dict[str, str] | None = None, environment: dict[str, str] | None = None
) -> Launch:
    """``launch`` with the start script among its files. ``links``: places that are to lead to others, made before;
    ``environment``: variables that the container does not get otherwise."""
    told = {"words": launch.argv, "links": links or {}, "environment": environment or {}}
    own = {SCRIPT: scripts_of("start")[SCRIPT], WORDS: json.dumps(told, ensure_ascii=False)}
    return launch.model_copy(update={"files": {**launch.files, **own}})
