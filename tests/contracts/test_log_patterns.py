"""Patterns of log monitoring: what is admitted is sure to end, and the documented ones are admitted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.log_patterns import LONGEST, groups, is_anchored, violation


@pytest.mark.parametrize(
    "pattern",
    [
        r".*Experiment configuration.*",
        r".*\[Epoch 0 Batch \d+.*'training_loss_step': (\d+(\.\d+)?).*",
        r".*The checkpoint is finalized. All shards is written.*",
        r".*\[Epoch 0 Batch \d+.*'train_flops': ([\d.]+).*",
        r".*step=(\d+) loss=([-+0-9.eE]+|nan).*",
        r"(?i).*xid.*",
        r".*loss: (\d+\.\d+) .*lr: (\d+)",
        r".*epoch.*step.*loss=(\d+)",
        r"\d{4}-\d{2}-\d{2} .*(?:ERROR|FATAL).*",
        r".*\[rank\d{1,3}\](?:-?\d,)*end",
    ],
)
def test_patterns_as_people_write_them_are_admitted(pattern: str) -> None:
    assert violation(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"(a+)+$", "may never end"),
        (r"(?:x*)*y", "may never end"),
        (r"^(\w+\s?)*$", "may never end"),
        (r"(a|ab)*c", "alternatives"),
        (r"(?:.{0,9}){0,9}x", "may never end"),
        (r"(?:.{0,50}){0,50}x", "places"),
        (r"(.*)\1", "refers back"),
        (r".*a.*b.*c.*d.*e", "repetitions without end"),
        (r"(.*)(.*)(.*)x", "repetitions without end"),
        (r".*a.*b.*c", "repetitions without end"),
        (r".*.*" + "(?:ab|cd|ef|gh)" * 3 + "x", "repetitions without end"),
        (r"(?:a?){25}b", "may never end"),
        (r"(?:a?){100000000}", "count"),
        (r"(?:){4000000000}", "count"),
        (r"(?:^){1000000000}", "count"),
        (r"(?:){4000000000,}", "count"),
        (r"(?:(?:){1000}){1000}", "places"),
        (r"((((){900}){900}){900}){900}", "places"),
        (r"(?=(?:){1000000}x)", "count"),
        (r"(?>(?:){1000000}x)", "count"),
        (r".*.*(?:){900}x", "repetitions without end"),
        (".*" * 200 + "x", "repetitions without end"),
        ("(.*(.*" * 40 + "x" + "))" * 40, "repetitions without end"),
        (r"a?" * 30 + "b", "options"),
        (r"(?i)a+A+[aA]+a+A+b", "repetitions without end"),
        (r"[", "no regular expression"),
        (r"(?>a+)b", "atomic"),
        (r"a++b", "possessive"),
        ("a" * (LONGEST + 1), "characters"),
    ],
)
def test_patterns_that_may_never_end_are_refused_with_the_reason(pattern: str, words: str) -> None:
    found = violation(pattern)
    assert found is not None
    assert words in found


_PARTS = st.sampled_from(
    [
        "a",
        "b",
        ".",
        "\\d",
        "\\w",
        "[ab]",
        "a+",
        "a*",
        "a?",
        ".*",
        "\\d+",
        "(a)",
        "(a+)",
        "(a+)+",
        "(a|ab)*",
        "a{2,5}",
        "|",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_PARTS, max_size=9).map("".join))
def test_what_is_admitted_ends_on_lines_that_almost_match(pattern: str) -> None:
    if violation(pattern) is not None:
        return
    for line in ("a" * 120 + "!", "ab" * 60 + "!", "1" * 120 + "!", "a1" * 60):
        # Would outlast any patience if it went back without end: 2^120 steps.
        re.match(pattern, line)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([".*", "(.*)", "a", "aa", ".+", "a?", "(?:a|b)", "(?:){9}"]), max_size=7).map("".join))
def test_what_is_admitted_ends_on_a_line_of_thousands_of_characters(pattern: str) -> None:
    if violation(pattern) is None:
        # With three repetitions that share them it would be a thousand million steps, with four a billion.
        re.match(pattern, "a" * 2000 + "!")


@pytest.mark.parametrize(
    ("pattern", "anchored"), [(".*loss", False), ("loss: ", True), ("^.*loss", False), (r"\d+ loss", True), ("", True)]
)
def test_it_is_told_whether_a_pattern_passes_over_a_lines_beginning(pattern: str, anchored: bool) -> None:
    assert is_anchored(pattern) is anchored


def test_groups_are_counted() -> None:
    assert (groups(r".*(\d+).*"), groups(r".*"), groups("[")) == (1, 0, 0)
