"""What a container's script would be run with: read from the cluster, under its lock."""

from __future__ import annotations

import base64
import hashlib
import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox.kubernetes import environment
from sandbox.kubernetes.objects import dig
from sandbox.kubernetes.resources import Json

if TYPE_CHECKING:
    from sandbox.kubernetes.cluster import Cluster

S3 = "s3.csi.aws.com"
INTERPRETERS = ("python", "python3")


@dataclass(frozen=True)
class Volume:
    """What is mounted at ``path``: files of a ConfigMap or Secret, a bucket, a directory that stays, or nothing yet."""

    path: str
    files: dict[str, bytes] = field(default_factory=dict)
    bucket: str = ""
    prefix: str = ""
    read_only: bool = False
    kept: str = ""
    """Name of the persistent volume whose directory outlives the pod."""

    @property
    def is_storage(self) -> bool:
        return bool(self.bucket or self.kept)


@dataclass(frozen=True)
class Plan:
    """One run of a script."""

    arguments: tuple[str, ...]
    """The script's path in the container, and what follows it."""
    env: dict[str, str]
    volumes: tuple[Volume, ...]
    termination_path: str


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def planned(cluster: Cluster, pod: Json, container: Json, known: frozenset[str]) -> Plan | None:
    """How a container's script is run; None for a container that runs, or has beside, any but the known ones (by their
    digests)."""
    words = [*(container.get("command") or []), *(container.get("args") or [])]
    if len(words) < 2 or posixpath.basename(words[0]) not in INTERPRETERS:
        return None
    volumes = _volumes(cluster, pod, container)
    place = next((each for each in volumes if each.files and words[1].startswith(f"{each.path}/")), None)
    if place is None:
        return None
    # A script imports what lies beside it.
    code = {name: content for name, content in place.files.items() if name.endswith(".py")}
    if words[1].removeprefix(f"{place.path}/") not in code or any(digest(each) not in known for each in code.values()):
        return None
    env = environment.variables(cluster, pod, container)
    path = container.get("terminationMessagePath") or "/dev/termination-log"
    return Plan(tuple(words[1:]), env, tuple(volumes), path)


def _volumes(cluster: Cluster, pod: Json, container: Json) -> list[Volume]:
    sources = {each["name"]: each for each in dig(pod, "spec.volumes", [])}
    found = []
    for mount in container.get("volumeMounts") or []:
        path, source = mount["mountPath"].rstrip("/"), sources.get(mount["name"], {})
        found.append(_volume(cluster, pod, path, source, bool(mount.get("readOnly"))))
    return found


def _volume(cluster: Cluster, pod: Json, path: str, source: Json, read_only: bool) -> Volume:
    store, registry, namespace = cluster.store, cluster.registry, pod["metadata"]["namespace"]
    if name := dig(source, "configMap.name"):
        held = store.get(registry.type("configmaps"), namespace, name)
        return Volume(path, {key: text.encode() for key, text in dig(held, "data", {}).items()}, read_only=True)
    if name := dig(source, "secret.secretName"):
        held = store.get(registry.type("secrets"), namespace, name)
        return Volume(path, {k: base64.b64decode(v) for k, v in dig(held, "data", {}).items()}, read_only=True)
    if name := dig(source, "persistentVolumeClaim.claimName"):
        claim = store.get(registry.type("persistentvolumeclaims"), namespace, name)
        volume = store.get(registry.type("persistentvolumes"), None, dig(claim, "spec.volumeName", ""))
        if dig(volume, "spec.csi.driver") != S3:
            return Volume(path, kept=dig(claim, "spec.volumeName", "") or name, read_only=read_only)
        options = [str(each).strip() for each in dig(volume, "spec.mountOptions", [])]
        prefix = next((each.partition("prefix=")[2] for each in options if each.startswith("prefix=")), "")
        bucket = dig(volume, "spec.csi.volumeAttributes.bucketName", "")
        return Volume(path, bucket=bucket, prefix=prefix, read_only=read_only or "read-only" in options)
    return Volume(path)
