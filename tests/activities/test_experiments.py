"""Tracking servers, the way of pods to them, their history, and copies, against the sandbox over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

from activities.experiments.copying import batches
from activities.experiments.tracking import Tracking
from activities.registry import Activities
from activities.teardown.features import TRACKING_SERVER
from contracts.cluster import ClusterRecord
from contracts.experiment_runs import (
    COMPARE_RUNS,
    LIST_EXPERIMENTS,
    READ_RUN,
    SEARCH_RUNS,
    CompareRuns,
    ListExperiments,
    ReadRun,
    SearchRuns,
)
from contracts.experiments import (
    ENSURE_EXPERIMENT_ACCESS,
    PREPARE_SYNC,
    REMOVE_EXPERIMENT_ACCESS,
    SYNC_EXPERIMENTS,
    TRY_CONNECTION,
    CarrySync,
    ConnectExperiments,
    DisconnectExperiments,
    ExperimentsSynced,
    RunFacts,
    SyncExperiments,
    SyncExperimentsSpec,
    TryConnection,
)
from contracts.identity import Identity
from contracts.names import ClusterNames, experiments_role_purpose, server_role_purpose
from contracts.network import Scope
from contracts.plans import MAKE_PLAN, Action, MakePlan, PlanDraft
from contracts.sealing import new_key, parse_key, unseal
from contracts.teardown import (
    DELETE_PART,
    SURVEY,
    WAIT_UNTIL_GONE,
    DeleteClusterSpec,
    Known,
    Part,
    Teardown,
    TeardownPart,
)
from contracts.tracking_servers import (
    DELETE_SERVER_ROLE,
    DELETE_TRACKING_SERVER,
    ENSURE_SERVER_ROLE,
    ENSURE_TRACKING_SERVER,
    LIST_TRACKING_SERVERS,
    OPEN_TRACKING_SERVER,
    READ_TRACKING_SERVER,
    WAIT_FOR_TRACKING_SERVER,
    WAIT_FOR_TRACKING_SERVER_GONE,
    DeleteTrackingServer,
    EnsureTrackingServer,
    ListTrackingServers,
    OpenTrackingServer,
    ReadTrackingServer,
    ServerState,
    TrackingServerRequest,
    TrackingServerSpec,
    WaitForTrackingServer,
    link_context,
)
from sandbox import credentials
from tests.activities.conftest import REGION, Runner, Sandbox, problem, settings
from tests.activities.world import World

OTHER = "444455556666"


@pytest.fixture(scope="module")
def own(sandbox: Sandbox, activities: Activities, tmp_path_factory: pytest.TempPathFactory) -> Activities:
    """Activities that reach the sandbox's MLflow, and have a seal key."""
    key = tmp_path_factory.mktemp("seal") / "key"
    key.write_text(new_key())
    return Activities(settings(mlflow_endpoint=sandbox.url, seal_key_file=key), activities.aws.session)


@pytest.fixture
def run(own: Activities, scope: Scope, quiet: Sandbox) -> Runner:
    return Runner(own, f"create-tracking-server/{scope.cluster}")


@pytest.fixture
def world(run: Runner, scope: Scope) -> World:
    return World(run, scope)


def wanted(world: World, name: str | None = None, **spec: Any) -> TrackingServerRequest:
    return TrackingServerRequest(
        scope=world.scope,
        spec=TrackingServerSpec(name=name or f"{world.scope.cluster}-mlflow", **spec),
        account=world.caller.account,
        bucket=world.bucket.name,
    )


def made(world: World, name: str | None = None) -> str:
    """The ARN of a tracking server that answers."""
    request = wanted(world, name)
    role = world.run(ENSURE_SERVER_ROLE, request)
    world.run(ENSURE_TRACKING_SERVER, EnsureTrackingServer(request=request, role_arn=role.arn), attempts=200)
    ready = world.run(WAIT_FOR_TRACKING_SERVER, WaitForTrackingServer(scope=world.scope, name=request.spec.name))
    return ready.arn


@pytest.fixture
def tracking(own: Activities, world: World) -> Iterator[Tracking]:
    with Tracking.of(own.aws, made(world)) as opened:
        yield opened


def test_a_server_is_made_once_with_a_role_for_exactly_its_artifacts(
    run: Runner, world: World, own: Activities, quiet: Sandbox
) -> None:
    request, mark = wanted(world), quiet.mark()
    role = run(ENSURE_SERVER_ROLE, request)
    quiet.lose_response("CreateMlflowTrackingServer")
    asked = EnsureTrackingServer(request=request, role_arn=role.arn)
    assert run(ENSURE_TRACKING_SERVER, asked, attempts=200).arn.endswith(request.spec.name)
    run(WAIT_FOR_TRACKING_SERVER, WaitForTrackingServer(scope=world.scope, name=request.spec.name))
    assert not run(ENSURE_SERVER_ROLE, request).changed
    assert not run(ENSURE_TRACKING_SERVER, asked).changed
    assert len(quiet.effects("CreateMlflowTrackingServer", since=mark)) == 1
    iam = own.aws.read.iam(REGION)
    name = ClusterNames(world.scope.cluster).role(server_role_purpose(request.spec.name), REGION)
    trust: Any = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    condition = trust["Statement"][0]["Condition"]
    assert condition["StringEquals"] == {"aws:SourceAccount": world.caller.account}
    assert condition["ArnLike"]["aws:SourceArn"].endswith(f"mlflow-tracking-server/{request.spec.name}")
    policy: Any = iam.get_role_policy(RoleName=name, PolicyName="instantstart")["PolicyDocument"]
    objects = next(each for each in policy["Statement"] if each["Sid"] == "Artifacts")
    assert objects["Resource"] == f"arn:aws:s3:::{world.bucket.name}/mlflow/{request.spec.name}/*"


def test_a_server_of_others_or_made_otherwise_is_not_taken_over(run: Runner, world: World, scope: Scope) -> None:
    made(world)
    request = wanted(world, size="Large")
    role = run(ENSURE_SERVER_ROLE, request)
    with pytest.raises(ApplicationError) as otherwise:
        run(ENSURE_TRACKING_SERVER, EnsureTrackingServer(request=request, role_arn=role.arn))
    assert problem(otherwise).code == "conflict"
    assert "Large" in problem(otherwise).detail
    others = request.model_copy(update={"scope": scope.model_copy(update={"cluster": "another"})})
    with pytest.raises(ApplicationError) as foreign:
        run(ENSURE_TRACKING_SERVER, EnsureTrackingServer(request=others, role_arn=role.arn))
    assert problem(foreign).code == "foreign"
    with pytest.raises(ApplicationError) as kept:
        run(DELETE_TRACKING_SERVER, DeleteTrackingServer(scope=others.scope, name=request.spec.name))
    assert problem(kept).code == "foreign"


def test_a_server_is_deleted_with_its_role_and_listed_until_then(run: Runner, world: World, own: Activities) -> None:
    arn = made(world)
    name = arn.rpartition("/")[2]
    found = run(LIST_TRACKING_SERVERS, ListTrackingServers(scope=world.scope))
    assert found.servers[0].arn == arn
    assert found.servers[0].cluster == world.scope.cluster
    assert found.servers[0].state is ServerState.READY
    gone = DeleteTrackingServer(scope=world.scope, name=name)
    assert run(DELETE_TRACKING_SERVER, gone).changed
    run(WAIT_FOR_TRACKING_SERVER_GONE, WaitForTrackingServer(scope=world.scope, name=name))
    assert run(DELETE_SERVER_ROLE, gone).changed
    assert not run(DELETE_TRACKING_SERVER, gone).changed
    assert not run(DELETE_SERVER_ROLE, gone).changed
    with pytest.raises(ApplicationError) as absent:
        run(READ_TRACKING_SERVER, ReadTrackingServer(scope=world.scope, server=name))
    assert problem(absent).code == "not_found"


def test_a_link_into_a_server_travels_sealed_for_this_cluster_and_server(
    run: Runner, world: World, own: Activities
) -> None:
    arn = made(world)
    link = run(OPEN_TRACKING_SERVER, OpenTrackingServer(scope=world.scope, server=arn))
    assert "https" not in link.model_dump_json()
    assert own.settings.seal_key_file is not None
    key = parse_key(own.settings.seal_key_file.read_bytes())
    assert unseal(key, link.sealed, link_context(world.scope.cluster, arn)).startswith("https://")


@pytest.fixture
def agent(world: World, own: Activities) -> str:
    """The cluster's name; pods get roles there."""
    name = world.control_plane.name
    own.aws.act.eks(REGION).create_addon(clusterName=name, addonName="eks-pod-identity-agent")
    return name


def connect(world: World, cluster: str, arn: str, **more: Any) -> ConnectExperiments:
    given = {"scope": world.scope, "eks_cluster": cluster, "namespace": "default", "tracking_server": arn}
    return ConnectExperiments.model_validate({**given, **more})


def test_pods_are_connected_to_exactly_the_servers_that_were_asked_for_and_to_no_others(
    run: Runner, world: World, own: Activities, agent: str, quiet: Sandbox
) -> None:
    first, second = made(world), made(world, f"{world.scope.cluster}-second")
    mark = quiet.mark()
    quiet.lose_response("CreatePodIdentityAssociation")
    there = run(ENSURE_EXPERIMENT_ACCESS, connect(world, agent, first.rpartition("/")[2]))
    assert (there.tracking_uri, there.service_account, there.region) == (first, "experiments", REGION)
    assert not run(ENSURE_EXPERIMENT_ACCESS, connect(world, agent, first)).changed
    assert run(ENSURE_EXPERIMENT_ACCESS, connect(world, agent, second)).changed
    assert len(quiet.effects("CreatePodIdentityAssociation", since=mark)) == 1
    iam = own.aws.read.iam(REGION)
    name = ClusterNames(world.scope.cluster).role(experiments_role_purpose("default", "experiments"), REGION)
    trust: Any = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
    assert trust["Statement"][0]["Condition"]["StringEquals"] == {
        "aws:SourceAccount": world.caller.account,
        "aws:RequestTag/eks-cluster-arn": world.control_plane.arn,
        "aws:RequestTag/kubernetes-namespace": "default",
        "aws:RequestTag/kubernetes-service-account": "experiments",
    }
    statements = [
        each
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]
        for each in dict[str, Any](iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"])["Statement"]
    ]
    reporting = [each for each in statements if each["Sid"] == "Report"]
    assert sorted(each["Resource"] for each in reporting) == sorted([first, second])
    assert all("*" not in action for each in reporting for action in each["Action"])
    assert not any("Delete" in action for each in reporting for action in each["Action"] if action[-3:] != "Tag")
    detail = run(READ_TRACKING_SERVER, ReadTrackingServer(scope=world.scope, eks_cluster=agent, server=first))
    assert [each.namespace for each in detail.connections] == ["default"]
    leave = DisconnectExperiments(
        scope=world.scope,
        eks_cluster=agent,
        namespace="default",
        service_account="experiments",
        tracking_server=first.rpartition("/")[2],
    )
    assert run(REMOVE_EXPERIMENT_ACCESS, leave).left == [second]
    everything = leave.model_copy(update={"tracking_server": None})
    assert run(REMOVE_EXPERIMENT_ACCESS, everything).changed
    assert not run(REMOVE_EXPERIMENT_ACCESS, everything).changed
    with own.kubernetes.connect(REGION, agent) as api:
        named = [each.metadata.name for each in client.CoreV1Api(api).list_namespaced_service_account("default").items]
    assert "experiments" not in named
    assert name not in [each["RoleName"] for each in iam.list_roles(PathPrefix="/instantstart/")["Roles"]]


def test_what_cannot_be_connected_is_refused_with_why(run: Runner, world: World, own: Activities) -> None:
    arn, cluster = made(world), world.control_plane.name
    with pytest.raises(ApplicationError) as without:
        run(ENSURE_EXPERIMENT_ACCESS, connect(world, cluster, arn))
    assert problem(without).code == "not_ready"
    own.aws.act.eks(REGION).create_addon(clusterName=cluster, addonName="eks-pod-identity-agent")
    for more, code, field in (
        ({"namespace": "nowhere"}, "not_found", "/namespace"),
        ({"tracking_server": "none"}, "not_found", "/tracking_server"),
        ({"service_account": "other"}, "conflict", "/service_account"),
    ):
        if "service_account" in more:
            body: Any = {"metadata": {"name": "other", "annotations": {"eks.amazonaws.com/role-arn": "arn:x"}}}
            with own.kubernetes.connect(REGION, cluster) as api:
                client.CoreV1Api(api).create_namespaced_service_account("default", body)
        with pytest.raises(ApplicationError) as refused:
            run(ENSURE_EXPERIMENT_ACCESS, connect(world, cluster, arn, **more))
        assert (problem(refused).code, problem(refused).field) == (code, field)


def fill(tracking: Tracking, experiment: str, runs: int, points: int = 30) -> list[str]:
    """Runs with a falling loss, each with another learning rate."""
    identifier = tracking.post("experiments/create", name=experiment)["experiment_id"]
    facts = RunFacts(cluster="c", namespace="default", training="t", instance_type="ml.g5.8xlarge", nodes=2)
    made = []
    for number in range(runs):
        tags = [{"key": key, "value": value} for key, value in facts.tags.items()]
        run = tracking.post(
            "runs/create", experiment_id=identifier, start_time=1000 + number, run_name=f"run-{number}", tags=tags
        )["run"]["info"]["run_id"]
        losses: list[dict[str, Any]] = [
            {"key": "loss", "value": 10.0 / (step + 1 + number), "timestamp": 2000 + step, "step": step}
            for step in range(points)
        ]
        odd = {"key": "odd", "value": "NaN", "timestamp": 2000, "step": 0}
        params = [{"key": "lr", "value": f"0.{number + 1}"}, {"key": "model", "value": "qwen"}]
        for batch in batches([*losses, odd], 1000):
            tracking.post("runs/log-batch", run_id=run, metrics=batch)
        tracking.post("runs/log-batch", run_id=run, params=params)
        tracking.post("runs/update", run_id=run, status="FINISHED", end_time=9000)
        made.append(run)
    return made


def test_history_is_paged_and_filtered_and_runs_are_compared(run: Runner, world: World, tracking: Tracking) -> None:
    runs = fill(tracking, "first", 5, points=700)
    base = {"scope": world.scope, "tracking_server": tracking.arn}
    listed = run(LIST_EXPERIMENTS, ListExperiments(**base))
    assert {each.name for each in listed.experiments} == {"Default", "first"}
    page = run(SEARCH_RUNS, SearchRuns(**base, experiments=["first"], size=3))
    assert [each.run_id for each in page.runs] == runs[:1:-1]
    assert page.position is not None
    rest = run(SEARCH_RUNS, SearchRuns(**base, experiments=["first"], size=3, position=page.position))
    assert [each.run_id for each in rest.runs] == runs[1::-1]
    assert rest.position is None
    assert (page.runs[0].nodes, page.runs[0].instance_type, page.runs[0].experiment) == (2, "ml.g5.8xlarge", "first")
    assert page.runs[0].metrics["odd"] == "NaN"
    low = run(SEARCH_RUNS, SearchRuns(**base, filter="params.lr = '0.2'"))
    assert [each.run_id for each in low.runs] == [runs[1]]
    detail = run(READ_RUN, ReadRun(**base, run_id=runs[0], points=50))
    loss = next(each for each in detail.histories if each.metric == "loss")
    assert (len(loss.points), loss.recorded, loss.points[0].step, loss.points[-1].step) == (50, 700, 0, 699)
    assert loss.highest == 10.0
    compared = run(COMPARE_RUNS, CompareRuns(**base, run_ids=runs[:2], metrics=["loss"], points=10))
    assert compared.metrics[0].sampled
    assert len(compared.metrics[0].steps) == 10
    assert set(compared.metrics[0].values) == set(runs[:2])
    assert compared.differing == {"lr": ["0.1", "0.2"]}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"filter": "params.lr = 0.1"}, "invalid"),
        ({"experiments": ["none"]}, "not_found"),
        ({"order_by": ["loss sideways"]}, "invalid"),
    ],
)
def test_a_wrong_question_is_refused_in_words(
    run: Runner, world: World, tracking: Tracking, more: Any, code: str
) -> None:
    with pytest.raises(ApplicationError) as refused:
        run(SEARCH_RUNS, SearchRuns(scope=world.scope, tracking_server=tracking.arn, **more))
    assert problem(refused).code == code
    assert not problem(refused).retryable


def test_the_trial_of_a_connection_says_which_step_fails(
    run: Runner, world: World, own: Activities, tracking: Tracking, quiet: Sandbox, agent: str
) -> None:
    asked = TryConnection(scope=world.scope, eks_cluster=agent, tracking_server=tracking.arn, namespace="default")

    def failed() -> list[str]:
        return [each.name for each in run(TRY_CONNECTION, asked).steps if not each.passed]

    assert failed() == ["identity"]
    run(ENSURE_EXPERIMENT_ACCESS, connect(world, agent, tracking.arn))
    assert failed() == []
    assert run(TRY_CONNECTION, asked).passed
    refusing = {"service": "sagemaker-mlflow", "operation": "SearchExperiments", "status": 403, "code": ""}
    quiet.fault({**refusing, "message": "The request signature we calculated does not match"})
    assert failed() == ["signature"]
    quiet.fault({**refusing, "message": "User is not authorized to perform: sagemaker-mlflow:SearchExperiments"})
    assert failed() == ["permission"]
    quiet.fault({**refusing, "action": "drop"})
    assert failed() == ["http"]
    quiet.fault()
    own.aws.act.sagemaker(REGION).stop_mlflow_tracking_server(TrackingServerName=tracking.arn.rpartition("/")[2])
    assert failed() == ["status"]
    nothing = run(TRY_CONNECTION, asked.model_copy(update={"tracking_server": "none", "namespace": None}))
    assert [each.name for each in nothing.steps] == ["server"]
    assert not nothing.passed


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


def planned(run: Runner, world: World, kind: str, spec: dict[str, Any]) -> PlanDraft:
    now = datetime.now(UTC)
    identity = Identity(
        account=world.caller.account,
        platform_principal_arn=world.caller.principal_arn,
        cluster_role_arn=world.cluster_role.arn,
        bucket=world.bucket.name,
    )
    record = ClusterRecord(
        tag=world.scope.cluster,
        region=REGION,
        created_by="tests",
        created_at=now,
        updated_at=now,
        identity=identity,
        control_plane=world.control_plane,
    )
    return run(MAKE_PLAN, MakePlan(kind=kind, record=record, spec=spec)).draft


def test_plans_say_what_would_be_made_and_what_stands_in_the_way(
    run: Runner, world: World, own: Activities, tracking: Tracking, agent: str
) -> None:
    name = tracking.arn.rpartition("/")[2]
    fill(tracking, "first", 2)
    new = planned(run, world, "create-tracking-server", {"name": f"{name}-more"})
    assert [each.action for each in new.changes] == [Action.CREATE, Action.CREATE]
    same = planned(run, world, "create-tracking-server", {"name": name})
    assert [each.action for each in same.changes] == [Action.NOTHING]
    other = planned(run, world, "create-tracking-server", {"name": name, "size": "Large"})
    assert [(each.field, each.code) for each in other.blockers] == [("/name", "conflict")]
    connected = planned(run, world, "connect-experiments", {"tracking_server": name})
    assert connected.blockers == []
    assert [each.action for each in connected.changes] == [Action.CREATE, Action.CREATE]
    nowhere = planned(run, world, "connect-experiments", {"tracking_server": "none", "namespace": "nowhere"})
    assert {each.field for each in nowhere.blockers} == {"/tracking_server", "/namespace"}
    unconnected = planned(run, world, "disconnect-experiments", {})
    assert [each.code for each in unconnected.blockers] == ["not_found"]
    run(ENSURE_EXPERIMENT_ACCESS, connect(world, agent, tracking.arn))
    leaving = planned(run, world, "disconnect-experiments", {})
    assert "service account" in [each.kind for each in leaving.changes]
    going = planned(run, world, "delete-tracking-server", {"name": name})
    assert any("default/experiments" in each for each in going.warnings)
    away = made(world, f"{name}-away")
    copied = planned(run, world, "sync-experiments", {"source": name, "experiment": "first", "destination": away})
    assert copied.blockers == []
    assert copied.changes[-1].detail == "2 runs of first"
    missing = planned(run, world, "sync-experiments", {"source": name, "experiment": "none", "destination": away})
    assert [each.field for each in missing.blockers] == ["/experiment"]


def test_a_cluster_that_is_deleted_takes_its_servers_with_it_unless_they_are_to_stay(
    run: Runner, world: World, own: Activities
) -> None:
    gone, kept = made(world).rpartition("/")[2], made(world, f"{world.scope.cluster}-kept").rpartition("/")[2]
    spec = DeleteClusterSpec(keep=[kept])
    asked = Teardown(scope=world.scope, known=Known(), spec=spec)
    found = run(SURVEY, asked)
    assert (TRACKING_SERVER, gone) in [(each.kind, each.id) for each in found.resources]
    assert kept not in [each.id for each in found.resources]
    assert any(gone in each and "runs" in each for each in found.warnings)
    part = TeardownPart(**dict(asked), part=Part.FEATURES)
    run(DELETE_PART, part)
    run(WAIT_UNTIL_GONE, part)
    left = [each.name for each in run(LIST_TRACKING_SERVERS, ListTrackingServers(scope=world.scope)).servers]
    assert kept in left
    assert gone not in left
