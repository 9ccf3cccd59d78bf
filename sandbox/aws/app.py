"""The simulated AWS as one object: services, admin routes and snapshots put together."""

from __future__ import annotations

import pickle
import threading
from typing import Any

from sandbox.admin import Admin
from sandbox.aws import repairs
from sandbox.aws.admin import AwsAdmin
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
from sandbox.aws.overlay import Overlay
from sandbox.aws.pricing import Pricing
from sandbox.aws.quotas import QuotaState, ServiceQuotas
from sandbox.aws.sts import Sts
from sandbox.aws.tagging import Tagging
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
        self.wsgi.others.append(MetricQueries(self.prometheus))
        self.fsx = Fsx(self.world)
        self.buckets = S3Buckets(self.wsgi.lock, self._bucket_changed)
        self.cloud = AwsCloud(self.world, self.hyperpod, self.elbv2, self.wsgi.lock, self.state.touch)
        for service, handlers in (
            ("ec2", self.ec2),
            ("iam", self.iam),
            ("sts", Sts()),
            ("eks", self.eks),
            ("service-quotas", self.quotas),
            ("sagemaker", self.hyperpod),
            ("elbv2", self.elbv2),
            ("pricing", Pricing()),
            ("amp", self.prometheus),
            ("grafana", self.grafana),
            ("fsx", self.fsx),
            (
                "resourcegroupstaggingapi",
                Tagging(self.world, self.eks, self.hyperpod, self.prometheus, self.grafana, self.fsx),
            ),
        ):
            self.wsgi.register(service, handlers)
        AwsAdmin(self.world, self.hyperpod, self.wsgi.lock).register(self.admin)
        self.wsgi.hub.register(self.admin)
        self.admin.on_reset(self.reset)
        self.state.register("clock", lambda: pickle.dumps(clock.dump()), self._load_clock, clock.still)
        self.state.register("aws", self._dump, self._load, self.wsgi.lock)
        self.state.register("hub", self.wsgi.hub.dump, self.wsgi.hub.load)
        self.state.register("moto", self.wsgi.moto.dump, self.wsgi.moto.load)
        self.state.register(
            "ledger", lambda: pickle.dumps(self.ledger.dump()), lambda b: self.ledger.load(pickle.loads(b))
        )
        self.state.register(
            "faults", lambda: pickle.dumps(self.faults.dump()), lambda b: self.faults.load(pickle.loads(b))
        )

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
        self.clock.load(pickle.loads(dumped))
