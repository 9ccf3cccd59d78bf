"""Every activity, built with one set of dependencies, by the kind of queue that it runs on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import boto3

from activities.autoscalers.autoscalers import AutoscalerActivities
from activities.aws import AwsClients
from activities.credentials.secrets import CredentialActivities
from activities.dependencies.addons import AddonActivities
from activities.dependencies.releases import ReleaseActivities
from activities.dependencies.roles import StorageRoleActivities
from activities.deployments.acts import DeploymentActs
from activities.deployments.read import DeploymentReads
from activities.deployments.watch import DeploymentWaits
from activities.diagnostics.diagnose import DiagnosisActivities
from activities.drain import DrainActivities
from activities.drift.acts import DriftActs
from activities.drift.clusters import ClusterLooks
from activities.drift.identity import IdentityLooks
from activities.drift.network import NetworkLooks
from activities.drift.workloads import WorkloadLooks
from activities.eks import EksActivities
from activities.experiments.access import AccessToExperiments
from activities.experiments.history import ExperimentReads
from activities.experiments.server_acts import TrackingServerActivities
from activities.experiments.sync import ExperimentSync
from activities.experiments.trial import ConnectionTrials
from activities.features.switch import FeatureActivities
from activities.fsx_storage.claims import FsxClaimActivities
from activities.fsx_storage.file_systems import FileSystemActivities
from activities.hyperpod.cluster import HyperPodActivities
from activities.hyperpod.nodes import NodeActivities
from activities.identity.access import AccessActivities
from activities.identity.bucket import BucketActivities
from activities.identity.roles import RoleActivities
from activities.imports.clusters import ImportActivities
from activities.imports.workloads import ImportWorkloadActivities
from activities.inference.call import InferenceActivities
from activities.instance_groups.groups import InstanceGroupActivities
from activities.instance_groups.scaling import ScalingActivities
from activities.instance_groups.settled import SettledActivities
from activities.jobs.read import JobActivities
from activities.kubernetes import KubernetesClients
from activities.logs.follow import LogFollowing
from activities.logs.keep import LogKeeping
from activities.logs.read import LogReading
from activities.managed_endpoints.endpoints import EndpointActivities
from activities.model_pools.acts import ModelPoolActs
from activities.model_pools.read import ModelPoolReads
from activities.model_pools.watch import ModelPoolWaits
from activities.models.downloads import DownloadActivities
from activities.models.read import ModelReads
from activities.network.compute import ComputeSubnetActivities
from activities.network.gateways import GatewayActivities
from activities.network.plan import PlanActivities
from activities.network.vpc import VpcActivities
from activities.node_groups.groups import NodeGroupActivities
from activities.node_groups.placing import PlacementActivities
from activities.node_groups.plugins import DevicePluginActivities
from activities.node_groups.roles import NodeRoleActivities
from activities.node_groups.templates import LaunchTemplateActivities
from activities.node_pools.pools import NodePoolActivities
from activities.nodes.act import NodeActs
from activities.nodes.back import NodeWaits
from activities.nodes.read import NodeReads
from activities.options import Lookup, OptionActivities
from activities.plans.make import MakePlanActivities
from activities.plans.world import World
from activities.preflight.checks import PreflightActivities
from activities.ray_clusters.acts import RayClusterActs
from activities.ray_clusters.read import RayClusterReads
from activities.ray_clusters.watch import RayClusterWaits
from activities.routers.acts import RouterActs
from activities.routers.read import RouterReads
from activities.routers.watch import RouterWaits
from activities.settings import Settings
from activities.software import SoftwareActivities
from activities.storage.claims import StorageActivities
from activities.storage.probe import ProbeActivities
from activities.storage.read import StorageReads
from activities.teardown.act import TeardownActivities
from activities.training.acts import TrainingActs
from activities.training.read import TrainingReads
from activities.training.watch import TrainingWaits
from contracts.activity import Act, Queue, Wait

Activity = Callable[..., Any]


class Activities:
    """All activities of a process: they share clients and settings, and nothing that belongs to one cluster."""

    def __init__(self, settings: Settings | None = None, session: boto3.Session | None = None) -> None:
        self.settings = settings or Settings()
        self.aws = AwsClients(self.settings, session)
        self.kubernetes = KubernetesClients(self.aws)
        self.lookup = Lookup(self.aws)
        world = World(self.aws, self.kubernetes, self.lookup, self.settings)
        self._groups: list[object] = [
            PlanActivities(self.aws),
            VpcActivities(self.aws, self.settings),
            GatewayActivities(self.aws, self.settings),
            ComputeSubnetActivities(self.aws, self.settings),
            RoleActivities(self.aws),
            AccessActivities(self.aws, self.kubernetes),
            BucketActivities(self.aws),
            EksActivities(self.aws, self.settings),
            AddonActivities(self.aws, self.settings),
            StorageRoleActivities(self.aws),
            ReleaseActivities(self.kubernetes, self.settings),
            HyperPodActivities(self.aws, self.settings),
            NodeActivities(self.aws, self.kubernetes, self.settings),
            DrainActivities(self.kubernetes, self.settings),
            NodeActs(self.aws, self.kubernetes, self.settings),
            NodeWaits(self.aws, self.kubernetes, self.settings),
            NodeReads(self.aws, self.kubernetes),
            SoftwareActivities(self.aws, self.kubernetes, self.settings),
            InstanceGroupActivities(self.aws, self.kubernetes),
            ScalingActivities(self.aws, self.kubernetes),
            SettledActivities(self.aws, self.kubernetes, self.settings),
            StorageActivities(self.kubernetes, self.settings),
            StorageReads(self.aws, self.kubernetes),
            ProbeActivities(self.kubernetes, self.settings),
            FileSystemActivities(self.aws, self.settings),
            FsxClaimActivities(self.kubernetes),
            FeatureActivities(self.aws, self.kubernetes, self.settings),
            OptionActivities(self.lookup),
            PreflightActivities(self.aws, self.lookup),
            MakePlanActivities(world),
            TeardownActivities(self.aws, self.kubernetes, self.settings),
            PlacementActivities(self.aws),
            NodeRoleActivities(self.aws),
            LaunchTemplateActivities(self.aws),
            DevicePluginActivities(self.kubernetes),
            NodeGroupActivities(self.aws, self.kubernetes, self.settings),
            NodePoolActivities(self.aws, self.kubernetes, self.lookup, self.settings),
            ImportActivities(self.aws),
            ImportWorkloadActivities(self.kubernetes),
            JobActivities(self.kubernetes),
            DiagnosisActivities(self.aws, self.kubernetes),
            DeploymentActs(self.kubernetes, self.settings),
            DeploymentWaits(self.kubernetes, self.settings),
            DeploymentReads(self.kubernetes),
            ModelPoolActs(self.kubernetes, self.settings),
            ModelPoolWaits(self.kubernetes, self.settings),
            ModelPoolReads(self.kubernetes),
            RouterActs(self.kubernetes, self.settings),
            RouterWaits(self.kubernetes, self.settings),
            RouterReads(self.kubernetes),
            RayClusterActs(self.kubernetes, self.settings),
            RayClusterWaits(self.kubernetes, self.settings),
            RayClusterReads(self.kubernetes),
            EndpointActivities(self.kubernetes, self.settings),
            AutoscalerActivities(self.aws, self.kubernetes, self.settings),
            CredentialActivities(self.kubernetes, self.settings),
            DownloadActivities(self.aws, self.kubernetes, self.settings),
            ModelReads(self.aws, self.kubernetes),
            InferenceActivities(self.kubernetes),
            TrackingServerActivities(self.aws, self.settings),
            AccessToExperiments(self.aws, self.kubernetes),
            ExperimentReads(self.aws),
            ConnectionTrials(self.aws, self.kubernetes),
            ExperimentSync(self.aws),
            TrainingActs(self.aws, self.kubernetes, self.settings),
            TrainingWaits(self.aws, self.kubernetes, self.settings),
            TrainingReads(self.aws, self.kubernetes, self.settings),
            LogKeeping(self.aws, self.kubernetes, self.settings),
            LogReading(self.aws, self.kubernetes),
            LogFollowing(self.kubernetes, self.settings),
            NetworkLooks(self.aws),
            IdentityLooks(self.aws),
            ClusterLooks(self.aws),
            WorkloadLooks(self.aws, self.kubernetes, self.settings),
            DriftActs(self.aws, self.settings),
        ]

    def all(self) -> dict[str, Activity]:
        """Every activity by its name."""
        methods = (getattr(group, name) for group in self._groups for name in dir(group) if not name.startswith("_"))
        found = {name: method for method in methods if (name := _name_of(method)) is not None}
        return dict(sorted(found.items()))

    def on(self, queue: Queue) -> list[Activity]:
        """The activities whose signature puts them on ``queue``."""
        declared = signatures()
        return [method for name, method in self.all().items() if declared[name].queue is queue]


def activities_for(queue: Queue, activities: Activities | None = None) -> list[Activity]:
    """What a worker of ``queue`` registers. Give one :class:`Activities` to all workers of a process."""
    return (activities or Activities()).on(queue)


def signatures() -> dict[str, Act[Any, Any] | Wait[Any, Any]]:
    """Every signature that ``contracts`` declares, by name, as far as its module is loaded."""
    return {
        value.name: value
        for module_name, module in list(sys.modules.items())
        if module_name.startswith("contracts.")
        for value in list(vars(module).values())
        if isinstance(value, Act | Wait)
    }


def _name_of(method: Any) -> str | None:
    definition = getattr(method, "__temporal_activity_definition", None)
    return definition.name if definition is not None else None
