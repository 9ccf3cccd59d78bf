"""Runs a cluster's controllers: changes fill a queue, an event of the sandbox's clock empties it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sandbox.clock import Clock
from sandbox.cloud import CloudError
from sandbox.kubernetes.errors import ApiError
from sandbox.kubernetes.store import Change, StorageKey

from .base import Controller, Key

if TYPE_CHECKING:
    from sandbox.kubernetes.cluster import Cluster

RECONCILE, ENQUEUE = "kubernetes-reconcile", "kubernetes-enqueue"
RETRY_SECONDS = 10.0

log = logging.getLogger(__name__)


def _controllers() -> tuple[type[Controller], ...]:
    from . import (
        cronjobs,
        customresources,
        daemonsets,
        definitions,
        deployments,
        disruptions,
        ebs,
        endpoints,
        garbage,
        hpa,
        inference,
        jobs,
        karpenter,
        keda,
        kubelet,
        kueue,
        loadbalancers,
        namespaces,
        nodes,
        rayclusters,
        rayjobs,
        replicasets,
        scheduler,
        statefulsets,
        training,
        volumes,
    )

    return (
        # First of all: what names a queue must not begin before it is admitted.
        kueue.Kueue,
        namespaces.NamespaceController,
        garbage.GarbageCollector,
        definitions.DefinitionCleanup,
        nodes.NodeController,
        deployments.DeploymentController,
        replicasets.ReplicaSetController,
        statefulsets.StatefulSetController,
        daemonsets.DaemonSetController,
        jobs.JobController,
        cronjobs.CronJobController,
        volumes.ClaimController,
        volumes.VolumeController,
        ebs.EbsController,
        endpoints.EndpointController,
        loadbalancers.ServiceBalancers,
        loadbalancers.IngressBalancers,
        karpenter.Karpenter,
        training.TrainingJobController,
        rayclusters.RayClusters,
        rayjobs.RayJobs,
        inference.InferenceOperator,
        keda.Keda,
        hpa.Autoscaling,
        customresources.PhaseController,
        scheduler.Scheduler,
        kubelet.Kubelet,
        disruptions.DisruptionController,
    )


class ControllerManager:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._controllers = {controller.name: controller(cluster) for controller in _controllers()}
        self._by_kind: dict[StorageKey, list[Controller]] = {}
        self._for_all = [c for c in self._controllers.values() if not c.watches]
        for controller in self._controllers.values():
            for storage_key in controller.watches:
                self._by_kind.setdefault(storage_key, []).append(controller)
        self._queue: dict[tuple[str, Key], None] = {}
        self._scheduled = False
        cluster.store.listeners.append(self._changed)

    def __getitem__(self, name: str) -> Controller:
        return self._controllers[name]

    def _changed(self, change: Change) -> None:
        """Called under the store's lock, in whatever thread writes."""
        for controller in (*self._by_kind.get(change.storage_key, ()), *self._for_all):
            for key in controller.keys(change):
                self.enqueue(controller.name, key)

    def enqueue(self, controller: str, key: Key) -> None:
        self._queue.setdefault((controller, key))
        if not self._scheduled:
            self._scheduled = True
            self._cluster.clock.schedule(0, RECONCILE, cluster=self._cluster.identifier)

    def enqueue_after(self, seconds: float, controller: str, key: Key) -> None:
        self._cluster.clock.schedule(
            max(seconds, 0.0), ENQUEUE, cluster=self._cluster.identifier, controller=controller, key=list(key)
        )

    def run(self) -> None:
        """Empty the queue; what the controllers write may fill it again. The lock is free between two keys."""
        while True:
            with self._cluster.store.lock:
                if not self._queue:
                    self._scheduled = False
                    return
                name, key = next(iter(self._queue))
                del self._queue[name, key]
                if not self._controllers[name].calls_cloud:
                    self._reconcile(name, key)
                    continue
            self._reconcile(name, key)

    def _reconcile(self, name: str, key: Key) -> None:
        try:
            self._controllers[name].reconcile(key)
        except (ApiError, CloudError) as error:
            log.info("%s %s: %s; again in %s s", name, "/".join(key), error, RETRY_SECONDS)
            self.enqueue_after(RETRY_SECONDS, name, key)
        except Exception:
            log.exception("%s %s failed in cluster %s", name, "/".join(key), self._cluster.identifier)

    def resync(self) -> None:
        """Look at every object as if it were new."""
        store = self._cluster.store
        with store.lock:
            for kind in {kind.storage_key: kind for kind in store.types()}.values():
                for obj in list(store.objects(kind).values()):
                    self._changed(Change(store.revision, "ADDED", kind.storage_key, obj, None))

    def dump(self) -> Any:
        return {}

    def load(self, dumped: Any) -> None:
        self._queue.clear()
        # Whether the clock holds an event for this queue is not known here; one too many is harmless.
        self._scheduled = False
        self.resync()


def listen(clock: Clock, clusters: dict[str, Cluster]) -> None:
    """Let the clock drive the controllers of these clusters, whichever there are when an event is due."""

    def reconcile(cluster: str) -> None:
        if found := clusters.get(cluster):
            found.controllers.run()

    def enqueue(cluster: str, controller: str, key: list[str]) -> None:
        if found := clusters.get(cluster):
            with found.store.lock:
                found.controllers.enqueue(controller, tuple(key))
            found.controllers.run()

    clock.on(RECONCILE, reconcile)
    clock.on(ENQUEUE, enqueue)
