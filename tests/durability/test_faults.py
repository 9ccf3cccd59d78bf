"""Lost responses, throttling, outages and crowds: each effect happens once, to the cluster that it is meant for."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import pytest

from sandbox import credentials
from tests.durability.runs import REGIONS, Pair, create, effects, entries, faults, finish, history, states, wait_for
from tests.local_stack import LocalStack

LOST_RESPONSES = (
    ("ec2", "CreateVpc"),
    ("ec2", "CreateSubnet"),
    ("ec2", "CreateInternetGateway"),
    ("ec2", "AllocateAddress"),
    ("ec2", "CreateNatGateway"),
    ("ec2", "CreateRouteTable"),
    ("ec2", "CreateSecurityGroup"),
    ("ec2", "CreateVpcEndpoint"),
    ("iam", "CreateRole"),
    ("iam", "CreateOpenIDConnectProvider"),
    ("s3", "CreateBucket"),
    ("eks", "CreateCluster"),
    ("eks", "CreateAddon"),
    ("eks", "CreateAccessEntry"),
    ("eks", "CreatePodIdentityAssociation"),
    ("sagemaker", "CreateCluster"),
)
# How long to wait is said, so that a test does not take the minutes that backing off without a word takes.
UNABLE = "the server is currently unable to handle the request"
AGAIN: dict[str, Any] = {"headers": {"Retry-After": "1"}}
THROTTLED: tuple[dict[str, Any], ...] = (
    # S3 has a code and a status of its own for it; an answer to HEAD has no body, so that the status is all it says.
    {"api": "aws", "service": "s3", "p": 0.3, "code": "SlowDown", "status": 503, **AGAIN},
    *(
        {"api": "aws", "service": service, "p": 0.3, "code": "ThrottlingException", "status": 400, **AGAIN}
        for service in ("ec2", "iam", "sts", "eks", "sagemaker", "service-quotas")
    ),
)
LOST_APPLIES = (
    "PATCH /api/v1/persistentvolumes/.*",
    "PATCH /api/v1/namespaces/[^/]*/persistentvolumeclaims/.*",
)


@pytest.mark.parametrize("tag", REGIONS)
def test_ten_requests_at_once_for_one_tag_are_one_operation_and_one_run(
    pair: Pair, stack: LocalStack, tag: str
) -> None:
    assert {answer.status_code for answer in pair.crowds[tag]} == {202}
    operation = f"create-cluster/{tag}"
    assert {(a.json()["id"], a.json()["run_id"]) for a in pair.crowds[tag]} == {(operation, pair.ended[tag]["run_id"])}
    listed = stack.gateway.get("/operations", params={"cluster": tag}).json()["operations"]
    assert [(each["id"], each["run_id"]) for each in listed] == [(operation, pair.ended[tag]["run_id"])]


@pytest.mark.parametrize("tag", REGIONS)
def test_another_spec_for_a_tag_that_is_being_created_is_refused_and_names_the_running_operation(
    pair: Pair, tag: str
) -> None:
    refused = pair.others[tag]
    assert refused.status_code == 409, refused.text
    assert (refused.json()["code"], refused.json()["operation"]) == ("conflict", f"create-cluster/{tag}")


def test_clusters_created_at_once_in_two_regions_never_touch_each_other(pair: Pair, stack: LocalStack) -> None:
    for (tag, region), other in zip(REGIONS.items(), reversed(REGIONS), strict=True):
        own = entries(stack, tag)
        assert {row["region"] for row in own} == {region}
        assert any(row["api"] == "kubernetes" for row in own)
        text = json.dumps(own)
        assert f"create-cluster/{other}" not in text
        assert f"eks-cluster-{other}" not in text
        tags = [value for row in own for value in _cluster_tags(row["parameters"])]
        assert set(tags) == {tag}
        assert len(tags) >= 20
    assert effects(stack, "east") == effects(stack, "west")


def _cluster_tags(parameters: Any) -> list[str]:
    """Every value of the tag that says which cluster a resource is of."""
    if isinstance(parameters, list):
        return [value for item in parameters for value in _cluster_tags(item)]
    if not isinstance(parameters, dict):
        return []
    if parameters.get("Key") == "instantstart:cluster":
        return [parameters["Value"]]
    direct = [parameters["instantstart:cluster"]] if "instantstart:cluster" in parameters else []
    return direct + [value for item in parameters.values() for value in _cluster_tags(item)]


def test_a_response_lost_after_every_kind_of_create_leaves_the_effects_of_an_undisturbed_run(
    stack: LocalStack, undisturbed: Counter[str]
) -> None:
    lost = {"phase": "after", "action": "drop", "times": 1}
    rules = [{"api": "aws", "service": s, "operation": o, **lost} for s, o in LOST_RESPONSES]
    rules += [{"api": "kubernetes", "operation": operation, **lost} for operation in LOST_APPLIES]
    with faults(stack, *rules):
        ended = finish(stack, create(stack, "lossy"))
        assert len([row for row in entries(stack, "lossy") if row["response_lost"]]) == len(rules)
    assert effects(stack, "lossy") == undisturbed
    assert set(states(ended).values()) == {"done"}


def test_throttling_of_a_third_of_all_aws_calls_only_costs_time(stack: LocalStack, undisturbed: Counter[str]) -> None:
    with faults(stack, *THROTTLED):
        finish(stack, create(stack, "slowed"))
    assert effects(stack, "slowed") == undisturbed


def test_throttling_internal_errors_and_a_kubernetes_api_under_load_together_only_cost_time(
    stack: LocalStack, undisturbed: Counter[str]
) -> None:
    with faults(
        stack,
        *THROTTLED,
        {"api": "aws", "p": 0.1, "times": 15, "action": "http500"},
        {"api": "kubernetes", "p": 0.05, "status": 429, "code": "TooManyRequests", **AGAIN},
        {"api": "kubernetes", "p": 0.02, "status": 503, "code": "ServiceUnavailable", "message": UNABLE},
    ):
        finish(stack, create(stack, "stormy"))
    assert effects(stack, "stormy") == undisturbed


def test_a_kubernetes_api_that_is_down_for_20_seconds_is_waited_for(
    stack: LocalStack, undisturbed: Counter[str]
) -> None:
    with faults(stack, {"api": "kubernetes", "service": "eks-cluster-outage", "action": "drop"}):
        operation = create(stack, "outage")
        stack.until(operation, lambda o: states(o).get("control_plane") == "done")
        down = len(stack.sandbox.get("/faults").json()["fired"])
        since = time.monotonic()
        wait_for(lambda: time.monotonic() - since > 20)
        assert len(stack.sandbox.get("/faults").json()["fired"]) > down
        assert stack.operation(operation)["phase"] == "running"
    finish(stack, operation)
    assert effects(stack, "outage") == undisturbed


def test_the_history_of_a_whole_creation_is_short_and_a_wait_costs_it_six_events(stack: LocalStack, pair: Pair) -> None:
    events = history(stack, "create-cluster/west").events
    assert len(events) < 470
    waits = [
        event.event_id
        for event in events
        if ".wait_for" in event.activity_task_scheduled_event_attributes.activity_type.name
    ]
    assert len(waits) >= 4
    for scheduled in waits:
        of_wait = {scheduled}
        for event in events:
            started = event.activity_task_started_event_attributes.scheduled_event_id == scheduled
            completed = event.activity_task_completed_event_attributes.scheduled_event_id == scheduled
            if started or completed:
                of_wait.add(event.event_id)
        # And the workflow task that takes the result in: scheduled, started, completed.
        assert len(of_wait) + 3 <= 6


def test_no_secret_is_in_histories_logs_or_answers(stack: LocalStack, pair: Pair) -> None:
    said = {name: stack.log(name) for name in ("worker", "gateway", "sandbox")}
    listed = stack.gateway.get("/operations", params={"page_size": 100}).json()["operations"]
    assert len(listed) >= 2
    for workflow in [each["id"] for each in listed] + [f"cluster/{each['cluster']}" for each in listed]:
        events = history(stack, workflow).events
        said[f"history {workflow}"] = "".join(e.SerializeToString().decode("utf-8", "replace") for e in events)
        assert len(said[f"history {workflow}"]) > 1000
    assert "vpc-" in said["history create-cluster/west"]  # Histories are searched as plain text.
    for tag in REGIONS:
        for path in (f"/operations/create-cluster/{tag}", f"/clusters/{tag}", f"/clusters/{tag}/operations"):
            said[path] = stack.gateway.get(path).text
    said["ledger"] = stack.sandbox.get("/ledger").text
    for secret in (credentials.SECRET_ACCESS_KEY, "k8s-aws-v1.", stack.token):
        assert len(secret) > 8
        assert not [where for where, text in said.items() if secret in text], secret[:12]
