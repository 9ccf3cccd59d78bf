"""Benchmark reports: nothing that was found is lost, and the page says what it is compared with."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import benchmarks
from bench.rendering import render
from bench.report import Report, percentile, together

PROJECT = Path(__file__).resolve().parents[2]


def report(at: int, *names: str, value: float = 10.0) -> Report:
    made = Report(taken_at=datetime(2026, 1, at, tzinfo=UTC), machine="a machine")
    for name in names:
        with made.benchmark(name):
            made.add("ours", "ms", [value, value + 1, value + 2], goal="≤ 20 ms")
            made.add("theirs", "ms", [30.0], baseline=True)
            made.add("ours / theirs", "", [value / 30])
            made.note(f"{name} was noted")
    return made


def test_a_page_has_each_figure_with_spread_goal_baseline_and_picture(tmp_path: Path) -> None:
    page = render(report(2, "first"), tmp_path, earlier=report(1, "first", value=20.0)).read_text()
    assert "| ours | 11 ms (10 – 12, n=3) | 21 ms (20 – 22, n=3) | ≤ 20 ms |" in page
    assert "| theirs *(baseline)* | 30 ms | 30 ms |  |" in page
    assert "first was noted" in page
    assert "a machine" in page
    picture = (tmp_path / "first-0.svg").read_text()
    assert picture.startswith("<svg")
    assert all(said in picture for said in ("ours", "theirs", "ours, before", "baseline"))


def test_a_benchmark_that_fails_is_told_of_and_the_next_goes_on(tmp_path: Path) -> None:
    made = report(1, "good")
    with made.benchmark("bad"):
        made.add("before it failed", "s", [1.0])
        raise RuntimeError("the machine burns")
    with made.benchmark("next"):
        made.add("later", "s", [2.0])
    page = render(made, tmp_path).read_text()
    assert "**Not finished**: RuntimeError: the machine burns" in page
    assert "before it failed" in page
    assert "later" in page


def test_runs_together_give_the_newest_finding_of_each_benchmark() -> None:
    found = together([report(2, "a", value=2.0), report(1, "a", "b", value=1.0)])
    assert {each.name: each.figures[0].samples[0] for each in found.benchmarks} == {"a": 2.0, "b": 1.0}


def test_runs_of_different_machines_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="different machines"):
        together([report(1, "a"), report(2, "b").model_copy(update={"machine": "another"})])


def test_a_saved_run_is_read_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.report.RESULTS", tmp_path)
    made = report(1, "a")
    assert Report.model_validate_json(made.save().read_text()) == made


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_percentiles_are_samples_and_grow_with_the_share(samples: list[float], one: float, two: float) -> None:
    lower, higher = (percentile(samples, share) for share in sorted((one, two)))
    assert lower in samples
    assert lower <= higher
    assert percentile(samples, 1) == max(samples)


def test_a_percentage_is_no_share() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        percentile([1.0], 95)


def test_every_benchmark_is_described() -> None:
    page = (PROJECT / "docs" / "benchmarks.md").read_text()
    assert [name for name in benchmarks(1) if f"| `{name}` |" not in page] == []
