"""What there is of a cluster, what of it goes and what stays, and what stands in the way. Reads only."""

from __future__ import annotations

from collections.abc import Iterator

from kubernetes.client.exceptions import ApiException
from temporalio.exceptions import ApplicationError
from urllib3.exceptions import HTTPError

from activities.aws import AwsClients
from activities.kubernetes import KubernetesClients
from activities.teardown.balancers import ControllerMade
from activities.teardown.bucket import BucketDeleter
from activities.teardown.clusters import ControlPlaneDeleter, HyperPodDeleter, NodeGroupDeleter
from activities.teardown.egress import AddressDeleter, EgressDeleter
from activities.teardown.features import TRACKING_SERVER, WORKSPACE, FeatureDeleter
from activities.teardown.file_systems import FILE_SYSTEM, FileSystemDeleter
from activities.teardown.identity import IdentityDeleter
from activities.teardown.interfaces import InterfaceDeleter, refuse
from activities.teardown.leftovers import Leftovers
from activities.teardown.lookup import Clusters, Deleter, find_clusters, is_kept, tagged_arns
from activities.teardown.training_jobs import TRAINING_JOB
from activities.teardown.vpc import GatewayDeleter, SecurityGroupDeleter, SubnetDeleter, VpcDeleter, VpcReader
from activities.teardown.workloads import ObjectDeleter
from contracts.teardown import (
    KUBERNETES_PARTS,
    Inventory,
    Kept,
    Known,
    Level,
    Part,
    Resource,
    Teardown,
)
from contracts.words import number_of, some

SEEN_BY_DESCRIBING = (
    ":ec2:",
    ":eks:",
    ":sagemaker:",
    ":iam:",
    ":aps:",
    ":s3:",
    ":elasticloadbalancing:",
    ":fsx:",
)
"""Services that are asked themselves: the tagging API goes on to name what is gone for a while."""


class Surveyor:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients) -> None:
        self._aws = aws
        self.deleters: dict[Part, Deleter] = {
            Part.HYPERPOD: HyperPodDeleter(aws),
            Part.NODE_GROUPS: NodeGroupDeleter(aws),
            Part.CONTROL_PLANE: ControlPlaneDeleter(aws),
            Part.FILE_SYSTEMS: FileSystemDeleter(aws),
            Part.FEATURES: FeatureDeleter(aws),
            Part.IDENTITY: IdentityDeleter(aws),
            Part.EGRESS: EgressDeleter(aws),
            Part.ADDRESSES: AddressDeleter(aws),
            Part.INTERFACES: InterfaceDeleter(aws),
            Part.SUBNETS: SubnetDeleter(aws),
            Part.GATEWAYS: GatewayDeleter(aws),
            Part.SECURITY_GROUPS: SecurityGroupDeleter(aws),
            Part.VPC: VpcDeleter(aws),
            Part.BUCKET: BucketDeleter(aws),
        }
        self._file_systems = FileSystemDeleter(aws)
        self.objects = ObjectDeleter(aws, kubernetes)
        self._leftovers, self._vpc, self._made = Leftovers(aws), VpcReader(aws), ControllerMade(aws)

    def survey(self, asked: Teardown) -> Inventory:
        """Everything of the cluster as it is now."""
        clusters = find_clusters(self._aws, asked)
        asked = asked.model_copy(update={"known": known(asked, clusters)})
        resources: list[Resource] = []
        kept: list[Kept] = []
        warnings: list[str] = []
        for part in Part:
            if part in KUBERNETES_PARTS:
                found, said = self._objects(asked, part, clusters)
                warnings += said
            else:
                found = self.deleters[part].find(asked)
            if part.goes(asked.spec):
                resources += found
                warnings += [f"{each.label} goes with its metrics" for each in found if each.kind == WORKSPACE]
                warnings += [f"{each.label} goes with all its runs" for each in found if each.kind == TRACKING_SERVER]
                warnings += [f"{each.label} is stopped" for each in found if each.kind == TRAINING_JOB]
                warnings += [f"{each.label} goes with all its data" for each in found if each.kind == FILE_SYSTEM]
            else:
                kept += [Kept(kind=each.kind, id=each.name or each.id, why=_why(asked, part)) for each in found]
        kept += self._kept(asked, clusters)
        return Inventory(
            resources=resources,
            kept=list({(each.kind, each.id): each for each in kept}.values()),
            leftovers=self._leftovers.find(asked, clusters),
            warnings=warnings,
            known=asked.known,
        )

    def sweep(self, asked: Teardown) -> Inventory:
        """The survey, and what carries the tag in services that it does not ask."""
        found = self.survey(asked)
        if asked.spec.level is not Level.NETWORK:
            return found
        strange = [
            Resource(part=Part.FEATURES, kind=f"{arn.split(':')[2]} resource", id=arn)
            for arn in tagged_arns(self._aws, asked.scope.region, asked.scope.cluster)
            if not any(service in arn for service in SEEN_BY_DESCRIBING) and arn not in asked.spec.keep
        ]
        return found.model_copy(update={"resources": [*found.resources, *strange]})

    def refuse_leftovers(self, asked: Teardown) -> None:
        """Raise FOREIGN that names what others have made, where there is such a thing."""
        if found := self._leftovers.find(asked, find_clusters(self._aws, asked)):
            refuse(found)

    def balancers(self, asked: Teardown) -> list[str]:
        """Load balancers of the cluster's Services and Ingresses that are still there and go."""
        return [
            f"load balancer {each['LoadBalancerName']}"
            for each in self._made.load_balancers(asked)[0]
            if not is_kept(asked, each["LoadBalancerName"], each["LoadBalancerArn"], each.get("DNSName"))
        ]

    def _objects(self, asked: Teardown, part: Part, clusters: Clusters) -> tuple[list[Resource], list[str]]:
        """Objects of Kubernetes; a warning where they could not be seen."""
        found: list[Resource] = []
        warnings: list[str] = []
        for eks in clusters.eks:
            if eks["status"] not in ("ACTIVE", "UPDATING"):
                continue
            try:
                found += [resource for resource, _ in self.objects.find(asked, part, eks["name"])]
                if part is Part.WORKLOADS:
                    warnings += self._data(found)
                    warnings += self._work(asked, eks["name"])
            except (ApiException, HTTPError, ApplicationError) as error:
                reason = str(getattr(error, "reason", None) or error)
                warnings.append(f"{part.value} of {eks['name']} are not known: its Kubernetes API answers: {reason}")
        return found, warnings

    def _data(self, found: list[Resource]) -> Iterator[str]:
        for each in found:
            if each.kind in ("PersistentVolumeClaim", "PersistentVolume"):
                yield f"The volume of {each.kind} {each.name} ({each.detail or 'size unknown'}) goes with its data"

    def _work(self, asked: Teardown, cluster: str) -> Iterator[str]:
        running = self.objects.running(asked, cluster)
        if running:
            yield f"{number_of(len(running), 'pod')} of jobs or with accelerators: {some(running, 5)}"

    def _kept(self, asked: Teardown, clusters: Clusters) -> Iterator[Kept]:
        """What stays although its part goes."""
        if Part.SUBNETS.goes(asked.spec):
            yield from self._vpc.subnets(asked)[1]
        if asked.spec.level.includes(Level.EKS):
            yield from self._file_systems.kept(asked)
            if not clusters.eks:
                yield from self._leftovers.kept(asked, clusters)
            for eks in clusters.eks:
                why = "CloudWatch Logs keeps what the control plane has logged, if it logged"
                yield Kept(kind="log group", id=f"/aws/eks/{eks['name']}/cluster", why=why)
        for hyperpod in clusters.hyperpod:
            name = f"/aws/sagemaker/Clusters/{hyperpod['ClusterName']}/{hyperpod['ClusterArn'].rsplit('/', 1)[-1]}"
            yield Kept(kind="log group", id=name, why="CloudWatch Logs keeps what the nodes' lifecycle scripts logged")


def known(asked: Teardown, clusters: Clusters) -> Known:
    """Every name that may lead to something, those that were found by tag too."""
    eks = [*asked.known.eks_clusters, *(each["name"] for each in clusters.eks)]
    hyperpod = [*asked.known.hyperpod_clusters, *(each["ClusterName"] for each in clusters.hyperpod)]
    return asked.known.model_copy(
        update={"eks_clusters": list(dict.fromkeys(eks)), "hyperpod_clusters": list(dict.fromkeys(hyperpod))}
    )


def _why(asked: Teardown, part: Part) -> str:
    if part is Part.BUCKET:
        return "it may hold data; delete_bucket deletes it"
    if part is Part.FILE_SYSTEMS:
        return "it holds data and is paid for; delete_file_systems deletes it"
    return f"it stays at level {asked.spec.level.value}"
