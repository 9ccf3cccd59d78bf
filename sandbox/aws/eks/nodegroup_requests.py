"""What a request for a node group must satisfy, and the node group that it describes.

https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html and
https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
"""

from __future__ import annotations

import uuid
from typing import Any

from sandbox.aws import backends
from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks.catalog import VERSIONS
from sandbox.aws.eks.nodegroup_state import Nodegroup
from sandbox.aws.eks.state import Cluster
from sandbox.aws.instance_types import catalogue, facts
from sandbox.aws.world import World

DEFAULT_TYPE = "t3.medium"
DEFAULT_DISK = 20
DEFAULT_SCALING = {"minSize": 1, "maxSize": 2, "desiredSize": 2}
MAX_PER_CLUSTER = 30
MAX_TYPES = 20
RESERVED_PREFIXES = ("kubernetes.io/", "k8s.io/", "eks.amazonaws.com/")
RELEASE_DATE = "20251120"
EXTRAS = ("remoteAccess", "nodeRepairConfig", "warmPoolConfig")


def invalid(message: str, cluster: str, nodegroup: str) -> AwsError:
    return AwsError("InvalidParameterException", message, clusterName=cluster, nodegroupName=nodegroup)


class Request:
    """A CreateNodegroup call, checked step by step. Every problem is an ``InvalidParameterException``."""

    def __init__(self, world: World, call: Call, cluster: Cluster) -> None:
        self._world, self._call, self._cluster = world, call, cluster
        self._p = call.params
        self._template = self._find_template()

    def nodegroup(self) -> Nodegroup:
        p, cluster, name = self._p, self._cluster, self._p["nodegroupName"]
        self._check_role()
        self._check_subnets()
        types = self._types()
        architecture = facts(types[0]).architecture
        ami_type = self._ami_type(types, architecture)
        version = p.get("version") or cluster.version
        if version > cluster.version:
            raise self._invalid(
                f"Requested Nodegroup release version {version} is invalid. Allowed kubernetes version is - "
                f"{cluster.version}"
            )
        now = self._world.now()
        interfaces = self._template.get("NetworkInterfaces") or []
        identifier = str(uuid.uuid4())
        return Nodegroup(
            name=name,
            arn=self._call.arn("eks", f"nodegroup/{cluster.name}/{name}/{identifier}"),
            cluster=cluster.name,
            role=p["nodeRole"],
            subnets=p["subnets"],
            version=version,
            release=p.get("releaseVersion") or release_of(version),
            created=now,
            modified=now,
            started=self._world.clock.timestamp(),
            scaling=self.scaling(DEFAULT_SCALING, p.get("scalingConfig")),
            capacity_type=self._capacity_type(types),
            ami_type=ami_type,
            instance_types=p.get("instanceTypes") or ([] if self._template.get("InstanceType") else [DEFAULT_TYPE]),
            types=types,
            disk=None if p.get("launchTemplate") else p.get("diskSize") or DEFAULT_DISK,
            group=f"eks-{name}-{identifier}",
            labels=self.labels(p.get("labels") or {}),
            taints=p.get("taints") or [],
            tags=p.get("tags") or {},
            launch_template=self._template_reference(),
            security_groups=self._security_groups(interfaces),
            efa_interfaces=sum(i.get("InterfaceType") in ("efa", "efa-only") for i in interfaces),
            update_config=p.get("updateConfig") or {"maxUnavailable": 1},
            extras={k: p[k] for k in EXTRAS if k in p},
        )

    def scaling(self, before: dict[str, int], wanted: dict[str, int] | None) -> dict[str, int]:
        """What is asked for, over what is there."""
        scaling = {**before, **{k: v for k, v in (wanted or {}).items() if v is not None}}
        low, high, desired = scaling["minSize"], scaling["maxSize"], scaling["desiredSize"]
        if low > desired:
            raise self._invalid(f"Minimum capacity {low} can't be greater than desired size {desired}")
        if desired > high:
            raise self._invalid(f"Desired capacity {desired} can't be greater than max size {high}")
        return scaling

    def labels(self, labels: dict[str, str]) -> dict[str, str]:
        if any(key.startswith(RESERVED_PREFIXES) for key in labels):
            raise self._invalid(f"Label cannot contain reserved prefixes [{', '.join(RESERVED_PREFIXES)}]")
        return labels

    def _invalid(self, message: str) -> AwsError:
        return invalid(message, self._cluster.name, self._p["nodegroupName"])

    def _check_role(self) -> None:
        arn = self._p["nodeRole"]
        problem = self._world.role_problem(arn, "ec2.amazonaws.com")
        if problem is None:
            return
        if "trust" in problem:
            raise self._invalid(
                "Following required service principals [ec2.amazonaws.com] were not found in the trust relationships "
                f"of nodeRole {arn}"
            )
        raise self._invalid(f"The role {arn} cannot be used for nodes: {problem}")

    def _check_subnets(self) -> None:
        for subnet_id in self._p["subnets"]:
            subnet = self._world.subnet(self._call.place, subnet_id)
            if subnet is None:
                raise self._invalid(f"The subnet ID '{subnet_id}' does not exist")
            if subnet.vpc_id != self._cluster.vpc["vpcId"]:
                raise self._invalid(
                    f"Subnet {subnet_id} is in {subnet.vpc_id}, not in the cluster's VPC {self._cluster.vpc['vpcId']}"
                )

    def _types(self) -> list[str]:
        wanted, templated = self._p.get("instanceTypes") or [], self._template.get("InstanceType")
        if wanted and templated:
            raise self._invalid(
                "You cannot specify an instance type in both the launch template and the node group: "
                f"{templated} and {', '.join(wanted)}"
            )
        types = wanted or ([templated] if templated else [DEFAULT_TYPE])
        if unknown := [t for t in types if t not in catalogue()]:
            raise self._invalid(f"The following supplied instance types do not exist: [{', '.join(unknown)}]")
        if len(types) > MAX_TYPES:
            raise self._invalid(f"A node group takes up to {MAX_TYPES} instance types, not {len(types)}")
        if len({facts(t).architecture for t in types}) > 1:
            raise self._invalid(f"All instance types must have the same architecture: {', '.join(types)}")
        return types

    def _ami_type(self, types: list[str], architecture: str) -> str:
        """UNVERIFIED: without a wish, accelerated types get the image with their driver."""
        wanted = self._p.get("amiType")
        if self._template.get("ImageId"):
            if wanted not in (None, "CUSTOM"):
                raise self._invalid("You cannot specify an AMI type other than CUSTOM with an image in the template")
            return "CUSTOM"
        if wanted == "CUSTOM":
            raise self._invalid("AMI type CUSTOM needs a launch template with an image")
        arm = architecture == "arm64"
        if wanted and ("ARM" in wanted) != arm:
            raise self._invalid(f"[{', '.join(types)}] is not a valid instance type for requested amiType {wanted}")
        if wanted:
            return str(wanted)
        fact = facts(types[0])
        if fact.gpus:
            return "AL2023_ARM_64_NVIDIA" if arm else "AL2023_x86_64_NVIDIA"
        if fact.neuron_devices:
            return "AL2023_x86_64_NEURON"
        return "AL2023_ARM_64_STANDARD" if arm else "AL2023_x86_64_STANDARD"

    def _capacity_type(self, types: list[str]) -> str:
        """https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html"""
        wanted = self._p.get("capacityType") or "ON_DEMAND"
        if wanted == "CAPACITY_BLOCK":
            target = (self._template.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget")
            if not (target or {}).get("CapacityReservationId"):
                raise self._invalid(
                    "Capacity type CAPACITY_BLOCK needs a launch template with a CapacityReservationId of the block"
                )
            if len(types) != 1:
                raise self._invalid("Capacity type CAPACITY_BLOCK takes one instance type")
        return str(wanted)

    def _security_groups(self, interfaces: list[dict[str, Any]]) -> list[str]:
        """The launch template's, else the cluster security group."""
        own = list(self._template.get("SecurityGroupIds") or [])
        own += [group for interface in interfaces for group in interface.get("Groups") or []]
        return list(dict.fromkeys(own)) or [self._cluster.vpc["clusterSecurityGroupId"]]

    def _find_template(self) -> dict[str, Any]:
        """The content of the launch template that is referred to."""
        reference = self._p.get("launchTemplate")
        if not reference:
            return {}
        if self._p.get("diskSize") or self._p.get("remoteAccess"):
            what = "Disk size" if self._p.get("diskSize") else "Remote access configuration"
            raise self._invalid(f"{what} must be specified within the launch template.")
        template = self._held_template()
        if template is None:
            name = reference.get("id") or reference.get("name")
            raise self._invalid(f"Launch template {name} was not found")
        version = _version(template, reference.get("version"))
        if version is None:
            raise self._invalid(f"Launch template version {reference.get('version')} does not exist")
        data: dict[str, Any] = version.data
        if data.get("IamInstanceProfile") or any(i.get("SubnetId") for i in data.get("NetworkInterfaces") or []):
            raise self._invalid("Launch template must not specify an instance profile or subnets: the node group does")
        return data

    def _held_template(self) -> Any | None:
        reference = self._p["launchTemplate"]
        for template in backends.ec2(*self._call.place).launch_templates.values():
            if reference.get("id") == template.id or reference.get("name") == template.name:
                return template
        return None

    def _template_reference(self) -> dict[str, str]:
        reference = self._p.get("launchTemplate")
        template = self._held_template() if reference else None
        if reference is None or template is None:
            return {}
        version: Any = _version(template, reference.get("version"))
        return {"id": template.id, "name": template.name, "version": str(version.number)}


def _version(template: Any, wanted: str | None) -> Any | None:
    if wanted in (None, "$Default"):
        return template.default_version()
    if wanted == "$Latest":
        return template.latest_version()
    return next((v for v in template.versions if str(v.number) == wanted), None)


def release_of(version: str) -> str:
    """The newest AMI release of a Kubernetes version."""
    return f"{VERSIONS[version].patch}-{RELEASE_DATE}" if version in VERSIONS else f"{version}.0-{RELEASE_DATE}"
