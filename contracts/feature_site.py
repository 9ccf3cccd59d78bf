"""From a cluster's record to where its features are switched."""

from __future__ import annotations

from contracts.cluster import ClusterRecord
from contracts.features import Site
from contracts.network import Scope


def site_of(record: ClusterRecord, scope: Scope) -> Site | None:
    """Everything that the record knows of it; None without a control plane, where there are no features."""
    plane = record.control_plane
    if plane is None:
        return None
    return Site(
        scope=scope,
        account=record.identity.account if record.identity is not None else plane.arn.split(":")[4],
        eks_cluster=plane.name,
        kubernetes_version=plane.kubernetes_version,
        hyperpod_cluster=record.hyperpod.name if record.hyperpod is not None else None,
        hyperpod_arn=record.hyperpod.arn if record.hyperpod is not None else None,
        bucket=record.identity.bucket if record.identity is not None else None,
        vpc_id=record.network.vpc_id if record.network is not None else None,
    )
