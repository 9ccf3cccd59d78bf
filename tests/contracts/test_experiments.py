"""Where runs report to: what a target must be, and what its containers are told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contracts.catalogue import KINDS
from contracts.experiments import (
    ConnectExperimentsSpec,
    ExperimentTarget,
    RunFacts,
    SyncExperimentsSpec,
)
from contracts.names import IAM_ROLE, ClusterNames, experiments_role_purpose, server_role_purpose
from contracts.problem import field_errors
from contracts.tracking_servers import ServerState, TrackingServerSpec, state_of

ARN = "arn:aws:sagemaker:us-west-2:444455556666:mlflow-tracking-server/shared"
APP = "arn:aws:sagemaker:us-west-2:444455556666:mlflow-app/app-ABC123"
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


def faults(model: Any, given: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(given)
    return [each.field for each in field_errors(refused.value, model=model)]


@pytest.mark.parametrize("server", ["research", ARN, APP])
def test_a_run_reports_to_a_server_by_name_or_arn(server: str) -> None:
    assert ExperimentTarget(tracking_server=server, experiment="qwen").tracking_server == server


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"tracking_server": None}, "/tracking_server"),
        ({"tracking_uri": "http://mlflow:5000"}, "/tracking_server"),
        ({"tracking_server": "a_b"}, "/tracking_server"),
        ({"tracking_server": "arn:aws:s3:::bucket"}, "/tracking_server"),
        ({"experiment": ""}, "/experiment"),
        ({"experiment": " x"}, "/experiment"),
        ({"experiment": "a\nb"}, "/experiment"),
        ({"tags": {"mlflow.user": "x"}}, "/tags"),
        ({"tags": {"a": "x" * 2000}}, "/tags"),
        ({"tags": {"api_token": "abcdefgh"}}, "/tags/api_token"),
        ({"tracking_server": None, "tracking_uri": "http://user:pass@mlflow:5000"}, "/tracking_uri"),
        ({"tracking_server": None, "tracking_uri": "http://mlflow:5000?token=x"}, "/tracking_uri"),
        ({"tracking_server": None, "tracking_uri": "file:///tmp"}, "/tracking_uri"),
    ],
)
def test_a_wrong_target_is_refused_at_its_field(changed: dict[str, Any], field: str) -> None:
    assert faults(ExperimentTarget, {"tracking_server": "research", "experiment": "qwen", **changed}) == [field]


def test_containers_are_told_where_to_report_and_what_the_run_is() -> None:
    target = ExperimentTarget(tracking_server=ARN, experiment="qwen", run_name="first", tags={"team": "a"})
    facts = RunFacts(cluster="demo", namespace="default", training="sft", nodes=2, gpus_per_node=8)
    found = target.environment(ARN, facts.tags)
    assert (found["MLFLOW_TRACKING_URI"], found["MLFLOW_EXPERIMENT_NAME"]) == (ARN, "qwen")
    assert found["MLFLOW_RUN_NAME"] == "first"
    told = json.loads(found["MLFLOW_RUN_CONTEXT"])
    assert told == json.loads(found["MLFLOW_TAGS"])
    assert told["instantstart.nodes"] == "2"
    assert told["team"] == "a"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"source": ARN}, "/destination"),
        ({"destination": "shared"}, "/destination"),
        ({"external_id": "agreed"}, "/external_id"),
        ({"role_arn": "arn:aws:iam::1:role/x"}, "/role_arn"),
    ],
)
def test_a_copy_that_cannot_be_is_refused_at_its_field(changed: dict[str, Any], field: str) -> None:
    spec = {"source": "research", "experiment": "qwen", "destination": ARN, **changed}
    assert faults(SyncExperimentsSpec, spec) == [field]


def test_a_copy_into_an_experiment_of_another_name_may_stay_on_its_server() -> None:
    spec = SyncExperimentsSpec(source=ARN, experiment="a", destination=ARN, destination_experiment="b")
    assert spec.target.startswith("a-")


def test_a_copy_asks_a_person_and_its_ends_are_not_corrected_by_agents() -> None:
    kind = KINDS["sync-experiments"]
    spec = SyncExperimentsSpec(source="research", experiment="a", destination=ARN)
    assert kind.asks_a_person(spec)
    assert not kind.may_be_corrected({"role_arn": "x"})


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": "a--"}, "/name"),
        ({"name": "x" * 257}, "/name"),
        ({"mlflow_version": "latest"}, "/mlflow_version"),
        ({"maintenance_window": "Someday:03:30"}, "/maintenance_window"),
        ({"size": "Tiny"}, "/size"),
    ],
)
def test_a_wrong_server_is_refused_at_its_field(changed: dict[str, Any], field: str) -> None:
    assert faults(TrackingServerSpec, {"name": "research", **changed}) == [field]


def test_every_status_of_sagemaker_comes_to_a_state_and_unknown_stays_unknown() -> None:
    assert state_of("MaintenanceComplete") is ServerState.READY
    assert state_of("Stopped") is ServerState.STOPPED
    assert state_of("SomethingNew") is ServerState.UNKNOWN


@given(tag=NAMES, namespace=NAMES, account=NAMES)
def test_roles_fit_iam_and_differ_where_namespace_or_account_do(tag: str, namespace: str, account: str) -> None:
    names = ClusterNames(tag)
    role = names.role(experiments_role_purpose(namespace, account), "ap-northeast-1")
    assert IAM_ROLE.violation(role) is None
    assert IAM_ROLE.violation(names.role(server_role_purpose(namespace * 4), "ap-northeast-1")) is None
    other = names.role(experiments_role_purpose(f"{namespace}-{account}", "x"), "ap-northeast-1")
    assert role != other


def test_the_usual_service_account_is_left_out_of_an_operations_name() -> None:
    assert ConnectExperimentsSpec(tracking_server="research", namespace="team").target == "team"
    named = ConnectExperimentsSpec(tracking_server="research", namespace="team", service_account="trainer")
    assert named.target == "team/trainer"
