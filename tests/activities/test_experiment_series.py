"""Samples of metrics and runs over the same steps: bounded, and nothing in them that was not recorded."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from activities.experiments.copying import batches, fingerprint
from activities.experiments.policies import reported_to, reporting_policy
from activities.experiments.series import compared, history_of, moment, ordered, spread, value_of
from activities.experiments.tracking import meaning
from contracts.problem import ProblemCode

VALUES = st.one_of(st.floats(allow_nan=False, allow_infinity=False, width=32), st.sampled_from(["NaN"]))
POINTS = st.lists(
    st.fixed_dictionaries({"step": st.integers(0, 500), "timestamp": st.integers(0, 10**13), "value": VALUES}),
    max_size=200,
)


@given(count=st.integers(0, 10_000), most=st.integers(2, 500))
def test_a_sample_is_bounded_in_order_and_has_both_ends(count: int, most: int) -> None:
    found = spread(count, most)
    assert len(found) == min(count, most)
    assert found == sorted(set(found))
    assert not count or (found[0], found[-1]) == (0, count - 1)


@given(points=POINTS, most=st.integers(2, 50))
def test_a_history_shows_only_what_was_recorded(points: list[dict[str, Any]], most: int) -> None:
    every = ordered(points)
    history = history_of("loss", every, most)
    assert len(history.points) <= most
    assert set(map(str, history.points)) <= set(map(str, every))
    assert history.recorded == len(every)


@given(first=POINTS, second=POINTS, most=st.integers(2, 50))
def test_compared_runs_stand_over_the_same_steps(
    first: list[dict[str, Any]], second: list[dict[str, Any]], most: int
) -> None:
    runs = {"a": ordered(first), "b": ordered(second)}
    found = compared("loss", runs, most)
    assert len(found.steps) <= most
    for run, points in runs.items():
        series = found.values[run]
        assert len(series) == len(found.steps)
        assert {str(each) for each in series if each is not None} <= {str(each.value) for each in points}
        if not found.sampled:
            last = {each.step: each.value for each in points}
            expected = [last.get(step) for step in found.steps]
            assert [str(each) for each in series] == [str(each) for each in expected]


def test_values_that_json_has_no_numbers_for_are_words() -> None:
    assert value_of("NaN") == "NaN"
    assert value_of(1.7976931348623157e308) == "Infinity"
    assert value_of(-1.7976931348623157e308) == "-Infinity"
    assert value_of(float("nan")) == "NaN"
    assert moment(10**18).year == 9999


def test_a_batch_is_never_larger_than_mlflow_takes() -> None:
    assert [len(each) for each in batches(({"n": n} for n in range(2500)), 1000)] == [1000, 1000, 500]
    assert list(batches([], 1000)) == []


def test_a_run_that_changed_has_another_fingerprint_and_its_copy_the_same() -> None:
    run: dict[str, Any] = {
        "info": {"run_id": "1", "status": "RUNNING"},
        "data": {"metrics": [{"key": "loss", "value": 1.0, "step": 1, "timestamp": 1}]},
    }
    same = {"data": {**run["data"], "params": []}, "info": {**run["info"], "run_id": "2"}}
    assert fingerprint(run, {}) == fingerprint(same, {})
    child = {**run, "data": {**run["data"], "tags": [{"key": "mlflow.parentRunId", "value": "p"}]}}
    marks = [{"key": "instantstart.source_run_id", "value": "1"}, {"key": "mlflow.parentRunId", "value": "q"}]
    copy = {**run, "data": {**run["data"], "tags": marks}}
    assert fingerprint(child, {"p": "p"}) == fingerprint(copy, {"q": "p"})
    for changed in (
        {"info": {**run["info"], "status": "FINISHED"}},
        {"data": {"metrics": [{"key": "loss", "value": 1.0, "step": 2, "timestamp": 1}]}},
        {"data": {**run["data"], "tags": [{"key": "note", "value": "x"}]}},
    ):
        assert fingerprint({**run, **changed}, {}) != fingerprint(run, {})


def test_a_policy_names_its_one_server_and_nothing_beside_it() -> None:
    server = "arn:aws:sagemaker:us-west-2:1:mlflow-tracking-server/a"
    policy = reporting_policy(server, "s3://bucket/mlflow/a")
    assert reported_to(policy) == server
    resources = {str(each["Resource"]) for each in policy["Statement"]}
    assert resources == {server, "arn:aws:s3:::bucket", "arn:aws:s3:::bucket/mlflow/a/*"}
    app = reporting_policy("arn:aws:sagemaker:us-west-2:1:mlflow-app/app-X", None)
    assert [each["Action"] for each in app["Statement"]] == ["sagemaker:CallMlflowAppApi"]
    whole_bucket = reporting_policy(server, "s3://bucket")
    assert len(whole_bucket["Statement"]) == 1


def test_what_a_refusal_means_is_told_by_its_code_first() -> None:
    for status, content, code in (
        (404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}, ProblemCode.NOT_FOUND),
        (400, {"error_code": "RESOURCE_ALREADY_EXISTS"}, ProblemCode.CONFLICT),
        (400, {"error_code": "INVALID_PARAMETER_VALUE"}, ProblemCode.INVALID),
        (429, {}, ProblemCode.THROTTLED),
        (503, {}, ProblemCode.UNAVAILABLE),
        (403, {"message": "The security token included in the request is expired"}, ProblemCode.CREDENTIALS),
        (403, {"message": "User is not authorized"}, ProblemCode.DENIED),
    ):
        assert meaning(status, content)[0] is code
