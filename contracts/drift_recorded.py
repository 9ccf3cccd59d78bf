"""A cluster's record as members that can be compared with what there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contracts.cluster import ClusterRecord
from contracts.dependencies import ComponentState
from contracts.drift import AS_MADE, DriftKind, Member, Properties
from contracts.features import FeatureState
from contracts.hyperpod import InstanceGroup
from contracts.identity import Identity
from contracts.names import ClusterNames
from contracts.network import Network
from contracts.node_groups import NodeGroup
from contracts.node_pools import NodePool
from contracts.storage import Claim

AVAILABLE = "available"
HEALTHY = "healthy"
GROUP_FIELDS = (
    *("target", "min_count", "capacity", "training_plan_arn", "subnet_ids"),
    *("network_interface", "threads_per_core", "deep_health_checks", "labels", "taints"),
)
"""Of an instance group: what its record holds and a check compares, beside its instance types."""
NODE_GROUP_FIELDS = ("instance_types", "capacity", "desired", "minimum", "maximum", "subnet_ids")
NODE_POOL_FIELDS = ("node_class", "instance_groups", "gpu_limit", "consolidation", "consolidate_after")
CLAIM_FIELDS = ("type", "volume", "bucket", "file_system", "prefix", "read_only")

EXPECTED = frozenset(
    {
        DriftKind.SECURITY_GROUP,
        DriftKind.ROLE,
        DriftKind.ACCESS_ENTRY,
        DriftKind.POD_IDENTITY,
        DriftKind.BUCKET,
        DriftKind.LIFECYCLE_SCRIPTS,
        DriftKind.NAT_GATEWAY,
        DriftKind.SUBNET,
    }
)
"""Kinds that are compared with what this platform makes, not with what it once found. What was adopted of them comes
before that."""


def fields(model: Any, names: tuple[str, ...]) -> Properties:
    """Members of a model as properties."""
    document: dict[str, Any] = model.model_dump(mode="json", include=set(names))
    return {name: document[name] for name in names}


def major(version: str | None) -> str | None:
    """The first number of a version: AWS moves the others by itself."""
    return version.removeprefix("v").partition(".")[0] if version and version[:1] in "v0123456789" else None


def recorded(record: ClusterRecord) -> list[Member]:
    """What the record says that there is."""
    return [
        *(_network(record.network, record.origin == "created") if record.network else ()),
        *(_identity(record, record.identity) if record.identity else ()),
        *_clusters(record),
        *(member_of_group(each) for each in (record.hyperpod.groups if record.hyperpod else ())),
        *(member_of_node_group(each) for each in record.node_groups if each.owned),
        *(member_of_node_pool(each) for each in record.node_pools if each.owned),
        *_features(record),
        *(member_of_claim(each) for each in record.storage if each.managed),
        *_file_systems(record),
    ]


def _network(network: Network, made_here: bool) -> Iterator[Member]:
    yield Member(kind=DriftKind.VPC, name=network.vpc_id, properties={"cidrs": list(network.vpc_cidrs)})
    for each in network.public_subnet_ids if made_here else ():
        yield Member(kind=DriftKind.SUBNET, name=each, properties={"leads_to": "internet gateway"})
    for each in network.control_plane_subnet_ids:
        yield Member(kind=DriftKind.SUBNET, name=each)
    for subnet in network.compute_subnets:
        way: Properties = {"leads_to": "NAT gateway"} if made_here else {}
        yield Member(kind=DriftKind.SUBNET, name=subnet.subnet_id, properties={"zone": subnet.zone, **way})
    for gateway in network.nat_gateways:
        yield Member(kind=DriftKind.NAT_GATEWAY, name=gateway.nat_gateway_id, properties={"state": AVAILABLE})
    if network.s3_endpoint_id:
        yield Member(kind=DriftKind.S3_ENDPOINT, name=network.s3_endpoint_id)
    rules: Properties = {"traffic_within": "open", "traffic_out": "open", "open_to": []} if made_here else {}
    yield Member(kind=DriftKind.SECURITY_GROUP, name=network.security_group_id, properties=rules)


def made_roles(tag: str, region: str, identity: Identity) -> list[str]:
    """The purposes of those of the cluster's roles that this platform made."""
    names = ClusterNames(tag)
    found = {
        "cluster": identity.cluster_role_arn,
        "hyperpod-execution": identity.execution_role_arn or "",
    }
    return [purpose for purpose, arn in found.items() if arn.rpartition("/")[2] == names.role(purpose, region)]


STORAGE_ROLE = "s3-csi"
"""The purpose of the role of the CSI driver for S3."""
STORAGE_DRIVER = "aws-mountpoint-s3-csi-driver"


def own_bucket(record: ClusterRecord) -> str | None:
    """The cluster's bucket, if this platform made it."""
    identity = record.identity
    if identity is None or identity.bucket is None:
        return None
    made_here = identity.bucket == ClusterNames(record.tag).bucket(identity.account, record.region)
    return identity.bucket if made_here else None


def _identity(record: ClusterRecord, identity: Identity) -> Iterator[Member]:
    for purpose in made_roles(record.tag, record.region, identity):
        name = ClusterNames(record.tag).role(purpose, record.region)
        yield Member(kind=DriftKind.ROLE, name=name, properties={"policy": AS_MADE})
    bucket = own_bucket(record)
    if bucket is not None:
        settings: Properties = {"public_access": "blocked", "encryption": "on"}
        yield Member(kind=DriftKind.BUCKET, name=bucket, properties=settings)
        if (identity.lifecycle_scripts_uri or "").startswith(f"s3://{bucket}/"):
            name = identity.lifecycle_scripts_uri or ""
            yield Member(kind=DriftKind.LIFECYCLE_SCRIPTS, name=name, properties={"content": AS_MADE})
    if record.control_plane is None:
        return
    yield Member(kind=DriftKind.ACCESS_ENTRY, name=identity.platform_principal_arn, properties={"policy": AS_MADE})
    if bucket is not None and any(each.name == STORAGE_DRIVER for each in record.dependencies):
        name = ClusterNames(record.tag).role(STORAGE_ROLE, record.region)
        yield Member(kind=DriftKind.ROLE, name=name, properties={"policy": AS_MADE})
        yield Member(kind=DriftKind.POD_IDENTITY, name=STORAGE_ROLE, properties={"role": AS_MADE})


def _clusters(record: ClusterRecord) -> Iterator[Member]:
    if (plane := record.control_plane) is not None:
        properties: Properties = {"kubernetes_version": plane.kubernetes_version}
        if record.network is not None:
            properties["vpc_id"] = record.network.vpc_id
        if record.identity is not None:
            properties["role_arn"] = record.identity.cluster_role_arn
        yield Member(kind=DriftKind.CONTROL_PLANE, name=plane.name, properties=properties)
    for each in record.dependencies:
        if each.state is ComponentState.PENDING:
            continue
        compared: Properties = {} if each.state is ComponentState.FAILED else {"state": HEALTHY}
        if (number := major(each.version)) is not None:
            compared["major_version"] = number
        yield Member(kind=DriftKind.COMPONENT, name=each.name, properties=compared)
    if (hyperpod := record.hyperpod) is not None:
        told: Properties = {"state": HEALTHY}
        if hyperpod.provisioning:
            told["provisioning"] = hyperpod.provisioning
        yield Member(kind=DriftKind.HYPERPOD, name=hyperpod.name, properties=told)


def member_of_group(group: InstanceGroup) -> Member:
    """An instance group, as the record or HyperPod has it."""
    types: Properties = {"instance_types": [group.instance_type, *group.alternative_types]}
    return Member(kind=DriftKind.INSTANCE_GROUP, name=group.name, properties={**types, **fields(group, GROUP_FIELDS)})


def member_of_node_group(group: NodeGroup) -> Member:
    """A node group, as the record or EKS has it."""
    properties = fields(group, NODE_GROUP_FIELDS)
    return Member(kind=DriftKind.NODE_GROUP, name=group.name, properties=properties, owned=group.owned)


def member_of_node_pool(pool: NodePool) -> Member:
    """A node pool, as the record or Kubernetes has it."""
    properties = fields(pool, NODE_POOL_FIELDS)
    return Member(kind=DriftKind.NODE_POOL, name=pool.name, properties=properties, owned=pool.owned)


def member_of_claim(claim: Claim) -> Member:
    """A claim, as the record or Kubernetes has it. One whose volume is gone tells nothing of what it mounted."""
    name, there = f"{claim.namespace}/{claim.claim}", bool(claim.bucket or claim.file_system)
    properties: Properties = {"volume_there": there, **(fields(claim, CLAIM_FIELDS) if there else {})}
    return Member(kind=DriftKind.STORAGE, name=name, properties=properties, owned=claim.managed)


def _features(record: ClusterRecord) -> Iterator[Member]:
    for each in record.features:
        if each.state in (FeatureState.ON, FeatureState.OFF):
            yield Member(kind=DriftKind.FEATURE, name=each.feature.value, properties={"state": each.state.value})


def _file_systems(record: ClusterRecord) -> Iterator[Member]:
    for name in sorted({each.file_system for each in record.storage if each.file_system}):
        yield Member(kind=DriftKind.FILE_SYSTEM, name=name, properties={"state": AVAILABLE})
