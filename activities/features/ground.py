"""What is read of a cluster while its features are looked at: each thing once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.aws import AwsClients, partition
from activities.dependencies.addons import describe_addon
from activities.errors import fail
from activities.helm import Revision, helm_for
from activities.hyperpod.cluster import describe
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients, api_client, listed
from activities.settings import Settings
from contracts.features import Site
from contracts.names import FIELD_MANAGER, LABEL_CLUSTER, ClusterNames
from contracts.problem import ProblemCode

if TYPE_CHECKING:
    from mypy_boto3_eks.type_defs import AddonTypeDef

MANAGED_BY = "app.kubernetes.io/managed-by"
RELEASE_NAME = "meta.helm.sh/release-name"
RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"


class Ground:
    """One look at a cluster. Make one with :func:`ground`; what was read is kept for its life."""

    def __init__(self, site: Site, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self.site, self.aws, self.kubernetes, self.settings = site, aws, kubernetes, settings
        self.scope = site.scope
        self.region = site.scope.region
        self._addons: dict[str, AddonTypeDef | None] = {}
        self._api: client.ApiClient | None = None

    @property
    def partition(self) -> str:
        return partition(self.region)

    @cached_property
    def connection(self) -> Any:
        return self.kubernetes.connection(self.region, self.site.eks_cluster)

    @property
    def api(self) -> client.ApiClient:
        if self._api is None:
            self._api = api_client(self.connection)
        return self._api

    def close(self) -> None:
        if self._api is not None:
            self._api.close()  # type: ignore[no-untyped-call]

    def addon(self, name: str) -> AddonTypeDef | None:
        """The EKS add-on; None if there is none."""
        if name not in self._addons:
            self._addons[name] = describe_addon(self.aws, self.region, self.site.eks_cluster, name)
        return self._addons[name]

    @cached_property
    def releases(self) -> dict[tuple[str, str], Revision]:
        """The Helm releases that are ours, by namespace and name."""
        with helm_for(self.settings, self.connection) as helm:
            return helm.owned()

    @cached_property
    def issuer(self) -> str:
        """The OIDC issuer without its scheme, as IAM names its provider."""
        cluster = self.aws.read.eks(self.region).describe_cluster(name=self.site.eks_cluster)["cluster"]
        issuer = cluster.get("identity", {}).get("oidc", {}).get("issuer")
        if not issuer:
            detail = f"EKS cluster {self.site.eks_cluster} has no OIDC issuer"
            fail(ProblemCode.BUSY, detail, "The platform tries again when it is ACTIVE.", retry=True)
        return issuer.removeprefix("https://")

    @cached_property
    def hyperpod(self) -> dict[str, Any] | None:
        """The HyperPod cluster as SageMaker describes it; None if there is none."""
        name = self.site.hyperpod_cluster
        return describe(self.aws, self.region, name) if name else None

    @cached_property
    def deployments(self) -> list[Any]:
        """Every Deployment that is not on its way out."""
        found = listed(client.AppsV1Api(self.api).list_deployment_for_all_namespaces)
        return [each for each in found if not each.metadata.deletion_timestamp]

    @cached_property
    def definitions(self) -> list[Any]:
        """Every custom resource definition."""
        return listed(client.ApiextensionsV1Api(self.api).list_custom_resource_definition)

    @cached_property
    def nodes(self) -> list[Any]:
        """The nodes that pods can be put on: Ready and not cordoned."""
        return [each for each in listed(client.CoreV1Api(self.api).list_node) if _usable(each)]

    def definitions_of(self, suffix: str) -> list[Any]:
        """The definitions whose full name is, or ends in, ``suffix``."""
        return [each for each in self.definitions if each.metadata.name.endswith(suffix)]

    def instances(self, definition: Any, limit: int = 5) -> list[str]:
        """Names of custom resources of a definition, ``namespace/name``."""
        version = next(each.name for each in definition.spec.versions if each.served)
        try:
            found: Any = client.CustomObjectsApi(self.api).list_cluster_custom_object(
                definition.spec.group,
                version,
                definition.spec.names.plural,
                limit=limit,
                _request_timeout=REQUEST_TIMEOUT,
            )
        except ApiException as error:
            if error.status == 404:
                return []
            raise
        metas = [each["metadata"] for each in found.get("items", [])]
        return ["/".join(filter(None, (meta.get("namespace"), meta["name"]))) for meta in metas]

    def in_use(self, suffixes: tuple[str, ...]) -> list[str]:
        """Custom resources that exist of definitions with these suffixes, each with its kind."""
        return [
            f"{definition.spec.names.kind} {name}"
            for suffix in suffixes
            for definition in self.definitions_of(suffix)
            for name in self.instances(definition)
        ]

    @property
    def mark(self) -> dict[str, str]:
        """The label that tells ours, and no other: add-ons and charts set the usual ones themselves, and would
        conflict."""
        return {LABEL_CLUSTER: ClusterNames(self.scope.cluster).label}

    @property
    def labels(self) -> dict[str, str]:
        """What our objects in Kubernetes are known by."""
        return {**self.mark, MANAGED_BY: FIELD_MANAGER}

    def made(self, found: Any) -> bool:
        """Whether an object carries our labels."""
        labels = found.metadata.labels or {}
        return bool(labels.get(LABEL_CLUSTER) == ClusterNames(self.scope.cluster).label)


@contextmanager
def ground(site: Site, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> Iterator[Ground]:
    found = Ground(site, aws, kubernetes, settings)
    try:
        yield found
    finally:
        found.close()


def _usable(node: Any) -> bool:
    if node.spec.unschedulable or node.metadata.deletion_timestamp:
        return False
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions or ())
