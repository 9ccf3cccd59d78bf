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
from sandbox.dataplane import AccessEntry, AddonHealth, ClusterFacts, Endpoint, NodeFacts
from sandbox.faults import Faults
from sandbox.ledger import Ledger
from sandbox.state import State

from . import addons, adminroutes, certificates
from .asgi import Application
from .cluster import Cluster
from .clusterset import PREFIX, ClusterSet, identifier
from .controllers.nodes import node_info
from .ekstokens import Credential
from .listener import Listener
from .objects import clone, dig
from .resources import Json, ResourceType

_REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_PODS_PER_NODE = 110


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
            admin.on_reset(self.reset)

    @property
    def port(self) -> int:
        return self._listener.port

    def start(self) -> None:
        """Serve; returns when the port answers."""
        self._listener.start()

    def stop(self) -> None:
        self._listener.stop()

    def reset(self) -> None:
        """Forget every cluster."""
        for name in list(self.clusters.by_id):
            self.clusters.remove(name)

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
            wanted = _node(node, cluster.git_version)
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

    def install_addon(self, arn: str, name: str, version: str) -> None:
        """Put an add-on's objects into the cluster, or bring them to another version."""
        cluster = self._required(arn)
        with cluster.store.lock:
            cluster.addons[name] = version
            for obj in addons.objects(name, version):
                kind = _kind_of(cluster, obj)
                meta = obj["metadata"]
                found = cluster.store.get(kind, meta.get("namespace"), meta["name"])
                if found is None:
                    cluster.registry.create(kind, meta.get("namespace"), obj)
                elif "spec" in obj and kind.plural in ("daemonsets", "deployments"):
                    _update_images(cluster, kind, found, obj)
        self._touch()

    def remove_addon(self, arn: str, name: str) -> None:
        """Take away what the add-on put in; namespaces and definitions stay, as they do with EKS."""
        cluster = self._cluster(arn)
        if cluster is None:
            return
        with cluster.store.lock:
            version = cluster.addons.pop(name, None)
            for obj in addons.objects(name, version or "v1"):
                if obj["kind"] in ("Namespace", "CustomResourceDefinition"):
                    continue
                kind, meta = _kind_of(cluster, obj), obj["metadata"]
                found = cluster.store.get(kind, meta.get("namespace"), meta["name"])
                if found is not None and (found["metadata"].get("labels") or {}).get(addons.ADDON_LABEL) == name:
                    cluster.registry.delete(kind, found, {"propagationPolicy": "Background"})
        self._touch()

    def addon_health(self, arn: str, name: str) -> AddonHealth:
        """From the add-on's workloads: https://docs.aws.amazon.com/eks/latest/APIReference/API_AddonIssue.html"""
        cluster = self._cluster(arn)
        if cluster is None or name not in cluster.addons:
            return AddonHealth(False, (("K8sResourceNotFound", f"the add-on {name} is not installed"),))
        issues = []
        with cluster.store.lock:
            for obj in addons.objects(name, cluster.addons[name]):
                if obj["kind"] in ("DaemonSet", "Deployment"):
                    found = cluster.store.get(
                        _kind_of(cluster, obj), obj["metadata"].get("namespace"), obj["metadata"]["name"]
                    )
                    if issue := _workload_issue(obj, found):
                        issues.append(issue)
        return AddonHealth(not issues, tuple(issues))


def _kind_of(cluster: Cluster, obj: Json) -> ResourceType:
    group, _, version = obj["apiVersion"].rpartition("/")
    for kind in cluster.store.types():
        if (kind.group, kind.version, kind.kind) == (group, version, obj["kind"]):
            return kind
    raise KeyError(f"{obj['apiVersion']} {obj['kind']} is not served")


def _workload_issue(obj: Json, found: Json | None) -> tuple[str, str] | None:
    kind, name = obj["kind"], obj["metadata"]["name"]
    if found is None:
        return "K8sResourceNotFound", f"The {kind.lower()} {name} was not found"
    generation = found["metadata"].get("generation")
    if kind == "DaemonSet":
        wanted, ready = dig(found, "status.desiredNumberScheduled", 0), dig(found, "status.numberReady", 0)
        updated = dig(found, "status.updatedNumberScheduled", 0)
    else:
        wanted, ready = dig(found, "spec.replicas", 1), dig(found, "status.availableReplicas", 0)
        updated = dig(found, "status.updatedReplicas", 0)
    if dig(found, "status.observedGeneration") != generation or ready < wanted or updated < wanted:
        message = f"The add-on is unhealthy because the {kind.lower()} {name} has {ready} of {wanted} replicas ready"
        return "InsufficientNumberOfReplicas", message
    return None


def _update_images(cluster: Cluster, kind: ResourceType, found: Json, wanted: Json) -> None:
    def mutate(obj: Json) -> None:
        obj["metadata"].setdefault("labels", {}).update(wanted["metadata"]["labels"])
        containers = obj["spec"]["template"]["spec"]["containers"]
        for container, new in zip(containers, wanted["spec"]["template"]["spec"]["containers"], strict=False):
            container["image"] = new["image"]

    cluster.registry.modify(kind, found["metadata"]["namespace"], found["metadata"]["name"], mutate)


def _amend(obj: Json, wanted: Json, before: Json | None) -> None:
    """Bring labels and taints up to date, and leave alone what others put there."""
    labels = obj["metadata"].setdefault("labels", {})
    for key in (before or {}).get("labels", {}):
        labels.pop(key, None)
    labels.update(wanted["metadata"]["labels"])
    ours = {taint[0] for taint in (before or {}).get("taints", [])}
    kept = [taint for taint in dig(obj, "spec.taints", []) if taint["key"] not in ours]
    obj["spec"]["taints"] = [*kept, *wanted["spec"].get("taints", [])]


def _node(node: NodeFacts, version: str) -> Json:
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": node.architecture,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": node.architecture,
        "topology.k8s.aws/zone-id": node.zone_id,
        **dict.fromkeys(_REGION_LABELS, node.region),
        **dict.fromkeys(_ZONE_LABELS, node.zone),
        **dict.fromkeys(_TYPE_LABELS, node.instance_type),
        **node.labels,
    }
    spec: Json = {"providerID": f"aws:///{node.zone}/sagemaker/cluster/hyperpod-{node.instance_id}"}
    if node.taints:
        spec["taints"] = [{"key": key, "value": value, "effect": effect} for key, value, effect in node.taints]
    # What the kubelet keeps for itself and for the system.
    reserved_memory = min(node.memory_mib // 20, 8192) + 100
    capacity = {
        "cpu": str(node.vcpus),
        "memory": f"{node.memory_mib * 1024}Ki",
        "pods": str(_PODS_PER_NODE),
        "ephemeral-storage": f"{node.disk_gib * 1024 * 1024}Ki",
        "hugepages-2Mi": "0",
        "hugepages-1Gi": "0",
    }
    allocatable = {
        **capacity,
        "cpu": f"{node.vcpus * 1000 - 110}m",
        "memory": f"{(node.memory_mib - reserved_memory) * 1024}Ki",
    }
    return {
        "metadata": {"name": node.name, "labels": labels, "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": allocatable,
            "addresses": [
                {"type": "InternalIP", "address": node.internal_ip},
                {"type": "Hostname", "address": node.name},
                {"type": "InternalDNS", "address": node.name},
            ],
            "nodeInfo": node_info(version, node.name, node.architecture),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        },
    }
