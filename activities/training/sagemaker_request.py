"""From a specification to CreateTrainingJob: what is asked, what the job's role allows, and what a job keeps of it.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTrainingJob.html; SageMaker Developer Guide:
CreateTrainingJob API, execution role permissions; how SageMaker runs your training image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from activities.aws import partition, tag_list
from activities.errors import fail
from activities.experiments.policies import REPORTING
from activities.identity import policies
from activities.training.manifests import CHECKPOINT_VARIABLE, scripts_of
from activities.training.paths import Raw
from activities.training.sagemaker_storage import Storage
from activities.training.starter import SCRIPT, with_starter
from contracts.names import short_hash
from contracts.problem import ProblemCode
from contracts.recipes.launch import Launch
from contracts.sagemaker_parts import DEFAULT_RUN_HOURS, IMAGE, WRITABLE, SageMakerOptions
from contracts.training import TrainingSpec
from contracts.training_activities import SubmitTraining
from contracts.training_sagemaker import inputs_of

CHANNELS = "/opt/ml/input/data"
FILES = "instantstart"
"""The channel of the recipe's files."""
CHECKPOINTS = "/opt/ml/checkpoints"
"""SageMaker keeps it and its place in S3 alike, both ways. (managed spot training: checkpoints)"""
FAILURE = "/opt/ml/output/failure"
"""What is written there is FailureReason. (How SageMaker processes training output)"""
LOG_GROUPS = "/aws/sagemaker/TrainingJobs"
MARK = "instantstart-"
CHUNK = 2400
"""Characters of a hyperparameter: SageMaker takes 2,500."""
MOST_CHUNKS = 90
MOST_RETRIES = 30


@dataclass(frozen=True)
class RoleFor:
    """The role of jobs that read and write the same places."""

    purpose: str
    trust: policies.Document
    policy: policies.Document


@dataclass(frozen=True)
class Kept:
    """What a training job tells of itself."""

    cluster: str
    namespace: str
    name: str
    recipe: str
    operation: str
    run: str
    spec: str


def launch_for(request: SubmitTraining) -> Launch:
    """What the job is started with: the recipe's words, with its files where their channel is."""
    spec = request.spec
    launch = spec.launch(request.efa).at(f"{CHANNELS}/{FILES}")
    return with_starter(launch, links_of(spec), environment_of(request, launch))


def links_of(spec: TrainingSpec) -> dict[str, str]:
    """Every folder where the recipe looks for it, and where SageMaker has it."""
    links = {folder: f"{CHANNELS}/{channel}" for channel, folder in channels_of(spec).items()}
    if spec.checkpoint_path is not None:
        links[spec.checkpoint_path] = CHECKPOINTS
    return links


def channels_of(spec: TrainingSpec) -> dict[str, str]:
    return {f"input-{number}": folder for number, folder in enumerate(inputs_of(spec))}


def environment_of(request: SubmitTraining, launch: Launch) -> dict[str, str]:
    """As a pod of the run would have it; SageMaker's own variables have narrow limits, so that these travel in a
    file."""
    spec = request.spec
    plain = dict(launch.env)
    if spec.checkpoint_path is not None:
        plain[CHECKPOINT_VARIABLE] = spec.checkpoint_path
    return {**plain, **request.experiment_environment, **spec.env}


def files_of(request: SubmitTraining) -> dict[str, str]:
    launch = launch_for(request)
    return {**scripts_of(launch.scripts), **launch.files}


def job_request(
    request: SubmitTraining,
    name: str,
    role_arn: str,
    files: str,
    storage: Storage,
    tags: dict[str, str],
    told: dict[str, str],
) -> Raw:
    """The members of CreateTrainingJob. ``files``: where the recipe's files are; ``told``: what the job keeps."""
    spec = request.spec
    options = spec.sagemaker or SageMakerOptions()
    seconds = int((spec.deadline_hours or DEFAULT_RUN_HOURS) * 3600)
    wanted: Raw = {
        "TrainingJobName": name,
        "RoleArn": role_arn,
        "HyperParameters": told,
        "AlgorithmSpecification": {
            "TrainingImage": spec.image or spec.launch(request.efa).image,
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python3", f"{CHANNELS}/{FILES}/{SCRIPT}"],
        },
        "Environment": {"TERMINATION_LOG": FAILURE, "PYTHONUNBUFFERED": "1"},
        "InputDataConfig": [
            _channel(FILES, files, "File"),
            *(
                _channel(channel, storage.uri(spec, folder), "FastFile" if options.fast_file else "File")
                for channel, folder in channels_of(spec).items()
            ),
        ],
        "OutputDataConfig": {
            "S3OutputPath": f"s3://{storage.bucket}/training/{spec.namespace}/{spec.name}/output",
        },
        "ResourceConfig": {
            "InstanceType": spec.instance_type,
            "InstanceCount": spec.nodes,
            "VolumeSizeInGB": options.volume_gib,
            **({"KeepAlivePeriodInSeconds": options.keep_alive_minutes * 60} if options.keep_alive_minutes else {}),
        },
        "StoppingCondition": {"MaxRuntimeInSeconds": max(seconds, 1)},
        "EnableManagedSpotTraining": options.spot,
        "Tags": tag_list(tags),
    }
    if options.spot:
        waits = int(options.max_wait_hours * 3600) if options.max_wait_hours is not None else 2 * seconds
        wanted["StoppingCondition"]["MaxWaitTimeInSeconds"] = max(waits, seconds, 1)
    if spec.recovery.job_retries:
        wanted["RetryStrategy"] = {"MaximumRetryAttempts": min(spec.recovery.job_retries, MOST_RETRIES)}
    if spec.checkpoint_path is not None:
        wanted["CheckpointConfig"] = {"S3Uri": storage.uri(spec, spec.checkpoint_path), "LocalPath": CHECKPOINTS}
    return wanted


def _channel(name: str, uri: str, mode: str) -> Raw:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri, "S3DataDistributionType": "FullyReplicated"}
    return {"ChannelName": name, "InputMode": mode, "DataSource": {"S3DataSource": source}}


def role_for(request: SubmitTraining, storage: Storage, region: str) -> RoleFor:
    """A role that may do just what the job does: jobs that read from and write to the same buckets, with the same image
    and the same tracking server, share one."""
    arn = f"arn:{partition(region)}"
    readable = sorted({storage.bucket, *(place.bucket for place in storage.places.values())})
    writable = sorted(
        {f"{storage.bucket}/training"}
        | {f"{place.bucket}/{place.key(folder)}" for place in storage.places.values() for folder in WRITABLE}
    )
    spec = request.spec
    image = IMAGE.fullmatch(spec.image or spec.launch(request.efa).image or "")
    repository = f"{arn}:ecr:{image['region']}:{image['account']}:repository/{image['repository']}" if image else "*"
    statements: list[dict[str, Any]] = [
        _allow("ListFolders", ["s3:ListBucket"], [f"{arn}:s3:::{bucket}" for bucket in readable]),
        _allow("Read", ["s3:GetObject"], [f"{arn}:s3:::{bucket}/*" for bucket in readable]),
        _allow(
            "Write",
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"],
            [f"{arn}:s3:::{place}/*" for place in writable],
        ),
        _allow("Registry", ["ecr:GetAuthorizationToken"], ["*"]),
        _allow(
            "PullImage",
            ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            [repository],
        ),
        _allow(
            "Logs",
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [f"{arn}:logs:{region}:{storage.account}:log-group:{LOG_GROUPS}{more}" for more in ("", ":*")],
        ),
        {
            **_allow("Metrics", ["cloudwatch:PutMetricData"], ["*"]),
            "Condition": {"StringLike": {"cloudwatch:namespace": "/aws/sagemaker/*"}},
        },
    ]
    connected = request.experiment
    if connected is not None and connected.tracking_uri.startswith("arn:"):
        statements.append(_allow("Report", REPORTING, [connected.tracking_uri]))
    policy = {"Version": "2012-10-17", "Statement": statements}
    return RoleFor(
        purpose=f"training-{short_hash(policies.canonical(policy))}",
        trust=policies.trust("sagemaker.amazonaws.com"),
        policy=policy,
    )


def _allow(sid: str, actions: list[str], resources: list[str]) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}


def kept(request: SubmitTraining, operation: str) -> dict[str, str]:
    """What a job keeps of its making, as hyperparameters. Raises INVALID for a specification that is too long."""
    spec = request.spec
    document = spec.model_dump_json()
    chunks = [document[start : start + CHUNK] for start in range(0, len(document), CHUNK)]
    if len(chunks) > MOST_CHUNKS:
        detail = f"the specification has {len(document):,} characters, and SageMaker keeps {CHUNK * MOST_CHUNKS:,}"
        fail(
            ProblemCode.INVALID,
            detail,
            "Put the recipe's files onto shared storage and name their path.",
            field="/recipe",
        )
    return {
        f"{MARK}cluster": request.scope.cluster,
        f"{MARK}namespace": spec.namespace,
        f"{MARK}name": spec.name,
        f"{MARK}recipe": spec.recipe.kind,
        f"{MARK}operation": operation,
        f"{MARK}run": request.run,
        **{f"{MARK}spec-{number:02d}": chunk for number, chunk in enumerate(chunks)},
    }


def read_kept(found: Raw) -> Kept | None:
    """What a described job keeps; None for one that the platform has not made."""
    told: dict[str, str] = found.get("HyperParameters") or {}
    own = {key.removeprefix(MARK): value for key, value in told.items() if key.startswith(MARK)}
    try:
        return Kept(
            cluster=own["cluster"],
            namespace=own["namespace"],
            name=own["name"],
            recipe=own["recipe"],
            operation=own["operation"],
            run=own["run"],
            spec="".join(own[key] for key in sorted(own) if key.startswith("spec-")),
        )
    except KeyError:
        return None
