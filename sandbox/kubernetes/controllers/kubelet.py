"""The kubelets of all nodes: pods that are placed start, get ready, end, and stop.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ . Probes pass after initialDelaySeconds. A pod that
restarts ``Always`` runs for ever; others end after :data:`RUN_SECONDS`. Annotations say otherwise:
``sandbox/run-seconds``, ``sandbox/exit-code``, ``sandbox/image-error: "true"`` and ``sandbox/log`` (what it prints).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from sandbox.kubernetes.objects import clone, dig, parse_time, set_condition
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import NODES, PODS, Controller, Key, is_deleted, object_key

PULL_SECONDS = 20.0
START_SECONDS = 2.0
STOP_SECONDS = 2.0
RUN_SECONDS = 10.0
RETRY_SECONDS = 10.0
BACKOFF_SECONDS = 10.0
COMPONENT = "kubelet"

RUN, EXIT, IMAGE_ERROR, LOG = "sandbox/run-seconds", "sandbox/exit-code", "sandbox/image-error", "sandbox/log"


def _annotation(pod: Json, name: str, default: str = "") -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, default))


def _exit_code(pod: Json) -> int:
    return int(_annotation(pod, EXIT, "0"))


def _run_seconds(pod: Json) -> float | None:
    """How long a container runs; None for ever."""
    text = _annotation(pod, RUN)
    if text:
        return float(text)
    return None if pod["spec"]["restartPolicy"] == "Always" else RUN_SECONDS


class Kubelet(Controller):
    name = "kubelet"
    watches = (PODS, NODES)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == NODES:
            if change.type == DELETED:
                for pod in self.store.pods_on(change.new["metadata"]["name"]):
                    yield object_key(pod)
        elif change.type == DELETED:
            self.cluster.logs.forget(change.new["metadata"]["uid"])
        elif dig(change.new, "spec.nodeName"):
            placed = change.old is None or not dig(change.old, "spec.nodeName")
            if placed or is_deleted(change.new):
                yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        pods = self.kind("pods")
        pod = self.find(pods, key)
        if pod is None or not dig(pod, "spec.nodeName"):
            return
        if self.store.get(self.kind("nodes"), None, pod["spec"]["nodeName"]) is None:
            # Pod garbage collection: the node is gone and with it whatever ran there.
            self.registry.purge(pods, clone(pod))
        elif is_deleted(pod):
            self._stop(pod, key)
        elif dig(pod, "status.phase") == "Pending":
            self._start(pod, key)
        elif dig(pod, "status.phase") == "Running":
            self._watch_over(pod, key)

    # A kubelet knows when things are due from the times in the status, so that a restored sandbox goes on.

    def _wait(self, key: Key, due: float) -> bool:
        """Whether something is due; if not, it is looked at again in time."""
        left = due - self.registry.now()
        if left > 0:
            self.later(left, key)
        return left <= 0

    def _stop(self, pod: Json, key: Key) -> None:
        meta = pod["metadata"]
        grace = meta.get("deletionGracePeriodSeconds", 0)
        asked = parse_time(meta["deletionTimestamp"]) - grace
        if self._wait(key, asked + min(grace, STOP_SECONDS)):
            self.registry.modify(
                self.kind("pods"),
                meta["namespace"],
                meta["name"],
                lambda o: o["metadata"].update(deletionGracePeriodSeconds=0),
            )
            live = self.find(self.kind("pods"), key)
            if live is not None and not live["metadata"].get("finalizers"):
                self.registry.purge(self.kind("pods"), clone(live))

    def _start(self, pod: Json, key: Key) -> None:
        started = dig(pod, "status.startTime")
        if started is None:
            self._accept(pod)
            self.later(START_SECONDS, key)
            return
        problem = self._mount_problem(pod)
        if problem:
            self.registry.event(pod, "FailedMount", problem, True, COMPONENT)
            self.later(RETRY_SECONDS, key)
            return
        pulling = dig(pod, "status.containerStatuses", [{}])[0].get("state", {}).get("waiting", {}).get("message")
        if pulling is None:
            # The volumes are there: now the images.
            self._pull(pod, key)
            return
        if _annotation(pod, IMAGE_ERROR) == "true":
            self._image_error(pod)
        elif self._wait(key, float(pulling.rpartition(" ")[2])):
            self._run(pod, key)

    def _accept(self, pod: Json) -> None:
        now = self.registry.timestamp()
        node = self.store.get(self.kind("nodes"), None, pod["spec"]["nodeName"])
        address = next(
            (a["address"] for a in dig(node, "status.addresses", []) if a["type"] == "InternalIP"), "10.0.0.1"
        )
        status = clone(pod["status"])
        status.update(startTime=now, hostIP=address, hostIPs=[{"ip": address}])
        status["containerStatuses"] = self._statuses(pod, {"waiting": {"reason": "ContainerCreating"}})
        set_condition(status, "Initialized", "True", "", "", now)
        for kind in ("Ready", "ContainersReady"):
            set_condition(status, kind, "False", "ContainersNotReady", "containers are not ready", now)
        self.status(self.kind("pods"), pod, status)

    def _images(self, pod: Json) -> list[str]:
        return [c.get("image", "") for c in [*dig(pod, "spec.initContainers", []), *pod["spec"]["containers"]]]

    def _pull(self, pod: Json, key: Key) -> None:
        node = self.store.get(self.kind("nodes"), None, pod["spec"]["nodeName"])
        present = {name for image in dig(node, "status.images", []) for name in image.get("names", [])}
        missing = [image for image in self._images(pod) if image not in present]
        for image in missing:
            self.registry.event(pod, "Pulling", f'Pulling image "{image}"', component=COMPONENT)
        due = self.registry.now() + (PULL_SECONDS if missing else 0) + START_SECONDS
        status = clone(pod["status"])
        for container in status["containerStatuses"]:
            container["state"] = {"waiting": {"reason": "ContainerCreating", "message": f"starts at {due}"}}
        self.status(self.kind("pods"), pod, status)
        self.later(due - self.registry.now(), key)

    def _image_error(self, pod: Json) -> None:
        status, image = clone(pod["status"]), self._images(pod)[0]
        message = f'failed to pull and unpack image "{image}": not found'
        for container in status["containerStatuses"]:
            container["state"] = {
                "waiting": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
            }
        self.status(self.kind("pods"), pod, status)
        self.registry.event(pod, "Failed", f'Failed to pull image "{image}": {message}', True, COMPONENT)

    def _mount_problem(self, pod: Json) -> str | None:
        namespace = pod["metadata"]["namespace"]
        for volume in dig(pod, "spec.volumes", []):
            for source, plural, field in (("configMap", "configmaps", "name"), ("secret", "secrets", "secretName")):
                reference = volume.get(source)
                if reference and not reference.get("optional"):
                    name = reference.get(field, "")
                    if self.store.get(self.kind(plural), namespace, name) is None:
                        kind = source.lower()
                        return f'MountVolume.SetUp failed for volume "{volume["name"]}" : {kind} "{name}" not found'
            driver, name = dig(volume, "csi.driver"), volume["name"]
            claim_name = dig(volume, "persistentVolumeClaim.claimName")
            if claim_name:
                claim = self.store.get(self.kind("persistentvolumeclaims"), namespace, claim_name)
                name = dig(claim, "spec.volumeName", "")
                bound = self.store.get(self.kind("persistentvolumes"), None, name) if name else None
                if bound is None:
                    return f'MountVolume.WaitForAttach failed for volume "{volume["name"]}" : claim is not bound'
                driver = dig(bound, "spec.csi.driver")
            if driver and self.store.get(self.kind("csidrivers", "storage.k8s.io"), None, driver) is None:
                return (
                    f'MountVolume.MountDevice failed for volume "{name}" : kubernetes.io/csi: '
                    f"attacher.MountDevice failed to create newCsiDriverClient: "
                    f"driver name {driver} not found in the list of registered CSI drivers"
                )
        return None

    def _statuses(self, pod: Json, state: Json, ready: bool = False, **more: Any) -> list[Json]:
        restarts = max((c.get("restartCount", 0) for c in dig(pod, "status.containerStatuses", [])), default=0)
        uid = pod["metadata"]["uid"]
        return [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "ready": ready,
                "imageID": ""
                if "waiting" in state
                else f"{container.get('image', '').split(':')[0]}@sha256:{_digest(container.get('image', ''))}",
                "restartCount": restarts,
                "started": ready or "running" in state,
                "state": clone(state),
                **({} if "waiting" in state else {"containerID": f"containerd://{_digest(uid + container['name'])}"}),
                **more,
            }
            for container in pod["spec"]["containers"]
        ]

    def _run(self, pod: Json, key: Key) -> None:
        now = self.registry.timestamp()
        self._remember_images(pod)
        for image in dict.fromkeys(self._images(pod)):
            self.registry.event(pod, "Pulled", f'Successfully pulled image "{image}"', component=COMPONENT)
        status = clone(pod["status"])
        status["phase"] = "Running"
        status["containerStatuses"] = self._statuses(pod, {"running": {"startedAt": now}})
        if not status.get("podIP"):
            address = status["hostIP"] if pod["spec"].get("hostNetwork") else _pod_ip(pod["metadata"]["uid"])
            status.update(podIP=address, podIPs=[{"ip": address}])
        self.status(self.kind("pods"), pod, status)
        names = [container["name"] for container in pod["spec"]["containers"]]
        self.registry.event(pod, "Started", f"Started container {', '.join(names)}", component=COMPONENT)
        for container in names:
            lines = _annotation(pod, LOG).splitlines() or [f"{container} of {pod['metadata']['name']} started"]
            self.cluster.logs.write(pod["metadata"]["uid"], container, self.registry.now(), *lines)
        live = self.find(self.kind("pods"), key)
        if live is not None:
            self._watch_over(live, key)

    def _remember_images(self, pod: Json) -> None:
        """What a node has pulled it need not pull again."""
        name = pod["spec"]["nodeName"]
        node = self.store.get(self.kind("nodes"), None, name)
        present = {n for image in dig(node, "status.images", []) for n in image.get("names", [])}
        new = [image for image in dict.fromkeys(self._images(pod)) if image not in present]
        if new:
            entries = [{"names": [image], "sizeBytes": 500_000_000} for image in new]
            self.registry.modify(
                self.kind("nodes"),
                None,
                name,
                lambda o: o.setdefault("status", {}).setdefault("images", []).extend(entries),
            )

    def _watch_over(self, pod: Json, key: Key) -> None:
        running = dig(pod["status"]["containerStatuses"][0], "state.running.startedAt")
        if running is None:
            self._restart(pod, key)
            return
        started, seconds = parse_time(running), _run_seconds(pod)
        if seconds is not None and self.registry.now() >= started + seconds:
            self._finish(pod, key)
            return
        if not pod["status"]["containerStatuses"][0]["ready"]:
            delay = max((dig(c, "readinessProbe.initialDelaySeconds", 0) for c in pod["spec"]["containers"]), default=0)
            if self._wait(key, started + delay):
                self._ready(pod)
        if seconds is not None:
            self._wait(key, started + seconds)

    def _ready(self, pod: Json) -> None:
        now, status = self.registry.timestamp(), clone(pod["status"])
        for container in status["containerStatuses"]:
            container["ready"] = True
        for kind in ("ContainersReady", "Ready"):
            set_condition(status, kind, "True", "", "", now)
        self.status(self.kind("pods"), pod, status)

    def _finish(self, pod: Json, key: Key) -> None:
        """The containers end: for good, or to start again as the restart policy says."""
        now, code, policy = self.registry.timestamp(), _exit_code(pod), pod["spec"]["restartPolicy"]
        began = dig(pod["status"]["containerStatuses"][0], "state.running.startedAt")
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": began, "finishedAt": now}
        for container in pod["spec"]["containers"]:
            self.cluster.logs.write(pod["metadata"]["uid"], container["name"], self.registry.now(), f"exit {code}")
        status = clone(pod["status"])
        again = policy == "Always" or (policy == "OnFailure" and code != 0)
        for container in status["containerStatuses"]:
            container.update(ready=False, started=False)
            if again:
                container["restartCount"] += 1
                container["lastState"] = {"terminated": ended}
                container["state"] = {
                    "waiting": {
                        "reason": "CrashLoopBackOff" if code else "Completed",
                        "message": f"back-off {BACKOFF_SECONDS:.0f}s restarting failed container",
                    }
                }
            else:
                container["state"] = {"terminated": ended}
        reason = "ContainersNotReady" if again or code else "PodCompleted"
        for kind in ("Ready", "ContainersReady"):
            set_condition(status, kind, "False", reason, "", now)
        if not again:
            status["phase"] = "Failed" if code else "Succeeded"
        self.status(self.kind("pods"), pod, status)
        if again:
            self.registry.event(pod, "BackOff", "Back-off restarting failed container", True, COMPONENT)
            restarts = status["containerStatuses"][0]["restartCount"]
            self.later(min(BACKOFF_SECONDS * 2 ** (restarts - 1), 300), key)

    def _restart(self, pod: Json, key: Key) -> None:
        """The back-off is over. A look in between, for instance after a restore, waits again."""
        finished = dig(pod["status"]["containerStatuses"][0], "lastState.terminated.finishedAt")
        restarts = pod["status"]["containerStatuses"][0]["restartCount"]
        if self._wait(key, parse_time(finished) + min(BACKOFF_SECONDS * 2 ** (restarts - 1), 300)):
            status = clone(pod["status"])
            for container in status["containerStatuses"]:
                container.update(state={"running": {"startedAt": self.registry.timestamp()}}, started=True)
            self.status(self.kind("pods"), pod, status)
            live = self.find(self.kind("pods"), key)
            if live is not None:
                self._watch_over(live, key)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pod_ip(uid: str) -> str:
    raw = hashlib.sha256(uid.encode()).digest()
    return f"10.{raw[0]}.{raw[1]}.{raw[2] % 254 + 1}"
