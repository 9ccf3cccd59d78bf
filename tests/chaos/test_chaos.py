"""A few schedules, carried out. ``make chaos`` runs many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.generate import generate
from tests.chaos.run import run
from tests.chaos.standby import Standby, standby

SEEDS = (236, 263, 380)
"""Quick ones, which together have two clusters, a decision, kills, a frozen worker, a termination, drift that is
adopted and restored, also by an agent, and a copied experiment."""


@pytest.fixture(scope="module")
def through(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standby]:
    with standby(tmp_path_factory.mktemp("standby")) as started:
        yield started


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_each_effect_happens_once_and_every_operation_ends_or_says_what_it_waits_for(
    seed: int, tmp_path: Path, through: Standby
) -> None:
    keep = Path(".chaos") / str(seed)
    result = run(schedule := generate(seed), tmp_path, keep, through)
    assert not result.faults, f"{schedule}\n{result.faults}\nagain: make chaos SEED={seed}; evidence: {keep}"
    assert result.misfortunes
    assert result.effects
