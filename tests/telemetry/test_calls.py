"""What is told of calls to AWS and Kubernetes: bounded words, and nothing of what was sent."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.awsrequest import AWSResponse, HeadersDict
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import given
from hypothesis import strategies as st
from temporalio.exceptions import ApplicationError

from activities import aws_calls
from activities.aws import AwsClients
from activities.fence import fence
from activities.kubernetes_calls import Target, asked_for, observed, target
from activities.settings import Settings
from contracts import measures
from contracts.problem import ProblemCode
from telemetry import metrics, tracing

segment = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)


class Told:
    """Stands for Temporal's runtime and the tracer: keeps what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: list[tuple[str, dict[str, str]]] = []
        self.spans: list[tuple[str, dict[str, Any], str | None]] = []
        monkeypatch.setattr(metrics, "on", lambda: True)
        monkeypatch.setattr(metrics, "count", lambda measure, **labels: self.counts.append((measure.name, labels)))
        monkeypatch.setattr(metrics, "observe", lambda measure, seconds, **labels: None)
        monkeypatch.setattr(tracing, "begin", lambda name, attributes: (name, dict(attributes)))
        monkeypatch.setattr(tracing, "end", self._end)

    def _end(self, span: tuple[str, dict[str, Any]], attributes: dict[str, Any], error: str | None = None) -> None:
        name, known = span
        self.spans.append((name, {**known, **attributes}, error))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> AwsClients:
    for name, value in {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    return AwsClients(Settings())


class Answer(AWSResponse):
    """An HTTP answer as botocore's event ``before-send`` may give it."""

    def __init__(self, status: int, content: str) -> None:
        super().__init__("http://127.0.0.1:9", status, HeadersDict({"x-amzn-RequestId": "r-1"}), None)
        self._content = content.encode()


def answers(aws: AwsClients, *given: Answer) -> None:
    rest = list(given)
    aws.session.events.register_last("before-send", lambda **_: rest.pop(0))


def test_a_call_of_aws_is_told_with_its_request_id_and_without_what_was_sent(aws: AwsClients, told: Told) -> None:
    answers(aws, Answer(200, '{"ClusterArn": "arn", "ClusterName": "ml-secretive", "ClusterStatus": "InService"}'))
    aws.read.sagemaker("us-west-2").describe_cluster(ClusterName="ml-secretive")
    assert told.counts == [
        (measures.AWS_REQUESTS.name, {"service": "sagemaker", "operation": "DescribeCluster", "result": "ok"})
    ]
    ((name, attributes, error),) = told.spans
    assert (name, error) == ("sagemaker.DescribeCluster", None)
    assert attributes == {
        "rpc.system.name": "aws-api",
        "rpc.service": "sagemaker",
        "rpc.method": "DescribeCluster",
        "cloud.region": "us-west-2",
        "aws.request_id": "r-1",
        "http.response.status_code": 200,
        "http.request.resend_count": 0,
    }


def test_every_attempt_of_the_sdk_counts_and_the_call_is_one_span(
    aws: AwsClients, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    slow = Answer(400, '{"__type": "ThrottlingException", "message": "slow down"}')
    answers(aws, slow, Answer(200, '{"ClusterArn": "a", "ClusterName": "n", "ClusterStatus": "InService"}'))
    aws.read.sagemaker("us-west-2").describe_cluster(ClusterName="n")
    assert [labels["result"] for _, labels in told.counts] == ["throttled", "ok"]
    ((_, attributes, error),) = told.spans
    assert (attributes["http.request.resend_count"], error) == (1, None)


@pytest.mark.parametrize(
    ("status", "code", "result"),
    [
        (403, "AccessDeniedException", "denied"),
        (400, "ResourceNotFound", "gone"),
        (500, "InternalFailure", "transient"),
    ],
)
def test_a_refusal_is_told_by_what_it_means(aws: AwsClients, told: Told, status: int, code: str, result: str) -> None:
    answers(aws, Answer(status, f'{{"__type": "{code}", "message": "no"}}'))
    with pytest.raises(ClientError):
        aws.act.sagemaker("us-west-2").describe_cluster(ClusterName="n")
    assert [labels["result"] for _, labels in told.counts] == [result]
    assert told.spans[0][2] == code


def test_a_call_without_an_answer_is_told_too(aws: AwsClients, told: Told) -> None:
    with pytest.raises(EndpointConnectionError):
        aws.act.sagemaker("us-west-2").describe_cluster(ClusterName="n")
    assert [labels["result"] for _, labels in told.counts] == ["unanswered"]
    assert told.spans[0][2] == "EndpointConnectionError"


def test_a_request_that_the_fence_kept_back_is_not_told_as_one(
    aws: AwsClients, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed:
        def check(self) -> None:
            raise ApplicationError("another one has taken its place", type=ProblemCode.UNAVAILABLE)

    monkeypatch.setattr(metrics, "observe", lambda measure, seconds, **labels: told.counts.append((measure.name, {})))
    closed: Any = Closed()
    put_up = fence.set(closed)
    try:
        with pytest.raises(ApplicationError, match="taken its place"):
            aws.act.sagemaker("us-west-2").delete_cluster(ClusterName="n")
    finally:
        fence.reset(put_up)
    assert told.counts == []
    assert [error for _, _, error in told.spans] == ["ApplicationError"]


def test_a_call_that_began_before_it_was_watched_does_no_harm() -> None:
    aws_calls._answered({"ResponseMetadata": {}}, {})
    aws_calls._unanswered(ValueError(), {})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/version", Target("/version", "version")),
        ("/apis", Target("/apis", "discovery")),
        ("/apis/apps/v1", Target("/apis/apps/v1", "discovery")),
        ("/api/v1/nodes?limit=500", Target("/api/v1/nodes", "nodes")),
        ("/api/v1/namespaces/team-a", Target("/api/v1/namespaces/{name}", "namespaces")),
        ("/api/v1/namespaces/team-a/secrets/hf", Target("/api/v1/namespaces/{namespace}/secrets/{name}", "secrets")),
        (
            "/api/v1/namespaces/n/pods/p/log?follow=true",
            Target("/api/v1/namespaces/{namespace}/pods/{name}/log", "pods/log"),
        ),
        (
            "/api/v1/namespaces/n/services/s:80/proxy/v1/chat/completions",
            Target("/api/v1/namespaces/{namespace}/services/{name}/proxy", "services/proxy"),
        ),
        (
            "/apis/kubeflow.org/v1/namespaces/n/pytorchjobs/j",
            Target("/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs/{name}", "pytorchjobs"),
        ),
        ("/somewhere/else", Target("/…", "other")),
    ],
)
def test_a_path_is_told_by_its_template(path: str, expected: Target) -> None:
    assert target(path) == expected


@given(segment, segment, segment, st.sampled_from(["", "/log", "/status", "/proxy/a/b"]))
def test_no_name_of_an_object_or_namespace_is_told(namespace: str, plural: str, name: str, rest: str) -> None:
    path = f"/api/v1/namespaces/NS{namespace}/pods/NAME{name}{rest}"
    custom = f"/apis/g.dev/v1/namespaces/NS{namespace}/{plural}/NAME{name}{rest}"
    for asked in (path, custom):
        assert "NS" not in target(asked).template + target(asked).resource
        assert "NAME" not in target(asked).template + target(asked).resource


class Response:
    status = 404


def test_a_request_to_kubernetes_is_told_below_the_clusters_endpoint(told: Told) -> None:
    asked = observed(lambda method, url, headers: Response(), "https://127.0.0.1:5567/eks/demo")
    asked("GET", "https://127.0.0.1:5567/eks/demo/api/v1/namespaces/n/secrets/hf", headers={"Authorization": "x"})
    assert told.counts == [
        (measures.KUBERNETES_REQUESTS.name, {"method": "GET", "resource": "secrets", "result": "4xx"})
    ]
    name, attributes, error = told.spans[0]
    assert name == "GET /api/v1/namespaces/{namespace}/secrets/{name}"
    assert (attributes["http.response.status_code"], error) == (404, "404")


def test_a_request_to_kubernetes_without_an_answer_is_told_too(told: Told) -> None:
    with pytest.raises(ConnectionError), asked_for("/api/v1/nodes"):
        raise ConnectionError
    assert told.counts[0][1]["result"] == "unanswered"
    assert told.spans[0][2] == "ConnectionError"


def test_a_metric_takes_no_other_labels_than_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_meter", object())
    with pytest.raises(ValueError, match="has labels service, operation, result"):
        metrics.count(measures.AWS_REQUESTS, service="ec2", cluster="demo")
