"""The kubelets of all nodes: pods that are placed start, get ready, end, and stop.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ . What a container does is up to its program
(``sandbox/kubernetes/programs``) and to what scripts do to it; one that runs no known program just runs: for ever in a
pod that restarts ``Always``, else for :data:`RUN_SECONDS`, and its probes are satisfied. For these, annotations say
otherwise: ``sandbox/run-seconds``, ``sandbox/exit-code``, ``sandbox/image-error: "true"`` and ``sandbox/log`` (what it
prints).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sandbox.kubernetes.environment import config_problem
from sandbox.kubernetes.objects import clone, dig, parse_time, set_condition
from sandbox.kubernetes.programs.training_lines import agent_greeting
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.serving import Outlook, run_name, stamped
from sandbox.kubernetes.store import DELETED, Change

from . import containers, mounts, probes
from .base import NODES, PODS, Controller, Key, is_deleted, object_key

PULL_SECONDS = 20.0
START_SECONDS = 2.0
STOP_SECONDS = 2.0
"""How long a program takes to end after SIGTERM."""
RUN_SECONDS = 10.0
RETRY_SECONDS = 10.0
COMPONENT = "kubelet"

RUN, EXIT, IMAGE_ERROR, LOG = "sandbox/run-seconds", "sandbox/exit-code", "sandbox/image-error", "sandbox/log"
_STARTS = "starts at "


def _annotation(pod: Json, name: str, default: str = "") -> str:
    return str((pod["metadata"].get("annotations") or {}).get(name, default))


def _run_seconds(pod: Json) -> float | None:
    """How long a container runs; None for ever."""
    text = _annotation(pod, RUN)
    if text:
        return float(text)
    return None if pod["spec"]["restartPolicy"] == "Always" else RUN_SECONDS


class Kubelet(Controller):
    name = "kubelet"
    watches = (PODS, NODES)

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self._written: dict[str, int] = {}
        """How many lines of its program each run has printed."""
        self._told: dict[str, set[str]] = {}
        """The probes of each run whose failure an event has told."""
        self._next: dict[Key, float] = {}
        """When a pod is looked at again anyway."""

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == NODES:
            if change.type == DELETED:
                for pod in self.store.pods_on(change.new["metadata"]["name"]):
                    yield object_key(pod)
        elif change.type == DELETED:
            self._forget(change.new)
        elif dig(change.new, "spec.nodeName"):
            placed = change.old is None or not dig(change.old, "spec.nodeName")
            if placed or is_deleted(change.new):
                yield object_key(change.new)

    def _forget(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        self.cluster.logs.forget(uid)
        self.cluster.serving.forget(uid)
        self.cluster.training.forget(uid)
        self.cluster.scripts.forget(uid)
        for status in dig(pod, "status.containerStatuses", []):
            self._retire(pod, status)

    def _retire(self, pod: Json, status: Json) -> None:
        """A run is over and its successor begins."""
        run = run_name(pod, status)
        self._written.pop(run, None)
        self._told.pop(run, None)
        self.cluster.serving.forget(run)
        self.cluster.training.forget(run)

    def reconcile(self, key: Key) -> None:
        pods = self.kind("pods")
        pod = self.find(pods, key)
        if self._next.get(key, 0.0) <= self.registry.now():
            self._next.pop(key, None)
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
            self._advance(pod, key)

    # A kubelet knows when things are due from the times in the status, so that a restored sandbox goes on.

    def _wait(self, key: Key, due: float) -> bool:
        """Whether something is due; if not, it is looked at again in time."""
        left = due - self.registry.now()
        if left > 0:
            self._wake(key, due)
        return left <= 0

    def _wake(self, key: Key, at: float) -> None:
        """Look at a pod again at a time, unless that happens before: one look follows, however many come before."""
        if key not in self._next or at < self._next[key]:
            self._next[key] = at
            # A little later: rounding must not bring it before its time.
            self.later(max(at - self.registry.now(), 0.0) + 0.001, key)

    # The end of a pod

    def _stop(self, pod: Json, key: Key) -> None:
        meta = pod["metadata"]
        grace = meta.get("deletionGracePeriodSeconds", 0)
        asked = parse_time(meta["deletionTimestamp"]) - grace
        due = asked + min(grace, self._stop_seconds(pod))
        if not self._wait(key, due):
            if f"{meta['uid']}/stop" not in self._told:
                self._told[f"{meta['uid']}/stop"] = set()
                for status in dig(pod, "status.containerStatuses", []):
                    if dig(status, "state.running"):
                        self._event(pod, "Killing", f"Stopping container {status['name']}")
            return
        self._told.pop(f"{meta['uid']}/stop", None)
        for container in pod["spec"]["containers"]:
            self.cluster.training.print_due(pod, container["name"])
        self.registry.modify(
            self.kind("pods"),
            meta["namespace"],
            meta["name"],
            lambda o: o["metadata"].update(deletionGracePeriodSeconds=0),
        )
        live = self.find(self.kind("pods"), key)
        if live is not None and not live["metadata"].get("finalizers"):
            self.registry.purge(self.kind("pods"), clone(live))

    def _stop_seconds(self, pod: Json) -> float:
        """How long a pod would take to end if it were given all the time it wants."""
        if self.cluster.serving.hangs(pod):
            return float("inf")
        return max(_pre_stop_seconds(container) for container in pod["spec"]["containers"]) + STOP_SECONDS

    # The beginning of a pod

    def _start(self, pod: Json, key: Key) -> None:
        if dig(pod, "status.startTime") is None:
            self._accept(pod)
            self._wake(key, self.registry.now() + START_SECONDS)
            return
        problem = mounts.problem(self, pod)
        if problem:
            self._event(pod, "FailedMount", problem, True)
            self._wake(key, self.registry.now() + RETRY_SECONDS)
            return
        waiting = dig(pod, "status.containerStatuses", [{}])[0].get("state", {}).get("waiting", {})
        broken = self._image_problem(pod)
        if waiting.get("reason") == "ImagePullBackOff" and broken:
            return
        if waiting.get("reason") == "CreateContainerConfigError":
            self._create(pod, key)
        elif not str(waiting.get("message", "")).startswith(_STARTS):
            # The volumes are there: now the images.
            self._pull(pod, key)
        elif broken:
            self._image_error(pod, *broken)
        elif self._wait(key, float(waiting["message"].removeprefix(_STARTS))):
            self._create(pod, key)

    def _accept(self, pod: Json) -> None:
        now = self.registry.timestamp()
        node = self.store.get(self.kind("nodes"), None, pod["spec"]["nodeName"])
        address = next(
            (a["address"] for a in dig(node, "status.addresses", []) if a["type"] == "InternalIP"), "10.0.0.1"
        )
        status = clone(pod["status"])
        status.update(startTime=now, hostIP=address, hostIPs=[{"ip": address}])
        status["containerStatuses"] = containers.waiting(pod, "ContainerCreating")
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
            self._event(pod, "Pulling", f'Pulling image "{image}"')
        due = self.registry.now() + (PULL_SECONDS if missing else 0) + START_SECONDS
        self._all_wait(pod, "ContainerCreating", f"{_STARTS}{due}")
        self._wake(key, due)

    def _all_wait(self, pod: Json, reason: str, message: str) -> None:
        status = clone(pod["status"])
        status["containerStatuses"] = containers.waiting(pod, reason, message)
        self.status(self.kind("pods"), pod, status)

    def _image_problem(self, pod: Json) -> tuple[str, str] | None:
        """An image that cannot be pulled, and why."""
        images = self._images(pod)
        if _annotation(pod, IMAGE_ERROR) == "true":
            return images[0], f'failed to pull and unpack image "{images[0]}": not found'
        for image in images:
            if why := self.cluster.serving.image_fault(pod, image):
                what = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}"'
                return image, f"rpc error: code = NotFound desc = {what}: {why}"
        return None

    def _image_error(self, pod: Json, image: str, message: str) -> None:
        self._all_wait(pod, "ImagePullBackOff", f'Back-off pulling image "{image}"')
        self._event(pod, "Failed", f'Failed to pull image "{image}": {message}', True)
        self._event(pod, "Failed", "Error: ErrImagePull", True)
        self._event(pod, "BackOff", f'Back-off pulling image "{image}"')

    def _create(self, pod: Json, key: Key) -> None:
        """Make the containers, if what their variables refer to is there."""
        problem = config_problem(self.cluster, pod)
        if problem is None:
            self._run(pod, key)
            return
        if dig(pod, "status.containerStatuses", [{}])[0]["state"]["waiting"].get("message") != problem:
            self._all_wait(pod, "CreateContainerConfigError", problem)
            self._event(pod, "Failed", f"Error: {problem}", True)
        self._wake(key, self.registry.now() + RETRY_SECONDS)

    def _run(self, pod: Json, key: Key) -> None:
        now = self.registry.timestamp()
        self._remember_images(pod)
        for image in dict.fromkeys(self._images(pod)):
            self._event(pod, "Pulled", f'Successfully pulled image "{image}"')
        before = {status["name"]: status for status in containers.waiting(pod, "")}
        statuses = [containers.running(pod, c, before[c["name"]], now) for c in pod["spec"]["containers"]]
        status = containers.summary(pod, statuses, now)
        if not status.get("podIP"):
            hosted = pod["spec"].get("hostNetwork")
            address = status["hostIP"] if hosted else containers.pod_ip(pod["metadata"]["uid"])
            status.update(podIP=address, podIPs=[{"ip": address}])
        self.status(self.kind("pods"), pod, status)
        names = [container["name"] for container in pod["spec"]["containers"]]
        self._event(pod, "Started", f"Started container {', '.join(names)}")
        live = self.find(self.kind("pods"), key)
        if live is not None:
            for container, run in _pairs(live):
                self._begin(live, container, run)
            self._advance(live, key)

    def _begin(self, pod: Json, container: Json, status: Json) -> None:
        """What a container does at its start."""
        run = run_name(pod, status)
        self._written[run] = 0
        program = self.cluster.serving.program(pod, container, status)
        trains = program is not None and program.trainer is not None
        if not trains and self.cluster.scripts.runs(run, pod, container):
            return
        if program is not None and program.trainer is not None and program.trainer.agent:
            self._say(pod, container, *agent_greeting(self.registry.now()))
        elif program is None:
            lines = _annotation(pod, LOG).splitlines() or [f"{container['name']} of {pod['metadata']['name']} started"]
            self.cluster.logs.write(pod["metadata"]["uid"], container["name"], self.registry.now(), *lines)

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

    # The life of its containers

    def _advance(self, pod: Json, key: Key) -> None:
        """Take each container to where it should be by now; the next thing that happens brings the next look."""
        statuses, due = [], []
        for container, status in _pairs(pod):
            after, following = self._step(pod, container, status)
            statuses.append(after)
            due += following
        self.status(self.kind("pods"), pod, containers.summary(pod, statuses, self.registry.timestamp()))
        if due:
            self._wake(key, max(min(due), self.registry.now()))

    def _step(self, pod: Json, container: Json, status: Json) -> tuple[Json, list[float]]:
        """The next status of a container, and when to look again."""
        if dig(status, "state.running"):
            outlook = self.cluster.serving.outlook(
                pod, container, status, _run_seconds(pod), int(_annotation(pod, EXIT, "0"))
            )
            return self._watch_over(pod, container, status, outlook)
        if dig(status, "lastState.terminated") and dig(status, "state.waiting"):
            due = parse_time(dig(status, "lastState.terminated.finishedAt")) + containers.backoff(status)
            return self._restart(pod, container, status, due)
        return status, []

    def _watch_over(self, pod: Json, container: Json, status: Json, outlook: Outlook) -> tuple[Json, list[float]]:
        now, begun = self.registry.now(), parse_time(dig(status, "state.running.startedAt"))
        following = self._print(pod, container, status, outlook)
        if outlook.ends_at is not None and now >= outlook.ends_at:
            self.cluster.training.print_due(pod, container["name"])
            words = outlook.last_words if outlook.known or outlook.last_words else (f"exit {outlook.exit_code}",)
            self._say(pod, container, *words)
            return self._end(pod, container, status, outlook.exit_code, outlook.reason)
        found = probes.verdict(container, begun, outlook, now)
        if found.failing:
            self._tell(pod, container, status, found)
        if found.killer:
            why = f"Container {container['name']} failed {found.killer.lower()} probe, will be restarted"
            self._event(pod, "Killing", why)
            return self._end(pod, container, status, 137, "Error")
        after = {**status, "started": found.started, "ready": found.ready}
        return after, [t for t in (*following, outlook.ends_at, found.next) if t is not None]

    def _print(self, pod: Json, container: Json, status: Json, outlook: Outlook) -> list[float]:
        """Print what is due of a program's lines; when the next is."""
        now, run = self.registry.now(), run_name(pod, status)
        due = [text for at, text in outlook.lines if at <= now]
        # After a restore it is not known what was printed: all that is due was.
        printed = self._written.get(run, len(due))
        if due[printed:]:
            self._say(pod, container, *due[printed:])
        self._written[run] = len(due)
        return [at for at, _ in outlook.lines[len(due) :]][:1]

    def _say(self, pod: Json, container: Json, *lines: str) -> None:
        now = self.registry.now()
        texts = [stamped(line, now) for line in lines]
        self.cluster.logs.write(pod["metadata"]["uid"], container["name"], now, *texts)

    def _tell(self, pod: Json, container: Json, status: Json, found: probes.Verdict) -> None:
        """The first failure of a probe, and the one because of which the container is killed."""
        told = self._told.setdefault(run_name(pod, status), set())
        what = f"{found.failing}{found.killer}"
        if what not in told:
            told.add(what)
            said = found.failure.replace("{ip}", dig(pod, "status.podIP", ""))
            self._event(pod, "Unhealthy", f"{found.failing} probe failed: {said}", True)

    def _end(self, pod: Json, container: Json, status: Json, code: int, reason: str) -> tuple[Json, list[float]]:
        """A container ends: for good, or to start again as the restart policy says."""
        self.cluster.training.print_due(pod, container["name"])
        lines = [line for _, line in self.cluster.logs.lines(pod["metadata"]["uid"], container["name"])]
        end = {"exitCode": code, "reason": reason}
        if message := self.cluster.scripts.message(run_name(pod, status)):
            end["message"] = message
        after = containers.ended(pod, container, status, self.registry.timestamp(), end, lines)
        if not dig(after, "state.waiting"):
            return after, []
        meta = pod["metadata"]
        why = f"Back-off restarting failed container {container['name']} in pod {meta['name']}_{meta['namespace']}"
        self._event(pod, "BackOff", f"{why}({meta['uid']})", True)
        return after, [self.registry.now() + containers.backoff(after)]

    def _restart(self, pod: Json, container: Json, status: Json, due: float) -> tuple[Json, list[float]]:
        """The back-off is over. A look in between, for instance after a restore, waits again."""
        if self.registry.now() < due:
            return status, [due]
        after = containers.running(pod, container, status, self.registry.timestamp())
        self._retire(pod, status)
        self.cluster.logs.restart(pod["metadata"]["uid"], container["name"])
        self._begin(pod, container, after)
        return after, [self.registry.now()]

    def _event(self, pod: Json, reason: str, message: str, warning: bool = False) -> None:
        self.registry.event(pod, reason, message, warning, COMPONENT)


def _pairs(pod: Json) -> list[tuple[Json, Json]]:
    """Each container with its status."""
    statuses = {status["name"]: status for status in dig(pod, "status.containerStatuses", [])}
    return [(c, statuses[c["name"]]) for c in pod["spec"]["containers"] if c["name"] in statuses]


def _pre_stop_seconds(container: Json) -> float:
    """How long a container's hook keeps it from hearing SIGTERM.
    https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/"""
    hook = dig(container, "lifecycle.preStop", {})
    if seconds := dig(hook, "sleep.seconds"):
        return float(seconds)
    command = " ".join(str(word) for word in dig(hook, "exec.command", []))
    found = re.search(r"\bsleep (\d+(?:\.\d+)?)", command)
    return float(found[1]) if found else 0.0
