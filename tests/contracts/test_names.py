"""Laws of the names that everything is called by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.cluster import ClusterSpec
from contracts.names import (
    DEPLOYMENT_NAME,
    IAM_ROLE,
    KUBERNETES_NAME,
    S3_BUCKET,
    ClusterNames,
    client_token,
    deployment_name,
    derived_names,
    fit,
    slug,
    tag_violation,
)

tags = st.from_regex(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)
regions = st.sampled_from(["us-east-1", "ap-southeast-2", "ap-northeast-1", "us-gov-west-1"])


@given(tags, regions)
def test_every_name_of_a_valid_tag_keeps_the_rule_of_its_service(tag: str, region: str) -> None:
    assert tag_violation(tag) is None
    assert all(rule.violation(name) is None for rule, name in derived_names(tag))
    names = ClusterNames(tag)
    assert IAM_ROLE.violation(names.role("s3-csi-driver", region)) is None
    assert S3_BUCKET.violation(names.bucket("123456789012", region)) is None
    assert KUBERNETES_NAME.violation(names.persistent_volume("a-very-long-claim-name-" + "x" * 40)) is None


@given(st.lists(tags, min_size=2, max_size=2, unique=True))
def test_two_tags_never_share_a_name(pair: list[str]) -> None:
    one, other = (ClusterNames(tag) for tag in pair)
    assert one.eks_cluster != other.eks_cluster
    assert one.hyperpod_cluster != other.hyperpod_cluster
    assert one.role("x", "us-east-1") != other.role("x", "us-east-1")
    assert one.bucket("123456789012", "us-east-1") != other.bucket("123456789012", "us-east-1")


@given(st.text(min_size=1, max_size=200), st.integers(20, 100))
def test_a_fitted_name_is_never_too_long_and_short_ones_stay_as_they_are(name: str, maximum: int) -> None:
    fitted = fit(name, maximum)
    assert len(fitted) <= maximum
    assert (fitted == name) == (len(name) <= maximum)


@given(st.text(max_size=80))
def test_what_is_suggested_for_a_bad_tag_is_a_good_one(text: str) -> None:
    assert tag_violation(slug(text)) is None


@given(st.text(max_size=300))
def test_a_deployment_that_is_called_after_its_model_has_a_name_that_kubernetes_takes(model: str) -> None:
    assert DEPLOYMENT_NAME.violation(deployment_name(model)) is None


@pytest.mark.parametrize(
    ("model", "name"),
    [("Qwen/Qwen3-0.6B", "qwen3-0-6b"), ("/s3/models/Qwen-Qwen3-0.6B/", "qwen-qwen3-0-6b"), ("1.5B", "b")],
)
def test_a_deployment_is_called_after_the_last_part_of_its_model(model: str, name: str) -> None:
    assert deployment_name(model) == name


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_a_client_token_depends_on_each_of_its_parts(workflow: str, run: str, step: str) -> None:
    token = client_token(workflow, run, step)
    assert len(token) == 64
    assert token == client_token(workflow, run, step)
    assert token != client_token(workflow, run, step + "x")
    assert token != client_token(workflow, run + "x", step)


@pytest.mark.parametrize("tag", ["my_cluster", "1abc", "a.b", "-a", "a-", "MyCluster", "", "a" * 64, "x y"])
def test_a_tag_that_some_service_would_refuse_later_is_refused_now_with_a_suggestion(tag: str) -> None:
    with pytest.raises(ValueError, match="Use for example"):
        ClusterSpec(tag=tag)


def test_doubled_hyphens_are_allowed_because_every_service_allows_them() -> None:
    assert ClusterSpec(tag="a--b").tag == "a--b"
