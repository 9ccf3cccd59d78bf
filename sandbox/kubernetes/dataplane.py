"""The clusters behind the sandbox's EKS: the AWS side tells :class:`KubernetesDataPlane` of clusters and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sandbox import credentials as known
from sandbox.admin import Admin
from sandbox.clock import Clock
from sandbox.dataplane import AccessEntry, AddonHealth, AddonSettings, ClusterFacts, Endpoint, NodeFacts
from sandbox.faults import Faults
from sandbox.ledger import Ledger
from sandbox.state import State

from . import adminroutes, certificates, eviction, installation, servingroutes
from .asgi import Application
from .cluster import Cluster
from .clusterset import PREFIX, ClusterSet, identifier
from .ekstokens import Credential
from .listener import Listener
from .nodeobjects import node_object
from .objects import clone, dig, is_true
from .resources import Json


def sandbox_credentials() -> dict[str, Credential]:
    """The sandbox's one access key and the role behind it."""
    return {
        known.ACCESS_KEY_ID: Credential(known.SECRET_ACCESS_KEY, known.ROLE_ARN, known.SESSION_NAME),
    }


class _Lock:
    """Every cluster's lock, for as long as a snapshot takes."""

    def __init__(self, clusters: ClusterSet) -> None:
        self._clusters = clusters
        self._stacks: list[ExitStack] = []

    def __enter__(self) -> None:
        stack = ExitStack()
        stack.enter_context(self._clusters.lock())
        self._stacks.append(stack)

    def __exit__(self, *_: object) -> None:
        self._stacks.pop().close()


class KubernetesDataPlane:
    """Implements :class:`sandbox.dataplane.DataPlane` over one TLS port for all clusters.

    ``folder`` holds the certificates. Methods may be called from any thread, before :meth:`start` as well.
    """

    def __init__(
        self,
        clock: Clock,
        faults: Faults,
        ledger: Ledger,
        folder: Path,
        *,
        state: State | None = None,
        admin: Admin | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        names: tuple[str, ...] = ("localhost", "127.0.0.1"),
        credentials: Mapping[str, Credential] | None = None,
    ) -> None:
        self._host = host
        self._state = state
        hosts = list(dict.fromkeys([*names, host]))
        self._certificates = certificates.ensure(folder / "kubernetes-tls", hosts)
        self.clusters = ClusterSet(
            clock, sandbox_credentials() if credentials is None else credentials, self._certificates.authority
        )
        application = Application(self.clusters, faults, ledger, changed=self._touch)
        self._listener = Listener(application, host, port, self._certificates)
        if state is not None:
            state.register("kubernetes", self.clusters.dump, self.clusters.load, _Lock(self.clusters))
        if admin is not None:
            adminroutes.register(admin, self.clusters, self._reach, "kubernetes/")
            servingroutes.register(admin, self.clusters, "kubernetes/", self._touch)
            self.clusters.scripts.register(admin, "kubernetes/scripts")
            admin.on_reset(self.reset)

    @property
    def port(self) -> int:
        return self._listener.port

    def start(self) -> None:
        """Serve; returns when the port answers."""
        self._listener.start()

    def stop(self) -> None:
        self._listener.stop()
        for cluster in list(self.clusters.by_id.values()):
            cluster.scripts.stop()

    def reset(self) -> None:
        """Forget every cluster."""
        for name in list(self.clusters.by_id):
            self.clusters.remove(name)
        self.clusters.pod_faults.clear()

    def _touch(self) -> None:
        if self._state is not None:
            self._state.touch()

    def _endpoint(self, name: str) -> Endpoint:
        host = "127.0.0.1" if self._host in ("0.0.0.0", "::") else self._host
        return Endpoint(f"https://{host}:{self.port}{PREFIX}{name}", self._certificates.authority)

    def _reach(self, cluster: Cluster) -> dict[str, Any]:
        return asdict(self._endpoint(cluster.identifier))

    def _cluster(self, arn: str) -> Cluster | None:
        return self.clusters.by_id.get(identifier(arn))

    def _required(self, arn: str) -> Cluster:
        cluster = self._cluster(arn)
        if cluster is None:
            raise KeyError(f"there is no Kubernetes cluster for {arn}")
        return cluster

    def create_cluster(self, facts: ClusterFacts) -> Endpoint:
        """A new cluster, or the one that is there, in the version that is now wanted."""
        name = identifier(facts.arn)
        cluster = self.clusters.by_id.get(name)
        if cluster is None:
            cluster = self.clusters.add(name, facts)
            if facts.creator_is_admin and facts.creator:
                cluster.set_access([AccessEntry(facts.creator, facts.creator, admin=True)])
        else:
            cluster.facts = facts
        self._touch()
        return self._endpoint(name)

    def delete_cluster(self, arn: str) -> None:
        self.clusters.remove(identifier(arn))
        self._touch()

    def set_access(self, arn: str, entries: list[AccessEntry]) -> None:
        """Replace who may use the cluster."""
        if cluster := self._cluster(arn):
            cluster.set_access(entries)
            self._touch()

    def add_node(self, arn: str, node: NodeFacts) -> None:
        """A node joins, or an existing one gets other labels, taints or devices."""
        cluster = self._required(arn)
        kind = cluster.registry.type("nodes")
        facts = asdict(node) | {"taints": [list(taint) for taint in node.taints]}
        with cluster.store.lock:
            before = cluster.nodes.get(node.name)
            cluster.nodes[node.name] = facts
            wanted = node_object(node, cluster.git_version)
            found = cluster.store.get(kind, None, node.name)
            if found is None:
                cluster.registry.create(kind, None, wanted)
            elif before is None or before["labels"] != facts["labels"] or before["taints"] != facts["taints"]:
                cluster.registry.modify(kind, None, node.name, lambda o: _amend(o, wanted, before))
            cluster.controllers.enqueue("node", ("", node.name))
        self._touch()

    def remove_node(self, arn: str, name: str) -> None:
        """The machine is gone, and with it the pods that ran there."""
        cluster = self._cluster(arn)
        if cluster is None:
            return
        kind = cluster.registry.type("nodes")
        with cluster.store.lock:
            cluster.nodes.pop(name, None)
            found = cluster.store.get(kind, None, name)
            if found is not None:
                cluster.registry.purge(kind, clone(found))
        self._touch()

    def node_ready(self, arn: str, name: str) -> bool:
        """Whether a node is there and its Ready condition true."""
        cluster = self._cluster(arn)
        found = cluster.store.get(cluster.registry.type("nodes"), None, name) if cluster else None
        return found is not None and is_true(found, "Ready")

    def drain_node(self, arn: str, name: str) -> int:
        """Cordon a node and evict what its disruption budgets let go; how many pods are left."""
        cluster = self._cluster(arn)
        left = eviction.drain(cluster, name) if cluster else 0
        self._touch()
        return left

    def uncordon_node(self, arn: str, name: str) -> None:
        if cluster := self._cluster(arn):
            with cluster.store.lock:
                eviction.cordon(cluster, name, False)
            self._touch()

    def install_addon(
        self, arn: str, name: str, version: str, settings: AddonSettings | None = None
    ) -> tuple[str, ...]:
        """Put an add-on's objects into the cluster; what of others' is in the way."""
        conflicts = installation.install(self._required(arn), name, version, settings or AddonSettings())
        self._touch()
        return conflicts

    def remove_addon(self, arn: str, name: str, preserve: bool = False) -> None:
        """Take away what the add-on put in; namespaces and definitions stay, as they do with EKS."""
        if cluster := self._cluster(arn):
            installation.remove(cluster, name, preserve)
            self._touch()

    def addon_health(self, arn: str, name: str) -> AddonHealth:
        cluster = self._cluster(arn)
        if cluster is None:
            return AddonHealth(False, (("ClusterUnreachable", f"there is no cluster {arn}"),))
        return installation.health(cluster, name)

    def query_metrics(self, query: str) -> dict[str, Any]:
        """Of the first cluster that has an answer. Raises ValueError for a query that Prometheus refuses."""
        data: dict[str, Any] = {"resultType": "vector", "result": []}
        for cluster in list(self.clusters.by_id.values()):
            with cluster.lock:
                data = cluster.prometheus.query(query)
            if data["result"]:
                break
        return data


def _amend(obj: Json, wanted: Json, before: Json | None) -> None:
    """Bring labels and taints up to date, and leave alone what others put there."""
    labels = obj["metadata"].setdefault("labels", {})
    for key in (before or {}).get("labels", {}):
        labels.pop(key, None)
    labels.update(wanted["metadata"]["labels"])
    ours = {taint[0] for taint in (before or {}).get("taints", [])}
    kept = [taint for taint in dig(obj, "spec.taints", []) if taint["key"] not in ours]
    obj["spec"]["taints"] = [*kept, *wanted["spec"].get("taints", [])]
