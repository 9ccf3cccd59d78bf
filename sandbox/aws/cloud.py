"""The simulated AWS as controllers in a simulated cluster reach it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call
from sandbox.aws.elbv2 import Elbv2, backend
from sandbox.aws.hyperpod import HyperPod
from sandbox.aws.hyperpod.state import DEFAULT_THREADS_PER_CORE, Cluster, Group
from sandbox.aws.instance_types import facts
from sandbox.aws.world import Place, World
from sandbox.cloud import CloudError, InstanceGroup, LoadBalancer, Machine
from sandbox.dataplane import NodeFacts

CLUSTER_TAG = "elbv2.k8s.aws/cluster"
STACKS = {"network": "service.k8s.aws", "application": "ingress.k8s.aws"}
"""Prefixes of the tags ``stack`` and ``resource`` by kind of load balancer:
https://kubernetes-sigs.github.io/aws-load-balancer-controller/latest/guide/service/annotations/#resource-tags"""
ROLE_TAGS = {"internet-facing": "kubernetes.io/role/elb", "internal": "kubernetes.io/role/internal-elb"}


class AwsCloud:
    """Implements :class:`sandbox.cloud.Cloud`. Methods may be called from any thread that holds no cluster's lock."""

    def __init__(
        self, world: World, hyperpod: HyperPod, elbv2: Elbv2, lock: threading.RLock, touch: Callable[[], None]
    ) -> None:
        self.world, self.hyperpod, self.elbv2 = world, hyperpod, elbv2
        self._lock, self._touch = lock, touch

    # Machines

    def autoscaling(self, arn: str) -> str:
        with self._lock:
            cluster = self._hyperpod(arn)
            settings = (cluster.settings.get("AutoScaling") or {}) if cluster is not None else {}
            return str(settings.get("Status", ""))

    def instance_groups(self, arn: str) -> dict[str, InstanceGroup]:
        with self._lock:
            cluster = self._hyperpod(arn)
            held = cluster.groups.values() if cluster is not None else ()
            return {group.name: self._group(cluster, group) for group in held if cluster and not group.deleting}

    def machines(self, arn: str) -> dict[str, Machine]:
        with self._lock:
            cluster = self._hyperpod(arn)
            return {
                node.logical_id: Machine(
                    node.logical_id,
                    node.group,
                    node.instance_type,
                    node.status,
                    node.name if node.instance_id else "",
                    node.zone,
                )
                for node in (cluster.nodes.values() if cluster is not None else ())
            }

    def add_machine(self, arn: str, group: str, instance_type: str, zone: str) -> str:
        with self._lock:
            cluster = self._required(arn)
            wish: dict[str, Any] = {"InstanceGroupName": group, "IncrementTargetCountBy": 1}
            if len(cluster.groups[group].types if group in cluster.groups else ()) > 1:
                wish["InstanceTypes"] = [instance_type]
            if len({zone for _, zone, _ in self._subnets(cluster, group)}) > 1:
                wish["AvailabilityZones"] = [zone]
            answer = self._ask(cluster, "BatchAddClusterNodes", NodesToAdd=[wish])
            if failed := answer["Failed"]:
                raise CloudError(failed[0]["ErrorCode"], failed[0].get("Message", ""))
            return str(answer["Successful"][0]["NodeLogicalId"])

    def remove_machine(self, arn: str, logical_id: str) -> None:
        with self._lock:
            cluster = self._hyperpod(arn)
            node = cluster.nodes.get(logical_id) if cluster is not None else None
            if cluster is None or node is None or node.status == "ShuttingDown":
                return
            self._ask(cluster, "BatchDeleteClusterNodes", NodeLogicalIds=[logical_id])

    def _ask(self, cluster: Cluster, operation: str, **params: Any) -> dict[str, Any]:
        """Let HyperPod carry out an operation for the autoscaler, as for any other caller."""
        call = Call("sagemaker", operation, cluster.account, cluster.region, {"ClusterName": cluster.name, **params})
        try:
            answer: dict[str, Any] = getattr(self.hyperpod, operation)(call)
        except AwsError as error:
            raise CloudError(error.code, error.message) from error
        self._touch()
        return answer

    def _hyperpod(self, eks_arn: str) -> Cluster | None:
        held = self.hyperpod.state.clusters.get(_place(eks_arn), {})
        return next((c for c in held.values() if c.eks_arn == eks_arn), None)

    def _required(self, arn: str) -> Cluster:
        cluster = self._hyperpod(arn)
        if cluster is None:
            raise CloudError("ResourceNotFound", "There is no HyperPod cluster.")
        return cluster

    def _group(self, cluster: Cluster, group: Group) -> InstanceGroup:
        spec = group.spec
        unsupported = ""
        if spec.get("TrainingPlanArn"):
            unsupported = "it has a training plan"
        elif spec.get("OnStartDeepHealthChecks"):
            unsupported = "it has deep health checks at start"
        subnets = tuple(self._subnets(cluster, group.name))
        return InstanceGroup(
            name=group.name,
            instance_types=tuple(group.types),
            subnets=subnets,
            capacity="Spot" if "Spot" in (spec.get("CapacityRequirements") or {}) else "OnDemand",
            labels=dict((spec.get("KubernetesConfig") or {}).get("Labels") or {}),
            unsupported=unsupported,
            shapes=tuple(
                _shape(cluster, group, instance_type, zone, zone_id)
                for instance_type in group.types
                for zone, zone_id in dict.fromkeys((zone, zone_id) for _, zone, zone_id in subnets)
            ),
        )

    def _subnets(self, cluster: Cluster, group: str) -> Iterator[tuple[str, str, str]]:
        spec = cluster.groups[group].spec if group in cluster.groups else {}
        vpc = spec.get("OverrideVpcConfig") or cluster.settings.get("VpcConfig") or {}
        for subnet_id in vpc.get("Subnets") or []:
            if (subnet := self.world.subnet(cluster.place, subnet_id)) is not None:
                yield subnet_id, subnet.availability_zone, subnet.availability_zone_id

    # Load balancers

    def ensure_load_balancer(self, arn: str, wish: LoadBalancer) -> str:
        with self._lock:
            place, name = _place(arn), _name(arn)
            if (held := self._load_balancer(place, name, wish.owner, wish.kind)) is not None:
                return str(held.dns_name)
            subnets = self._tagged_subnets(arn, wish.scheme)
            if not subnets:
                raise CloudError(
                    "FailedBuildModel",
                    "unable to resolve at least one subnet (0 match VPC and tags: "
                    f"[{ROLE_TAGS[wish.scheme]}] for scheme {wish.scheme})",
                )
            ec2 = backends.ec2(*place)
            prefix = STACKS[wish.kind]
            tags = {**wish.tags, CLUSTER_TAG: name, f"{prefix}/stack": wish.owner}
            names = {"kubernetes.io/service-name": wish.owner} if wish.kind == "network" else {}
            group = ec2.create_security_group(
                wish.name,
                "[k8s] Managed SecurityGroup for LoadBalancer",
                vpc_id=subnets[0].vpc_id,
                tags={**tags, f"{prefix}/resource": "ManagedLBSecurityGroup"},
            )
            made = self.elbv2.create(
                place,
                wish.name,
                wish.kind,
                wish.scheme,
                [s.id for s in subnets],
                [group.id],
                {**tags, **names, f"{prefix}/resource": "LoadBalancer"},
            )
            self._touch()
            return str(made.dns_name)

    def delete_load_balancer(self, arn: str, owner: str, kind: str) -> None:
        """The load balancer at once; its security group when the interfaces are gone, which may take another call."""
        with self._lock:
            place, stack = _place(arn), f"{STACKS[kind]}/stack"
            if (held := self._load_balancer(place, _name(arn), owner, kind)) is not None:
                self.elbv2.delete(place, held)
            for groups in backends.ec2(*place).groups.values():
                for group in list(groups.values()):
                    tags = {t["key"]: t["value"] for t in group.get_tags()}
                    if (tags.get(CLUSTER_TAG), tags.get(stack)) != (_name(arn), owner):
                        continue
                    if any(group in eni._group_set for eni in backends.ec2(*place).enis.values()):
                        raise CloudError("DependencyViolation", f"resource {group.id} has a dependent object")
                    del groups[group.id]
            self.world.changed("ec2")
            self._touch()

    def _load_balancer(self, place: Place, cluster: str, owner: str, kind: str) -> Any | None:
        elb = backend(place)
        for held in elb.load_balancers.values():
            tags = elb.tagging_service.get_tag_dict_for_resource(held.arn)
            if (tags.get(CLUSTER_TAG), tags.get(f"{STACKS[kind]}/stack")) == (cluster, owner):
                return held
        return None

    def _tagged_subnets(self, arn: str, scheme: str) -> list[Any]:
        """One subnet per zone of the cluster's VPC that bears the tag of its role."""
        eks = self.hyperpod.eks.by_arn(arn)
        found: dict[str, Any] = {}
        for subnets in backends.ec2(*_place(arn)).subnets.values():
            for subnet in subnets.values():
                if eks is None or subnet.vpc_id != eks.vpc["vpcId"]:
                    continue
                if any(t["key"] == ROLE_TAGS[scheme] and t["value"] in ("", "1") for t in subnet.get_tags()):
                    found.setdefault(subnet.availability_zone, subnet)
        return list(found.values())

    # Objects

    def bucket_holds(self, arn: str, bucket: str, prefix: str) -> bool:
        with self._lock:
            held = backends.s3(_place(arn)[0]).buckets.get(bucket)
            return held is not None and any(key.startswith(prefix) for key in held.keys)

    # Volumes

    def ensure_volume(self, arn: str, name: str, zone: str, gib: int, kind: str, tags: dict[str, str]) -> str:
        with self._lock:
            ec2 = backends.ec2(*_place(arn))
            for volume in ec2.volumes.values():
                if any((t["key"], t["value"]) == ("CSIVolumeName", name) for t in volume.get_tags()):
                    return str(volume.id)
            volume = ec2.create_volume(size=gib, zone_name=zone, volume_type=kind)
            volume.add_tags({**tags, "CSIVolumeName": name})
            self.world.changed("ec2")
            self._touch()
            return str(volume.id)

    def delete_volume(self, arn: str, volume_id: str) -> None:
        with self._lock:
            backends.ec2(*_place(arn)).volumes.pop(volume_id, None)
            self.world.changed("ec2")
            self._touch()


def _place(arn: str) -> Place:
    parts = arn.split(":")
    return parts[4], parts[3]


def _name(arn: str) -> str:
    return arn.rpartition("/")[2]


def _shape(cluster: Cluster, group: Group, instance_type: str, zone: str, zone_id: str) -> NodeFacts:
    """A node that the group could get, as it would join."""
    fact, kubernetes = facts(instance_type), group.spec.get("KubernetesConfig") or {}
    return NodeFacts(
        name="",
        instance_id="",
        instance_type=instance_type,
        zone=zone,
        zone_id=zone_id,
        region=cluster.region,
        internal_ip="",
        vcpus=fact.vcpus_with(group.spec.get("ThreadsPerCore", DEFAULT_THREADS_PER_CORE)),
        memory_mib=fact.memory_mib,
        disk_gib=fact.disk_gib,
        architecture=fact.architecture,
        gpus=fact.gpus,
        neuron_devices=fact.neuron_devices,
        efa_interfaces=fact.efa_interfaces,
        labels={
            "sagemaker.amazonaws.com/compute-type": "hyperpod",
            "sagemaker.amazonaws.com/cluster-name": cluster.name,
            "sagemaker.amazonaws.com/instance-group-name": group.name,
            **(kubernetes.get("Labels") or {}),
        },
        taints=tuple((t["Key"], t.get("Value") or "", t["Effect"]) for t in kubernetes.get("Taints") or []),
    )
