"""What a managed endpoint is made of: where its model is, what serves it, and how it is scaled, routed and secured.

Limits and patterns are those of the custom resources. (InferenceEndpointConfig and JumpStartModel of
inference.sagemaker.aws.amazon.com/v1, github.com/aws/sagemaker-hyperpod-cli, chart inference-operator 2.2.2)
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from contracts.command_facts import LintFacts, Subject
from contracts.command_flags import FLAGS_OF, image_engine
from contracts.command_lint import gpus_used, secrets_in
from contracts.commands import Command, of_words, options_of
from contracts.model import Model, fault
from contracts.objects import ObjectName
from contracts.secret_values import plain_environment

BUCKET = r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$"
MODEL_PATH = "/opt/ml/model"
"""Where the operator mounts a model unless told otherwise."""
WORKSPACE = r"^ws-[a-zA-Z0-9-]+$"


class S3Source(Model):
    """A model in an S3 bucket, mounted by the S3 CSI driver."""

    type: Literal["s3"] = "s3"
    bucket: str = Field(pattern=BUCKET, examples=["sagemaker-demo-123456789012-us-west-2"])
    location: str = Field("", max_length=1024, pattern=r"^([^/].*)?$", examples=["models/Qwen-Qwen3-0.6B"])
    """Key prefix of the model's folder."""
    region: str | None = Field(None, pattern=r"^[a-z]{2}(-[a-z]+)+-\d$", examples=["us-west-2"])
    """Of the bucket; null: the cluster's."""
    prefetch: bool = False
    """Read the model into memory before the server starts."""


class FsxSource(Model):
    """A model on an FSx for Lustre file system."""

    type: Literal["fsx"] = "fsx"
    file_system_id: str = Field(pattern=r"^fs-[0-9a-f]{8,17}$", examples=["fs-0123456789abcdef0"])
    dns_name: str | None = Field(None, max_length=275)
    mount_name: str | None = Field(None, pattern=r"^[a-z0-9_]{1,8}$")
    location: str = Field("", max_length=1024, examples=["models/Qwen-Qwen3-0.6B"])
    """Path of the model's folder."""
    prefetch: bool = False


class HuggingFaceSource(Model):
    """A model that the operator fetches from the Hugging Face Hub before the server starts."""

    type: Literal["hugging-face"] = "hugging-face"
    model_id: str = Field(pattern=r"^[a-zA-Z0-9_.-]+/[a-zA-Z0-9_.-]+$", examples=["Qwen/Qwen3-0.6B"])
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$", examples=["0" * 40])
    """A commit; null: the branch main."""
    credential: ObjectName | None = None
    """Name of a stored credential, for a gated or private model."""


class JumpStartSource(Model):
    """A model of SageMaker JumpStart, with the server that comes with it."""

    type: Literal["jumpstart"] = "jumpstart"
    model_id: str = Field(
        max_length=63, pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$", examples=["deepseek-llm-r1-distill-qwen-1-5b"]
    )
    version: str | None = Field(None, pattern=r"^\d{1,4}\.\d{1,4}\.\d{1,4}$", examples=["2.0.4"])
    """Null: the newest."""
    hub: str = Field("SageMakerPublicHub", max_length=63, pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$")
    accept_eula: bool = False
    """Accept the model's licence; models that ask for it are refused without."""
    gated_model_role: str | None = Field(
        None, min_length=20, max_length=2048, pattern=r"^arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+$"
    )
    """IAM role that may read a gated model."""


Source = Annotated[S3Source | FsxSource | HuggingFaceSource | JumpStartSource, Field(discriminator="type")]

EnvironmentName = Annotated[str, Field(max_length=255, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
PlainEnvironment = Annotated[dict[EnvironmentName, str], AfterValidator(plain_environment)]
"""Variables by name. Secrets are refused: they are stored as credentials."""


class Worker(Model):
    """The container that serves the model."""

    image: str = Field(min_length=1, max_length=500, pattern=r"^\S+$", examples=["vllm/vllm-openai:v0.11.0"])
    command: list[str] = Field(default_factory=list, max_length=100)
    """Instead of the image's entrypoint."""
    args: list[str] = Field(default_factory=list, max_length=500)
    port: int = Field(8000, ge=1, le=65_535)
    """Where the server listens."""
    gpu_count: int = Field(ge=0, le=16)
    """Accelerators of one replica. It has no default: ask, and say 0 for a model that runs on CPUs."""
    cpu: float | None = Field(None, gt=0, le=1024)
    """Requested; null: the server's share is not reserved."""
    memory_gib: float | None = Field(None, gt=0, le=24_576)
    """Requested."""
    mount_path: str = Field(MODEL_PATH, pattern=r"^/\S+$", max_length=255)
    """Where the model is in the container."""
    env: PlainEnvironment = Field(default_factory=dict, max_length=100)
    secret_env: dict[EnvironmentName, ObjectName] = Field(default_factory=dict, max_length=100)
    """Variable to the name of a stored credential that it holds."""
    max_concurrent_requests: int | None = Field(None, ge=1)
    """Of one replica; more are refused with 429."""

    @model_validator(mode="after")
    def _consistent(self) -> Worker:
        if twice := sorted(set(self.env) & set(self.secret_env)):
            raise fault(f"/secret_env/{twice[0]}", f"{twice[0]} is in env as well")
        command = self.read
        if told := secrets_in(command):
            given = "/args" if self.args else "/command"
            raise fault(given, f"{told[0].message}. {told[0].remedy}")
        options, positional = options_of(command)
        needed = gpus_used(Subject(command, LintFacts(), FLAGS_OF.get(command.engine), options, positional)) or 1
        if needed > max(self.gpu_count, 1):
            detail = f"the arguments spread the model over {needed} accelerators, a replica has {self.gpu_count}"
            raise fault("/gpu_count", detail)
        return self

    @property
    def read(self) -> Command:
        """Its command and arguments, as the engine of its image reads them."""
        return of_words([*self.command, *self.args], image_engine(self.image))


class CacheBackend(StrEnum):
    TIERED_STORAGE = "tiered_storage"
    REDIS = "redis"


class SecondCache(Model):
    """A cache that replicas share."""

    backend: CacheBackend
    url: str | None = Field(
        None, max_length=500, pattern=r"^[a-z]+://\S+$", examples=["redis://redis.default.svc:6379"]
    )
    """Of Redis."""

    @model_validator(mode="after")
    def _located(self) -> SecondCache:
        if self.backend is CacheBackend.REDIS and self.url is None:
            raise fault("/url", "Redis needs a URL")
        if self.backend is CacheBackend.TIERED_STORAGE and self.url is not None:
            raise fault("/url", "tiered storage is found by the operator itself; a URL is for Redis")
        if self.url is not None and "@" in self.url:
            # The custom resource has no reference to a Secret for it.
            raise fault("/url", "a password in it would stand in manifests and histories: name a Redis that needs none")
        return self


class KvCache(Model):
    """Where keys and values of attention are kept beside the accelerators' memory."""

    l1: bool = True
    """In the memory of the node."""
    l2: SecondCache | None = None


class Strategy(StrEnum):
    PREFIX_AWARE = "prefix_aware"
    KV_AWARE = "kv_aware"
    SESSION = "session"
    ROUND_ROBIN = "round_robin"


class PrometheusScaling(Model):
    """A query of Amazon Managed Service for Prometheus: the custom resource admits no other server."""

    type: Literal["prometheus"] = "prometheus"
    workspace_id: str = Field(pattern=WORKSPACE, examples=["ws-12345678"])
    query: str = Field(min_length=1, max_length=4000)
    target: float = Field(gt=0)
    activation: float = Field(0, ge=0)
    """Above it the first replica is started; matters where ``min_replicas`` is 0."""
    per_replica: bool = True
    """``target`` is what one replica takes; false: of all together."""


class CloudWatchScaling(Model):
    """A metric of CloudWatch."""

    type: Literal["cloudwatch"] = "cloudwatch"
    namespace: str = Field(min_length=1, max_length=255, examples=["AWS/SageMaker"])
    metric: str = Field(min_length=1, max_length=255, examples=["Invocations"])
    dimensions: dict[str, str] = Field(default_factory=dict, max_length=30)
    statistic: str = Field("Average", max_length=50)
    period_seconds: int = Field(300, ge=1, le=86_400)
    target: float = Field(gt=0)
    activation: float = Field(0, ge=0)
    per_replica: bool = True


class EndpointScaling(Model):
    """Replicas by a metric. KEDA, which the operator uses, polls it."""

    min_replicas: int = Field(1, ge=0, le=1000)
    max_replicas: int = Field(5, ge=1, le=1000)
    polling_seconds: int = Field(30, ge=1, le=3600)
    cooldown_seconds: int = Field(300, ge=0, le=86_400)
    """Without activity before the last replica goes; matters where ``min_replicas`` is 0."""
    scale_up_stabilization_seconds: int = Field(0, ge=0, le=3600)
    scale_down_stabilization_seconds: int = Field(300, ge=0, le=3600)
    trigger: Annotated[PrometheusScaling | CloudWatchScaling, Field(discriminator="type")]

    @model_validator(mode="after")
    def _ordered(self) -> EndpointScaling:
        if self.min_replicas > self.max_replicas:
            raise fault("/min_replicas", f"more than max_replicas, which is {self.max_replicas}")
        return self


class Tls(Model):
    """Certificates of the endpoint's load balancer: made by the operator, or one of ACM with its domain."""

    output_s3_uri: str | None = Field(None, pattern=r"^s3://[^/]+/?.*$", max_length=1024)
    """Where the operator leaves the certificate that clients must trust; null: its own bucket."""
    certificate_arn: str | None = Field(None, pattern=r"^arn:aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+$")
    domain: str | None = Field(
        None,
        max_length=253,
        pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
        examples=["models.example.com"],
    )
    """One domain of that certificate."""
    hosted_zone_id: str | None = Field(None, pattern=r"^Z[A-Z0-9]+$", examples=["Z0123456789ABC"])
    """Route 53 zone in which the operator makes the domain's record."""

    @model_validator(mode="after")
    def _complete(self) -> Tls:
        if (self.certificate_arn is None) != (self.domain is None):
            missing = "/domain" if self.domain is None else "/certificate_arn"
            raise fault(missing, "a certificate and its domain go together")
        if self.hosted_zone_id is not None and self.domain is None:
            raise fault("/hosted_zone_id", "a DNS record needs certificate_arn and domain")
        return self


class LoadBalancer(Model):
    health_path: str = Field("/ping", pattern=r"^/\S*$", max_length=1024)
    algorithm: Literal["least_outstanding_requests", "round_robin"] = "least_outstanding_requests"
