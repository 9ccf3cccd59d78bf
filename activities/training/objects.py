"""Paths of submission whose job is one custom object of the cluster: what is the same for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from activities import custom
from activities.training import queues
from activities.training.manifests import Manifest
from activities.training.paths import Job, Raw, Site
from contracts.names import LABEL_TRAINING
from contracts.training_activities import SubmitTraining


class ObjectPath(ABC):
    """A path (:class:`activities.training.paths.TrainingPath`) but for what the job's kind alone knows."""

    kind: ClassVar[custom.Kind]

    @abstractmethod
    def as_job(self, found: Raw) -> Job:
        """The job that an object is."""

    @abstractmethod
    def manifest(self, cluster: str, request: SubmitTraining, config: str, operation: str) -> Manifest:
        """The object of a run."""

    @abstractmethod
    def suspension(self, suspended: bool) -> Manifest:
        """What its specification says to suspend it, or to let it go on."""

    def find(self, site: Site, namespace: str, name: str) -> Job | None:
        found = custom.get(site.api, self.kind, namespace, name)
        return self.as_job(found) if found is not None else None

    def list(self, site: Site, namespace: str | None) -> list[Job]:
        found = custom.list_all(site.api, self.kind, namespace)
        return [self.as_job(each) for each in found if LABEL_TRAINING in (each["metadata"].get("labels") or {})]

    def apply(self, site: Site, request: SubmitTraining, config: str, operation: str) -> Job:
        body = self.manifest(site.cluster, request, config, operation)
        return self.as_job(custom.put(site.api, self.kind, request.spec.namespace, request.spec.name, body))

    def delete(self, site: Site, job: Job) -> None:
        custom.delete(site.api, self.kind, {"metadata": {"namespace": job.namespace, "name": job.name, "uid": job.uid}})

    def tail(self, site: Site, job: Job, lines: int) -> Sequence[str]:
        return []

    def suspend(self, site: Site, job: Job, suspended: bool, notes: dict[str, str | None]) -> None:
        body: Manifest = {"metadata": {"annotations": notes}}
        if job.queue is None:
            body["spec"] = self.suspension(suspended)
        else:
            # Its queue would let it go on at once: what is admitted runs. (Kueue: Workload, active)
            queues.set_active(site.api, job, not suspended)
        custom.merge(site.api, self.kind, job.namespace, job.name, body)
