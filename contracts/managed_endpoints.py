"""Managed endpoints: models that the HyperPod inference operator serves, from an InferenceEndpointConfig or a
JumpStartModel.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-model-deployment.html
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field, field_validator, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.endpoint_parts import (
    EndpointScaling,
    HuggingFaceSource,
    JumpStartSource,
    KvCache,
    LoadBalancer,
    Source,
    Strategy,
    Tls,
    Worker,
)
from contracts.model import Ensured, Model, fault
from contracts.names import namespaced
from contracts.network import Scope
from contracts.objects import DEFAULT_NAMESPACE, ObjectName, ServedName

SAGEMAKER_NAME = r"^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$"
"""(sagemaker:CreateModel ModelName, CreateEndpoint EndpointName)"""

Kind = Literal["InferenceEndpointConfig", "JumpStartModel"]


class EndpointSpec(Model):
    """A model that the inference operator serves: pods, their routing, a load balancer, and a SageMaker endpoint."""

    name: ServedName
    namespace: ObjectName = DEFAULT_NAMESPACE
    model_name: str | None = Field(None, max_length=63, pattern=SAGEMAKER_NAME)
    """The SageMaker model's; null: ``name``."""
    source: Source
    worker: Worker | None = None
    """What serves the model; JumpStart brings its own."""
    instance_types: list[str] = Field(min_length=1, max_length=20, examples=[["ml.g5.8xlarge"]])
    """In order of preference."""
    replicas: int = Field(1, ge=1, le=1000)
    """To begin with, where ``autoscaling`` is given."""
    kv_cache: KvCache | None = None
    """Null: as the operator does it (in the node's memory)."""
    routing: Strategy | None = None
    """How requests are spread over replicas; null: no router. It cannot be added or taken away later."""
    session_key: str | None = Field(None, max_length=255, pattern=r"^[A-Za-z0-9_.-]+$", examples=["user_id"])
    """Of the request, by which ``session`` and ``kv_aware`` routing keep requests together."""
    autoscaling: EndpointScaling | None = None
    sagemaker_endpoint: str | None = Field(None, max_length=63, pattern=SAGEMAKER_NAME)
    """Name of a SageMaker endpoint to make as well; null: none."""
    tls: Tls | None = None
    load_balancer: LoadBalancer | None = None
    invocation_path: str = Field("v1/chat/completions", max_length=255, pattern=r"^[^/\s]\S*$")
    """Of the model server, behind the slash."""
    metrics: bool = True
    """Let the server's metrics be collected."""
    tags: dict[str, str] = Field(default_factory=dict, max_length=50)
    """Of the SageMaker endpoint."""
    deploy_timeout_seconds: int = Field(3600, ge=60, le=86_400)

    @field_validator("instance_types")
    @classmethod
    def _types(cls, names: list[str]) -> list[str]:
        for name in names:
            if not name.startswith("ml."):
                raise ValueError(f"HyperPod's instance types begin with ml.; {name!r} does not")
        if len(set(names)) != len(names):
            raise ValueError("an instance type is named twice")
        return names

    @field_validator("tags")
    @classmethod
    def _tags(cls, tags: dict[str, str]) -> dict[str, str]:
        for key, value in tags.items():
            if not 1 <= len(key) <= 128 or len(value) > 256:
                raise ValueError(f"a tag has a key of 1 to 128 and a value of at most 256 characters; {key!r} has not")
        return tags

    @model_validator(mode="after")
    def _consistent(self) -> EndpointSpec:
        if isinstance(self.source, JumpStartSource):
            self._of_jumpstart()
        elif self.worker is None:
            raise fault("/worker", "say which image serves the model, and with how many accelerators (gpu_count)")
        if self.session_key is not None and self.routing not in (Strategy.SESSION, Strategy.KV_AWARE):
            raise fault("/session_key", "a session key is for session or kv_aware routing")
        scaling = self.autoscaling
        if scaling is not None and not max(scaling.min_replicas, 1) <= self.replicas <= scaling.max_replicas:
            shown = f"{scaling.min_replicas} to {scaling.max_replicas}"
            raise fault("/replicas", f"not among the replicas that autoscaling may have ({shown})")
        if self.tags and self.sagemaker_endpoint is None:
            raise fault("/tags", "tags are for the SageMaker endpoint, and none is asked for")
        return self

    def _of_jumpstart(self) -> None:
        if self.worker is not None:
            raise fault("/worker", "a JumpStart model brings its own server")
        if len(self.instance_types) > 1:
            raise fault("/instance_types", "a JumpStart model takes one instance type")
        if self.model_name is not None:
            raise fault("/model_name", "a JumpStart model has the name of its hub content")

    @property
    def kind(self) -> Kind:
        """Which custom resource it is."""
        return "JumpStartModel" if isinstance(self.source, JumpStartSource) else "InferenceEndpointConfig"

    @property
    def target(self) -> str:
        return namespaced(self.name, self.namespace)

    @property
    def credentials(self) -> dict[str, str]:
        """The stored credentials that it uses, each by the pointer of its field."""
        used = {
            f"/worker/secret_env/{key}": name for key, name in (self.worker.secret_env if self.worker else {}).items()
        }
        if isinstance(self.source, HuggingFaceSource) and self.source.credential is not None:
            used["/source/credential"] = self.source.credential
        return used


class EndpointName(Model):
    """An endpoint by its name."""

    name: ObjectName
    namespace: ObjectName = DEFAULT_NAMESPACE

    @property
    def target(self) -> str:
        return namespaced(self.name, self.namespace)


class DeleteEndpointSpec(EndpointName):
    """Its pods, its load balancer and its SageMaker endpoint go with it; the model's files stay."""


class EndpointState(StrEnum):
    PROGRESSING = "progressing"
    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"


class EndpointCondition(Model):
    """As the operator says it."""

    type: str
    status: str
    reason: str
    message: str = ""


class ManagedEndpoint(Model):
    """An endpoint as the cluster has it."""

    namespace: str
    name: str
    kind: Kind
    state: EndpointState
    reason: str | None = None
    """The operator's word for it."""
    detail: str | None = None
    """The same in a line."""
    model: str | None = None
    """The SageMaker model's name, or the JumpStart model's ID."""
    source: str | None = None
    """``s3``, ``fsx``, ``huggingface``, ``kubernetesVolume`` or ``jumpstart``."""
    instance_types: list[str] = Field(default_factory=list)
    replicas: int = 0
    """Wanted."""
    ready_replicas: int = 0
    routing: Strategy | None = None
    autoscaled: bool = False
    service: str | None = None
    """The Service by which the cluster calls it."""
    port: int | None = None
    sagemaker_endpoint: str | None = None
    """ARN, once it exists."""
    sagemaker_state: str | None = None
    certificate_domains: list[str] = Field(default_factory=list)
    invocation_path: str | None = None
    created_at: datetime
    managed: bool = True
    """Whether the platform made it for this cluster."""


class EndpointList(Model):
    """The endpoints of a cluster, others' among them."""

    endpoints: list[ManagedEndpoint] = Field(default_factory=list)
    """By namespace and name."""
    read_at: datetime


class EndpointDetail(Model):
    """An endpoint and all that its operator says of it."""

    endpoint: ManagedEndpoint
    conditions: list[EndpointCondition] = Field(default_factory=list)
    pods: list[str] = Field(default_factory=list)
    """Each in a line: its name, and what holds it up where something does."""
    read_at: datetime


class ApplyEndpoint(Model):
    scope: Scope
    eks_cluster: str
    spec: EndpointSpec


class EndpointApplied(Ensured):
    name: str
    namespace: str
    kind: Kind
    generation: int


class EndpointRef(Model):
    """An endpoint on its cluster."""

    scope: Scope
    eks_cluster: str
    namespace: str
    name: str
    kind: Kind | None = None
    """Null: whichever there is."""
    generation: int = 0
    """The operator must have seen this one."""


class EndpointAnswer(Model):
    """That an endpoint serves: what it answered to one small request."""

    model: str
    """As its server calls it."""
    text: str
    """The beginning of the answer."""
    seconds: float


class EndpointGone(Ensured):
    name: str
    kind: Kind | None = None


class ListEndpoints(Model):
    cluster: str
    region: str
    eks_cluster: str
    namespace: str | None = None
    """Null: all."""


class ReadEndpoint(Model):
    cluster: str
    region: str
    eks_cluster: str
    namespace: str
    name: str


LONGEST_DEPLOYMENT = timedelta(hours=25)
"""The custom resource's own timeout ends sooner."""

APPLY_ENDPOINT = Act("managed_endpoints.apply", ApplyEndpoint, EndpointApplied, queue=Queue.KUBERNETES)
WAIT_FOR_ENDPOINT = Wait(
    "managed_endpoints.wait_until_deployed", EndpointRef, ManagedEndpoint, limit=LONGEST_DEPLOYMENT
)
WAIT_FOR_ENDPOINT_ANSWER = Wait(
    "managed_endpoints.wait_until_it_answers", EndpointRef, EndpointAnswer, limit=timedelta(minutes=15)
)
START_ENDPOINT_DELETION = Act("managed_endpoints.delete", EndpointRef, EndpointGone, queue=Queue.KUBERNETES)
WAIT_FOR_ENDPOINT_GONE = Wait(
    "managed_endpoints.wait_until_gone", EndpointRef, EndpointGone, limit=timedelta(minutes=60)
)
LIST_ENDPOINTS = Act("managed_endpoints.list", ListEndpoints, EndpointList, queue=Queue.KUBERNETES)
READ_ENDPOINT = Act("managed_endpoints.read", ReadEndpoint, EndpointDetail, queue=Queue.KUBERNETES)
