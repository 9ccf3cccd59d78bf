"""A cluster of the sandbox with accelerators, the inference operator, KEDA and a Prometheus."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from kubernetes import client

from activities.registry import Activities
from contracts.cluster import ClusterRecord
from contracts.dependencies import ENSURE_ADDON, ENSURE_RELEASE, EnsureAddon, EnsureRelease
from contracts.hyperpod import ENSURE_HYPERPOD, WAIT_FOR_HYPERPOD, HyperPodCluster, WaitForHyperPod
from contracts.plans import MAKE_PLAN, MakePlan, PlanDraft
from tests.activities.conftest import REGION, Sandbox
from tests.activities.world import World, until

PROMETHEUS = "http://prometheus-server.prometheus.svc:80"
INFERENCE = "amazon-sagemaker-hyperpod-inference"


class ServingWorld:
    """``world``'s cluster with one node of ``ml.g5.12xlarge`` (four accelerators)."""

    def __init__(self, sandbox: Sandbox, world: World, activities: Activities) -> None:
        self.sandbox, self.world, self.activities = sandbox, world, activities
        self.scope, self.run = world.scope, world.run
        self.eks = world.control_plane.name
        for name in ("vpc-cni", "cert-manager", "aws-mountpoint-s3-csi-driver"):
            wanted = EnsureAddon(scope=self.scope, eks_cluster=self.eks, name=name, kubernetes_version="1.34")
            self.run(ENSURE_ADDON, wanted)
        release = EnsureRelease(scope=self.scope, eks_cluster=self.eks, name="hyperpod-dependencies")
        self.run(ENSURE_RELEASE, release)

    @cached_property
    def hyperpod(self) -> HyperPodCluster:
        group = self.world.group(instance_type="ml.g5.12xlarge")
        made = self.run(ENSURE_HYPERPOD, self.world.hyperpod(group))
        waited = WaitForHyperPod(scope=self.scope, name=made.name, eks_cluster=self.eks, groups=["workers"])
        return self.run(WAIT_FOR_HYPERPOD, waited).cluster

    def install(self) -> None:
        """The operator with the KEDA that it brings, and a Prometheus."""
        assert self.hyperpod
        eks = self.activities.aws.act.eks(REGION)
        values = {"executionRoleArn": self.world.execution_role.arn, "tlsCertificateS3Bucket": "hyperpod-tls-tests"}
        for name, given in (("aws-fsx-csi-driver", {}), (INFERENCE, values)):
            more: Any = {"configurationValues": json.dumps(given)} if given else {}
            eks.create_addon(clusterName=self.eks, addonName=name, **more)
            until(lambda name=name: self._status(name) == "ACTIVE")
        with self.api() as api:
            self._prometheus(api)

    def _status(self, addon: str) -> str:
        eks = self.activities.aws.read.eks(REGION)
        return str(eks.describe_addon(clusterName=self.eks, addonName=addon)["addon"]["status"])

    def _prometheus(self, api: client.ApiClient) -> None:
        core, apps, name = client.CoreV1Api(api), client.AppsV1Api(api), "prometheus-server"
        core.create_namespace({"metadata": {"name": "prometheus"}})
        apps.create_namespaced_deployment("prometheus", deployment(name, image="quay.io/prometheus/prometheus:v3.5.0"))
        ports = [{"name": "http", "port": 80, "targetPort": 9090}]
        service = {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports}}
        core.create_namespaced_service("prometheus", service)
        until(lambda: apps.read_namespaced_deployment(name, "prometheus").status.available_replicas)

    def api(self) -> Any:
        return self.activities.kubernetes.connect(REGION, self.eks)

    def say(self, query: str, value: Any = None, error: str = "") -> None:
        """What Prometheus gives for a query; nothing: the truth again."""
        body = {"query": query, "error": error} if error else {"query": query, "value": value}
        self.sandbox.call("PUT", "kubernetes/queries", body)

    def make_deployment(self, name: str, replicas: int = 1) -> None:
        with self.api() as api:
            client.AppsV1Api(api).create_namespaced_deployment("default", deployment(name, replicas))

    def replicas(self, name: str) -> int:
        with self.api() as api:
            return int(client.AppsV1Api(api).read_namespaced_deployment(name, "default").spec.replicas or 0)

    def put(self, bucket: str, *keys: str) -> None:
        """Objects of a model, in a bucket that is made for them."""
        s3 = self.activities.aws.act.s3(REGION)
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        for key in keys:
            s3.put_object(Bucket=bucket, Key=key, Body=b"weights")

    def plan(self, kind: str, spec: dict[str, Any]) -> PlanDraft:
        now = datetime.now(UTC)
        record = ClusterRecord(
            tag=self.scope.cluster,
            region=REGION,
            created_by="tests",
            created_at=now,
            updated_at=now,
            control_plane=self.world.control_plane,
            hyperpod=self.hyperpod,
        )
        return self.run(MAKE_PLAN, MakePlan(kind=kind, record=record, spec=spec)).draft


def deployment(name: str, replicas: int = 1, image: str = "nginx:1") -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m"}}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image, "resources": resources}]},
            },
        },
    }


def faults(draft: PlanDraft) -> list[tuple[str, str]]:
    """Blockers, as field and detail."""
    return [(blocker.field, blocker.detail) for blocker in draft.blockers]
