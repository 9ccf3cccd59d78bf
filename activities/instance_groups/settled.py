"""Whether a changed group is what was asked, on both sides."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from activities.aws import AwsClients
from activities.hyperpod.cluster import as_cluster
from activities.hyperpod.groups import as_group, unchanged
from activities.hyperpod.observe import LABEL_GROUP
from activities.instance_groups.groups import changed_members
from activities.instance_groups.look import group_for
from activities.kubernetes import Connection, KubernetesClients, api_client
from activities.nodes.sight import Raw, labels_of, nodes_of
from activities.polling import Memory, Seen, wait_until
from activities.settings import Settings
from contracts.instance_groups import WAIT_FOR_UPDATE, GroupSettled, UpdateInstanceGroupSpec, WaitForUpdate
from contracts.words import number_of

SHOWN = 3


class SettledActivities:
    def __init__(self, aws: AwsClients, kubernetes: KubernetesClients, settings: Settings) -> None:
        self._aws, self._kubernetes, self._poll = aws, kubernetes, settings.poll_seconds

    @activity.defn(name=WAIT_FOR_UPDATE.name)
    async def wait_for_update(self, request: WaitForUpdate) -> GroupSettled:
        """Until the cluster is InService, the group is described with what was asked, its labels and taints are
        current, and its nodes in Kubernetes carry them. Raises as ``look.group_for``."""
        connection: list[Connection] = []

        def look(memory: Memory) -> Seen[GroupSettled]:
            found, group = group_for(self._aws, request)
            missing = changed_members(unchanged(self._aws, request.scope.region, group), request.changes)
            if found["ClusterStatus"] != "InService":
                return Seen(f"{request.hyperpod_cluster} {found['ClusterStatus']}")
            if missing:
                return Seen(f"not described yet: {', '.join(sorted(missing))}")
            kubernetes = group.get("KubernetesConfig") or {}
            nodes: list[Raw] = []
            if group.get("CurrentCount") and _is_about_nodes(request.changes):
                for member in ("Labels", "Taints"):
                    if not _alike(kubernetes.get(f"Current{member}"), kubernetes.get(f"Desired{member}")):
                        return Seen(f"{member.lower()} are being brought to the nodes")
                if not connection:
                    connection.append(self._kubernetes.connection(request.scope.region, request.eks_cluster))
                with api_client(connection[0]) as api:
                    nodes = [node for node in nodes_of(api) if labels_of(node).get(LABEL_GROUP) == request.group]
                if lacking := [node["metadata"]["name"] for node in nodes if _lacks(node, request.changes)]:
                    return Seen(
                        f"what was asked is lacking on {number_of(len(lacking), 'node')}: {', '.join(lacking[:SHOWN])}"
                    )
            return Seen(
                f"{request.group} is as asked",
                GroupSettled(cluster=as_cluster(found, changed=True), group=as_group(group), nodes=len(nodes)),
            )

        limit = WAIT_FOR_UPDATE.limit
        return await wait_until(look, what=f"{request.group} as asked", limit=limit, poll_seconds=self._poll)


def _is_about_nodes(changes: UpdateInstanceGroupSpec) -> bool:
    return changes.labels is not None or changes.taints is not None


def _alike(current: Any, desired: Any) -> bool:
    if isinstance(current, list) or isinstance(desired, list):
        return sorted(map(_taint, current or [])) == sorted(map(_taint, desired or []))
    return (current or {}) == (desired or {})


def _taint(taint: Any) -> tuple[str, str, str]:
    return taint["Key"], taint.get("Value") or "", taint["Effect"]


def _lacks(node: Raw, changes: UpdateInstanceGroupSpec) -> bool:
    """What the group must give is there; what others have put on the node is theirs."""
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (changes.labels or {}).items()):
        return True
    taints = {_words(taint) for taint in (node.get("spec") or {}).get("taints") or []}
    return any((taint.key, taint.value, taint.effect) not in taints for taint in changes.taints or [])


def _words(taint: Raw) -> tuple[str, str, str]:
    return taint["key"], taint.get("value") or "", taint["effect"]
