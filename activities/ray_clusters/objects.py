"""Ray clusters for people in a cluster: found, compared, and spoken to."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

from kubernetes import client
from urllib3.exceptions import HTTPError

from activities import custom
from activities.deployments import objects as deployments
from activities.errors import fail
from activities.inference import proxy
from activities.inference.proxy import Upstream
from activities.kubernetes import read_or_none
from activities.node_pools.objects import is_ours
from activities.nodes.sight import Raw, items, labels_of
from activities.ray import RAY_CLUSTER, is_head
from contracts.deployment_parts import DEFAULT_CLAIM, StorageMount
from contracts.names import ANNOTATION_SPEC, LABEL_RAY_CLUSTER
from contracts.problem import ProblemCode
from contracts.ray_clusters import RayClusterSpec, RayUse
from contracts.ray_parts import DASHBOARD_PORT

WHAT = "Ray cluster for people"
SECONDS = 10.0
"""For an answer of a head."""


def find(api: client.ApiClient, namespace: str, name: str) -> Raw | None:
    return custom.get(api, RAY_CLUSTER, namespace, name)


def all_of(api: client.ApiClient, cluster: str, namespace: str | None = None) -> list[Raw]:
    """Every one of ours. Those that runs of training make for themselves are not among them."""
    found = custom.list_all(api, RAY_CLUSTER, namespace)
    return [each for each in found if is_ours(each, cluster) and LABEL_RAY_CLUSTER in labels_of(each)]


def refuse_foreign(found: Raw | None, cluster: str, pace: float) -> None:
    """Raises FOREIGN for one that is not ours, BUSY (retried) for one on its way out."""
    deployments.refuse_foreign(found, RAY_CLUSTER.kind, cluster, pace, WHAT, LABEL_RAY_CLUSTER)


def required(api: client.ApiClient, namespace: str, name: str) -> Raw:
    """Raises NOT_FOUND."""
    found = find(api, namespace, name)
    if found is None:
        remedy = "Retry the stage that makes it; list the Ray clusters."
        fail(ProblemCode.NOT_FOUND, f"There is no Ray cluster {namespace}/{name}", remedy, field="/name")
    return found


def absent(api: client.ApiClient, cluster: str, namespace: str, name: str) -> str:
    """That a namespace has no Ray cluster of the name, and which it has."""
    here = sorted(each["metadata"]["name"] for each in all_of(api, cluster, namespace))
    told = f"; it has {', '.join(here[:5])}" if here else ""
    return f"namespace {namespace} of cluster {cluster} has no Ray cluster {name}{told}"


def spec_of(found: Raw) -> RayClusterSpec | None:
    """What it was made from; null where that is not kept, or not understood any more."""
    text = (found["metadata"].get("annotations") or {}).get(ANNOTATION_SPEC)
    try:
        return RayClusterSpec.model_validate_json(text) if text else None
    except ValueError:
        return None


def differences(before: RayClusterSpec | None, after: RayClusterSpec) -> list[str]:
    """Members of a specification that differ, in words."""
    if before is None:
        return ["what it was made from is not known any more"]
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    return [f"{key} is {_short(old[key])}, asked is {_short(new[key])}" for key in new if old[key] != new[key]]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"


def mounts_of(api: client.ApiClient, spec: RayClusterSpec) -> list[StorageMount]:
    """What it mounts, its default resolved."""
    if spec.storage is not None:
        return spec.storage
    read = client.CoreV1Api(api).read_namespaced_persistent_volume_claim
    there = read_or_none(read, DEFAULT_CLAIM, spec.namespace) is not None
    return [StorageMount(claim=DEFAULT_CLAIM)] if there else []


def pods_of(api: client.ApiClient, namespace: str, name: str) -> list[Raw]:
    """The head first."""
    listing = partial(client.CoreV1Api(api).list_namespaced_pod, namespace)
    found = items(listing, label_selector=f"{LABEL_RAY_CLUSTER}={name}")
    return sorted(found, key=lambda pod: (not is_head(pod), pod["metadata"]["name"]))


def ask(api: client.ApiClient, head: Raw, path: str) -> Any | None:
    """What a head's dashboard answers to a GET, as JSON; None where it does not.

    (Ray: Ray Jobs REST API)
    """
    metadata = head["metadata"]
    upstream = Upstream(metadata["namespace"], metadata["name"], DASHBOARD_PORT, "pods")
    try:
        answer = proxy.get(api, upstream, path, SECONDS)
    except (HTTPError, OSError):
        return None
    return answer.document if answer.ok else None


def version_of(api: client.ApiClient, head: Raw) -> str | None:
    """Ray's version as the head tells it; None where it does not answer."""
    found = ask(api, head, "/api/version")
    told = found.get("ray_version") if isinstance(found, dict) else None
    return str(told) if told else None


def use_of(api: client.ApiClient, head: Raw, gpus: int) -> RayUse | None:
    """What runs on it; None where the head does not answer."""
    version = version_of(api, head)
    jobs = ask(api, head, "/api/jobs/")
    if version is None or not isinstance(jobs, list):
        return None
    known = [each for each in jobs if isinstance(each, dict)]
    running = sum(each.get("status") in ("PENDING", "RUNNING") for each in known)
    ends = [moment for each in known if (moment := _moment(each.get("end_time"))) is not None]
    last = max(ends, default=None)
    return RayUse(ray_version=version, running=running, last_ended_at=last, note=_note(running, last, gpus))


def _note(running: int, last: datetime | None, gpus: int) -> str:
    if running:
        return f"{running} {'job or session runs' if running == 1 else 'jobs and sessions run'} on it"
    since = (
        f"nothing has run on it since {last:%Y-%m-%d %H:%M} UTC" if last is not None else "nothing has run on it yet"
    )
    held = f"; it holds {gpus} {'GPU' if gpus == 1 else 'GPUs'} meanwhile" if gpus else ""
    return f"{since}{held}"


def _moment(milliseconds: Any) -> datetime | None:
    if not isinstance(milliseconds, int | float) or milliseconds <= 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
