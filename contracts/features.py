"""Managed features of a cluster as reconciled state: what is on, what should be, and what each consists of.

A feature is a list of parts (``contracts/feature_catalogue.py``). Switching it on ensures them one after the other;
switching it off removes the same ones in reverse, as far as they are ours.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from pydantic import Field, JsonValue, model_validator

from contracts.activity import Act, Queue, Wait
from contracts.model import Ensured, Model, fault
from contracts.network import Scope


class Feature(StrEnum):
    TRAINING_OPERATOR = "training_operator"
    INFERENCE_OPERATOR = "inference_operator"
    TIERED_CHECKPOINTING = "tiered_checkpointing"
    AUTOSCALING = "autoscaling"
    KUBERAY = "kuberay"
    CONTAINER_INSIGHTS = "container_insights"
    FSX_CSI = "fsx_csi"
    OBSERVABILITY = "observability"
    LOAD_BALANCER_CONTROLLER = "load_balancer_controller"
    TASK_GOVERNANCE = "task_governance"
    METRICS_SERVER = "metrics_server"
    KEDA = "keda"


class FeatureState(StrEnum):
    OFF = "off"
    ON = "on"
    CHANGING = "changing"
    DEGRADED = "degraded"
    """Partly there, or there and not working: ``detail`` says what is missing."""
    FOREIGN = "foreign"
    """Somebody else's installation does the same: it is used, not touched."""
    UNKNOWN = "unknown"
    """It could not be read."""

    @property
    def usable(self) -> bool:
        """Whether others can build on it."""
        return self in (FeatureState.ON, FeatureState.FOREIGN)

    @property
    def there(self) -> bool:
        """Whether anything of ours is in place, or coming or going."""
        return self in (FeatureState.ON, FeatureState.CHANGING, FeatureState.DEGRADED)


class FeatureStatus(Model):
    """A feature as it is now, read from AWS and Kubernetes."""

    feature: Feature
    state: FeatureState
    version: str | None = None
    detail: str | None = None
    settings: dict[str, JsonValue] = Field(default_factory=dict)


class Toggle(Model):
    """Switch a feature."""

    enabled: bool


class TieredCheckpointing(Toggle):
    """(sagemaker:UpdateCluster TieredStorageConfig)"""

    memory_percentage: int | None = Field(None, ge=20, le=100)
    """Share of the instances' memory; null: as it is, or the service's default. (SageMaker Developer Guide: set up
    managed tiered checkpointing)"""
    namespace: str | None = Field(
        None, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", examples=["training"]
    )
    """Of the training pods' service account; null: as it is, at first ``default``."""
    service_account: str | None = Field(
        None, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", examples=["trainer"]
    )
    """The training pods'; null: as it is, at first ``tiered-storage-sa``."""


class Observability(Toggle):
    """Amazon Managed Prometheus and Grafana."""

    prometheus_workspace_arn: str | None = Field(
        None,
        pattern=r"^arn:aws[\w-]*:aps:[\w-]+:\d{12}:workspace/ws-[\w-]+$",
        examples=["arn:aws:aps:us-west-2:111122223333:workspace/ws-12345678"],
    )
    """Use this workspace; null: as it is, at first the cluster's own, which is made."""
    grafana_workspace_arn: str | None = Field(
        None,
        pattern=r"^arn:aws[\w-]*:grafana:[\w-]+:\d{12}:/workspaces/g-\w+$",
        examples=["arn:aws:grafana:us-west-2:111122223333:/workspaces/g-1234567890"],
    )
    """Put the dashboards there; null: as it is, at first nowhere (Managed Grafana needs IAM Identity Center), metrics
    are kept anyway."""


class FeatureChanges(Model):
    """Only what should change: what is not named is not touched."""

    training_operator: Toggle | None = None
    inference_operator: Toggle | None = None
    tiered_checkpointing: TieredCheckpointing | None = None
    autoscaling: Toggle | None = None
    kuberay: Toggle | None = None
    container_insights: Toggle | None = None
    fsx_csi: Toggle | None = None
    observability: Observability | None = None
    load_balancer_controller: Toggle | None = None
    task_governance: Toggle | None = None
    metrics_server: Toggle | None = None
    keda: Toggle | None = None
    enable_prerequisites: bool = False
    """Switch on, too, the features and install the components that those named need."""

    @model_validator(mode="after")
    def _names_something(self) -> FeatureChanges:
        if not self.named:
            raise fault("", f"name at least one feature to change: {', '.join(Feature)}")
        return self

    @property
    def named(self) -> dict[Feature, Toggle]:
        """The features to change, with what they should be."""
        return {feature: toggle for feature in Feature if (toggle := getattr(self, feature.value)) is not None}


class PartKind(StrEnum):
    """What a part is. Each kind has one implementation of looking, ensuring and removing."""

    NAMESPACE = "namespace"
    ROLE = "IAM role"
    POD_IDENTITY = "Pod Identity association"
    SERVICE_ACCOUNT = "service account"
    BUCKET = "S3 bucket"
    WORKSPACE = "Prometheus workspace"
    ADDON = "EKS add-on"
    RELEASE = "Helm release"
    DEFINITIONS = "custom resource definitions"
    SETTING = "HyperPod setting"


class Part(Model):
    """One thing that a feature consists of."""

    kind: PartKind
    name: str
    """Its own name; of a role: its purpose; of definitions: a suffix of their full names; of a setting: the member of
    UpdateCluster."""
    namespace: str | None = None
    service_account: str | None = None
    """Whom the role is for."""
    runs_on_nodes: bool = False
    """Its pods are a Deployment's: it is not ready before nodes exist."""
    optional: bool = False
    """Not every version of what brings it has it: nothing is missing without it."""

    @property
    def key(self) -> str:
        return f"{self.kind.value.replace(' ', '-').lower()}/{self.name}"

    @property
    def words(self) -> str:
        """As people read it."""
        return f"{self.kind.value} {self.name}"


class PartState(StrEnum):
    ABSENT = "absent"
    PRESENT = "present"
    CHANGING = "changing"
    WAITING_FOR_NODES = "waiting_for_nodes"
    """All there; its pods need a node to run on."""
    WRONG = "wrong"
    """There, and not as it must be, or failed."""
    UNKNOWN = "unknown"
    """It could not be read."""


class PartSight(Model):
    """A part as it is now."""

    part: Part
    state: PartState
    ours: bool = True
    """Made by us for this cluster; what is not is used, and never taken away."""
    detail: str | None = None
    version: str | None = None
    settings: dict[str, JsonValue] = Field(default_factory=dict)


class FeatureOptions(Model):
    """What a feature is asked to be beside on or off; null: as it is."""

    memory_percentage: int | None = None
    namespace: str | None = None
    service_account: str | None = None
    prometheus_workspace_arn: str | None = None
    grafana_workspace_arn: str | None = None

    @classmethod
    def of(cls, toggle: Toggle) -> FeatureOptions:
        return cls(**toggle.model_dump(exclude={"enabled"}))


class Site(Model):
    """Where a feature is switched: the cluster's parts by their own names, as the record has them."""

    scope: Scope
    account: str
    eks_cluster: str
    kubernetes_version: str
    hyperpod_cluster: str | None = None
    hyperpod_arn: str | None = None
    bucket: str | None = None
    vpc_id: str | None = None


class ReadFeatures(Model):
    site: Site
    features: list[Feature] = Field(default_factory=lambda: list(Feature))


class Features(Model):
    """The features of a cluster, read now."""

    features: list[FeatureStatus] = Field(default_factory=list)

    def of(self, feature: Feature) -> FeatureStatus:
        """The status of one. Raises KeyError for one that was not read."""
        return {each.feature: each for each in self.features}[feature]


class ChangePart(Model):
    """A part to ensure or to remove, and the feature that it is of."""

    site: Site
    feature: Feature
    part: Part
    options: FeatureOptions = Field(default_factory=FeatureOptions)


class PartDone(Ensured):
    """``detail`` says what was kept, and why, where something was."""

    name: str
    detail: str | None = None


class WaitForPart(Model):
    site: Site
    feature: Feature
    part: Part
    gone: bool = False
    """Until there is nothing left of it; else until it works, or only nodes are missing."""
    options: FeatureOptions = Field(default_factory=FeatureOptions)


READ_FEATURES = Act("features.read", ReadFeatures, Features, queue=Queue.KUBERNETES)
ENSURE_PART = Act("features.ensure_part", ChangePart, PartDone, queue=Queue.KUBERNETES, limit=timedelta(minutes=12))
REMOVE_PART = Act("features.remove_part", ChangePart, PartDone, queue=Queue.KUBERNETES, limit=timedelta(minutes=12))
WAIT_FOR_PART = Wait("features.wait_for_part", WaitForPart, PartSight, limit=timedelta(minutes=40))
