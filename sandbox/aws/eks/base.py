"""What the parts of the simulated EKS share: finding things, and client request tokens."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from sandbox.aws.call import AwsError, Call
from sandbox.aws.eks.state import ADMIN_POLICY, Addon, Cluster, EksState, Update
from sandbox.aws.world import World, token_digest
from sandbox.dataplane import AccessEntry


class Base:
    """The state of EKS and how its parts get at it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = EksState()

    def associate_addon(self, cluster: Cluster, addon: Addon, service_account: str, role: str) -> str:
        """Give an add-on's service account a role: what creates pod identity associations does it."""
        raise NotImplementedError

    def admit(self, cluster: Cluster, principal_arn: str, kind: str) -> bool:
        """Add an access entry on AWS's own behalf: what keeps access entries does it."""
        raise NotImplementedError

    def find(self, place: tuple[str, str], name: str) -> Cluster | None:
        return self.state.clusters.get(place, {}).get(name)

    def by_arn(self, arn: str) -> Cluster | None:
        """The cluster of that ARN, whoever asks."""
        parts = arn.split(":")
        return self.find((parts[4], parts[3]), arn.rsplit("/", 1)[-1]) if len(parts) >= 6 else None

    def cluster(self, call: Call, key: str = "clusterName") -> Cluster:
        name = call.params[key]
        cluster = self.find(call.place, name)
        if cluster is None:
            raise AwsError("ResourceNotFoundException", f"No cluster found for name: {name}.", clusterName=name)
        return cluster

    def active_cluster(self, call: Call, key: str = "clusterName") -> Cluster:
        """The cluster, which must be there for more than waiting."""
        cluster = self.cluster(call, key)
        if cluster.status not in ("ACTIVE", "UPDATING"):
            raise AwsError(
                "ResourceInUseException" if cluster.status == "DELETING" else "InvalidRequestException",
                f"Cluster '{cluster.name}' is not in ACTIVE status",
                clusterName=cluster.name,
            )
        return cluster

    def once(self, call: Call, what: str, create: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Create, or answer again what the same client request token got before.

        https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html: the token makes it idempotent.
        That another request with the same token is refused, and how, is UNVERIFIED.
        """
        token = call.params.get("clientRequestToken")
        key = (call.place, f"{call.operation}/{what}", token or "")
        digest = token_digest(call.params, "clientRequestToken")
        if token and (known := self.state.tokens.get(key)):
            if known[0] != digest:
                raise AwsError(
                    "InvalidParameterException", "The client request token was used before with other parameters."
                )
            return known[1]
        answer = create()
        if token:
            self.state.tokens[key] = (digest, answer)
        return answer

    def forget_tokens(self, cluster: Cluster) -> None:
        """A deleted cluster's tokens must not bring back its ghost."""
        gone = [k for k in self.state.tokens if k[0] == cluster.place and k[1].split("/")[1] == cluster.name]
        for key in gone:
            del self.state.tokens[key]

    def new_update(
        self, cluster: Cluster, kind: str, params: dict[str, str], addon: str = "", nodegroup: str = ""
    ) -> Update:
        listed = [{"type": k, "value": v} for k, v in params.items()]
        update = Update(str(uuid.uuid4()), kind, self.world.now(), listed, addon=addon, nodegroup=nodegroup)
        cluster.updates[update.id] = update
        return update

    def publish_access(self, cluster: Cluster) -> None:
        """Tell the data plane who may use the cluster now."""
        if cluster.status not in ("ACTIVE", "UPDATING"):
            return
        entries = [
            AccessEntry(
                principal_arn=e.principal,
                username=e.username,
                groups=tuple(e.groups),
                admin=ADMIN_POLICY in e.policies and e.policies[ADMIN_POLICY]["accessScope"]["type"] == "cluster",
            )
            for e in cluster.entries.values()
        ]
        self.world.dataplane.set_access(cluster.arn, entries)
