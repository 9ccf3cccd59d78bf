"""What runs on a cluster as Kubernetes has it, and the components and features that it runs on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubernetes import client
from temporalio import activity

from activities import charts, custom
from activities.aws import AwsClients
from activities.dependencies.addons import describe_addon, only_nodes_missing
from activities.deployments import objects as deployments
from activities.drift.looking import looked
from activities.features.ground import Ground, ground
from activities.features.switch import read_feature
from activities.helm import helm_for
from activities.imports.workloads import HEALTH_AGENT
from activities.kubernetes import REQUEST_TIMEOUT, KubernetesClients
from activities.lost import lost_of, words
from activities.managed_endpoints.view import KINDS, as_endpoint
from activities.model_pools import objects as model_pools
from activities.node_pools import objects as node_pools
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw
from activities.routers import objects as routers
from activities.settings import Settings
from activities.storage.volumes import storage_claims
from contracts.cluster import ClusterRecord
from contracts.dependencies import COMPONENTS, ComponentKind
from contracts.drift import DriftKind, Member, Properties, Sight
from contracts.drift_look import LOOK_AT_WORKLOADS, LookForDrift
from contracts.drift_recorded import HEALTHY, major, member_of_claim, member_of_node_pool
from contracts.feature_site import site_of
from contracts.features import Feature, FeatureState, PartState, Site
from contracts.names import FIELD_MANAGER
from contracts.network import Scope

CONTROLLERS = ("kube-controller-manager", "keda", "kubelet", FIELD_MANAGER)
"""Field managers that write for somebody else, or for us."""
MOVING = ("CREATING", "UPDATING")


class WorkloadLooks:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._settings = aws, kubernetes, settings

    @activity.defn(name=LOOK_AT_WORKLOADS.name)
    def look_at_workloads(self, request: LookForDrift) -> Sight:
        """Components, node pools, features, claims, model servers, pools, routers and managed endpoints."""
        record, scope = request.record, request.scope
        site = site_of(record, scope)
        if record.control_plane is None or site is None:
            return Sight()
        name = record.control_plane.name
        with (
            self._kubernetes.connect(scope.region, name) as api,
            ground(site, self._aws, self._kubernetes, self._settings) as found,
        ):
            return looked(
                (
                    ((DriftKind.COMPONENT,), lambda: self._components(api, record, scope, name)),
                    ((DriftKind.NODE_POOL,), lambda: _node_pools(api, scope)),
                    ((DriftKind.FEATURE,), lambda: _features(found, site)),
                    ((DriftKind.STORAGE,), lambda: _claims(api, scope)),
                    ((DriftKind.DEPLOYMENT,), lambda: _deployments(api, scope)),
                    ((DriftKind.MODEL_POOL,), lambda: _pools(api, scope)),
                    ((DriftKind.ROUTER,), lambda: _routers(api, scope)),
                    ((DriftKind.ENDPOINT,), lambda: _endpoints(api, scope)),
                )
            )

    def _components(self, api: client.ApiClient, record: ClusterRecord, scope: Scope, cluster: str) -> Iterator[Member]:
        recorded = {each.name for each in record.dependencies}
        for part in COMPONENTS:
            if part.name not in recorded:
                continue
            if part.kind is ComponentKind.HELM:
                yield from self._release(api, scope, cluster, part.name)
                continue
            found = describe_addon(self._aws, scope.region, cluster, part.name)
            if found is None or found["status"] == "DELETING":
                continue
            properties: Properties = {}
            if found["status"] == "ACTIVE" or only_nodes_missing(found):
                properties["state"] = HEALTHY
            elif found["status"] not in MOVING:
                properties["state"] = found["status"].lower()
            if (number := major(found["addonVersion"])) is not None:
                properties["major_version"] = number
            yield Member(kind=DriftKind.COMPONENT, name=part.name, properties=properties, owned=False)

    def _release(self, api: client.ApiClient, scope: Scope, cluster: str, name: str) -> Iterator[Member]:
        chart = charts.hyperpod_dependencies(self._settings, scope.region)
        with helm_for(self._settings, self._kubernetes.connection(scope.region, cluster)) as helm:
            history = helm.history(chart.release, chart.namespace)
            status = history[-1].status if history else "absent"
            lost = lost_of(helm, api, chart.release, chart.namespace, history[-1]) if status == "deployed" else []
        if status == "absent" or status == "uninstalled":
            # Others install the same chart under another name, or without Helm.
            apps = client.AppsV1Api(api)
            sets: Any = apps.list_daemon_set_for_all_namespaces(_request_timeout=REQUEST_TIMEOUT).items
            if not any(HEALTH_AGENT in each.metadata.name for each in sets):
                return
            status = "deployed"
        properties: Properties = {} if status.startswith("pending") else {"state": status}
        if status == "deployed":
            properties["state"] = f"without {words(lost)}" if lost else HEALTHY
        yield Member(kind=DriftKind.COMPONENT, name=name, properties=properties, owned=False)


def _node_pools(api: client.ApiClient, scope: Scope) -> Iterator[Member]:
    classes = {each["metadata"]["name"]: each for each in node_pools.list_all(api, node_pools.NODE_CLASS)}
    for pool in node_pools.list_all(api, node_pools.NODE_POOL):
        if (name := node_pools.class_of(pool)) is not None and not pool["metadata"].get("deletionTimestamp"):
            seen = member_of_node_pool(node_pools.as_node_pool(api, pool, classes.get(name), scope.cluster))
            yield seen.model_copy(update={"by": last_writer(pool)})


def _features(found: Ground, site: Site) -> Iterator[Member]:
    for feature in Feature:
        status, parts = read_feature(found, feature)
        state = status.state
        wrong = [each for each in parts if each.state in (PartState.WRONG, PartState.ABSENT) and not each.part.optional]
        if state is FeatureState.DEGRADED and not wrong:
            # Only nodes are missing.
            state = FeatureState.ON
        told = state in (FeatureState.ON, FeatureState.OFF, FeatureState.DEGRADED, FeatureState.FOREIGN)
        properties: Properties = {"state": state.value} if told else {}
        yield Member(kind=DriftKind.FEATURE, name=feature.value, properties=properties, owned=False)


def _claims(api: client.ApiClient, scope: Scope) -> Iterator[Member]:
    for each in storage_claims(client.CoreV1Api(api), scope.cluster):
        yield member_of_claim(each)


def _deployments(api: client.ApiClient, scope: Scope) -> Iterator[Member]:
    found = [each for each in deployments.deployments(api) if is_ours(each, scope.cluster)]
    yield from _servers(api, DriftKind.DEPLOYMENT, found)


def _pools(api: client.ApiClient, scope: Scope) -> Iterator[Member]:
    found = [each for each in model_pools.pools(api) if model_pools.is_pool(each, scope.cluster)]
    yield from _servers(api, DriftKind.MODEL_POOL, found)


def _routers(api: client.ApiClient, scope: Scope) -> Iterator[Member]:
    found = [each for each in routers.routers(api) if is_ours(each, scope.cluster) and routers.is_router(each)]
    yield from _servers(api, DriftKind.ROUTER, found)


def _servers(api: client.ApiClient, kind: DriftKind, found: Iterable[Raw]) -> Iterator[Member]:
    """Deployments by what they run. The replicas of one that an autoscaler looks after are its own to set."""
    scalers: dict[str, dict[str, str]] = {}
    for each in found:
        metadata, spec = each["metadata"], each["spec"]
        space = metadata["namespace"]
        if metadata.get("deletionTimestamp"):
            continue
        if space not in scalers:
            scalers[space] = deployments.autoscalers(api, space)
        container = spec["template"]["spec"]["containers"][0]
        limits = (container.get("resources") or {}).get("limits") or {}
        properties: Properties = {
            "image": container.get("image"),
            "command": [*(container.get("command") or ()), *(container.get("args") or ())],
            "limits": {key: str(value) for key, value in limits.items()},
        }
        if metadata["name"] not in scalers[space]:
            properties["replicas"] = spec.get("replicas", 1)
        yield Member(kind=kind, name=f"{space}/{metadata['name']}", properties=properties, by=last_writer(each))


def _endpoints(api: client.ApiClient, scope: Scope) -> Iterator[Member]:
    for kind in KINDS.values():
        for each in custom.list_all(api, kind, None):
            seen = as_endpoint(each, scope.cluster)
            if each["metadata"].get("deletionTimestamp"):
                continue
            properties: Properties = {"model": seen.model, "source": seen.source, "routing": seen.routing}
            if not seen.autoscaled:
                properties["replicas"] = seen.replicas
            name = f"{seen.namespace}/{seen.name}"
            yield Member(
                kind=DriftKind.ENDPOINT, name=name, properties=properties, owned=seen.managed, by=last_writer(each)
            )


def last_writer(found: Raw) -> str | None:
    """Who wrote an object's specification last, if that was not this platform: a field manager, e.g. ``kubectl-edit``.

    (Kubernetes: server-side apply, managedFields)
    """
    written = [
        each
        for each in found["metadata"].get("managedFields") or ()
        if each.get("subresource") != "status" and each.get("time")
    ]
    last = max(written, key=lambda each: str(each["time"]), default=None)
    manager = str(last["manager"]) if last is not None else None
    return None if manager is None or manager.startswith(CONTROLLERS) else manager
