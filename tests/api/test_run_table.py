"""Runs as CSV: what is written is read again, and no cell is a formula."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.run_table import table
from contracts.experiment_runs import RunView

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=30)


def run(**members: Any) -> RunView:
    return RunView.model_validate({"run_id": "r1", "experiment_id": "1", "status": "FINISHED", **members})


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_every_metric_parameter_and_tag_is_a_column_of_all_rows() -> None:
    first = run(metrics={"loss": 1.5}, parameters={"lr": "0.1"}, started_at=datetime(2026, 1, 2, tzinfo=UTC))
    second = run(run_id="r2", metrics={"odd": "NaN"}, tags={"team": "a"}, nodes=2)
    one, two = rows(table([first, second]))
    assert (one["metric.loss"], one["param.lr"], one["tag.team"]) == ("1.5", "0.1", "")
    assert one["started_at"] == "2026-01-02T00:00:00Z"
    assert (two["metric.loss"], two["metric.odd"], two["tag.team"], two["nodes"]) == ("", "NaN", "a", "2")


@given(value=TEXTS, key=TEXTS)
def test_what_is_written_is_read_again(value: str, key: str) -> None:
    (found,) = rows(table([run(parameters={key: value})]))
    assert found[f"param.{key}"].removeprefix("'") == value.removeprefix("'")


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx", "\rx"])
def test_a_text_that_looks_like_a_formula_is_marked_as_text(text: str) -> None:
    (found,) = rows(table([run(name=text)]))
    assert found["name"] == f"'{text}"


def test_numbers_stay_numbers() -> None:
    (found,) = rows(table([run(metrics={"loss": -1.5})]))
    assert found["metric.loss"] == "-1.5"


@pytest.mark.parametrize("number", ["-5", "-1e-3", "+0.5", "-.5E+10"])
def test_parameters_that_are_numbers_stay_numbers(number: str) -> None:
    (found,) = rows(table([run(parameters={"lr": number})]))
    assert found["param.lr"] == number
