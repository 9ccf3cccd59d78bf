"""One Kubernetes cluster: its objects, who may use it, and the controllers that run it."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.clock import Clock
from sandbox.cloud import Cloud
from sandbox.dataplane import AccessEntry, ClusterFacts

from . import custom, ekstokens
from .controllers.manager import ControllerManager
from .ekstokens import Credential, InvalidToken
from .identity import Principal
from .logs import PodLogs
from .objects import dig
from .podfaults import PodFaults
from .prometheus import Prometheus
from .registry import Registry
from .resources import Json
from .scripts.runner import ScriptRunner, Scripts
from .serving import Serving
from .store import Store
from .tokens import ServiceAccountTokens
from .training.runs import Runs

DEFAULT_VERSION = "1.34"
SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

log = logging.getLogger(__name__)


class Cluster:
    """``facts`` None: a cluster of no EKS, without authentication."""

    def __init__(
        self,
        identifier: str,
        clock: Clock,
        *,
        facts: ClusterFacts | None = None,
        credentials: Mapping[str, Credential] | None = None,
        root_certificate: str = "",
        cloud: Cloud | None = None,
        pod_faults: PodFaults | None = None,
        scripts: ScriptRunner | None = None,
        identified: Callable[[str, str], None] | None = None,
    ) -> None:
        self.identifier = identifier
        self.clock = clock
        self.facts = facts
        self.cloud = cloud
        self.credentials = credentials or {}
        self._identified = identified or (lambda principal, region: None)
        self._known_tokens: deque[str] = deque(maxlen=64)
        self.entries: dict[str, AccessEntry] = {}
        self.addons: dict[str, str] = {}
        """Version by name of the add-ons that were installed."""
        self.addon_configurations: dict[str, Json] = {}
        self.nodes: dict[str, Json] = {}
        """What the data plane told about each node, as JSON."""
        self.store = Store()
        self.registry = Registry(self.store, clock.timestamp)
        self.registry.root_certificate = lambda: root_certificate
        self.logs = PodLogs()
        self.serving = Serving(self, pod_faults or PodFaults())
        self.training = Runs(self)
        self.prometheus = Prometheus(self, self.serving.faults.queries)
        self.scripts = Scripts(self, scripts or ScriptRunner())
        region = facts.region if facts else "us-west-2"
        unique = hashlib.sha256(identifier.encode()).hexdigest()[:32].upper()
        self.issuer = f"https://oidc.eks.{region}.amazonaws.com/id/{unique}"
        key = hashlib.sha256(f"service-accounts/{identifier}".encode()).digest()
        self.tokens = ServiceAccountTokens(self.issuer, key, clock.timestamp)
        self.controllers = ControllerManager(self)

    @property
    def name(self) -> str:
        return self.facts.name if self.facts else self.identifier

    @property
    def lock(self) -> threading.RLock:
        return self.store.lock

    def now(self) -> float:
        return self.clock.timestamp()

    @property
    def git_version(self) -> str:
        return f"v{self.facts.version if self.facts else DEFAULT_VERSION}.2-eks-sandbox"

    def version(self) -> Json:
        """``kubectl version``: the cluster's version as EKS knows it."""
        major, _, minor = (self.facts.version if self.facts else DEFAULT_VERSION).partition(".")
        return {
            "major": major,
            "minor": f"{minor}+" if self.facts else minor,
            "gitVersion": self.git_version,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "2026-01-01T00:00:00Z",
            "goVersion": "none",
            "compiler": "cpython",
            "platform": "linux/amd64",
        }

    def furnish(self) -> None:
        """What is in every cluster from the start."""
        registry = self.registry
        with self.store.lock:
            for name in SYSTEM_NAMESPACES:
                registry.create(registry.type("namespaces"), None, {"metadata": {"name": name}})
            registry.create(
                registry.type("services"),
                "default",
                {
                    "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
                    "spec": {
                        "clusterIP": "10.100.0.1",
                        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443}],
                    },
                },
            )
            for name in ("cluster-admin", "admin", "edit", "view"):
                rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}] if name == "cluster-admin" else []
                registry.create(
                    registry.type("clusterroles", "rbac.authorization.k8s.io"),
                    None,
                    {"metadata": {"name": name}, "rules": rules},
                )
            registry.create(
                registry.type("clusterrolebindings", "rbac.authorization.k8s.io"),
                None,
                {
                    "metadata": {"name": "cluster-admin"},
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "cluster-admin",
                    },
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"}],
                },
            )
            for name, value in (("system-node-critical", 2000001000), ("system-cluster-critical", 2000000000)):
                registry.create(
                    registry.type("priorityclasses", "scheduling.k8s.io"),
                    None,
                    {"metadata": {"name": name}, "value": value},
                )
            if self.facts is not None:
                # EKS makes this class; it needs the EBS driver, which is an add-on.
                registry.create(
                    registry.type("storageclasses", "storage.k8s.io"),
                    None,
                    {
                        "metadata": {"name": "gp2"},
                        "provisioner": "kubernetes.io/aws-ebs",
                        "parameters": {"fsType": "ext4", "type": "gp2"},
                        "volumeBindingMode": "WaitForFirstConsumer",
                    },
                )

    def set_access(self, entries: list[AccessEntry]) -> None:
        self.entries = {entry.principal_arn: entry for entry in entries}

    def admin_users(self) -> set[str]:
        return {entry.username for entry in self.entries.values() if entry.admin}

    def admin_groups(self) -> set[str]:
        """The groups that a binding to cluster-admin names."""
        return {s["name"] for s in self._admin_subjects() if s.get("kind") == "Group"}

    def _admin_subjects(self) -> list[Json]:
        bindings = self.store.objects(self.registry.type("clusterrolebindings", "rbac.authorization.k8s.io"))
        return [
            subject
            for binding in bindings.values()
            if dig(binding, "roleRef.name") == "cluster-admin"
            for subject in binding.get("subjects") or []
        ]

    def authenticate(self, token: str) -> Principal | None:
        """Who a bearer token makes, None if it is not accepted."""
        if not token.startswith(ekstokens.PREFIX):
            return self._service_account(token) if token.count(".") == 2 else None
        try:
            access_key, credential = ekstokens.verify(token, self.name, self.credentials)
        except InvalidToken as error:
            log.info("cluster %s refused a token: %s", self.name, error)
            return None
        if token not in self._known_tokens:
            self._known_tokens.append(token)
            self._identified(credential.principal_arn, self.facts.region if self.facts else "")
        entry = self.entries.get(credential.principal_arn)
        if entry is None:
            return None
        username = entry.username.replace("{{SessionName}}", credential.session_name)
        groups = (*entry.groups, "system:authenticated")
        extra = (
            ("accessKeyId", access_key),
            ("canonicalArn", credential.principal_arn),
            ("sessionName", credential.session_name),
        )
        uid = f"aws-iam-authenticator:{credential.principal_arn}"
        admin = entry.admin or bool(set(groups) & self.admin_groups())
        return Principal(username, groups, admin, uid, extra)

    def _service_account(self, token: str) -> Principal | None:
        principal = self.tokens.verify(token)
        if principal is None:
            return None
        _, _, namespace, name = principal.username.split(":")
        if self.store.get(self.registry.type("serviceaccounts"), namespace, name) is None:
            return None
        admin = any(
            (s.get("kind"), s.get("namespace"), s.get("name")) == ("ServiceAccount", namespace, name)
            for s in self._admin_subjects()
        )
        return Principal(principal.username, principal.groups, admin, principal.uid)

    def dump(self) -> dict[str, Any]:
        with self.store.lock:
            return {
                "identifier": self.identifier,
                "facts": vars(self.facts) if self.facts else None,
                "entries": [{**vars(entry), "groups": list(entry.groups)} for entry in self.entries.values()],
                "addons": dict(self.addons),
                "addon_configurations": self.addon_configurations,
                "nodes": self.nodes,
                "logs": self.logs.dump(),
                "serving": self.serving.dump(),
                "training": self.training.dump(),
                "store": self.store.dump(),
                "controllers": self.controllers.dump(),
            }

    def load(self, dumped: dict[str, Any]) -> None:
        with self.store.lock:
            self.set_access([AccessEntry(**{**e, "groups": tuple(e["groups"])}) for e in dumped["entries"]])
            self.addons, self.nodes = dict(dumped["addons"]), dict(dumped["nodes"])
            self.addon_configurations = dumped.get("addon_configurations", {})
            self.logs.load(dumped["logs"])
            self.serving.load(dumped.get("serving", {}))
            self.training.load(dumped.get("training", {}))
            self.store.load(dumped["store"])
            for definition in self.store.objects(
                self.registry.type("customresourcedefinitions", "apiextensions.k8s.io")
            ).values():
                custom.serve(self.store, definition)
            self.controllers.load(dumped["controllers"])
