"""KubeRay's RayClusters: a head, workers in groups, and a Service in front of the head.

https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html ; names, labels and status as in
https://github.com/ray-project/kuberay/tree/master/ray-operator . No Ray runs: pods of a Ray cluster just run. There is
no autoscaler: groups have their ``replicas``. Without the operator's deployment nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.kubernetes.errors import ApiError
from sandbox.kubernetes.objects import clone, dig, owner_reference, set_condition
from sandbox.kubernetes.quantities import parse_quantity
from sandbox.kubernetes.resources import Json, ResourceType
from sandbox.kubernetes.store import DELETED, Change

from .base import PODS, Controller, Key, controller_of, is_deleted, is_ready, object_key
from .deployments import DEPLOYMENTS

GROUP, PLURAL, KIND = "ray.io", "rayclusters", "RayCluster"
OPERATOR = "kuberay-operator"
CLUSTER, NODE_TYPE, RAY_GROUP = "ray.io/cluster", "ray.io/node-type", "ray.io/group"
PORTS = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}


def operating(controller: Controller) -> bool:
    """Whether the operator runs."""
    deployments = controller.store.objects(controller.kind("deployments", "apps"))
    return any(
        OPERATOR in name and dig(deployment, "status.availableReplicas", 0) > 0
        for (_, name), deployment in deployments.items()
    )


class RayClusters(Controller):
    name = "rayclusters"
    watches = ((GROUP, PLURAL), PODS, DEPLOYMENTS)

    def _kind(self) -> ResourceType | None:
        return self.store.type(GROUP, "v1", PLURAL)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == PODS:
            owner = controller_of(change.new, KIND)
            if owner is not None:
                yield owner
        elif change.storage_key == DEPLOYMENTS:
            if OPERATOR in change.new["metadata"]["name"]:
                yield from list(self.store.objects_of((GROUP, PLURAL)))
        elif change.type != DELETED:
            yield object_key(change.new)

    def reconcile(self, key: Key) -> None:
        kind = self._kind()
        cluster = self.find(kind, key) if kind else None
        if kind is None or cluster is None or is_deleted(cluster) or not operating(self):
            return
        suspended = bool(dig(cluster, "spec.suspend"))
        pods = self.owned(cluster, "Pod")
        gone = [pod for pod in pods if suspended or dig(pod, "status.phase") in ("Failed", "Succeeded")]
        for pod in gone:
            if not is_deleted(pod):
                self.registry.delete(self.kind("pods"), pod)
        service = self._service(cluster)
        if not suspended:
            self._fill(cluster, [pod for pod in pods if pod not in gone])
        self._tell(kind, cluster, service, suspended)

    def _service(self, cluster: Json) -> Json | None:
        """The Service in front of the head."""
        meta, kind = cluster["metadata"], self.kind("services")
        name = f"{meta['name']}-head-svc"
        if (held := self.store.get(kind, meta["namespace"], name)) is not None:
            return held
        labels = {CLUSTER: meta["name"], NODE_TYPE: "head"}
        ports = [{"name": name, "port": port, "targetPort": port} for name, port in PORTS.items()]
        body = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [owner_reference(cluster)]},
            # Without an address of its own: the head's pod is asked for directly.
            "spec": {"clusterIP": "None", "selector": labels, "ports": ports},
        }
        return self.registry.create(kind, meta["namespace"], body)

    def _fill(self, cluster: Json, pods: list[Json]) -> None:
        """Make the pods that are missing, and take away those that are too many."""
        meta = cluster["metadata"]
        head = next((pod for pod in pods if _label(pod, NODE_TYPE) == "head"), None)
        if head is None:
            template = dig(cluster, "spec.headGroupSpec.template", {})
            self._make(cluster, template, f"{meta['name']}-head", "head", "headgroup")
        for group in dig(cluster, "spec.workerGroupSpecs", []):
            held = [
                pod
                for pod in pods
                if _label(pod, NODE_TYPE) == "worker" and _label(pod, RAY_GROUP) == group["groupName"]
            ]
            wanted = _replicas(group)
            for pod in held[wanted:]:
                if not is_deleted(pod):
                    self.registry.delete(self.kind("pods"), pod)
            for _ in range(wanted - len(held)):
                stem = f"{meta['name']}-{group['groupName']}-worker-"
                if not self._make(cluster, group["template"], stem, "worker", group["groupName"]):
                    return

    def _make(self, cluster: Json, template: Json, name: str, node_type: str, group: str) -> bool:
        meta, template = cluster["metadata"], clone(template)
        labels = {
            CLUSTER: meta["name"],
            NODE_TYPE: node_type,
            RAY_GROUP: group,
            "ray.io/identifier": f"{meta['name']}-{node_type}",
            "ray.io/is-ray-node": "yes",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": OPERATOR,
        }
        template.setdefault("spec", {}).setdefault("restartPolicy", "Always")
        pod = self.make_pod(cluster, template, None if name.endswith("-") else name, labels)
        if name.endswith("-"):
            pod["metadata"]["generateName"] = name
        try:
            self.registry.create(self.kind("pods"), meta["namespace"], pod)
        except ApiError as error:
            what = "Head" if node_type == "head" else "Worker"
            message = f"Failed to create {node_type} Pod {meta['namespace']}/{name}, {error.message}"
            self.registry.event(cluster, f"FailedToCreate{what}Pod", message, True, "raycluster-controller")
            self.later(10, object_key(cluster))
            return False
        return True

    def _tell(self, kind: ResourceType, cluster: Json, service: Json | None, suspended: bool) -> None:
        now = self.registry.timestamp()
        pods = [pod for pod in self.owned(cluster, "Pod") if not is_deleted(pod)]
        head = next((pod for pod in pods if _label(pod, NODE_TYPE) == "head"), None)
        workers = [pod for pod in pods if _label(pod, NODE_TYPE) == "worker"]
        groups = dig(cluster, "spec.workerGroupSpecs", [])
        status = clone(cluster.get("status") or {})
        wanted = 0 if suspended else sum(_replicas(group) for group in groups)
        ready = sum(is_ready(pod) for pod in workers)
        status.update(
            desiredWorkerReplicas=wanted,
            minWorkerReplicas=sum(int(group.get("minReplicas") or 0) for group in groups),
            maxWorkerReplicas=sum(int(group.get("maxReplicas") or 2147483647) for group in groups),
            availableWorkerReplicas=sum(dig(pod, "status.phase") == "Running" for pod in workers),
            readyWorkerReplicas=ready,
            observedGeneration=cluster["metadata"].get("generation", 1),
            endpoints={name: str(port) for name, port in PORTS.items()},
            **_desired(cluster, suspended),
        )
        address = dig(head, "status.podIP", "")
        status["head"] = {
            "podIP": address,
            "podName": head["metadata"]["name"] if head else "",
            "serviceIP": address,
            "serviceName": service["metadata"]["name"] if service else "",
        }
        up = head is not None and is_ready(head)
        reason = "HeadPodRunningAndReady" if up else "HeadPodNotFound" if head is None else "ContainersNotReady"
        set_condition(status, "HeadPodReady", "True" if up else "False", reason, "", now)
        before = status.get("state", "")
        if suspended:
            if not self.owned(cluster, "Pod"):
                status["state"] = "suspended"
                set_condition(status, "RayClusterSuspended", "True", "RayClusterSuspended", "", now)
        elif up and ready >= wanted:
            status["state"] = "ready"
            message = "All Ray Pods are ready for the first time"
            set_condition(status, "RayClusterProvisioned", "True", "AllPodRunningAndReadyFirstTime", message, now)
        if status.get("state", "") != before:
            times = dict(status.get("stateTransitionTimes") or {})
            status["stateTransitionTimes"] = {**times, status["state"]: now}
        if status != cluster.get("status"):
            status["lastUpdateTime"] = now
            self.status(kind, cluster, status)


def _label(pod: Json, name: str) -> str:
    return str(dig(pod, "metadata.labels", {}).get(name, ""))


def _replicas(group: Json) -> int:
    """So many pods a group has; its limits go before what it asks for."""
    least, most, asked = int(group.get("minReplicas") or 0), group.get("maxReplicas"), group.get("replicas")
    wanted = least if asked is None else int(asked)
    if group.get("suspend"):
        return 0
    return max(least, wanted if most is None else min(wanted, int(most))) * int(group.get("numOfHosts") or 1)


def _desired(cluster: Json, suspended: bool) -> dict[str, str]:
    """What all pods ask for together."""
    totals = dict.fromkeys(("cpu", "memory", "nvidia.com/gpu"), 0.0)
    groups = [(1, dig(cluster, "spec.headGroupSpec.template", {}))]
    groups += [(_replicas(group), group.get("template") or {}) for group in dig(cluster, "spec.workerGroupSpecs", [])]
    for count, template in groups:
        for container in dig(template, "spec.containers", []):
            amounts = {**dig(container, "resources.limits", {}), **dig(container, "resources.requests", {})}
            for name in totals:
                totals[name] += 0.0 if suspended else count * float(parse_quantity(str(amounts.get(name, 0))))
    gibibytes = f"{totals['memory'] / 2**30:g}Gi" if totals["memory"] else "0"
    return {
        "desiredCPU": f"{totals['cpu']:g}",
        "desiredMemory": gibibytes,
        "desiredGPU": f"{totals['nvidia.com/gpu']:g}",
    }
