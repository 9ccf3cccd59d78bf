"""Words that people read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.words import number_of, some

NAMES = st.lists(st.text("abc-", min_size=1, max_size=5), max_size=8)


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("pod",), "1 pod"),
        (0, ("pod",), "0 pods"),
        (2, ("node group",), "2 node groups"),
        (1, ("entry", "entries"), "1 entry"),
        (3, ("entry", "entries"), "3 entries"),
    ],
)
def test_one_is_singular_and_every_other_number_plural(number: int, words: tuple[str, ...], said: str) -> None:
    assert number_of(number, *words) == said


@given(names=NAMES, most=st.integers(1, 8))
def test_some_names_the_first_and_counts_the_rest(names: list[str], most: int) -> None:
    said = some(names, most)
    assert said.startswith(", ".join(names[:most]))
    assert said.endswith(f" and {len(names) - most} more") == (len(names) > most)
