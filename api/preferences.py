"""What callers prefer, by name; kept in a file that only its owner can read."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from api.files import PrivateFile
from contracts.model import Model


class PreferencesFile(Model):
    default_clusters: dict[str, str] = Field(default_factory=dict)
    """Tags by the names of callers."""


class PreferenceStore:
    """The preferences of a file; several gateways may share it."""

    def __init__(self, path: Path) -> None:
        self._file = PrivateFile(path, PreferencesFile)

    def default_cluster(self, name: str) -> str | None:
        """The tag that ``name`` has chosen, whether there is such a cluster or not."""
        return self._file.read().default_clusters.get(name)

    def set_default_cluster(self, name: str, tag: str | None) -> None:
        """Keep the choice of ``name``; None: no cluster is chosen."""

        def changed(kept: PreferencesFile) -> PreferencesFile:
            others = {each: chosen for each, chosen in kept.default_clusters.items() if each != name}
            return PreferencesFile(default_clusters=others if tag is None else {**others, name: tag})

        self._file.change(changed)
