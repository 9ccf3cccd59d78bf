"""What HyperPod refuses: requests that contradict themselves, what they refer to, or the account's quotas.

Rules and wording that no AWS document states are listed in :data:`UNVERIFIED`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from sandbox.aws.call import AwsError, Call
from sandbox.aws.hyperpod.base import Base
from sandbox.aws.hyperpod.state import Cluster, Group
from sandbox.aws.quotas import default_instances

UNVERIFIED = {
    "immutable group members": "which members of an existing group UpdateCluster refuses to change is a guess",
    "members left out of an update": "that images and counts of a group stay, and that all other members are reset",
    "nodes of a changed group": "that labels and taints reach them within a minute and all else only new nodes",
    "autoscaling": "the wording, that node recovery must be automatic, and that a disabled one is no longer described",
    "tiered storage": "that a percentage that is left out stays",
    "node provisioning mode": "that a cluster may become Continuous",
    "failed clusters": "that their updates answer ConflictException",
    "minimum count": "how a group that missed its MinInstanceCount is described, and that Classic clusters ignore it",
    "node operations": "which statuses each refuses, and the statuses that nodes have meanwhile",
    "software": (
        "that nodes with the wanted image get it again, that one failed node sends its group back, that the roll back "
        "uses the same failure rate, how a percentage is rounded, and that alarms are only kept"
    ),
    "restricted groups": "that their nodes join the EKS cluster as others do; no file system is made for them",
    "unique names": "the wording of the error for a repeated group name",
    "InstanceType xor InstanceRequirements": "the wording",
    "lifecycle bucket": "the managed policy demands that it starts with sagemaker-; the check at the API is a guess",
    "lifecycle script": "that a script missing in S3 fails the node and not the request",
    "EFA check": "which types are checked, and that it fails after the boot",
    "scale-down order": "that UpdateCluster takes away the newest nodes first",
    "retries": "how long HyperPod waits before it tries again for capacity or after a failed node",
    "one HyperPod cluster per EKS cluster": "the wording, and that it is refused at creation",
    "role": "one wording for a role that is missing, new, or does not trust the service",
    "eks status": "that the EKS cluster must be ACTIVE, and the wording",
    "plans and quotas": "that groups with a training plan do not count against the on-demand quota",
}
IMMUTABLE = ("InstanceType", "ExecutionRole", "OverrideVpcConfig", "TrainingPlanArn")
MAX_BATCH_ADD = 50
AUTOSCALING_PRINCIPAL = "hyperpod.sagemaker.amazonaws.com"


class Checks(Base):
    """Validation beyond the model's."""

    def check_groups(self, call: Call, groups: list[dict[str, Any]], continuous: bool) -> None:
        repeated = [n for n, k in Counter(g["InstanceGroupName"] for g in groups).items() if k > 1]
        if repeated:
            invalid(f"Instance group names must be unique within a cluster: {', '.join(repeated)}.")
        for group in groups:
            self._check_group(call, group, continuous)

    def _check_group(self, call: Call, group: dict[str, Any], continuous: bool) -> None:
        name = group["InstanceGroupName"]
        types = (group.get("InstanceRequirements") or {}).get("InstanceTypes")
        if bool(group.get("InstanceType")) == bool(types):
            invalid(f"Exactly one of InstanceType or InstanceRequirements must be specified for instance group {name}.")
        lifecycle = group.get("LifeCycleConfig") or {}
        uri = lifecycle.get("SourceS3Uri")
        if uri and not uri.startswith("s3://sagemaker-"):
            invalid(f"SourceS3Uri {uri} of instance group {name} must start with s3://sagemaker-")
        if group.get("MinInstanceCount", 0) > group["InstanceCount"]:
            invalid(f"MinInstanceCount must be less than or equal to InstanceCount for instance group {name}.")
        requirements = group.get("CapacityRequirements") or {}
        if "Spot" in requirements and "OnDemand" in requirements:
            invalid(f"Only one of Spot or OnDemand can be specified for instance group {name}.")
        if "Spot" in requirements and not continuous:
            invalid("Spot capacity requires NodeProvisioningMode Continuous.")
        for storage in group.get("InstanceStorageConfigs") or []:
            _check_storage(name, storage)
        _check_patching(name, group.get("AutoPatchConfig") or {})
        self.check_role(group["ExecutionRole"])
        if override := group.get("OverrideVpcConfig"):
            self.check_vpc(call, override)
        if arn := group.get("TrainingPlanArn"):
            self._check_plan(call, name, group, arn)

    def check_role(self, arn: str) -> None:
        if problem := self.world.role_problem(arn, "sagemaker.amazonaws.com"):
            invalid(
                f"SageMaker cannot assume the execution role {arn}. Please ensure that the role exists and that its "
                f"trust relationship policy allows the action 'sts:AssumeRole' for the service principal "
                f"'sagemaker.amazonaws.com' ({problem})."
            )

    def check_vpc(self, call: Call, vpc: dict[str, Any]) -> None:
        vpcs = set()
        for subnet_id in vpc["Subnets"]:
            subnet = self.world.subnet(call.place, subnet_id)
            if subnet is None:
                invalid(f"The subnet ID '{subnet_id}' does not exist")
            else:
                vpcs.add(subnet.vpc_id)
        for group_id in vpc["SecurityGroupIds"]:
            group = self.world.security_group(call.place, group_id)
            if group is None:
                invalid(f"The security group '{group_id}' does not exist")
            else:
                vpcs.add(group.vpc_id)
        if len(vpcs) > 1:
            invalid("The subnets and security groups must belong to the same VPC.")

    def check_orchestrator(self, call: Call) -> None:
        arn = (call.params.get("Orchestrator") or {}).get("Eks", {}).get("ClusterArn")
        if not arn:
            return
        cluster = self.eks.by_arn(arn)
        if cluster is None:
            invalid(f"EKS cluster {arn} does not exist.")
            return
        if cluster.status != "ACTIVE":
            invalid(f"EKS cluster {arn} is in {cluster.status} status. It must be ACTIVE.")
        if cluster.authentication == "CONFIG_MAP":
            # https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-prerequisites.html
            invalid(f"EKS cluster {arn} must have the authentication mode API or API_AND_CONFIG_MAP, not CONFIG_MAP.")
        if not call.params.get("VpcConfig"):
            invalid("VpcConfig is required for clusters orchestrated by EKS.")
        for clusters in self.state.clusters.values():
            for other in clusters.values():
                if other.eks_arn == arn:
                    invalid(f"EKS cluster {arn} is already used by the HyperPod cluster {other.name}.")

    def check_unchanged(self, cluster: Cluster, groups: list[dict[str, Any]]) -> None:
        for spec in groups:
            old = cluster.groups.get(spec["InstanceGroupName"])
            if old is None:
                continue
            if bool(old.spec.get("InstanceType")) != bool(spec.get("InstanceType")):
                invalid(f"InstanceType of instance group {old.name} cannot be modified.")
            for member in IMMUTABLE:
                if member in spec and member in old.spec and spec[member] != old.spec[member]:
                    invalid(f"{member} of instance group {old.name} cannot be modified.")

    def require_idle(self, cluster: Cluster, verb: str) -> None:
        if cluster.status != "InService":
            raise AwsError(
                "ConflictException",
                f"Cluster {cluster.name} is currently in {cluster.status} state and cannot be {verb}.",
            )

    def require_no_checks(self, cluster: Cluster) -> None:
        """https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-cli-command-update-cluster.html"""
        if any(n.status == "DeepHealthCheckInProgress" for n in cluster.nodes.values()):
            raise AwsError(
                "ConflictException", "Deep health checks are in progress on the cluster. Retry after they finish."
            )

    def check_autoscaling(self, settings: dict[str, Any]) -> None:
        """``settings`` are the cluster's as they will be.

        https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling.html
        """
        if (settings.get("AutoScaling") or {}).get("Mode") != "Enable":
            return
        if settings.get("NodeProvisioningMode") != "Continuous":
            invalid("AutoScaling requires NodeProvisioningMode Continuous.")
        if settings.get("NodeRecovery", "Automatic") != "Automatic":
            invalid("AutoScaling requires NodeRecovery Automatic.")
        role = settings.get("ClusterRole")
        if not role:
            invalid("AutoScaling requires a ClusterRole.")
        self.check_cluster_role(str(role))

    def check_cluster_role(self, arn: str) -> None:
        if problem := self.world.role_problem(arn, AUTOSCALING_PRINCIPAL):
            invalid(
                f"SageMaker HyperPod cannot assume the cluster role {arn}. Please ensure that the role exists and that "
                f"its trust relationship policy allows the action 'sts:AssumeRole' for the service principal "
                f"'{AUTOSCALING_PRINCIPAL}' ({problem})."
            )

    def check_quota(
        self, call: Call, wanted: dict[str, Group | dict[str, Any]], cluster: Cluster | None = None
    ) -> None:
        """``wanted`` are the groups that ``cluster`` (or a new one) will have; other clusters count as they are."""
        used: Counter[str] = Counter()
        for other in self.state.clusters.get(call.place, {}).values():
            if other is not cluster:
                for group in other.groups.values():
                    _count(used, group.spec, group.target)
        mine: Counter[str] = Counter()
        for item in wanted.values():
            spec, count = (item.spec, item.target) if isinstance(item, Group) else (item, item["InstanceCount"])
            _count(mine, spec, count)
        held: Counter[str] = Counter()
        for group in cluster.groups.values() if cluster else ():
            _count(held, group.spec, group.target)
        for instance_type, count in mine.items():
            limit = self.world.quota(call.region, instance_type, default_instances(instance_type))
            if limit is not None and used[instance_type] + count > limit and count > held[instance_type]:
                utilization = used[instance_type] + held[instance_type]
                raise AwsError(
                    "ResourceLimitExceeded",
                    f"The account-level service limit '{instance_type} for cluster usage' is {limit} Instances, with "
                    f"current utilization of {utilization} Instances and a request delta of "
                    f"{count - held[instance_type]} Instances. Please use AWS Service Quotas to request an increase "
                    "for this quota. If AWS Service Quotas is not available, contact AWS support to request an "
                    "increase for this quota.",
                )

    def _check_plan(self, call: Call, name: str, group: dict[str, Any], arn: str) -> None:
        plan = self.plan(call.place, arn)
        if plan is None:
            invalid(f"Training plan {arn} of instance group {name} does not exist.")
            return
        if plan.status in ("Expired", "Failed"):
            invalid(f"Training plan {arn} is in {plan.status} status.")
        if group.get("InstanceType") != plan.instance_type:
            invalid(
                f"The instance type of instance group {name} does not match that of training plan {arn}: "
                f"{plan.instance_type}."
            )
        if group["InstanceCount"] > plan.count:
            invalid(f"Training plan {arn} has {plan.count} instances, fewer than instance group {name} asks for.")


def invalid(message: str) -> None:
    raise AwsError("ValidationException", message)


def _count(counter: Counter[str], spec: dict[str, Any], count: int) -> None:
    if spec.get("TrainingPlanArn"):
        return
    types = [spec["InstanceType"]] if spec.get("InstanceType") else spec["InstanceRequirements"]["InstanceTypes"]
    counter[types[0]] += count


def _check_patching(name: str, config: dict[str, Any]) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterAutoPatchConfig.html"""
    policy = (config.get("DeploymentConfig") or {}).get("RollingUpdatePolicy") or {}
    if config.get("PatchingStrategy") == "DrainFirst" and not policy.get("MaximumBatchSize"):
        invalid(f"PatchingStrategy DrainFirst requires a MaximumBatchSize for instance group {name}.")


def _check_storage(name: str, storage: dict[str, Any]) -> None:
    """https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterEbsVolumeConfig.html"""
    if len(storage) != 1:
        # The member is a union.
        invalid(f"Exactly one storage configuration must be specified in each entry of instance group {name}.")
    volume = storage.get("EbsVolumeConfig")
    if volume is None:
        return
    if volume.get("RootVolume") and volume.get("VolumeSizeInGB"):
        invalid(f"VolumeSizeInGB cannot be given for the root volume of instance group {name}.")
    if volume.get("RootVolume") and not volume.get("VolumeKmsKeyId"):
        invalid(f"VolumeKmsKeyId is required for the root volume of instance group {name}.")
    if not volume.get("RootVolume") and not volume.get("VolumeSizeInGB"):
        invalid(f"VolumeSizeInGB is required for a volume of instance group {name}.")
