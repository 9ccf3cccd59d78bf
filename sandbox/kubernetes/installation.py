"""How add-ons get into a cluster and out of it, and whether they work.

https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-field-management.html and
https://docs.aws.amazon.com/eks/latest/APIReference/API_AddonIssue.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox.dataplane import AddonHealth, AddonSettings

from . import addons
from .addonparts import Requirement, Wanted
from .objects import dig
from .resources import Json, ResourceType

if TYPE_CHECKING:
    from .cluster import Cluster

WORKLOADS = ("deployments", "daemonsets")
KEPT = ("Namespace", "CustomResourceDefinition")
"""What stays when an add-on goes: deleting it would delete what users made of it."""

Issue = tuple[str, str]


def install(cluster: Cluster, name: str, version: str, settings: AddonSettings) -> tuple[str, ...]:
    """Put an add-on's objects into the cluster, or bring them up to date. Nothing is put in while something that it
    needs is missing, or where others' objects are in the way that must not be overwritten: their names are returned."""
    with cluster.store.lock:
        wanted = Wanted(version, settings.configuration)
        cluster.addons[name] = version
        cluster.addon_configurations[name] = dict(settings.configuration)
        objects = addons.objects(name, wanted)
        if _unmet(cluster, name):
            return ()
        strangers = [o for o in objects if o["kind"] != "Namespace" and _is_strangers(cluster, o, name)]
        if strangers and not settings.overwrite:
            return tuple(f"{o['kind']} {o['metadata']['name']}" for o in strangers)
        for obj in objects:
            _annotate(obj, settings.roles)
            _apply(cluster, obj, replace=obj in strangers)
        return ()


def remove(cluster: Cluster, name: str, preserve: bool = False) -> None:
    """Forget an add-on and take away what it put in."""
    with cluster.store.lock:
        cluster.addons.pop(name, None)
        cluster.addon_configurations.pop(name, None)
        if preserve:
            return
        for kind in cluster.store.types():
            if kind.kind in KEPT:
                continue
            for obj in [o for o in cluster.store.objects(kind).values() if _owner(o) == name]:
                cluster.registry.delete(kind, obj, {"propagationPolicy": "Background"})


def health(cluster: Cluster, name: str) -> AddonHealth:
    """From the add-on's workloads, and what keeps it from being installed at all."""
    if name not in cluster.addons:
        return AddonHealth(False, (("K8sResourceNotFound", f"the add-on {name} is not installed"),), missing=True)
    with cluster.store.lock:
        wanted = Wanted(cluster.addons[name], cluster.addon_configurations.get(name, {}))
        issues: list[Issue] = []
        missing = False
        for obj in addons.objects(name, wanted):
            if obj["kind"] in ("DaemonSet", "Deployment"):
                found = _find(cluster, obj)
                missing = missing or found is None
                if issue := _workload_issue(obj, found):
                    issues.append(issue)
        if missing and (unmet := _unmet(cluster, name)):
            issues = unmet
        return AddonHealth(not issues, tuple(issues), missing)


def kind_of(cluster: Cluster, obj: Json) -> ResourceType:
    group, _, version = obj["apiVersion"].rpartition("/")
    for kind in cluster.store.types():
        if (kind.group, kind.version, kind.kind) == (group, version, obj["kind"]):
            return kind
    raise KeyError(f"{obj['apiVersion']} {obj['kind']} is not served")


def _unmet(cluster: Cluster, name: str) -> list[Issue]:
    return [(r.code, r.message) for r in addons.REQUIREMENTS.get(name, ()) if not _is_met(cluster, r)][:1]


def _is_met(cluster: Cluster, requirement: Requirement) -> bool:
    kind = cluster.registry.type(requirement.plural, requirement.group)
    found = cluster.store.get(kind, requirement.namespace, requirement.name)
    return found is not None and (not requirement.available or dig(found, "status.availableReplicas", 0) > 0)


def _find(cluster: Cluster, obj: Json) -> Json | None:
    meta = obj["metadata"]
    try:
        return cluster.store.get(kind_of(cluster, obj), meta.get("namespace"), meta["name"])
    except KeyError:
        return None


def _owner(obj: Json) -> str | None:
    return (obj["metadata"].get("labels") or {}).get(addons.ADDON_LABEL)


def _is_strangers(cluster: Cluster, obj: Json, name: str) -> bool:
    found = _find(cluster, obj)
    return found is not None and _owner(found) != name


def _annotate(obj: Json, roles: dict[str, str]) -> None:
    """An account's role: https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html"""
    if obj["kind"] == "ServiceAccount" and (role := roles.get(obj["metadata"]["name"])):
        obj["metadata"].setdefault("annotations", {})["eks.amazonaws.com/role-arn"] = role


def _apply(cluster: Cluster, obj: Json, replace: bool) -> None:
    kind, meta = kind_of(cluster, obj), obj["metadata"]
    found = cluster.store.get(kind, meta.get("namespace"), meta["name"])
    if found is not None and replace and kind.plural in WORKLOADS:
        # Selectors cannot be changed; the pods of the old one are collected.
        cluster.registry.purge(kind, found)
        found = None
    if found is None:
        cluster.registry.create(kind, meta.get("namespace"), obj)
        return
    if obj["kind"] == "Namespace":
        return

    def mutate(live: Json) -> None:
        for key in ("labels", "annotations"):
            if meta.get(key):
                live["metadata"].setdefault(key, {}).update(meta[key])
        if kind.plural in WORKLOADS:
            _bring_workload(live, obj)
        elif kind.custom:
            live["spec"] = obj["spec"]

    cluster.registry.modify(kind, meta.get("namespace"), meta["name"], mutate)


def _bring_workload(live: Json, wanted: Json) -> None:
    spec, template = live["spec"], live["spec"]["template"]["spec"]
    if "replicas" in wanted["spec"]:
        spec["replicas"] = wanted["spec"]["replicas"]
    wanted_template = wanted["spec"]["template"]["spec"]
    for container, new in zip(template["containers"], wanted_template["containers"], strict=False):
        container["image"] = new["image"]
    if selector := wanted_template.get("nodeSelector"):
        template["nodeSelector"] = selector


def _workload_issue(obj: Json, found: Json | None) -> Issue | None:
    kind, name = obj["kind"], obj["metadata"]["name"]
    if found is None:
        return "K8sResourceNotFound", f"The {kind.lower()} {name} was not found"
    generation = found["metadata"].get("generation")
    if kind == "DaemonSet":
        wanted, ready = dig(found, "status.desiredNumberScheduled", 0), dig(found, "status.numberReady", 0)
        updated = dig(found, "status.updatedNumberScheduled", 0)
    else:
        wanted, ready = dig(found, "spec.replicas", 1), dig(found, "status.availableReplicas", 0)
        updated = dig(found, "status.updatedReplicas", 0)
    if dig(found, "status.observedGeneration") != generation or ready < wanted or updated < wanted:
        message = f"The add-on is unhealthy because the {kind.lower()} {name} has {ready} of {wanted} replicas ready"
        return "InsufficientNumberOfReplicas", message
    return None
