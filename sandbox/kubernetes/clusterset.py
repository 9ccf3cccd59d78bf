"""All clusters of a sandbox: ``/clusters/<id>`` of one server, or one cluster at ``/``."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from sandbox.clock import Clock
from sandbox.cloud import Cloud
from sandbox.dataplane import ClusterFacts

from .cluster import Cluster
from .controllers import manager
from .ekstokens import Credential
from .podfaults import PodFaults
from .scripts.runner import ScriptRunner

PREFIX = "/clusters/"


def identifier(arn: str) -> str:
    """The name of a cluster in URLs: of its ARN, region and name."""
    parts = arn.split(":")
    return re.sub(r"[^a-zA-Z0-9-]", "-", f"{parts[3]}-{parts[5].rpartition('/')[2]}" if len(parts) > 5 else arn)


class ClusterSet:
    def __init__(self, clock: Clock, credentials: Mapping[str, Credential], root_certificate: str = "") -> None:
        self.clock = clock
        self.by_id: dict[str, Cluster] = {}
        self.cloud: Cloud | None = None
        """AWS behind the clusters that are added from now on."""
        self.identified: Callable[[str, str], None] = lambda principal, region: None
        """Told the principal and region of every new EKS token, for clusters that are added from now on."""
        self.pod_faults = PodFaults()
        self.scripts = ScriptRunner()
        self._credentials = credentials
        self._root_certificate = root_certificate
        manager.listen(clock, self.by_id)

    def resolve(self, path: str) -> tuple[Cluster, str] | None:
        if not path.startswith(PREFIX):
            return None
        name, _, rest = path.removeprefix(PREFIX).partition("/")
        cluster = self.by_id.get(name)
        return (cluster, f"/{rest}") if cluster is not None else None

    def _new(self, name: str, facts: ClusterFacts | None) -> Cluster:
        return Cluster(
            name,
            self.clock,
            facts=facts,
            credentials=self._credentials,
            root_certificate=self._root_certificate,
            cloud=self.cloud,
            pod_faults=self.pod_faults,
            scripts=self.scripts,
            identified=self.identified,
        )

    def add(self, name: str, facts: ClusterFacts | None = None) -> Cluster:
        cluster = self._new(name, facts)
        self.by_id[name] = cluster
        cluster.furnish()
        return cluster

    def remove(self, name: str) -> None:
        cluster = self.by_id.pop(name, None)
        if cluster is not None:
            cluster.scripts.stop()
            cluster.store.drop_subscriptions()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold every cluster still."""
        with ExitStack() as stack:
            for cluster in list(self.by_id.values()):
                stack.enter_context(cluster.store.lock)
            yield

    def dump(self) -> bytes:
        clusters = [cluster.dump() for cluster in self.by_id.values()]
        return pickle.dumps({"clusters": clusters, "pod_faults": self.pod_faults.dump()})

    def load(self, dumped: bytes) -> None:
        for name in list(self.by_id):
            self.remove(name)
        found: dict[str, Any] = pickle.loads(dumped)
        self.pod_faults.load(found["pod_faults"])
        for content in found["clusters"]:
            facts = ClusterFacts(**content["facts"]) if content["facts"] else None
            cluster = self._new(content["identifier"], facts)
            self.by_id[cluster.identifier] = cluster
            cluster.load(content)


class SingleCluster(ClusterSet):
    """One cluster that has the whole server to itself."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, {})
        self.cluster = self.add("sandbox")

    def resolve(self, path: str) -> tuple[Cluster, str] | None:
        return self.cluster, path
