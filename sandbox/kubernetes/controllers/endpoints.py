"""Endpoints and EndpointSlices of services: https://kubernetes.io/docs/concepts/services-networking/service/"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sandbox.kubernetes.objects import clone, dig, owner_reference
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.selectors import matches_labels, parse
from sandbox.kubernetes.store import DELETED, Change

from .base import PODS, Controller, Key, is_active, is_deleted, is_ready, object_key

SERVICES = ("", "services")


def selects(service: Json, pod: Json) -> bool:
    selector = dig(service, "spec.selector")
    labels = pod["metadata"].get("labels") or {}
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _shown(pod: Json | None) -> Any:
    """What of a pod appears in an endpoint."""
    if pod is None:
        return None
    return pod["metadata"].get("labels"), dig(pod, "status.podIP"), is_ready(pod), is_active(pod)


class EndpointController(Controller):
    name = "endpoints"
    watches = (SERVICES, PODS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == SERVICES:
            if change.type != DELETED:
                yield object_key(change.new)
        elif change.type == DELETED or _shown(change.old) != _shown(change.new):
            namespace = change.new["metadata"]["namespace"]
            for key, service in list(self.store.objects(self.kind("services")).items()):
                if key[0] == namespace and (
                    selects(service, change.new) or (change.old is not None and selects(service, change.old))
                ):
                    yield key

    def reconcile(self, key: Key) -> None:
        service = self.find(self.kind("services"), key)
        if service is None or is_deleted(service) or not dig(service, "spec.selector"):
            return
        requirements = parse(",".join(f"{k}={v}" for k, v in service["spec"]["selector"].items()))
        pods = sorted(
            (
                pod
                for pod in self.store.objects(self.kind("pods")).values()
                if pod["metadata"]["namespace"] == key[0]
                and dig(pod, "status.podIP")
                and is_active(pod)
                and matches_labels(requirements, pod["metadata"].get("labels"))
            ),
            key=lambda p: p["metadata"]["name"],
        )
        everybody = bool(dig(service, "spec.publishNotReadyAddresses"))
        self._write_endpoints(service, pods, everybody)
        self._write_slice(service, pods, everybody)

    @staticmethod
    def _target(pod: Json) -> Json:
        meta = pod["metadata"]
        return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}

    @staticmethod
    def _ports(service: Json, pods: list[Json]) -> list[Json]:
        ports = []
        for port in dig(service, "spec.ports", []):
            number = port.get("targetPort", port["port"])
            if isinstance(number, str):
                named = (
                    p["containerPort"]
                    for pod in pods
                    for c in pod["spec"]["containers"]
                    for p in c.get("ports") or []
                    if p.get("name") == number
                )
                number = next(named, port["port"])
            entry = {"port": number, "protocol": port.get("protocol", "TCP")}
            if port.get("name"):
                entry["name"] = port["name"]
            ports.append(entry)
        return ports

    def _write(self, plural: str, group: str, obj: Json) -> None:
        kind, meta = self.kind(plural, group), obj["metadata"]
        found = self.store.get(kind, meta["namespace"], meta["name"])
        if found is None:
            self.registry.create(kind, meta["namespace"], obj)
            return
        content = {key: value for key, value in obj.items() if key != "metadata"}
        new = {**clone(found), **content}
        for gone in ("subsets", "endpoints"):
            if gone not in content:
                new.pop(gone, None)
        self.registry.update(kind, found, new)

    def _write_endpoints(self, service: Json, pods: list[Json], everybody: bool) -> None:
        meta = service["metadata"]
        subset: Json = {}
        for name, ready in (("addresses", True), ("notReadyAddresses", False)):
            chosen = [pod for pod in pods if (is_ready(pod) or everybody) == ready]
            if chosen:
                subset[name] = [
                    {"ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": self._target(pod)}
                    for pod in chosen
                ]
        obj: Json = {
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "labels": dict(meta.get("labels") or {}),
                "ownerReferences": [owner_reference(service)],
            }
        }
        if subset:
            obj["subsets"] = [{**subset, "ports": self._ports(service, pods)}]
        self._write("endpoints", "", obj)

    def _write_slice(self, service: Json, pods: list[Json], everybody: bool) -> None:
        meta = service["metadata"]
        self._write(
            "endpointslices",
            "discovery.k8s.io",
            {
                "metadata": {
                    "name": f"{meta['name']}-{meta['uid'][:5]}",
                    "namespace": meta["namespace"],
                    "labels": {
                        **(meta.get("labels") or {}),
                        "kubernetes.io/service-name": meta["name"],
                        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                    },
                    "ownerReferences": [owner_reference(service)],
                },
                "addressType": "IPv4",
                "endpoints": [
                    {
                        "addresses": [pod["status"]["podIP"]],
                        "nodeName": pod["spec"]["nodeName"],
                        "conditions": {
                            "ready": is_ready(pod) or everybody,
                            "serving": is_ready(pod),
                            "terminating": False,
                        },
                        "targetRef": self._target(pod),
                    }
                    for pod in pods
                ],
                "ports": self._ports(service, pods),
            },
        )
