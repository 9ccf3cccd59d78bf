"""What a cluster needs before HyperPod nodes can join: EKS add-ons and one Helm release, in the order they need."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from graphlib import TopologicalSorter

from pydantic import Field, JsonValue

from contracts.activity import Act, Queue, Wait
from contracts.model import Ensured, Model
from contracts.network import Scope


class ComponentKind(StrEnum):
    ADDON = "addon"
    HELM = "helm"


class ComponentState(StrEnum):
    PENDING = "pending"
    INSTALLING = "installing"
    READY = "ready"
    WAITING_FOR_NODES = "waiting_for_nodes"
    """Installed; its pods need a node to run on."""
    FAILED = "failed"


class HelmChart(Model):
    """Where a chart comes from. ``source`` is an OCI or HTTPS reference, an archive, or a folder; ``path`` leads to the
    chart inside an archive or folder."""

    release: str
    namespace: str
    source: str
    path: str | None = None
    version: str | None = None
    values: dict[str, JsonValue] = Field(default_factory=dict)


class Component(Model):
    """One dependency. ``runs_on_nodes``: its pods are a Deployment's, so that it cannot be ready before nodes exist
    (EKS add-on health issue InsufficientNumberOfReplicas)."""

    name: str
    kind: ComponentKind
    title: str
    needs: tuple[str, ...] = ()
    runs_on_nodes: bool = False
    needs_role: bool = False
    """It calls AWS and is given a role by EKS Pod Identity."""


COMPONENTS: tuple[Component, ...] = (
    Component(name="vpc-cni", kind=ComponentKind.ADDON, title="Amazon VPC CNI"),
    Component(name="kube-proxy", kind=ComponentKind.ADDON, title="kube-proxy"),
    Component(name="eks-pod-identity-agent", kind=ComponentKind.ADDON, title="EKS Pod Identity Agent"),
    Component(name="coredns", kind=ComponentKind.ADDON, title="CoreDNS", needs=("vpc-cni",), runs_on_nodes=True),
    Component(
        name="cert-manager", kind=ComponentKind.ADDON, title="cert-manager", needs=("vpc-cni",), runs_on_nodes=True
    ),
    Component(
        name="aws-mountpoint-s3-csi-driver",
        kind=ComponentKind.ADDON,
        title="Mountpoint for Amazon S3 CSI driver",
        needs=("eks-pod-identity-agent",),
        runs_on_nodes=True,
        needs_role=True,
    ),
    Component(
        name="hyperpod-dependencies",
        kind=ComponentKind.HELM,
        title="HyperPod dependencies (health monitoring, device plugins)",
    ),
)


def component(name: str) -> Component:
    """The component called ``name``. Raises KeyError if there is none."""
    return {each.name: each for each in COMPONENTS}[name]


def waves(components: Iterable[Component] = COMPONENTS) -> list[list[Component]]:
    """The components in groups that can be installed side by side, each after what it needs.

    Raises graphlib.CycleError when the needs go round in a circle.
    """
    by_name = {each.name: each for each in components}
    sorter = TopologicalSorter({each.name: each.needs for each in by_name.values()})
    sorter.prepare()
    result: list[list[Component]] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        result.append([by_name[name] for name in ready])
        sorter.done(*ready)
    return result


def with_needs(names: Iterable[str]) -> list[Component]:
    """The components called ``names`` and all that they need, in the order of :data:`COMPONENTS`. Raises KeyError."""
    wanted: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo.extend(component(name).needs)
    return [each for each in COMPONENTS if each.name in wanted]


class ComponentStatus(Model):
    """A component as the cluster's record keeps it."""

    name: str
    state: ComponentState
    version: str | None = None
    detail: str | None = None


class EnsureAddon(Model):
    scope: Scope
    eks_cluster: str
    name: str
    kubernetes_version: str
    role_arn: str | None = None
    service_account: str | None = None
    """Who is given the role by Pod Identity."""
    namespace: str = "kube-system"
    """The service account's."""
    configuration: dict[str, JsonValue] | None = None
    """The add-on's configuration values; null: as they are, or the add-on's defaults."""
    overwrite: bool = True
    """Take over what is there already: right for what EKS installs by itself, and for nothing else."""


class Addon(Ensured):
    name: str
    version: str
    status: str


class WaitForAddon(Model):
    scope: Scope
    eks_cluster: str
    name: str
    accept_waiting_for_nodes: bool
    """Return as soon as only nodes are missing, instead of waiting for ACTIVE."""


class EnsureRelease(Model):
    scope: Scope
    eks_cluster: str
    name: str
    """The component."""


class Release(Ensured):
    name: str
    revision: int
    status: str
    chart: str


class VerifyRelease(Model):
    scope: Scope
    eks_cluster: str
    name: str


class EnsureStorageRole(Model):
    """The role of the Mountpoint S3 CSI driver, and its Pod Identity association."""

    scope: Scope
    account: str
    eks_cluster: str
    bucket: str


class StorageRole(Ensured):
    arn: str


ENSURE_ADDON = Act("dependencies.ensure_addon", EnsureAddon, Addon)
WAIT_FOR_ADDON = Wait("dependencies.wait_for_addon", WaitForAddon, ComponentStatus, limit=timedelta(minutes=30))
ENSURE_STORAGE_ROLE = Act("dependencies.ensure_storage_role", EnsureStorageRole, StorageRole)
ENSURE_RELEASE = Act(
    "dependencies.ensure_release", EnsureRelease, Release, queue=Queue.KUBERNETES, limit=timedelta(minutes=12)
)
VERIFY_RELEASE = Act("dependencies.verify_release", VerifyRelease, ComponentStatus, queue=Queue.KUBERNETES)
