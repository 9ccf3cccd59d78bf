"""What a container finds where it runs: variables, mounts, accelerators."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from .objects import dig
from .programs import Surroundings
from .resources import Json

if TYPE_CHECKING:
    from .cluster import Cluster

_ACCELERATORS = re.compile(r"nvidia\.com/(gpu|mig-.*)|aws\.amazon\.com/neuron.*|amd\.com/gpu")
_HOLDS_DATA = ("persistentVolumeClaim", "hostPath", "csi", "nfs", "image", "ephemeral")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigError(Exception):
    """A container whose variables cannot be had: the kubelet's CreateContainerConfigError."""


def variables(cluster: Cluster, pod: Json, container: Json) -> dict[str, str]:
    """The container's environment. Raises :class:`ConfigError` in the kubelet's words.
    https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/"""
    found: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        for kind, plural in (("secretRef", "secrets"), ("configMapRef", "configmaps")):
            if reference := source.get(kind):
                prefix = source.get("prefix") or ""
                content = _content(cluster, pod, plural, reference)
                found |= {prefix + key: value for key, value in (content or {}).items()}
    for variable in container.get("env") or []:
        name, source = variable["name"], variable.get("valueFrom") or {}
        if "value" in variable or not source:
            text = str(variable.get("value") or "")
            found[name] = re.sub(r"\$\(([\w.-]+)\)", lambda m: found.get(m[1], m[0]), text)
            continue
        for kind, plural in (("secretKeyRef", "secrets"), ("configMapKeyRef", "configmaps")):
            if reference := source.get(kind):
                value = _value(cluster, pod, plural, reference)
                if value is not None:
                    found[name] = value
        if path := dig(source, "fieldRef.fieldPath"):
            found[name] = _field(pod, path)
    return found


def _content(cluster: Cluster, pod: Json, plural: str, reference: Json) -> dict[str, str] | None:
    """What is in a Secret or ConfigMap; None for an optional one that is not there."""
    namespace, name = pod["metadata"]["namespace"], reference.get("name") or ""
    held = cluster.store.get(cluster.registry.type(plural), namespace, name)
    if held is None:
        if reference.get("optional"):
            return None
        raise ConfigError(f'{plural.removesuffix("s")} "{name}" not found')
    data = held.get("data") or {}
    if plural == "configmaps":
        return {key: str(value) for key, value in data.items()}
    return {key: base64.b64decode(value).decode("utf-8", "replace") for key, value in data.items()}


def _value(cluster: Cluster, pod: Json, plural: str, reference: Json) -> str | None:
    content = _content(cluster, pod, plural, reference)
    key = reference["key"]
    if content is not None and key not in content and not reference.get("optional"):
        kind = "Secret" if plural == "secrets" else "ConfigMap"
        raise ConfigError(f"couldn't find key {key} in {kind} {pod['metadata']['namespace']}/{reference['name']}")
    return (content or {}).get(key)


def _field(pod: Json, path: str) -> str:
    if keyed := _KEYED.fullmatch(path):
        return str((pod["metadata"].get(keyed[1]) or {}).get(keyed[2], ""))
    return str(dig(pod, path, ""))


def config_problem(cluster: Cluster, pod: Json) -> str | None:
    """Why a pod's containers cannot be made, if they cannot."""
    try:
        for container in pod["spec"]["containers"]:
            variables(cluster, pod, container)
    except ConfigError as problem:
        return str(problem)
    return None


def surroundings(cluster: Cluster, pod: Json, container: Json) -> Surroundings:
    """All that decides what a program does."""
    try:
        env = variables(cluster, pod, container)
    except ConfigError:
        env = {}
    meta = pod["metadata"]
    return Surroundings(
        env,
        _mounts(pod, container),
        _accelerators(cluster, pod, container),
        meta["namespace"],
        labels=dict(meta.get("labels") or {}),
        annotations=dict(meta.get("annotations") or {}),
        files=_files(cluster, pod, container),
    )


def _files(cluster: Cluster, pod: Json, container: Json) -> tuple[str, ...]:
    """The texts of the ConfigMaps that are mounted into a container, but for programs."""
    mounted = {mount["name"] for mount in container.get("volumeMounts") or []}
    names = [
        name
        for volume in dig(pod, "spec.volumes", [])
        if volume["name"] in mounted and (name := dig(volume, "configMap.name"))
    ]
    kind, namespace = cluster.registry.type("configmaps"), pod["metadata"]["namespace"]
    held = (cluster.store.get(kind, namespace, name) for name in names)
    return tuple(str(text) for found in held for key, text in dig(found, "data", {}).items() if not key.endswith(".py"))


def _mounts(pod: Json, container: Json) -> tuple[str, ...]:
    """Where something is mounted that can hold a model: also an empty folder that another container fills."""
    others = [c for c in [*dig(pod, "spec.initContainers", []), *pod["spec"]["containers"]] if c is not container]
    filled = {
        mount["name"]
        for other in others
        if other["name"] != container["name"]
        for mount in other.get("volumeMounts") or []
    }
    data = {
        volume["name"]
        for volume in dig(pod, "spec.volumes", [])
        if any(volume.get(kind) for kind in _HOLDS_DATA)
        or (volume.get("emptyDir") is not None and volume["name"] in filled)
    }
    return tuple(m["mountPath"] for m in container.get("volumeMounts") or [] if m["name"] in data)


def _accelerators(cluster: Cluster, pod: Json, container: Json) -> int:
    """Those that the container asks for. One that asks for none sees all of its node: NVIDIA_VISIBLE_DEVICES of the
    engines' images is ``all``."""
    for asked in (dig(container, "resources.limits", {}), dig(container, "resources.requests", {})):
        if found := sum(int(amount) for name, amount in asked.items() if _ACCELERATORS.fullmatch(name)):
            return found
    node = cluster.store.get(cluster.registry.type("nodes"), None, dig(pod, "spec.nodeName", ""))
    return sum(int(a) for name, a in dig(node, "status.allocatable", {}).items() if _ACCELERATORS.fullmatch(name))
