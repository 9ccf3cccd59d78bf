"""How long a listing of nodes serves the looks of a wait."""

from __future__ import annotations

import time

import pytest

from activities.hyperpod.nodes import Counts, Listing

GROWING: Counts = {"workers": (7, 9)}
GROWN: Counts = {"workers": (9, 9)}
TOOK = 100.0


def listing(counts: Counts, age: float) -> Listing:
    return Listing([], [], counts, ended=time.monotonic() - age, took=TOOK)


@pytest.mark.parametrize(("age", "serves"), [(50.0, True), (700.0, True), (900.0, False)])
def test_while_instances_are_missing_a_listing_serves_for_eight_times_its_length(age: float, serves: bool) -> None:
    assert listing({"workers": (3, 9)}, age).serves(GROWING) is serves


@pytest.mark.parametrize(("age", "serves"), [(50.0, True), (150.0, False)])
def test_while_kubernetes_alone_lags_it_serves_for_its_own_length(age: float, serves: bool) -> None:
    assert listing(GROWN, age).serves(GROWN) is serves


@pytest.mark.parametrize("before", [GROWING, {"workers": (9, 9), "others": (1, 1)}, {"workers": (12, 12)}])
def test_what_was_listed_at_other_counts_never_tells_that_all_is_complete(before: Counts) -> None:
    assert not listing(before, 0.0).serves(GROWN)
