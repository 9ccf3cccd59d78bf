"""What others change in a cluster on the tour: found, restored and adopted."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

from contracts import endpoints
from contracts.drift import DriftReport
from tests.tour.traveller import Traveller


def drifted(traveller: Traveller, tag: str, region: str) -> None:
    """Somebody opens the bucket and turns node recovery off: the one is restored, the other adopted."""
    given = {"tag": tag}
    assert found(traveller, tag).differences == []
    record = traveller.call(endpoints.GET_CLUSTER, **given).record
    aws = _somebody(traveller, region)
    aws("s3").delete_public_access_block(Bucket=record.identity.bucket)
    aws("sagemaker").update_cluster(ClusterName=record.hyperpod.name, NodeRecovery="None")
    named = {each.path: each.id for each in found(traveller, tag).differences}
    assert set(named) == {"public_access", "node_recovery"}
    assert traveller.call(endpoints.GET_DRIFT, **given).report.total == 2
    traveller.do(endpoints.RESTORE_DRIFT, {"differences": [named["public_access"]]}, **given)
    traveller.do(endpoints.ADOPT_DRIFT, {"differences": [named["node_recovery"]]}, **given)
    assert found(traveller, tag).differences == []


def found(traveller: Traveller, tag: str) -> DriftReport:
    report: DriftReport = traveller.call(endpoints.CHECK_DRIFT, tag=tag).report
    return report


def _somebody(traveller: Traveller, region: str) -> Any:
    """Makes clients of AWS that are not the platform's."""
    environment = traveller.stack.environment("worker")

    def client(service: str) -> Any:
        return boto3.client(  # type: ignore[call-overload]
            service,
            region_name=region,
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            # Another key than the platform's, whose policies are in force.
            aws_access_key_id="SOMEBODYELSESOMEBODY",
            aws_secret_access_key="somebody/else/somebody/else/somebody/els",
            config=Config(user_agent="somebody"),
        )

    return client
