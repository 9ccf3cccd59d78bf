"""Activities that look at a cluster for drift: reads only."""

from __future__ import annotations

from contracts.activity import Act, Queue
from contracts.cluster import ClusterRecord, ClusterView
from contracts.drift import CheckDrift, DriftKind, Sight
from contracts.model import Model
from contracts.network import Scope


class LookForDrift(Model):
    """What to look at: everything that the record names, and what carries the cluster's ownership tags beside it."""

    scope: Scope
    record: ClusterRecord


class Managed(Model):
    """A cluster's entity as it is; null: there is none."""

    view: ClusterView | None = None


READ_MANAGED = Act("drift.read_cluster", CheckDrift, Managed, queue=Queue.PLATFORM, attempts=5)
LOOK_AT_NETWORK = Act("drift.look_at_network", LookForDrift, Sight, attempts=4)
LOOK_AT_IDENTITY = Act("drift.look_at_identity", LookForDrift, Sight, attempts=4)
LOOK_AT_CLUSTERS = Act("drift.look_at_clusters", LookForDrift, Sight, attempts=4)
LOOK_AT_WORKLOADS = Act("drift.look_at_workloads", LookForDrift, Sight, queue=Queue.KUBERNETES, attempts=4)

K = DriftKind
LOOKS: dict[str, tuple[Act[LookForDrift, Sight], tuple[DriftKind, ...]]] = {
    "network": (LOOK_AT_NETWORK, (K.VPC, K.SUBNET, K.NAT_GATEWAY, K.S3_ENDPOINT, K.SECURITY_GROUP)),
    "identity": (LOOK_AT_IDENTITY, (K.ROLE, K.ACCESS_ENTRY, K.POD_IDENTITY, K.BUCKET, K.LIFECYCLE_SCRIPTS)),
    "clusters": (
        LOOK_AT_CLUSTERS,
        (K.CONTROL_PLANE, K.HYPERPOD, K.INSTANCE_GROUP, K.NODE_GROUP, K.FILE_SYSTEM, K.TRACKING_SERVER),
    ),
    "workloads": (
        LOOK_AT_WORKLOADS,
        (
            *(K.COMPONENT, K.NODE_POOL, K.FEATURE, K.STORAGE),
            *(K.DEPLOYMENT, K.MODEL_POOL, K.ROUTER, K.ENDPOINT),
        ),
    ),
}
"""Each look with the kinds that it looks at: what cannot be looked at when it fails as a whole."""
