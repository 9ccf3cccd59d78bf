"""Training jobs of SageMaker on the clock: their states, their log, their model, and how they fail and are stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_support import Api, code
from botocore.exceptions import ClientError

IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312"
Roles = Callable[..., str]


def wish(api: Api, role: Roles, name: str = "tune", **more: Any) -> dict[str, Any]:
    """A job of a hundred steps, with the role and the bucket that it needs."""
    s3 = api.client("s3")
    if "models" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        role("training", "sagemaker.amazonaws.com")
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {
            "TrainingImage": IMAGE,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["torchrun", "train.py"],
            "ContainerArguments": ["--max-steps", "100", "--save-steps", "25"],
        },
        "RoleArn": "arn:aws:iam::123456789012:role/training",
        "OutputDataConfig": {"S3OutputPath": "s3://models/out"},
        "ResourceConfig": {"InstanceType": "ml.g5.12xlarge", "InstanceCount": 2, "VolumeSizeInGB": 100},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "Tags": [{"Key": "team", "Value": "a"}],
        **more,
    }


def status(api: Api, name: str = "tune") -> tuple[str, str]:
    found = api.client("sagemaker").describe_training_job(TrainingJobName=name)
    return found["TrainingJobStatus"], found["SecondaryStatus"]


def log(api: Api, name: str = "tune") -> list[str]:
    logs = api.client("logs")
    streams = logs.describe_log_streams(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix=f"{name}/")
    stream = streams["logStreams"][0]["logStreamName"]
    events = logs.get_log_events(logGroupName="/aws/sagemaker/TrainingJobs", logStreamName=stream, startFromHead=True)
    return [event["message"] for event in events["events"]]


def test_a_job_goes_through_its_states_and_leaves_a_model_and_a_log(api: Api, role: Roles) -> None:
    sagemaker = api.client("sagemaker")
    arn = sagemaker.create_training_job(**wish(api, role))["TrainingJobArn"]
    assert status(api) == ("InProgress", "Starting")
    with pytest.raises(ClientError) as caught:
        sagemaker.create_training_job(**wish(api, role))
    assert code(caught) == "ResourceInUse"
    api.advance(100)
    assert status(api) == ("InProgress", "Downloading")
    api.advance(100)
    assert status(api) == ("InProgress", "Training")
    api.advance(400)
    found = sagemaker.describe_training_job(TrainingJobName="tune")
    assert (found["TrainingJobStatus"], found["SecondaryStatus"]) == ("Completed", "Completed")
    assert [t["Status"] for t in found["SecondaryStatusTransitions"]] == [
        *("Starting", "Downloading", "Training", "Uploading", "Completed"),
    ]
    assert 300 <= found["BillableTimeInSeconds"] <= 400
    key = found["ModelArtifacts"]["S3ModelArtifacts"].removeprefix("s3://models/")
    assert api.client("s3").head_object(Bucket="models", Key=key)["ContentLength"] > 0
    printed = log(api)
    assert any("Batch 100 Loss: " in line for line in printed)
    assert sum("Batch 50 Loss: " in line for line in printed) == 1
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "a"}]


def test_a_job_is_stopped_and_a_finished_one_is_not(api: Api, role: Roles) -> None:
    sagemaker = api.client("sagemaker")
    sagemaker.create_training_job(**wish(api, role))
    api.advance(200)
    sagemaker.stop_training_job(TrainingJobName="tune")
    assert status(api) == ("Stopping", "Stopping")
    api.advance(31)
    assert status(api) == ("Stopped", "Stopped")
    sagemaker.create_training_job(**wish(api, role, "quick"))
    api.advance(900)
    with pytest.raises(ClientError) as caught:
        sagemaker.stop_training_job(TrainingJobName="quick")
    assert code(caught) == "ValidationException"
    listed = sagemaker.list_training_jobs(StatusEquals="Stopped")["TrainingJobSummaries"]
    assert [job["TrainingJobName"] for job in listed] == ["tune"]


def test_jobs_fail_for_want_of_data_of_capacity_and_of_memory(api: Api, role: Roles) -> None:
    sagemaker = api.client("sagemaker")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://models/nothing"}}
    sagemaker.create_training_job(
        **wish(api, role, "blind", InputDataConfig=[{"ChannelName": "train", "DataSource": source}])
    )
    api.admin("PUT", "training-jobs", {"failing": {"large": "cuda_oom"}})
    sagemaker.create_training_job(**wish(api, role, "large"))
    api.advance(400)
    reasons = {
        name: sagemaker.describe_training_job(TrainingJobName=name)["FailureReason"] for name in ("blind", "large")
    }
    assert "s3://models/nothing" in reasons["blind"]
    assert "CUDA out of memory" in reasons["large"]
    api.admin("PUT", "capacity", {"*": {"ml.g5.12xlarge": 0}})
    sagemaker.create_training_job(**wish(api, role, "later"))
    api.advance(100)
    assert "InsufficientInstanceCapacity" in sagemaker.describe_training_job(TrainingJobName="later")["FailureReason"]


def test_a_job_that_takes_too_long_is_stopped(api: Api, role: Roles) -> None:
    api.client("sagemaker").create_training_job(**wish(api, role, StoppingCondition={"MaxRuntimeInSeconds": 60}))
    api.advance(300)
    assert status(api) == ("Stopped", "MaxRuntimeExceeded")


def test_what_cannot_be_trained_is_refused(api: Api, role: Roles) -> None:
    sagemaker = api.client("sagemaker")
    for change in (
        {"RoleArn": "arn:aws:iam::123456789012:role/nobody"},
        {"OutputDataConfig": {"S3OutputPath": "s3://nowhere/out"}},
        {"AlgorithmSpecification": {"TrainingInputMode": "File"}},
    ):
        with pytest.raises(ClientError) as caught:
            sagemaker.create_training_job(**wish(api, role, **change))
        assert code(caught) == "ValidationException"
    with pytest.raises(ClientError) as caught:
        sagemaker.describe_training_job(TrainingJobName="tune")
    assert "Requested resource not found" in str(caught.value)
