"""Deployments and Services in a cluster: read, applied and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from activities.context import operation_id, run_id
from activities.custom import Kind, changed, list_all
from activities.deployments.manifests import Manifest, default_mounts
from activities.deployments.trouble import as_raw
from activities.errors import fail
from activities.kubernetes import APPLY, REQUEST_TIMEOUT, read_or_none
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw, items, labels_of
from contracts.deployment_parts import DEFAULT_CLAIM, StorageMount
from contracts.deployments import DeploymentObject, DeploymentSpec
from contracts.inference import LABEL_SERVES, Serves
from contracts.names import ANNOTATION_OPERATION, ANNOTATION_RUN, ANNOTATION_SPEC, FIELD_MANAGER, LABEL_DEPLOYMENT
from contracts.problem import ProblemCode

OWN: dict[str, Any] = {**APPLY, "force": True}
"""An apply of what is ours: who has scaled it by hand meanwhile gives way."""
REVISION = "deployment.kubernetes.io/revision"
SCALED_OBJECT = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects")


def deployment(api: client.ApiClient, namespace: str, name: str) -> Raw | None:
    read = partial(client.AppsV1Api(api).read_namespaced_deployment, _preload_content=False)
    found = read_or_none(read, name, namespace)
    return as_raw(found) if found is not None else None


def service(api: client.ApiClient, namespace: str, name: str) -> Raw | None:
    read = partial(client.CoreV1Api(api).read_namespaced_service, _preload_content=False)
    found = read_or_none(read, name, namespace)
    return as_raw(found) if found is not None else None


def labelled(api: client.ApiClient, label: str, namespace: str | None = None) -> list[Raw]:
    """Every Deployment with the label, of one namespace or of all."""
    apps = client.AppsV1Api(api)
    listing = (
        apps.list_deployment_for_all_namespaces
        if namespace is None
        else partial(apps.list_namespaced_deployment, namespace)
    )
    return list(items(listing, label_selector=label))


def deployments(api: client.ApiClient, namespace: str | None = None) -> list[Raw]:
    """Every model server of ours."""
    return labelled(api, LABEL_DEPLOYMENT, namespace)


def set_replicas(api: client.ApiClient, found: Raw, replicas: int) -> None:
    """Give a Deployment another number of replicas, if it has not got that."""
    if found["spec"].get("replicas") != replicas:
        client.AppsV1Api(api).patch_namespaced_deployment_scale(
            found["metadata"]["name"],
            found["metadata"]["namespace"],
            {"spec": {"replicas": replicas}},
            field_manager=FIELD_MANAGER,
            _request_timeout=REQUEST_TIMEOUT,
        )


def services_of(api: client.ApiClient, namespace: str, name: str) -> list[Raw]:
    """Services of ours that lead to the deployment."""
    listing = partial(client.CoreV1Api(api).list_namespaced_service, namespace)
    selector = f"{LABEL_DEPLOYMENT}={name},{LABEL_SERVES}={Serves.DEPLOYMENT.value}"
    return list(items(listing, label_selector=selector))


def pods_of(api: client.ApiClient, found: Raw, *, newest: bool = False) -> list[Raw]:
    """Pods of the deployment; ``newest``: of its present form only."""
    metadata = found["metadata"]
    selector = ",".join(f"{key}={value}" for key, value in found["spec"]["selector"]["matchLabels"].items())
    pods = list(
        items(partial(client.CoreV1Api(api).list_namespaced_pod, metadata["namespace"]), label_selector=selector)
    )
    if not newest:
        return pods
    made = _newest_set(api, found, selector)
    return [pod for pod in pods if made is not None and _has_owner(pod, made["metadata"]["uid"])]


def _newest_set(api: client.ApiClient, found: Raw, selector: str) -> Raw | None:
    """The ReplicaSet of the present template: the one of the highest revision."""
    listing = partial(client.AppsV1Api(api).list_namespaced_replica_set, found["metadata"]["namespace"])
    sets = [each for each in items(listing, label_selector=selector) if _has_owner(each, found["metadata"]["uid"])]
    return max(sets, key=_revision, default=None)


def _revision(found: Raw) -> int:
    text = (found["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _has_owner(found: Raw, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in found["metadata"].get("ownerReferences") or ())


def apply_deployment(api: client.ApiClient, manifest: Manifest) -> Raw:
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    client.AppsV1Api(api).patch_namespaced_deployment(name, namespace, manifest, **OWN)
    applied = deployment(api, namespace, name)
    if applied is None:
        remedy = "Look who deletes it, then retry."
        fail(ProblemCode.CONFLICT, f"Deployment {namespace}/{name} was deleted right after it was applied", remedy)
    return applied


def apply_service(api: client.ApiClient, manifest: Manifest) -> None:
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    client.CoreV1Api(api).patch_namespaced_service(name, namespace, manifest, **OWN)


def delete(method: Any, found: Raw, **options: Any) -> None:
    """Delete just this object, and none that has taken its name meanwhile."""
    metadata = found["metadata"]
    body = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=metadata["uid"]), **options)
    try:
        method(metadata["name"], metadata["namespace"], body=body, _request_timeout=REQUEST_TIMEOUT)
    except ApiException as error:
        if error.status not in (404, 409):
            raise


def refuse_foreign(
    found: Raw | None, kind: str, cluster: str, pace: float, what: str = "deployment", label: str = LABEL_DEPLOYMENT
) -> None:
    """Raises FOREIGN for an object that is no model server of this cluster, BUSY (retried) for one on its way out.

    ``label`` is on all that belongs to ``what``, another thing than a deployment.
    """
    if found is None:
        return
    metadata = found["metadata"]
    name = f"{kind} {metadata['namespace']}/{metadata['name']}"
    if not is_ours(found, cluster) or label not in labels_of(found):
        remedy = "Choose another name, or delete that one."
        fail(ProblemCode.FOREIGN, f"A {name} exists that is no {what} of {cluster}", remedy, field="/name")
    if metadata.get("deletionTimestamp"):
        remedy = "The platform tries again when it is gone."
        fail(ProblemCode.BUSY, f"{name} is being deleted", remedy, retry=True, delay=2 * pace)


def required(api: client.ApiClient, namespace: str, name: str, cluster: str, pace: float) -> Raw:
    """A deployment of ours that is there. Raises NOT_FOUND, and as :func:`refuse_foreign`."""
    found = deployment(api, namespace, name)
    if found is None:
        remedy = "List the deployments; create-deployment makes one."
        fail(ProblemCode.NOT_FOUND, f"There is no deployment {namespace}/{name}", remedy, field="/name")
    refuse_foreign(found, "Deployment", cluster, pace)
    return found


def mounts_of(api: client.ApiClient, spec: DeploymentSpec) -> list[StorageMount]:
    """What a specification mounts, its default resolved."""
    if spec.storage is not None:
        return spec.storage
    read = client.CoreV1Api(api).read_namespaced_persistent_volume_claim
    return default_mounts(read_or_none(read, DEFAULT_CLAIM, spec.namespace) is not None)


def of_this_run(found: Raw) -> bool:
    """Whether the operation that asks has made it itself, a stage or an attempt ago."""
    annotations = found["metadata"].get("annotations") or {}
    return (annotations.get(ANNOTATION_OPERATION), annotations.get(ANNOTATION_RUN)) == (operation_id(), run_id())


def as_object(before: Raw | None, after: Raw) -> DeploymentObject:
    metadata = after["metadata"]
    return DeploymentObject(
        name=metadata["name"],
        namespace=metadata["namespace"],
        generation=metadata.get("generation") or 0,
        replicas=after["spec"].get("replicas", 1),
        changed=changed(before, after),
    )


def service_differs(before: Raw, manifest: Raw) -> bool:
    """Whether a Service was not yet as asked; Kubernetes does not count the changes of Services."""
    spec, wanted = before["spec"], manifest["spec"]
    annotations = before["metadata"].get("annotations") or {}
    asked = {k: v for k, v in manifest["metadata"]["annotations"].items() if k != ANNOTATION_OPERATION}
    ports = [{key: each.get(key) for key in ("name", "port", "protocol", "targetPort")} for each in spec["ports"]]
    return (
        spec.get("type") != wanted["type"]
        or spec.get("selector") != wanted["selector"]
        or ports != wanted["ports"]
        or any(annotations.get(key) != value for key, value in asked.items())
    )


def spec_of(found: Raw) -> DeploymentSpec | None:
    """What a deployment was made from; null where that is not kept, or not understood any more."""
    text = (found["metadata"].get("annotations") or {}).get(ANNOTATION_SPEC)
    if not text:
        return None
    try:
        return DeploymentSpec.model_validate_json(text)
    except ValueError:
        return None


def differences(before: DeploymentSpec | None, after: DeploymentSpec) -> list[str]:
    """Members of a specification that differ, in words; replicas are their own matter (scale-deployment)."""
    if before is None:
        return ["what it was made from is not known any more"]
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return [f"{key} is {_short(old[key])}, asked is {_short(new[key])}" for key in new if _differ(key, old, new)]


def differing(api: client.ApiClient, found: Raw, spec: DeploymentSpec) -> list[str]:
    """What of a deployment is not as ``spec`` says, its replicas among it unless an autoscaler decides on them."""
    different = differences(spec_of(found), spec)
    replicas = found["spec"].get("replicas", 1)
    metadata = found["metadata"]
    if replicas != spec.replicas and autoscaler_of(api, metadata["namespace"], metadata["name"]) is None:
        different.append(f"replicas is {replicas}, asked is {spec.replicas}")
    return different


def _differ(key: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    return key not in ("replicas", "confirm_public") and old.get(key) != new[key]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


def autoscalers(api: client.ApiClient, namespace: str) -> dict[str, str]:
    """Who decides on the replicas of which Deployment of the namespace: KEDA's autoscalers, and Kubernetes' own."""
    found: dict[str, str] = {}
    for scaler in _horizontal(api, namespace):
        target = scaler["spec"].get("scaleTargetRef", {})
        if target.get("kind") == "Deployment":
            found[target.get("name", "")] = f"HorizontalPodAutoscaler {scaler['metadata']['name']}"
    for scaled in list_all(api, SCALED_OBJECT, namespace):
        target = scaled.get("spec", {}).get("scaleTargetRef", {})
        if target.get("kind", "Deployment") == "Deployment":
            found[target.get("name", "")] = f"ScaledObject {scaled['metadata']['name']}"
    return found


def autoscaler_of(api: client.ApiClient, namespace: str, name: str) -> str | None:
    """Who decides on the replicas of the Deployment, if that is an autoscaler."""
    return autoscalers(api, namespace).get(name)


def _horizontal(api: client.ApiClient, namespace: str) -> Iterator[Raw]:
    listing = partial(client.AutoscalingV2Api(api).list_namespaced_horizontal_pod_autoscaler, namespace)
    try:
        yield from items(listing)
    except ApiException as error:
        if error.status != 404:
            raise
