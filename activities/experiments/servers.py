"""Finding tracking servers and apps, and how they stand.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeMlflowTrackingServer.html
"""

from __future__ import annotations

from typing import Any, NoReturn

from activities.aws import AwsClients, pages, tag_map
from activities.errors import fail, is_absent
from contracts.names import TAG_CLUSTER
from contracts.problem import ProblemCode
from contracts.tracking_servers import ServerKind, ServerState, TrackingServerView, state_of

ABSENT = ("ResourceNotFound", "ResourceNotFoundException")
SERVER, APP = "mlflow-tracking-server", "mlflow-app"


def kind_of(arn: str) -> ServerKind:
    return ServerKind.APP if f":{APP}/" in arn else ServerKind.TRACKING_SERVER


def describe_server(aws: AwsClients, region: str, name: str) -> Any | None:
    """A tracking server as SageMaker describes it; None if there is none."""
    try:
        return aws.read.sagemaker(region).describe_mlflow_tracking_server(TrackingServerName=name)
    except Exception as error:
        if is_absent(error, *ABSENT):
            return None
        raise


def find(aws: AwsClients, region: str, reference: str) -> TrackingServerView:
    """The server or app that ``reference`` names: a name in ``region``, or an ARN, whose own region counts.

    Raises NOT_FOUND. An ARN of another account is believed: nothing there may be described.
    """
    if reference.startswith("arn:"):
        return _by_arn(aws, reference)
    if (found := describe_server(aws, region, reference)) is not None:
        return server_view(found, _tags(aws, region, found["TrackingServerArn"]))
    named = [each for each in _apps(aws, region) if each["Name"] == reference]
    if len(named) > 1:
        detail = f"{len(named)} MLflow apps in {region} are called {reference}"
        fail(ProblemCode.CONFLICT, detail, f"Name it by its ARN: {', '.join(each['Arn'] for each in named)}.")
    if named:
        return _app_view(aws, region, named[0]["Arn"])
    _missing(reference, region)


def arn_of(aws: AwsClients, region: str, reference: str) -> str:
    """The same, its ARN only; an ARN is taken as it is. Raises NOT_FOUND."""
    return reference if reference.startswith("arn:") else find(aws, region, reference).arn


def _by_arn(aws: AwsClients, arn: str) -> TrackingServerView:
    region, account, name = arn.split(":")[3], arn.split(":")[4], arn.rpartition("/")[2]
    if account != aws.read.sts(region).get_caller_identity()["Account"]:
        return TrackingServerView(
            name=name,
            arn=arn,
            kind=kind_of(arn),
            state=ServerState.UNKNOWN,
            status="Unknown",
            detail=f"it is account {account}'s, which is not asked",
        )
    if kind_of(arn) is ServerKind.APP:
        return _app_view(aws, region, arn)
    found = describe_server(aws, region, name)
    if found is None:
        _missing(name, region)
    return server_view(found, _tags(aws, region, arn))


def _missing(name: str, region: str) -> NoReturn:
    fail(
        ProblemCode.NOT_FOUND,
        f"there is no tracking server or MLflow app {name} in {region}",
        "List the tracking servers, or create one (create-tracking-server).",
        field="/tracking_server",
    )


def server_view(found: Any, tags: dict[str, str] | None = None) -> TrackingServerView:
    """``found``: an answer of DescribeMlflowTrackingServer, or an item of its list."""
    status = found["TrackingServerStatus"]
    return TrackingServerView(
        name=found["TrackingServerName"],
        arn=found["TrackingServerArn"],
        kind=ServerKind.TRACKING_SERVER,
        state=state_of(status),
        status=status,
        cluster=(tags or {}).get(TAG_CLUSTER),
        size=found.get("TrackingServerSize"),
        mlflow_version=found.get("MlflowVersion"),
        artifacts=found.get("ArtifactStoreUri"),
        role_arn=found.get("RoleArn"),
        url=found.get("TrackingServerUrl"),
        created_at=found.get("CreationTime"),
    )


def app_view(found: Any, tags: dict[str, str] | None = None) -> TrackingServerView:
    return TrackingServerView(
        name=found["Name"],
        arn=found["Arn"],
        kind=ServerKind.APP,
        state=state_of(found["Status"]),
        status=found["Status"],
        cluster=(tags or {}).get(TAG_CLUSTER),
        mlflow_version=found.get("MlflowVersion"),
        artifacts=found.get("ArtifactStoreUri"),
        role_arn=found.get("RoleArn"),
        created_at=found.get("CreationTime"),
    )


def _app_view(aws: AwsClients, region: str, arn: str) -> TrackingServerView:
    try:
        return app_view(aws.read.sagemaker(region).describe_mlflow_app(Arn=arn), _tags(aws, region, arn))
    except Exception as error:
        if is_absent(error, *ABSENT):
            _missing(arn, region)
        raise


def listed(aws: AwsClients, region: str) -> list[TrackingServerView]:
    """All tracking servers of the account in a region, each with whose it is."""
    sagemaker = aws.read.sagemaker(region)
    found = pages(sagemaker, "list_mlflow_tracking_servers", "TrackingServerSummaries")
    return [server_view(each, _tags(aws, region, each["TrackingServerArn"])) for each in found]


def listed_apps(aws: AwsClients, region: str) -> list[TrackingServerView]:
    return [app_view(each) for each in _apps(aws, region)]


def _apps(aws: AwsClients, region: str) -> list[Any]:
    return list(pages(aws.read.sagemaker(region), "list_mlflow_apps", "Summaries"))


def _tags(aws: AwsClients, region: str, arn: str) -> dict[str, str]:
    """None where it has gone since."""
    try:
        return tag_map(list(pages(aws.read.sagemaker(region), "list_tags", "Tags", ResourceArn=arn)))
    except Exception as error:
        if is_absent(error, *ABSENT):
            return {}
        raise
