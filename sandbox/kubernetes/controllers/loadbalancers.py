"""Load balancers of services and ingresses, made by the AWS Load Balancer Controller where one is installed.

https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/service/nlb/ and .../guide/ingress/spec/
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import ClassVar

from sandbox.cloud import CloudError, LoadBalancer
from sandbox.kubernetes.objects import Mutator, dig, parse_time
from sandbox.kubernetes.resources import Json, ResourceType
from sandbox.kubernetes.store import DELETED, Change, StorageKey

from .base import Controller, Key, is_deleted, object_key
from .deployments import DEPLOYMENTS
from .endpoints import SERVICES

CONTROLLER = "aws-load-balancer-controller"
INGRESSES = ("networking.k8s.io", "ingresses")
NLB_CLASS, ALB_CLASS = "service.k8s.aws/nlb", "alb"
PROVISION_SECONDS = 90.0
RETRY_SECONDS = 60.0


class Balanced(Controller):
    """Without the controller's Deployment nothing happens: what asks for a load balancer waits, and what is deleted
    keeps its finalizer."""

    calls_cloud = True
    of: ClassVar[StorageKey]
    """The kind that gets load balancers."""
    balancer: ClassVar[str]
    finalizer: ClassVar[str]
    scheme: ClassVar[str]
    """The annotation that says where clients are."""

    def wanted(self, obj: Json) -> bool:
        raise NotImplementedError

    def keys(self, change: Change) -> Iterable[Key]:
        if change.storage_key == self.of:
            if change.type != DELETED and self._concerns(change.new):
                yield object_key(change.new)
        elif _is_controller(change.new):
            yield from [key for key, obj in self.store.objects(self._kind()).items() if self._concerns(obj)]

    def reconcile(self, key: Key) -> None:
        obj, since = self.find(self._kind(), key), self._installed()
        if obj is None or since is None:
            return
        if is_deleted(obj) or not self.wanted(obj):
            if self._held(obj):
                self._remove(obj, key)
            return
        if not self._held(obj):
            self._change(key, lambda o: o["metadata"].setdefault("finalizers", []).append(self.finalizer))
        try:
            host = self._ensure(obj, key)
        except CloudError as error:
            self.registry.event(obj, error.code, f"Failed build model due to {error}", True, self.name)
            self.later(RETRY_SECONDS, key)
            return
        left = max(since, parse_time(obj["metadata"]["creationTimestamp"])) + PROVISION_SECONDS - self.registry.now()
        if left > 0:
            self.later(left, key)
        elif dig(obj, "status.loadBalancer.ingress") != [{"hostname": host}]:
            self.status(self._kind(), obj, {"loadBalancer": {"ingress": [{"hostname": host}]}})
            self.registry.event(obj, "SuccessfullyReconciled", "Successfully reconciled", component=self.name)

    def _kind(self) -> ResourceType:
        return self.kind(self.of[1], self.of[0])

    def _concerns(self, obj: Json) -> bool:
        return self.wanted(obj) or self._held(obj)

    def _held(self, obj: Json) -> bool:
        return self.finalizer in (obj["metadata"].get("finalizers") or [])

    def _installed(self) -> float | None:
        """Since when the controller has been there."""
        created = [
            parse_time(deployment["metadata"]["creationTimestamp"])
            for deployment in list(self.store.objects(self.kind("deployments", "apps")).values())
            if _is_controller(deployment) and dig(deployment, "status.availableReplicas")
        ]
        return min(created, default=None)

    def _ensure(self, obj: Json, key: Key) -> str:
        digest = hashlib.sha256(obj["metadata"]["uid"].encode()).hexdigest()
        name = f"k8s-{key[0][:8]}-{key[1][:8]}-{digest[:10]}"
        if self.cluster.cloud is None or self.cluster.facts is None:
            return f"{name}-{digest[10:26]}.elb.us-west-2.amazonaws.com"
        scheme = (obj["metadata"].get("annotations") or {}).get(self.scheme, "internal")
        wish = LoadBalancer(name, "/".join(key), self.balancer, scheme)
        return self.cluster.cloud.ensure_load_balancer(self.cluster.facts.arn, wish)

    def _remove(self, obj: Json, key: Key) -> None:
        if self.cluster.cloud is not None and self.cluster.facts is not None:
            self.cluster.cloud.delete_load_balancer(self.cluster.facts.arn, "/".join(key), self.balancer)
        if not is_deleted(obj):
            self.status(self._kind(), obj, {"loadBalancer": {}})
        self._change(key, lambda o: o["metadata"]["finalizers"].remove(self.finalizer))

    def _change(self, key: Key, mutate: Mutator) -> None:
        self.registry.modify(self._kind(), key[0], key[1], mutate)


class ServiceBalancers(Balanced):
    """Network Load Balancers of Services."""

    name = "service"
    watches = (SERVICES, DEPLOYMENTS)
    of = SERVICES
    balancer = "network"
    finalizer = "service.k8s.aws/resources"
    scheme = "service.beta.kubernetes.io/aws-load-balancer-scheme"

    def wanted(self, obj: Json) -> bool:
        wish = dig(obj, "spec.type"), dig(obj, "spec.loadBalancerClass", NLB_CLASS)
        return bool(wish == ("LoadBalancer", NLB_CLASS))


class IngressBalancers(Balanced):
    """Application Load Balancers of Ingresses, one for each: groups of Ingresses are not shared."""

    name = "ingress"
    watches = (INGRESSES, DEPLOYMENTS)
    of = INGRESSES
    balancer = "application"
    finalizer = "ingress.k8s.aws/resources"
    scheme = "alb.ingress.kubernetes.io/scheme"

    def wanted(self, obj: Json) -> bool:
        annotated = (obj["metadata"].get("annotations") or {}).get("kubernetes.io/ingress.class")
        return bool(dig(obj, "spec.ingressClassName", annotated) == ALB_CLASS)


def _is_controller(deployment: Json) -> bool:
    meta = deployment["metadata"]
    return CONTROLLER in meta["name"] or (meta.get("labels") or {}).get("app.kubernetes.io/name") == CONTROLLER
