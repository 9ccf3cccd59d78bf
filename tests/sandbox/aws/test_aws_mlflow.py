"""Managed MLflow: the life of tracking servers and apps, who is let in, and answers like those of MLflow itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from aws_support import REGION, Api, code
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from mlflow_conversation import talk
from mlflow_support import Tracked

from sandbox import timings
from sandbox.run import Sandbox
from sandbox.state import State

ANSWERS = Path(__file__).with_name("mlflow_answers.json")
WORDING = {"RESOURCE_ALREADY_EXISTS", "BAD_REQUEST"}
"""Refusals whose message quotes MLflow's database."""
SETS = ("Valid keys are", "not one of", "Invalid clause(s)")
"""Messages that quote Python sets, or MLflow's parser."""
OTHER = "444455556666"


@pytest.fixture
def bucket(api: Api) -> str:
    api.client("s3").create_bucket(Bucket="artifacts", CreateBucketConfiguration={"LocationConstraint": REGION})
    return "artifacts"


@pytest.fixture
def server(api: Api, role: Callable[..., str], bucket: str) -> Tracked:
    """A tracking server that runs."""
    arn = api.client("sagemaker").create_mlflow_tracking_server(
        TrackingServerName="research",
        ArtifactStoreUri=f"s3://{bucket}/mlflow/x",
        RoleArn=role("mlflow", "sagemaker.amazonaws.com"),
        Tags=[{"Key": "team", "Value": "a"}],
    )["TrackingServerArn"]
    api.advance(timings.MLFLOW_CREATE + 1)
    return Tracked(api.url, arn)


def test_a_server_is_created_stopped_started_and_deleted(api: Api, role: Callable[..., str], bucket: str) -> None:
    sagemaker = api.client("sagemaker")
    made = {
        "TrackingServerName": "research",
        "ArtifactStoreUri": f"s3://{bucket}/x",
        "RoleArn": role("mlflow", "sagemaker.amazonaws.com"),
    }
    arn = sagemaker.create_mlflow_tracking_server(**made)["TrackingServerArn"]

    def status() -> tuple[str, str]:
        found = sagemaker.describe_mlflow_tracking_server(TrackingServerName="research")
        return found["TrackingServerStatus"], found["IsActive"]

    assert status() == ("Creating", "Inactive")
    with pytest.raises(ClientError) as refused:
        sagemaker.create_mlflow_tracking_server(**made)
    assert code(refused) == "ValidationException"
    api.advance(timings.MLFLOW_CREATE + 1)
    assert status() == ("Created", "Active")
    assert [
        each["TrackingServerArn"] for each in sagemaker.list_mlflow_tracking_servers()["TrackingServerSummaries"]
    ] == [arn]
    sagemaker.stop_mlflow_tracking_server(TrackingServerName="research")
    api.advance(timings.MLFLOW_STOP + 1)
    assert status() == ("Stopped", "Inactive")
    sagemaker.start_mlflow_tracking_server(TrackingServerName="research")
    api.advance(timings.MLFLOW_START + 1)
    assert status() == ("Started", "Active")
    sagemaker.delete_mlflow_tracking_server(TrackingServerName="research")
    assert status()[0] == "Deleting"
    api.advance(timings.MLFLOW_DELETE + 1)
    with pytest.raises(ClientError) as gone:
        status()
    assert code(gone) == "ResourceNotFound"


def test_a_role_that_cannot_be_taken_and_a_missing_bucket_are_refused(
    api: Api, role: Callable[..., str], bucket: str
) -> None:
    sagemaker, fitting = api.client("sagemaker"), role("mlflow", "sagemaker.amazonaws.com")
    for changed in (
        {"RoleArn": role("wrong", "ec2.amazonaws.com")},
        {"RoleArn": role("young", "sagemaker.amazonaws.com", wait=0)},
        {"ArtifactStoreUri": "s3://nowhere/x"},
    ):
        asked = {"TrackingServerName": "a", "ArtifactStoreUri": f"s3://{bucket}/x", "RoleArn": fitting, **changed}
        with pytest.raises(ClientError) as refused:
            sagemaker.create_mlflow_tracking_server(**asked)
        assert code(refused) == "ValidationException"


def test_servers_and_apps_carry_tags_that_the_tagging_api_finds(api: Api, server: Tracked, bucket: str) -> None:
    sagemaker = api.client("sagemaker")
    role_arn = sagemaker.describe_mlflow_tracking_server(TrackingServerName="research")["RoleArn"]
    app = sagemaker.create_mlflow_app(
        Name="shared",
        ArtifactStoreUri=f"s3://{bucket}/app",
        RoleArn=role_arn,
        Tags=[{"Key": "team", "Value": "b"}],
    )["Arn"]
    api.advance(timings.MLFLOW_APP_CREATE + 1)
    assert sagemaker.describe_mlflow_app(Arn=app)["Status"] == "Created"
    assert [each["Arn"] for each in sagemaker.list_mlflow_apps()["Summaries"]] == [app]
    sagemaker.add_tags(ResourceArn=server.arn, Tags=[{"Key": "more", "Value": "1"}])
    assert {"Key": "more", "Value": "1"} in sagemaker.list_tags(ResourceArn=server.arn)["Tags"]
    found = api.client("resourcegroupstaggingapi").get_resources(TagFilters=[{"Key": "team"}])
    assert {each["ResourceARN"] for each in found["ResourceTagMappingList"]} == {server.arn, app}
    sagemaker.delete_mlflow_app(Arn=app)
    api.advance(timings.MLFLOW_APP_DELETE + 1)
    assert sagemaker.list_mlflow_apps()["Summaries"] == []


def test_it_answers_as_mlflow_does(server: Tracked) -> None:
    expected: list[dict[str, Any]] = json.loads(ANSWERS.read_text())
    heard = talk(server.send)
    assert [each["ask"] for each in heard] == [each["ask"] for each in expected]
    for said, real in zip(heard, expected, strict=True):
        assert said["status"] == real["status"], said["ask"]
        told, known = said["answer"], real["answer"]
        assert told.get("error_code") == known.get("error_code") or not known, said["ask"]
        free = known.get("error_code") in WORDING or any(each in known.get("message", "") for each in SETS)
        if known and not free:
            assert json.loads(json.dumps(told).replace("s3://artifacts/", "s3://bucket/")) == known, said["ask"]


@pytest.mark.parametrize(
    ("keys", "service", "region", "changed"),
    [
        (Credentials("AKIAUNKNOWNUNKNOWN00", "x"), "sagemaker-mlflow", REGION, None),
        (None, "sagemaker", REGION, None),
        (None, "sagemaker-mlflow", "eu-west-1", None),
        (None, "sagemaker-mlflow", REGION, b'{"max_results": 6}'),
    ],
    ids=["unknown key", "other service", "other region", "changed on the way"],
)
def test_who_signs_wrongly_is_not_let_in(
    server: Tracked, keys: Credentials | None, service: str, region: str, changed: bytes | None
) -> None:
    asking = Tracked(server.url, server.arn, keys or server.keys, service, region)
    status, answer = asking.send("POST", "/api/2.0/mlflow/experiments/search", {"max_results": 5}, changed)
    assert (status, set(answer)) == (403, {"message"})


def test_a_role_may_do_what_its_policy_allows_on_the_server_that_it_names(
    api: Api, server: Tracked, role: Callable[..., str]
) -> None:
    arn = role("trainer", "pods.eks.amazonaws.com")
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sagemaker-mlflow:SearchExperiments", "Resource": server.arn}],
    }
    api.client("iam").put_role_policy(RoleName="trainer", PolicyName="p", PolicyDocument=json.dumps(policy))
    asking = Tracked(server.url, server.arn, taken(api, arn))
    assert asking.send("POST", "/api/2.0/mlflow/experiments/search", {"max_results": 5})[0] == 200
    status, answer = asking.send("POST", "/api/2.0/mlflow/experiments/create", {"name": "x"})
    assert status == 403
    assert "sagemaker-mlflow:CreateExperiment" in answer["message"]


def test_a_role_of_another_account_is_taken_only_by_whom_it_trusts_with_the_external_id(api: Api) -> None:
    away = f"arn:aws:iam::{OTHER}:role/"
    keys = taken(api, f"{away}OrganizationAccountAccessRole")
    iam = in_account(api, keys, "iam")
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
                "Action": "sts:AssumeRole",
                "Condition": {"StringEquals": {"sts:ExternalId": "agreed"}},
            }
        ],
    }
    iam.create_role(RoleName="writer", AssumeRolePolicyDocument=json.dumps(trust))
    assert taken(api, f"{away}writer", ExternalId="agreed").access_key
    for name, more in (("writer", {}), ("writer", {"ExternalId": "other"}), ("none", {})):
        with pytest.raises(ClientError) as refused:
            taken(api, away + name, **more)
        assert code(refused) == "AccessDenied"


def test_a_lost_request_has_no_effect_and_a_lost_answer_has_one(api: Api, server: Tracked) -> None:
    lost = {"api": "aws", "service": "sagemaker-mlflow", "operation": "CreateExperiment", "action": "drop", "times": 1}
    for phase, effects in (("before", 0), ("after", 1)):
        api.admin("POST", "faults", [{**lost, "phase": phase}])
        with pytest.raises((ConnectionError, RemoteDisconnected, URLError)):
            server.send("POST", "/api/2.0/mlflow/experiments/create", {"name": phase})
        assert len(api.effects("sagemaker-mlflow", "CreateExperiment")) == effects


def test_a_server_that_is_stopped_does_not_answer(api: Api, server: Tracked) -> None:
    api.client("sagemaker").stop_mlflow_tracking_server(TrackingServerName="research")
    status, answer = server.send("POST", "/api/2.0/mlflow/experiments/search", {"max_results": 5})
    assert status == 400
    assert "Stopping" in answer["message"]


def test_runs_are_there_again_after_a_restart(api: Api, server: Tracked, sandbox: Sandbox) -> None:
    experiment = server.ask("POST", "experiments/create", {"name": "kept"})["experiment_id"]
    dumped = sandbox.aws.mlflow.dump()
    api.admin("POST", "reset")
    assert sandbox.aws.mlflow.state.tracking == {}
    sandbox.aws.mlflow.load(dumped)
    assert sandbox.aws.mlflow.state.tracking[server.arn].experiments[experiment].name == "kept"
    assert isinstance(sandbox.state, State)


def taken(api: Api, arn: str, **more: str) -> Credentials:
    found = api.client("sts").assume_role(RoleArn=arn, RoleSessionName="test", **more)["Credentials"]
    return Credentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])


def in_account(api: Api, keys: Credentials, service: str) -> Any:
    import boto3

    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=api.url,
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        aws_session_token=keys.token,
    )
