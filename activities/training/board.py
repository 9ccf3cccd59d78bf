"""What all watches of a process see of a cluster: its jobs are listed once for all of them.

Hundreds of runs are watched by one worker: each asks here, and whoever asks first after a pause has the list read. A
connection is kept as long as it is used. Absence is never told from a list: who finds no job asks for it by its name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kubernetes import client

from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients, api_client
from activities.training.paths import Job, Site
from activities.training.registry import PATHS
from contracts.training_activities import TrainingRef
from contracts.training_parts import Submission

Key = tuple[Submission, str, str]
UNUSED_SECONDS = 900.0
"""After so long a connection that nobody uses is closed."""


OVERDUE = 3
"""A list that is so many times as old as it should be is waited for."""


@dataclass
class _Cluster:
    lock: threading.Lock = field(default_factory=threading.Lock)
    reading: threading.Lock = field(default_factory=threading.Lock)
    """Held by who reads a list; the others go on with the one before."""
    api: client.ApiClient | None = None
    jobs: dict[Key, Job] = field(default_factory=dict)
    read_at: dict[Submission, float] = field(default_factory=dict)
    used_at: float = 0.0

    def age(self, submission: Submission) -> float:
        """Seconds since the jobs of a path were listed."""
        return time.monotonic() - self.read_at.get(submission, float("-inf"))


class Board:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, max_age: float) -> None:
        """``max_age``: seconds that a list of jobs is good for."""
        self._aws, self._kubernetes, self._max_age = aws, kubernetes, max_age
        self._lock = threading.Lock()
        self._clusters: dict[tuple[str, str], _Cluster] = {}

    @contextmanager
    def site(self, ref: TrainingRef) -> Iterator[Site]:
        """The cluster of a run. An error of any kind makes the next one connect anew: endpoint and authority may have
        changed. Raises NOT_FOUND where EKS has no such cluster."""
        region = ref.scope.region
        kept = self._kept(region, ref.eks_cluster)
        with kept.lock:
            if kept.api is None:
                kept.api = api_client(self._kubernetes.connection(region, ref.eks_cluster))
            api = kept.api
        try:
            yield Site(api, self._aws, region, ref.scope.cluster)
        except Exception:
            with kept.lock:
                if kept.api is api:
                    kept.api = None
            raise

    def job(self, site: Site, ref: TrainingRef, submission: Submission, uid: str) -> Job | None:
        """The job ``uid`` as it was ``max_age`` ago or later, and at most ``OVERDUE`` times that while a new list is
        read; None where it is not there any more."""
        kept = self._kept(ref.scope.region, ref.eks_cluster)
        self._renew(kept, site, submission)
        with kept.lock:
            found = kept.jobs.get((submission, ref.namespace, ref.name))
        if found is None or found.uid != uid:
            found = PATHS[submission].find(site, ref.namespace, ref.name)
        return found if found is not None and found.uid == uid else None

    def forget(self, ref: TrainingRef) -> None:
        """Not tell of a run's job from the lists that were read: it has changed since."""
        kept = self._kept(ref.scope.region, ref.eks_cluster)
        with kept.lock:
            kept.jobs = {key: each for key, each in kept.jobs.items() if key[1:] != (ref.namespace, ref.name)}

    def _renew(self, kept: _Cluster, site: Site, submission: Submission) -> None:
        """Have the jobs of a path listed, if the last list is too old and nobody else is about it."""
        if not kept.reading.acquire(blocking=kept.age(submission) > OVERDUE * self._max_age):
            return
        try:
            if kept.age(submission) <= self._max_age:
                return
            jobs = {(submission, each.namespace, each.name): each for each in PATHS[submission].list(site, None)}
            with kept.lock:
                kept.jobs = {key: each for key, each in kept.jobs.items() if key[0] is not submission} | jobs
                kept.read_at[submission] = time.monotonic()
        finally:
            kept.reading.release()

    def _kept(self, region: str, eks_cluster: str) -> _Cluster:
        now = time.monotonic()
        with self._lock:
            for key, each in list(self._clusters.items()):
                if now - each.used_at > UNUSED_SECONDS and not each.lock.locked():
                    del self._clusters[key]
            found = self._clusters.setdefault((region, eks_cluster), _Cluster())
            found.used_at = now
            return found
