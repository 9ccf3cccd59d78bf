"""HyperPod's operations on nodes.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchAddClusterNodes.html and its neighbours.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from sandbox.aws.call import AwsError, Call
from sandbox.aws.hyperpod.base import aware
from sandbox.aws.hyperpod.checks import MAX_BATCH_ADD, invalid
from sandbox.aws.hyperpod.state import Cluster, Group, Node, Operation
from sandbox.aws.hyperpod.updates import Updates
from sandbox.aws.world import paginate, token_digest

TOKEN_LIFE = 8 * 3600.0
"""https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchAddClusterNodes.html: valid for 8 hours."""
MAX_BATCH_DELETE = 99
MAX_BATCH_DELETE_BOTH = 50
"""Where logical ids are among them."""
LOGICAL_IDS = "NodeLogicalIds are only supported for clusters with NodeProvisioningMode Continuous."


class Nodes(Updates):
    """Handlers of the operations on nodes."""

    def ListClusterNodes(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        logical, part = bool(p.get("IncludeNodeLogicalIds")), p.get("InstanceGroupNameContains", "")
        after, before = p.get("CreationTimeAfter"), p.get("CreationTimeBefore")
        found = [
            n
            for n in cluster.nodes.values()
            if part in n.group
            and (n.instance_id or logical)
            and (after is None or n.created > aware(after))
            and (before is None or n.created < aware(before))
        ]
        if p.get("SortBy") == "NAME":
            found.sort(key=lambda n: n.logical_id)
        else:
            found.sort(key=lambda n: n.created)
        if p.get("SortOrder") == "Descending":
            found.reverse()
        page, token = paginate(found, p.get("NextToken"), p.get("MaxResults") or 100)
        return {"ClusterNodeSummaries": [self.summarize_node(n, logical) for n in page], "NextToken": token}

    def DescribeClusterNode(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        if bool(p.get("NodeId")) == bool(p.get("NodeLogicalId")):
            invalid("Exactly one of NodeId or NodeLogicalId must be specified.")
        identifier = p.get("NodeId") or p["NodeLogicalId"]
        node = cluster.by_instance.get(identifier) if p.get("NodeId") else cluster.nodes.get(identifier)
        if node is None:
            raise AwsError("ResourceNotFound", f"Node {identifier} not found in cluster {cluster.name}.")
        return {"NodeDetails": self.describe_node(cluster, node)}

    def BatchAddClusterNodes(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        if not cluster.continuous:
            invalid("BatchAddClusterNodes is only supported for clusters with NodeProvisioningMode Continuous.")
        if sum(n["IncrementTargetCountBy"] for n in p["NodesToAdd"]) > MAX_BATCH_ADD:
            invalid(f"The total number of nodes to add cannot exceed {MAX_BATCH_ADD}.")
        token, digest = p.get("ClientToken"), token_digest(p, "ClientToken")
        now = self.world.clock.timestamp()
        known = self.state.tokens.get((cluster.arn, token)) if token else None
        if known and now - known[1] < TOKEN_LIFE:
            if known[0] != digest:
                invalid("ClientToken was already used with different parameters.")
            return _refresh(cluster, known[2])
        self.require_idle(cluster, "updated")
        failed = [f for wanted in p["NodesToAdd"] if (f := self._incompatible(cluster, wanted))]
        accepted = [wanted for wanted in p["NodesToAdd"] if not self._incompatible(cluster, wanted)]
        grown: dict[str, Any] = dict(cluster.groups)
        for wanted in accepted:
            group = grown[wanted["InstanceGroupName"]]
            grown[group.name] = Group(group.spec, group.target + wanted["IncrementTargetCountBy"])
        self.check_quota(call, grown, cluster)
        before = self.targets(cluster)
        successful = [added for wanted in accepted for added in self._add(cluster, wanted)]
        self.begin_scaling(cluster, before)
        for name in dict.fromkeys(wanted["InstanceGroupName"] for wanted in accepted):
            self.launch_waiting(cluster, cluster.groups[name])
        answer: dict[str, Any] = {"Successful": successful, "Failed": failed}
        if token:
            self.state.tokens[(cluster.arn, token)] = (digest, now, answer)
        return answer

    def BatchDeleteClusterNodes(self, call: Call) -> Any:
        cluster = self.cluster(call)
        ids, logical = call.params.get("NodeIds") or [], call.params.get("NodeLogicalIds") or []
        if not ids and not logical:
            invalid("Either NodeIds or NodeLogicalIds must be specified.")
        if logical and not cluster.continuous:
            invalid(LOGICAL_IDS)
        if logical and len(ids) + len(logical) > MAX_BATCH_DELETE_BOTH:
            invalid(f"The combined number of NodeIds and NodeLogicalIds cannot exceed {MAX_BATCH_DELETE_BOTH}.")
        if len(ids) > MAX_BATCH_DELETE:
            invalid(f"The number of NodeIds cannot exceed {MAX_BATCH_DELETE}.")
        self.require_idle(cluster, "updated")
        before = self.targets(cluster)

        def delete(node: Node) -> tuple[str, str] | None:
            if node.status in ("ShuttingDown", "SystemUpdating"):
                return "InvalidNodeStatus", f"Node {node.logical_id} is in {node.status} status."
            # The API lowers the target too, so that the node is not replaced.
            cluster.groups[node.group].target -= 1
            self.stop(cluster, node)
            return None

        answer = _each(cluster, ids, logical, delete, "Code", "NodeIdNotFound")
        self.begin_scaling(cluster, before)
        if not cluster.continuous and (answer.get("Successful") or answer.get("SuccessfulNodeLogicalIds")):
            cluster.status = "Updating"
        self.after(1, "settle", cluster)
        return answer

    def BatchRebootClusterNodes(self, call: Call) -> Any:
        return self._repair(call, self.reboot)

    def BatchReplaceClusterNodes(self, call: Call) -> Any:
        return self._repair(call, self.order_replacement)

    def StartClusterHealthCheck(self, call: Call) -> Any:
        cluster = self.cluster(call)
        self.require_idle(cluster, "checked")
        configurations = call.params["DeepHealthCheckConfigurations"]
        chosen: dict[str, Node] = {}
        for configuration in configurations:
            name, ids = configuration["InstanceGroupName"], configuration.get("InstanceIds") or []
            if name not in cluster.groups:
                invalid(f"Instance group {name} does not exist.")
            members = cluster.members(name)
            if unknown := sorted(set(ids) - {n.instance_id for n in members}):
                invalid(f"Instance {unknown[0]} does not exist in instance group {name}.")
            chosen |= {n.logical_id: n for n in members if not ids or n.instance_id in ids}
        operation = Operation(str(uuid.uuid4()), "DeepHealthCheck", self.world.now(), checks=configurations)
        cluster.operations.append(operation)
        for node in chosen.values():
            if node.status == "Running":
                self.check(cluster, node, operation)
            elif node.status == "DeepHealthCheckInProgress":
                operation.waiting.add(node.logical_id)
        if not operation.waiting:
            operation.status = "Done"
        return {"ClusterArn": cluster.arn}

    def _incompatible(self, cluster: Cluster, wanted: dict[str, Any]) -> dict[str, Any] | None:
        """Why nodes cannot be added to a group, as an entry of the answer's ``Failed``."""
        name, group = wanted["InstanceGroupName"], cluster.groups.get(wanted["InstanceGroupName"])
        failure: dict[str, Any] = {"InstanceGroupName": name, "FailedCount": wanted["IncrementTargetCountBy"]}
        failure |= {k: wanted[k] for k in ("AvailabilityZones", "InstanceTypes") if wanted.get(k)}
        if group is None:
            return failure | {"ErrorCode": "InstanceGroupNotFound", "Message": f"Instance group {name} was not found."}
        if group.deleting or group.rollout is not None:
            status = self.group_status(cluster, group)
            message = f"Instance group {name} is in {status} status."
            return failure | {"ErrorCode": "InvalidInstanceGroupStatus", "Message": message}
        if other := [t for t in wanted.get("InstanceTypes") or [] if t not in group.types]:
            message = f"Instance group {name} does not allow {', '.join(other)}."
            return failure | {"ErrorCode": "IncompatibleInstanceTypes", "Message": message}
        zones = self.zones_of(cluster, group)
        if other := [z for z in wanted.get("AvailabilityZones") or [] if z not in zones]:
            message = f"Instance group {name} has no subnet in {', '.join(other)}."
            return failure | {"ErrorCode": "IncompatibleAvailabilityZones", "Message": message}
        return None

    def _add(self, cluster: Cluster, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        group = cluster.groups[wanted["InstanceGroupName"]]
        group.target += wanted["IncrementTargetCountBy"]
        asked = {k: wanted[k] for k in ("AvailabilityZones", "InstanceTypes") if wanted.get(k)}
        added = []
        for _ in range(wanted["IncrementTargetCountBy"]):
            node = self.new_node(cluster, group)
            node.zones, node.types = asked.get("AvailabilityZones", []), asked.get("InstanceTypes", [])
            added.append(
                {"NodeLogicalId": node.logical_id, "InstanceGroupName": group.name, "Status": node.status, **asked}
            )
        return added

    def _repair(self, call: Call, action: Callable[[Cluster, Node], None]) -> Any:
        cluster = self.cluster(call)
        ids, logical = call.params.get("NodeIds") or [], call.params.get("NodeLogicalIds") or []
        if not ids and not logical:
            invalid("Either NodeIds or NodeLogicalIds must be specified.")
        if logical and not cluster.continuous:
            invalid(LOGICAL_IDS)
        self.require_idle(cluster, "updated")

        def repair(node: Node) -> tuple[str, str] | None:
            if node.status == "SystemUpdating":
                return "InstanceIdInUse", f"Another operation on instance {node.instance_id} is in progress."
            if node.status not in ("Running", "Failure") or not node.instance_id:
                return "InvalidInstanceStatus", f"Node {node.logical_id} is in {node.status} status."
            action(cluster, node)
            return None

        return _each(cluster, ids, logical, repair, "ErrorCode", "InstanceIdNotFound")


def _each(
    cluster: Cluster,
    ids: list[str],
    logical: list[str],
    action: Callable[[Node], tuple[str, str] | None],
    code_member: str,
    not_found: str,
) -> dict[str, Any]:
    """Apply an action to each node and report each by the kind of id that it was named by."""
    answer: dict[str, Any] = {}
    for names, held, member, succeeded, failed in (
        (ids, cluster.by_instance, "NodeId", "Successful", "Failed"),
        (logical, cluster.nodes, "NodeLogicalId", "SuccessfulNodeLogicalIds", "FailedNodeLogicalIds"),
    ):
        for name in names:
            node = held.get(name)
            problem = (not_found, f"Node {name} was not found.") if node is None else action(node)
            if problem is None:
                answer.setdefault(succeeded, []).append(name)
            else:
                answer.setdefault(failed, []).append({member: name, code_member: problem[0], "Message": problem[1]})
    return answer


def _refresh(cluster: Cluster, answer: dict[str, Any]) -> dict[str, Any]:
    """The same nodes with their latest status."""
    nodes = cluster.nodes
    successful = [
        {**s, "Status": nodes[s["NodeLogicalId"]].status if s["NodeLogicalId"] in nodes else "NotFound"}
        for s in answer["Successful"]
    ]
    return {**answer, "Successful": successful}
