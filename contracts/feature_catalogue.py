"""What each managed feature consists of and needs, and the rules that follow from that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from contracts.features import (
    Feature,
    FeatureChanges,
    FeatureState,
    FeatureStatus,
    Part,
    PartKind,
    PartSight,
    PartState,
)

CERT_MANAGER = "cert-manager"
POD_IDENTITY_AGENT = "eks-pod-identity-agent"
S3_DRIVER = "aws-mountpoint-s3-csi-driver"

TIERED_STORAGE = "TieredStorageConfig"
AUTO_SCALING = "AutoScaling"


@dataclass(frozen=True)
class Definition:
    """A feature: its parts in the order in which they are made, and what must be there before."""

    feature: Feature
    title: str
    parts: tuple[Part, ...]
    needs: tuple[Feature, ...] = ()
    components: tuple[str, ...] = ()
    """Dependencies (``contracts/dependencies.py``) that it needs."""
    pods: int = 0
    """How many pods it runs beside one on every node."""
    node_pods: int = 0
    """How many it runs on every node."""
    in_use: tuple[str, ...] = ()
    """Suffixes of custom resources' full names: while there are any, switching off is refused."""
    oidc: bool = False
    """Its roles are taken by way of the cluster's OIDC issuer."""
    loses: str | None = None
    """What switching it off loses for good."""
    notes: tuple[str, ...] = ()

    @property
    def removal(self) -> tuple[Part, ...]:
        """The same parts in the order in which they are taken away: in reverse, but definitions after what brought
        them, which may have made resources of them for itself."""
        order = list(reversed(self.parts))
        brought = [each for each in order if each.kind is PartKind.DEFINITIONS]
        others = [each for each in order if each.kind is not PartKind.DEFINITIONS]
        place = next((i for i, each in enumerate(others) if each.kind in (PartKind.ADDON, PartKind.RELEASE)), -1) + 1
        return (*others[:place], *brought, *others[place:])

    @property
    def changes_hyperpod(self) -> bool:
        """Whether it calls UpdateCluster."""
        return any(part.kind is PartKind.SETTING for part in self.parts)


def _addon(name: str, namespace: str, account: str | None = None) -> Part:
    return Part(kind=PartKind.ADDON, name=name, namespace=namespace, service_account=account, runs_on_nodes=True)


def _role(purpose: str) -> Part:
    return Part(kind=PartKind.ROLE, name=purpose)


def _namespace(name: str) -> Part:
    return Part(kind=PartKind.NAMESPACE, name=name)


def _identity(namespace: str, account: str, purpose: str) -> Part:
    return Part(kind=PartKind.POD_IDENTITY, name=purpose, namespace=namespace, service_account=account)


def _release(name: str, namespace: str) -> Part:
    return Part(kind=PartKind.RELEASE, name=name, namespace=namespace, runs_on_nodes=True)


def _definitions(suffix: str, optional: bool = False) -> Part:
    return Part(kind=PartKind.DEFINITIONS, name=suffix, optional=optional)


def _setting(member: str) -> Part:
    return Part(kind=PartKind.SETTING, name=member)


DEFINITIONS: dict[Feature, Definition] = {
    each.feature: each
    for each in (
        Definition(
            Feature.METRICS_SERVER,
            "Metrics server",
            parts=(_addon("metrics-server", "kube-system"),),
            pods=2,
        ),
        Definition(
            Feature.TRAINING_OPERATOR,
            "HyperPod training operator",
            parts=(
                _role("training-operator"),
                _addon(
                    "amazon-sagemaker-hyperpod-training-operator",
                    "aws-hyperpod",
                    "hp-training-operator-controller-manager",
                ),
                _definitions("hyperpodpytorchjobs.sagemaker.amazonaws.com", optional=True),
            ),
            components=(CERT_MANAGER, POD_IDENTITY_AGENT),
            pods=1,
            in_use=("hyperpodpytorchjobs.sagemaker.amazonaws.com",),
        ),
        Definition(
            Feature.AUTOSCALING,
            "Managed Karpenter",
            parts=(_role("hyperpod-autoscaling"), _setting(AUTO_SCALING)),
            in_use=("nodepools.karpenter.sh",),
        ),
        Definition(
            Feature.TIERED_CHECKPOINTING,
            "Managed tiered checkpointing",
            parts=(
                _role("tiered-checkpointing"),
                Part(kind=PartKind.SERVICE_ACCOUNT, name="tiered-checkpointing"),
                _setting(TIERED_STORAGE),
            ),
            oidc=True,
            loses="checkpoints that are in the nodes' memory only",
            node_pods=1,
        ),
        Definition(
            Feature.KUBERAY,
            "KubeRay operator",
            parts=(
                _namespace("kuberay-system"),
                _release("kuberay-operator", "kuberay-system"),
                _definitions(".ray.io"),
            ),
            pods=1,
            in_use=(".ray.io",),
        ),
        Definition(
            Feature.KEDA,
            "KEDA",
            parts=(
                _namespace("keda"),
                _role("keda"),
                _identity("keda", "keda-operator", "keda"),
                _release("keda", "keda"),
                _definitions(".keda.sh"),
            ),
            components=(POD_IDENTITY_AGENT,),
            pods=3,
            in_use=(".keda.sh",),
        ),
        Definition(
            Feature.LOAD_BALANCER_CONTROLLER,
            "AWS Load Balancer Controller",
            parts=(
                _role("load-balancer-controller"),
                _identity("kube-system", "aws-load-balancer-controller", "load-balancer-controller"),
                _release("aws-load-balancer-controller", "kube-system"),
                _definitions(".elbv2.k8s.aws"),
            ),
            components=(POD_IDENTITY_AGENT,),
            pods=2,
            in_use=("targetgroupbindings.elbv2.k8s.aws",),
        ),
        Definition(
            Feature.FSX_CSI,
            "FSx for Lustre CSI driver",
            parts=(_role("fsx-csi"), _addon("aws-fsx-csi-driver", "kube-system", "fsx-csi-controller-sa")),
            components=(POD_IDENTITY_AGENT,),
            pods=2,
            node_pods=1,
        ),
        Definition(
            Feature.CONTAINER_INSIGHTS,
            "CloudWatch Container Insights",
            parts=(
                _namespace("amazon-cloudwatch"),
                _role("container-insights"),
                _addon("amazon-cloudwatch-observability", "amazon-cloudwatch", "cloudwatch-agent"),
                _definitions(".cloudwatch.aws.amazon.com", optional=True),
            ),
            components=(POD_IDENTITY_AGENT,),
            pods=1,
            node_pods=2,
            notes=("its permissions are given to its own service account by Pod Identity, not to the nodes' role",),
        ),
        Definition(
            Feature.TASK_GOVERNANCE,
            "HyperPod task governance",
            parts=(
                _namespace("kueue-system"),
                _addon("amazon-sagemaker-hyperpod-taskgovernance", "kueue-system"),
                _definitions(".kueue.x-k8s.io", optional=True),
            ),
            pods=1,
            in_use=("workloads.kueue.x-k8s.io",),
            loses="the queues and quotas in the cluster; HyperPod's compute allocations stay",
        ),
        Definition(
            Feature.OBSERVABILITY,
            "HyperPod observability",
            parts=(
                _namespace("hyperpod-observability"),
                Part(kind=PartKind.WORKSPACE, name="observability"),
                _role("observability"),
                _addon(
                    "amazon-sagemaker-hyperpod-observability",
                    "hyperpod-observability",
                    "hyperpod-observability-operator-otel-collector",
                ),
                _definitions(".observability.sagemaker.amazonaws.com", optional=True),
            ),
            components=(POD_IDENTITY_AGENT,),
            pods=3,
            node_pods=2,
            loses="the metrics in the cluster's own Prometheus workspace (one that was given is kept)",
        ),
        Definition(
            Feature.INFERENCE_OPERATOR,
            "HyperPod inference operator",
            parts=(
                _namespace("hyperpod-inference-system"),
                Part(kind=PartKind.BUCKET, name="hyperpod-tls"),
                _role("inference-operator"),
                _addon("amazon-sagemaker-hyperpod-inference", "hyperpod-inference-system"),
                _definitions(".inference.sagemaker.aws.amazon.com"),
            ),
            needs=(Feature.LOAD_BALANCER_CONTROLLER, Feature.FSX_CSI, Feature.KEDA, Feature.METRICS_SERVER),
            components=(CERT_MANAGER, POD_IDENTITY_AGENT, S3_DRIVER),
            pods=1,
            in_use=(".inference.sagemaker.aws.amazon.com",),
            oidc=True,
        ),
    )
}


def with_needs(features: Iterable[Feature]) -> list[Feature]:
    """The features and all that they need, each after what it needs."""
    found: list[Feature] = []

    def add(feature: Feature) -> None:
        for need in DEFINITIONS[feature].needs:
            add(need)
        if feature not in found:
            found.append(feature)

    for feature in features:
        add(feature)
    return found


def dependents(feature: Feature) -> list[Feature]:
    """The features that need this one, directly or not."""
    return [each for each in DEFINITIONS if each is not feature and feature in with_needs([each])]


def planned(changes: FeatureChanges) -> dict[Feature, bool]:
    """Every feature that an operation with these changes looks after, and whether it should be on, in the order of
    the work: what is switched off first (dependents first), then what is switched on (needs first)."""
    named = changes.named
    off = [feature for feature, toggle in named.items() if not toggle.enabled]
    on = [feature for feature, toggle in named.items() if toggle.enabled]
    removed = [each for each in reversed(with_needs(off)) if each in off]
    made = with_needs(on) if changes.enable_prerequisites else [each for each in with_needs(on) if each in on]
    return dict.fromkeys(removed, False) | {each: True for each in made if each not in off}


def predecessors(feature: Feature, plan: Mapping[Feature, bool]) -> list[Feature]:
    """Those of the plan that must have ended before ``feature`` begins."""
    if plan[feature]:
        return [each for each in with_needs([feature]) if each is not feature and each in plan]
    return [each for each in dependents(feature) if plan.get(each) is False]


def status_of(feature: Feature, sights: list[PartSight], foreign: str | None = None) -> FeatureStatus:
    """What a feature is, from what its parts are. ``foreign`` names another installation that does the same."""
    sights = [each for each in sights if not (each.part.optional and each.state is PartState.ABSENT)]
    states = {each.state for each in sights}
    own = [each for each in sights if each.ours and each.state is not PartState.ABSENT]
    state, detail = FeatureState.ON, None
    if PartState.UNKNOWN in states:
        state, detail = FeatureState.UNKNOWN, _told(sights, PartState.UNKNOWN)
    elif foreign is not None and not any(_tells(each.part) for each in own):
        state, detail = FeatureState.FOREIGN, foreign
    elif not own:
        state = FeatureState.OFF
    elif PartState.CHANGING in states:
        state, detail = FeatureState.CHANGING, _told(sights, PartState.CHANGING)
    elif states - {PartState.PRESENT}:
        faults = [each for each in sights if each.state is not PartState.PRESENT]
        state, detail = FeatureState.DEGRADED, "; ".join(_fault(each) for each in faults)
    settings = {key: value for each in sights for key, value in each.settings.items()}
    version = next((each.version for each in sights if each.version), None)
    return FeatureStatus(feature=feature, state=state, version=version, detail=detail, settings=settings)


def _tells(part: Part) -> bool:
    """Whether a part shows that the feature itself is ours: roles and namespaces alone do not."""
    return part.kind in (PartKind.ADDON, PartKind.RELEASE, PartKind.SETTING)


def _told(sights: list[PartSight], state: PartState) -> str:
    return "; ".join(each.detail or f"{each.part.words} {state.value}" for each in sights if each.state is state)


def _fault(sight: PartSight) -> str:
    if sight.state is PartState.ABSENT:
        return f"{sight.part.words} is missing"
    return sight.detail or f"{sight.part.words} is {sight.state.value.replace('_', ' ')}"


def tiered_checkpointing_warnings(spot_groups: list[str]) -> list[str]:
    """What to know before tiered checkpointing is switched on in a cluster with these spot groups.

    AWS documents no refusal; what a node keeps in memory goes with the node. (SageMaker Developer Guide: managed tiered
    checkpointing)
    """
    if not spot_groups:
        return []
    return [
        f"Spot nodes ({', '.join(spot_groups)}) can be reclaimed at any time, and the memory tier of those nodes with "
        "them: let jobs save to S3 often"
    ]


def training_conflicts(*, checkpointless: bool, tiered_checkpointing: bool, elastic: bool) -> list[str]:
    """What excludes each other in one training job. (SageMaker Developer Guide: checkpointless training, special
    considerations)"""
    if not checkpointless:
        return []
    found = []
    if tiered_checkpointing:
        found.append("checkpointless training does not work with managed tiered checkpointing")
    if elastic:
        found.append("checkpointless training does not work with elastic training")
    return found
