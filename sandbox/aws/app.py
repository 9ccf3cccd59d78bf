"""The simulated AWS as one object: services, admin routes and snapshots put together."""

from __future__ import annotations

import pickle
import threading
from typing import Any

from sandbox.admin import Admin, AdminRequest
from sandbox.aws import repairs
from sandbox.aws.admin import AwsAdmin
from sandbox.aws.authorization.guard import Guard
from sandbox.aws.authorization.requests import Needs
from sandbox.aws.authorization.tags import Tags
from sandbox.aws.buckets import S3Buckets
from sandbox.aws.cloud import AwsCloud
from sandbox.aws.ec2 import Ec2, Ec2State
from sandbox.aws.eks import Eks
from sandbox.aws.eks.state import EksState
from sandbox.aws.elbv2 import Elbv2
from sandbox.aws.fsx import Fsx, FsxState
from sandbox.aws.hyperpod import HyperPod
from sandbox.aws.hyperpod.state import HyperPodState
from sandbox.aws.iam import Iam
from sandbox.aws.instance_types import catalogue
from sandbox.aws.metricqueries import MetricQueries
from sandbox.aws.mlflow import Mlflow
from sandbox.aws.mlflow_requests import MlflowRequests
from sandbox.aws.overlay import Overlay
from sandbox.aws.pricing import Pricing
from sandbox.aws.quotas import QuotaState, ServiceQuotas
from sandbox.aws.sts import Sts
from sandbox.aws.tagging import Tagging
from sandbox.aws.training_jobs import TrainingJobs
from sandbox.aws.workspaces import Grafana, Prometheus, WorkspaceState
from sandbox.aws.world import Knobs, World
from sandbox.clock import Clock
from sandbox.dataplane import DataPlane, NoDataPlane
from sandbox.faults import Faults
from sandbox.ledger import Ledger
from sandbox.state import State


class AwsSandbox:
    """The AWS APIs of one sandbox.

    Construct it, let ``state.restore()`` load a snapshot if there is one, call :meth:`ready`, then serve :attr:`wsgi`.
    moto keeps its backends in the module, so a process holds one of these at a time.
    """

    def __init__(
        self,
        clock: Clock,
        faults: Faults | None = None,
        ledger: Ledger | None = None,
        dataplane: DataPlane | None = None,
        state: State | None = None,
        admin: Admin | None = None,
    ) -> None:
        self.clock = clock
        self.faults = faults or Faults()
        self.ledger = ledger or Ledger()
        self.state = state or State()
        self.admin = admin or Admin(clock, self.faults, self.ledger, self.state)
        self.state.now = clock.timestamp
        repairs.apply()
        self.wsgi = Overlay(clock, self.faults, self.ledger, self.admin, self.state.touch)
        self.world = World(clock, dataplane or NoDataPlane(), self.wsgi.on, self.wsgi.moto.changed)
        self.ec2 = Ec2(self.world)
        self.iam = Iam(self.world)
        self.eks = Eks(self.world)
        self.quotas = ServiceQuotas(self.world)
        self.hyperpod = HyperPod(self.world, self.eks)
        self.elbv2 = Elbv2(self.world)
        self.prometheus, self.grafana = Prometheus(self.world), Grafana(self.world)
        self.grafana.state = self.prometheus.state
        self.wsgi.others.append(MetricQueries(self.prometheus, self.wsgi))
        self.fsx = Fsx(self.world)
        self.mlflow = Mlflow(self.world, self.hyperpod)
        self.wsgi.others.append(MlflowRequests(self.mlflow, self.wsgi, self.state.touch))
        self.training_jobs = TrainingJobs(self.world, self.mlflow)
        self.buckets = S3Buckets(self.wsgi.lock, self._bucket_changed)
        self.cloud = AwsCloud(self.world, self.hyperpod, self.elbv2, self.wsgi.lock, self.state.touch)
        tagging = Tagging(self.world, self.eks, self.hyperpod, self.prometheus, self.grafana, self.fsx, self.mlflow)
        self.guard = self.wsgi.guard = Guard(Needs(Tags(tagging, self.training_jobs)))
        for service, handlers in (
            ("ec2", self.ec2),
            ("iam", self.iam),
            ("sts", Sts()),
            ("eks", self.eks),
            ("service-quotas", self.quotas),
            ("sagemaker", self.hyperpod),
            ("sagemaker", self.mlflow),
            ("sagemaker", self.training_jobs),
            ("elbv2", self.elbv2),
            ("pricing", Pricing()),
            ("amp", self.prometheus),
            ("grafana", self.grafana),
            ("fsx", self.fsx),
            ("resourcegroupstaggingapi", tagging),
        ):
            self.wsgi.register(service, handlers)
        AwsAdmin(self.world, self.hyperpod, self.wsgi.lock, self.training_jobs).register(self.admin)
        self._register_access()
        self.wsgi.hub.register(self.admin)
        self.admin.on_reset(self.reset)
        self.state.register("clock", lambda: pickle.dumps(clock.dump()), self._load_clock, clock.still)
        self.state.register("aws", self._dump, self._load, self.wsgi.lock)
        self.state.register("hub", self.wsgi.hub.dump, self.wsgi.hub.load)
        self.state.register("training-jobs", self.training_jobs.dump, self.training_jobs.load, self.wsgi.lock)
        self.state.register("mlflow", self.mlflow.dump, self.mlflow.load, self.wsgi.lock)
        self.state.register("calls", self.wsgi.calls.dump, self.wsgi.calls.load)
        self.state.register("policies", self.guard.dump, self.guard.load, self.wsgi.lock)
        self.state.register("moto", self.wsgi.moto.dump, self.wsgi.moto.load)
        self.state.register(
            "ledger", lambda: pickle.dumps(self.ledger.dump()), lambda b: self.ledger.load(pickle.loads(b))
        )
        self.state.register(
            "faults", lambda: pickle.dumps(self.faults.dump()), lambda b: self.faults.load(pickle.loads(b))
        )

    def _register_access(self) -> None:
        """What was called, and what is allowed."""
        calls = self.wsgi.calls

        def report(request: AdminRequest) -> Any:
            if request.method == "DELETE":
                calls.clear()
                self.state.touch()
            return {"calls": calls.report(request.query.get("caller"), request.query.get("kind"))}

        def policies(request: AdminRequest) -> Any:
            with self.wsgi.lock:
                answer = self.guard.answer(request)
            if request.method != "GET":
                self.state.touch()
            return answer

        for method in ("GET", "DELETE"):
            self.admin.route(method, "calls", report)
        for method in ("GET", "PUT", "DELETE"):
            self.admin.route(method, "policies", policies)
        self.admin.on_reset(calls.clear)
        self.admin.on_reset(lambda: self.guard.enforce({}))

    def identified(self, principal: str, region: str) -> None:
        """A token of EKS was shown: behind it is a request of STS that its cluster has sent."""
        self.wsgi.calls.count("sts", "GetCallerIdentity", region, principal)

    def _bucket_changed(self) -> None:
        self.wsgi.moto.changed("s3")
        self.state.touch()

    def use_dataplane(self, dataplane: DataPlane) -> None:
        """Put Kubernetes behind EKS."""
        self.world.dataplane = dataplane

    def ready(self) -> None:
        """What exists from the start."""
        with self.wsgi.lock:
            self.iam.ensure_caller_role()
            self.eks.reconnect()
        # A second and a half of EC2's tables of instance types, read while the first requests come in.
        threading.Thread(target=catalogue, name="sandbox-warm-up", daemon=True).start()

    def reset(self) -> None:
        """Empty everything."""
        with self.wsgi.lock:
            for place in list(self.eks.state.clusters.values()):
                for cluster in place.values():
                    self.world.dataplane.delete_cluster(cluster.arn)
            self.wsgi.moto.reset()
            self.mlflow.reset()
            self.training_jobs.reset()
            self._set(Knobs(), Ec2State(), EksState(), QuotaState(), HyperPodState(), WorkspaceState(), FsxState())
            self.ready()

    def _set(self, knobs: Any, ec2: Any, eks: Any, quotas: Any, hyperpod: Any, workspaces: Any, fsx: Any) -> None:
        self.world.knobs = knobs
        self.ec2.state, self.eks.state, self.quotas.state, self.hyperpod.state = ec2, eks, quotas, hyperpod
        self.prometheus.state = self.grafana.state = workspaces
        self.fsx.state = fsx

    def _dump(self) -> bytes:
        parts = (
            self.world.knobs,
            self.ec2.state,
            self.eks.state,
            self.quotas.state,
            self.hyperpod.state,
            self.prometheus.state,
            self.fsx.state,
        )
        return pickle.dumps(parts, protocol=pickle.HIGHEST_PROTOCOL)

    def _load(self, dumped: bytes) -> None:
        self._set(*pickle.loads(dumped))

    def _load_clock(self, dumped: bytes) -> None:
        found = pickle.loads(dumped)
        self.clock.load({**found, "timestamp": max(found["timestamp"], self.state.noted_time())})
