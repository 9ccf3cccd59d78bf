"""Names of the task queues.

AWS limits requests per account and region, so each region has a queue of its own with a server-side rate limit; a
deployment serves one account.
"""

from __future__ import annotations

from contracts.activity import Queue

REGIONS = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"),
    *("eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3"),
    *("ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2"),
)
"""Which regions a deployment serves if it does not say: gateway and workers must agree."""

WORKFLOWS = "instantstart-workflows"
ENTITIES = "instantstart-entities"
PLATFORM = "instantstart-platform"
WAIT = "instantstart-wait"
KUBERNETES = "instantstart-kubernetes"


SOMEBODY_WAITS = 1
"""Temporal's priority of what a person waits for, the highest of five: steps and activities of look-ups are taken
before those of operations (3), however many of these there are."""


def aws(region: str) -> str:
    """The queue of the activities that call AWS in ``region``."""
    return f"instantstart-aws-{region}"


def task_queue(queue: Queue, region: str) -> str:
    """The task queue on which an activity of ``queue`` runs for a cluster in ``region``."""
    match queue:
        case Queue.AWS:
            return aws(region)
        case Queue.WAIT:
            return WAIT
        case Queue.KUBERNETES:
            return KUBERNETES
        case Queue.PLATFORM:
            return PLATFORM
