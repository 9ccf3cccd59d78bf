"""Load balancers of services, made by the AWS Load Balancer Controller where one is installed.

https://kubernetes-sigs.github.io/aws-load-balancer-controller/
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sandbox.kubernetes.objects import dig, parse_time
from sandbox.kubernetes.resources import Json
from sandbox.kubernetes.store import DELETED, Change

from .base import Controller, Key, is_deleted, object_key
from .deployments import DEPLOYMENTS
from .endpoints import SERVICES

CONTROLLER = "aws-load-balancer-controller"
PROVISION_SECONDS = 90.0


class LoadBalancerController(Controller):
    name = "loadbalancer"
    watches = (SERVICES, DEPLOYMENTS)

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == SERVICES:
            if change.type != DELETED and dig(change.new, "spec.type") == "LoadBalancer":
                yield object_key(change.new)
        elif self._is_controller(change.new):
            for key, service in list(self.store.objects(self.kind("services")).items()):
                if dig(service, "spec.type") == "LoadBalancer":
                    yield key

    @staticmethod
    def _is_controller(deployment: Json) -> bool:
        meta = deployment["metadata"]
        return CONTROLLER in meta["name"] or (meta.get("labels") or {}).get("app.kubernetes.io/name") == CONTROLLER

    def _installed(self) -> float | None:
        """Since when the controller has been there."""
        created = [
            parse_time(deployment["metadata"]["creationTimestamp"])
            for deployment in self.store.objects(self.kind("deployments", "apps")).values()
            if self._is_controller(deployment) and dig(deployment, "status.availableReplicas")
        ]
        return min(created, default=None)

    def reconcile(self, key: Key) -> None:
        kind = self.kind("services")
        service = self.find(kind, key)
        if service is None or is_deleted(service) or dig(service, "status.loadBalancer.ingress"):
            return
        since = self._installed()
        if since is None:
            return
        left = (
            max(since, parse_time(service["metadata"]["creationTimestamp"])) + PROVISION_SECONDS - self.registry.now()
        )
        if left > 0:
            self.later(left, key)
            return
        region = self.cluster.facts.region if self.cluster.facts else "us-west-2"
        digest = hashlib.sha256(service["metadata"]["uid"].encode()).hexdigest()
        host = f"k8s-{key[0][:8]}-{key[1][:8]}-{digest[:10]}-{digest[10:26]}.elb.{region}.amazonaws.com"
        self.status(kind, service, {"loadBalancer": {"ingress": [{"hostname": host}]}})
