"""Who refers to which Secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kubernetes import client

from activities.teardown.objects import Objects

Raw = dict[str, Any]

_KINDS = (
    ("Deployment", "/apis/apps/v1/deployments"),
    ("StatefulSet", "/apis/apps/v1/statefulsets"),
    ("DaemonSet", "/apis/apps/v1/daemonsets"),
    ("Job", "/apis/batch/v1/jobs"),
    ("CronJob", "/apis/batch/v1/cronjobs"),
    ("InferenceEndpointConfig", "/apis/inference.sagemaker.aws.amazon.com/v1/inferenceendpointconfigs"),
    ("JumpStartModel", "/apis/inference.sagemaker.aws.amazon.com/v1/jumpstartmodels"),
    ("HyperPodPyTorchJob", "/apis/sagemaker.amazonaws.com/v1/hyperpodpytorchjobs"),
    ("RayCluster", "/apis/ray.io/v1/rayclusters"),
    ("RayJob", "/apis/ray.io/v1/rayjobs"),
)
"""What makes pods, where the cluster knows it. What owns these refers to the Secret through them."""
_REFERENCES = frozenset({"secretKeyRef", "secretRef", "tokenSecretRef"})
_ENDS = frozenset({"Complete", "Failed"})


def users_of(api: client.ApiClient, secrets: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    """``Kind name`` of what refers to each of the Secrets (namespace, name), without Jobs that have ended and without
    what another of them owns."""
    wanted = set(secrets)
    found: dict[tuple[str, str], list[str]] = {each: [] for each in wanted}
    if not wanted:
        return found
    objects = Objects(api)
    for kind, path in _KINDS:
        for each in objects.list(path):
            meta = each["metadata"]
            if _over(each) or any(owner.get("controller") for owner in meta.get("ownerReferences") or ()):
                continue
            for name in sorted(set(references(each.get("spec")))):
                if (key := (meta["namespace"], name)) in wanted:
                    found[key].append(f"{kind} {meta['name']}")
    return found


def references(spec: Any) -> Iterator[str]:
    """The names of Secrets in a spec, wherever they stand in it: environment, volumes, references of custom kinds."""
    if isinstance(spec, list):
        for each in spec:
            yield from references(each)
    elif isinstance(spec, dict):
        for key, value in spec.items():
            if key in _REFERENCES and isinstance(value, dict) and value.get("name"):
                yield str(value["name"])
            elif key == "secret" and isinstance(value, dict) and value.get("secretName"):
                yield str(value["secretName"])
            else:
                yield from references(value)


def _over(found: Raw) -> bool:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return found.get("kind", "Job") == "Job" and any(
        each.get("type") in _ENDS and each.get("status") == "True" for each in conditions
    )
