"""Tracking servers, the way of pods to them, and their history, against the sandbox over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client
from temporalio.exceptions import ApplicationError

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
    REMOVE_EXPERIMENT_ACCESS,
    TRY_CONNECTION,
    ConnectExperiments,
    DisconnectExperiments,
    TryConnection,
)
from contracts.identity import Identity
from contracts.names import ClusterNames, experiments_role_purpose, server_role_purpose
from contracts.network import Scope
from contracts.plans import MAKE_PLAN, Action, MakePlan, PlanDraft
from contracts.sealing import parse_key, unseal
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
    WaitForTrackingServer,
    link_context,
)
from tests.activities.conftest import REGION, Runner, Sandbox, problem
from tests.activities.experiments.servers import fill, made, wanted
from tests.activities.world import World


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
