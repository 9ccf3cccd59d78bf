"""Schemas lose what explains them, and nothing of what they accept."""

from __future__ import annotations

import json

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from contracts.problem import Problem, ProblemCode, problem
from mcp_server.schemas import without

TOLD = problem(ProblemCode.INVALID, "a detail", field="/title", remedy="another one")


def test_a_member_called_title_stays_while_titles_go() -> None:
    short = without(Problem.model_json_schema(), ("title", "description"))
    assert "title" in short["properties"]
    assert "description" not in json.dumps(short)
    assert len(json.dumps(short)) < len(json.dumps(Problem.model_json_schema()))


@given(st.dictionaries(st.sampled_from(["title", "status", "code", "errors", "other"]), st.none() | st.integers()))
def test_a_short_schema_accepts_what_the_long_one_accepts(changes: dict[str, int | None]) -> None:
    document = {**TOLD.model_dump(mode="json"), **changes}
    long = Problem.model_json_schema()
    accepted = jsonschema_rs.is_valid(long, document)
    assert jsonschema_rs.is_valid(without(long, ("title", "description")), document) == accepted
