"""The base of every recipe: which framework is run, with what, and what is known about it beforehand."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from contracts.commands import Finding, Severity
from contracts.model import Model, fault
from contracts.recipes.launch import HYPERPOD, SAGEMAKER, Launch
from contracts.recipes.secrets import secret_in
from contracts.recipes.shape import Shape

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _absolute(path: str) -> str:
    if not path.startswith("/") or _CONTROL.search(path) or ".." in path.split("/"):
        raise ValueError("an absolute path, as the container sees it, without ..")
    return path.rstrip("/") or "/"


def _word(word: str) -> str:
    if "\0" in word:
        raise ValueError("holds a NUL, with which no program can be started")
    return word


ContainerPath = Annotated[str, Field(max_length=1024), AfterValidator(_absolute)]
"""A file or folder as the job's containers see it."""
Argument = Annotated[str, Field(max_length=32_768), AfterValidator(_word)]
MOST_ARGUMENTS = 128 * 1024
"""Bytes of all arguments: they stand in the job's manifest, which with all else may have about a megabyte."""


def _short(words: list[str]) -> list[str]:
    if sum(len(word.encode()) + 1 for word in words) > MOST_ARGUMENTS:
        raise ValueError(f"have more than {MOST_ARGUMENTS:,} bytes together; keep them in a file on the storage")
    return words


Arguments = Annotated[list[Argument], Field(max_length=1000), AfterValidator(_short)]
"""Words as they stand: nothing is split, expanded or quoted."""


class RecipeBase(Model, ABC):
    """Which framework a job runs. A recipe knows nothing of how the job is submitted and kept alive."""

    kind: str
    """Which recipe."""

    title: ClassVar[str]
    """What people call it."""
    submissions: ClassVar[tuple[str, ...]] = (HYPERPOD, SAGEMAKER)
    """Paths that the recipe may take, the usual one first."""
    image: ClassVar[str | None] = None
    """A public image of a fixed version that has what the recipe needs; null: it is built (recipes/*/Containerfile)."""
    programs: ClassVar[frozenset[str]] = frozenset()
    """Members that hold the text of a program, which looks for its secrets itself."""
    progress: ClassVar[str] = "plain"
    """How its lines of progress are written (contracts/recipes/progress.py)."""

    @model_validator(mode="after")
    def _without_secrets(self) -> RecipeBase:
        found = secret_in(self.model_dump(mode="json", exclude=set(self.programs)))
        if found is not None:
            pointer, name = found
            message = f"{name} is a secret, which everybody who may read the job would see"
            raise fault(pointer, f"{message}; store it as a credential, and name that in credential or secret_env")
        return self

    @property
    def planned_steps(self) -> int | None:
        """How many steps the job is to do, where the configuration says so; frameworks often do not log it."""
        return None

    @abstractmethod
    def launch(self, shape: Shape, submission: str) -> Launch:
        """What each container is started with on ``submission``, one of ``submissions``."""

    def findings(self, shape: Shape) -> list[Finding]:
        """What is wrong, or may surprise, on this hardware, errors first. A field is a JSON pointer into the run's
        specification."""
        order = list(Severity)
        return sorted(self.examine(shape), key=lambda found: order.index(found.severity))

    def examine(self, shape: Shape) -> Iterator[Finding]:
        """Findings in any order."""
        yield from ()


def finding(rule: str, severity: Severity, field: str, message: str, remedy: str | None = None) -> Finding:
    """A finding at ``field`` of the recipe, e.g. ``config/cutoff_len``."""
    pointer = f"/recipe/{field}" if field else "/recipe"
    return Finding(rule=rule, severity=severity, message=message, remedy=remedy, field=pointer)
