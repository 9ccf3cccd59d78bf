"""SageMaker training jobs of the cluster's runs: those that go on are stopped. They end by themselves some day, and are
paid for until then; those that have ended cost nothing, and stay on SageMaker's list.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopTrainingJob.html
"""

from __future__ import annotations

from activities.aws import AwsClients, pages
from activities.errors import code_of
from activities.teardown.lookup import is_kept
from contracts.names import training_job_mark
from contracts.teardown import Part, Resource, Teardown

TRAINING_JOB = "SageMaker training job"
GOING = ("InProgress", "Stopping")


def going(aws: AwsClients, asked: Teardown) -> list[Resource]:
    """Jobs that were submitted for the cluster and have not ended."""
    sagemaker = aws.read.sagemaker(asked.scope.region)
    return [
        Resource(
            part=Part.FEATURES,
            kind=TRAINING_JOB,
            id=each["TrainingJobName"],
            name=each["TrainingJobName"],
            detail=each["TrainingJobStatus"],
        )
        for status in GOING
        for each in pages(
            sagemaker,
            "list_training_jobs",
            "TrainingJobSummaries",
            NameContains=training_job_mark(asked.scope.cluster),
            StatusEquals=status,
        )
        if not is_kept(asked, each["TrainingJobName"], each["TrainingJobArn"])
    ]


def stop(aws: AwsClients, asked: Teardown, resource: Resource) -> None:
    """Nothing for one that stops already, or has ended meanwhile (SageMaker says so by a ValidationException)."""
    if resource.detail != "InProgress":
        return
    try:
        aws.act.sagemaker(asked.scope.region).stop_training_job(TrainingJobName=resource.id)
    except Exception as error:
        if code_of(error) != "ValidationException" or any(each.id == resource.id for each in going(aws, asked)):
            raise
