"""Experiments are copied from server to server: whole, once, and again without a trace."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from temporalio.exceptions import ApplicationError

from activities.experiments.tracking import Tracking
from activities.registry import Activities
from contracts.experiments import (
    PREPARE_SYNC,
    SYNC_EXPERIMENTS,
    CarrySync,
    ExperimentsSynced,
    SyncExperiments,
    SyncExperimentsSpec,
)
from sandbox import credentials
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.experiments.servers import fill, made
from tests.activities.world import World

OTHER = "444455556666"


class Elsewhere:
    """A tracking server of another account, and the role by which the platform may write there."""

    def __init__(self, own: Activities, sandbox: Sandbox, name: str) -> None:
        sts: Any = own.aws.act.sts(REGION)
        away = f"arn:aws:iam::{OTHER}:role/"
        keys = sts.assume_role(RoleArn=f"{away}OrganizationAccountAccessRole", RoleSessionName="test")["Credentials"]

        def at(service: str) -> Any:
            return boto3.client(  # type: ignore[call-overload]
                service,
                region_name=REGION,
                endpoint_url=sandbox.url,
                aws_access_key_id=keys["AccessKeyId"],
                aws_secret_access_key=keys["SecretAccessKey"],
                aws_session_token=keys["SessionToken"],
            )

        trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "sagemaker.amazonaws.com"}}
        iam, bucket = at("iam"), f"{name}-away"
        server_role = iam.create_role(RoleName=f"{name}-server", AssumeRolePolicyDocument=_document(trust))["Role"]
        at("s3").create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        sandbox.call("POST", "clock", {"advance": 30})
        self.arn = at("sagemaker").create_mlflow_tracking_server(
            TrackingServerName=name, ArtifactStoreUri=f"s3://{bucket}/x", RoleArn=server_role["Arn"]
        )["TrackingServerArn"]
        writer = {
            "Effect": "Allow",
            "Action": "sts:AssumeRole",
            "Principal": {"AWS": f"arn:aws:iam::{credentials.ACCOUNT}:root"},
            "Condition": {"StringEquals": {"sts:ExternalId": "agreed"}},
        }
        self.role = iam.create_role(RoleName=f"{name}-writer", AssumeRolePolicyDocument=_document(writer))["Role"][
            "Arn"
        ]
        allowed = {"Effect": "Allow", "Action": "sagemaker-mlflow:*", "Resource": self.arn}
        iam.put_role_policy(RoleName=f"{name}-writer", PolicyName="p", PolicyDocument=_document(allowed))
        sandbox.call("POST", "clock", {"advance": 1600})


def _document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def synced(run: Runner, world: World, spec: SyncExperimentsSpec) -> ExperimentsSynced:
    prepared = run(PREPARE_SYNC, SyncExperiments(scope=world.scope, spec=spec))
    return run(SYNC_EXPERIMENTS, CarrySync(scope=world.scope, spec=spec, prepared=prepared))


def contents(tracking: Tracking, experiment: str) -> dict[str, Any]:
    """Every run by its name: status, parameters, and the whole histories of its metrics."""
    found = tracking.experiment_named(experiment)
    assert found is not None
    told: dict[str, Any] = {}
    for each in tracking.runs([found["experiment_id"]], max_results=100):
        info, data = each["info"], each["data"]
        histories = {
            metric["key"]: sorted(
                (point["step"], point["timestamp"], str(point["value"]))
                for point in tracking.history(info["run_id"], metric["key"])
            )
            for metric in data["metrics"]
        }
        assert info["run_name"] not in told
        parameters = {pair["key"]: pair["value"] for pair in data["params"]}
        told[info["run_name"]] = (info["status"], info["start_time"], info["end_time"], parameters, histories)
    return told


def test_an_experiment_is_copied_whole_into_another_account_and_a_second_time_changes_nothing(
    run: Runner, world: World, own: Activities, tracking: Tracking, quiet: Sandbox
) -> None:
    away = Elsewhere(own, quiet, f"{world.scope.cluster}-away")
    runs = fill(tracking, "first", 3, points=1500)
    spec = SyncExperimentsSpec(
        source=tracking.arn, experiment="first", destination=away.arn, role_arn=away.role, external_id="agreed"
    )
    done = synced(run, world, spec)
    assert (done.runs, done.created, done.metrics) == (3, 3, 3 * 1501)
    taken: Any = own.aws.act.sts(REGION).assume_role(RoleArn=away.role, RoleSessionName="look", ExternalId="agreed")[
        "Credentials"
    ]
    from botocore.credentials import Credentials

    keys = Credentials(taken["AccessKeyId"], taken["SecretAccessKey"], taken["SessionToken"])
    with Tracking.of(own.aws, away.arn, lambda: keys) as there:
        assert contents(there, "first") == contents(tracking, "first")
        mark = quiet.mark()
        again = synced(run, world, spec)
        assert (again.created, again.updated, again.unchanged, again.metrics) == (0, 0, 3, 0)
        assert quiet.effects(service="sagemaker-mlflow", since=mark) == []
        tracking.post("runs/log-metric", run_id=runs[0], key="loss", value=0.5, timestamp=7000, step=5000)
        more = synced(run, world, spec)
        assert (more.updated, more.unchanged, more.metrics) == (1, 2, 1)
        assert contents(there, "first") == contents(tracking, "first")


def test_between_servers_that_are_copied_both_ways_no_run_is_there_twice(
    run: Runner, world: World, tracking: Tracking
) -> None:
    other = made(world, f"{world.scope.cluster}-other")
    fill(tracking, "both", 2)
    there = synced(run, world, SyncExperimentsSpec(source=tracking.arn, experiment="both", destination=other))
    back = synced(run, world, SyncExperimentsSpec(source=other, experiment="both", destination=tracking.arn))
    assert (there.created, back.runs, back.created) == (2, 0, 0)
    assert len(contents(tracking, "both")) == 2


POINT: dict[str, Any] = {
    "metrics": [{"key": "loss", "value": 0.5, "timestamp": 1, "step": 1}],
    "params": [{"key": "rate", "value": "1"}],
}


def test_over_three_servers_in_a_ring_and_past_one_of_them_no_run_is_there_twice(
    run: Runner, world: World, own: Activities, tracking: Tracking
) -> None:
    second, third = (made(world, f"{world.scope.cluster}-{name}") for name in ("second", "third"))
    parent, *_ = fill(tracking, "ring", 2)
    child = tracking.post("runs/create", experiment_id=_id_of(tracking, "ring"), start_time=10**13, run_name="child")
    child_id = child["run"]["info"]["run_id"]
    tracking.post("runs/set-tag", run_id=child_id, key="mlflow.parentRunId", value=parent)
    tracking.post("runs/log-batch", run_id=child_id, **POINT)
    tracking.post("runs/update", run_id=child_id, status="FINISHED", end_time=10**13 + 9)

    def carried(source: str, destination: str) -> ExperimentsSynced:
        return synced(run, world, SyncExperimentsSpec(source=source, experiment="ring", destination=destination))

    assert carried(tracking.arn, second).created == 3
    assert carried(second, third).created == 3
    past = carried(tracking.arn, third)
    assert (past.created, past.unchanged) == (0, 3)
    assert carried(third, tracking.arn).runs == 0
    assert carried(third, second).created == 0
    with Tracking.of(own.aws, third) as there:
        assert contents(there, "ring") == contents(tracking, "ring")
        runs = {each["info"]["run_name"]: each for each in there.runs([_id_of(there, "ring")], max_results=10)}
        held = {each["key"]: each["value"] for each in runs["child"]["data"]["tags"]}
        assert held["mlflow.parentRunId"] in {each["info"]["run_id"] for each in runs.values()}


def _id_of(tracking: Tracking, experiment: str) -> str:
    found = tracking.experiment_named(experiment)
    assert found is not None
    return str(found["experiment_id"])


@pytest.mark.parametrize("skip", [0, 1, 2, 4, 7])
@pytest.mark.parametrize("phase", ["before", "after"])
def test_a_copy_that_is_cut_short_anywhere_doubles_nothing(
    run: Runner, world: World, own: Activities, tracking: Tracking, quiet: Sandbox, phase: str, skip: int
) -> None:
    fill(tracking, "first", 2, points=1200)
    away = made(world, f"{world.scope.cluster}-copy")
    spec = SyncExperimentsSpec(source=tracking.arn, experiment="first", destination=away)
    prepared = run(PREPARE_SYNC, SyncExperiments(scope=world.scope, spec=spec))
    writes = "CreateRun|LogBatch|UpdateRun|SetTag"
    lost = {"service": "sagemaker-mlflow", "operation": writes, "phase": phase, "skip": skip}
    quiet.fault({**lost, "status": 403, "code": "", "message": "not you"})
    request = CarrySync(scope=world.scope, spec=spec, prepared=prepared)
    with pytest.raises(ApplicationError):
        run.once(SYNC_EXPERIMENTS, request)
    quiet.fault()
    run(SYNC_EXPERIMENTS, request)
    with Tracking.of(own.aws, away) as there:
        assert contents(there, "first") == contents(tracking, "first")


def test_a_role_that_asks_for_another_external_id_is_said(
    run: Runner, world: World, own: Activities, tracking: Tracking, quiet: Sandbox
) -> None:
    away = Elsewhere(own, quiet, f"{world.scope.cluster}-away")
    fill(tracking, "first", 1)
    spec = SyncExperimentsSpec(
        source=tracking.arn, experiment="first", destination=away.arn, role_arn=away.role, external_id="wrong"
    )
    with pytest.raises(ApplicationError) as refused:
        run(PREPARE_SYNC, SyncExperiments(scope=world.scope, spec=spec))
    assert (problem(refused).code, problem(refused).field) == ("denied", "/role_arn")
