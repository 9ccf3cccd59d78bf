"""HyperPod's operations on nodes.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchAddClusterNodes.html and its neighbours.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from sandbox import timings
from sandbox.aws.call import AwsError, Call
from sandbox.aws.hyperpod.checks import MAX_BATCH_ADD, invalid
from sandbox.aws.hyperpod.clusters import Clusters
from sandbox.aws.hyperpod.state import Cluster, Group, Node, Operation
from sandbox.aws.world import paginate, token_digest

TOKEN_LIFE = 8 * 3600.0
"""https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchAddClusterNodes.html: valid for 8 hours."""
MAX_BATCH_DELETE = 99


class Nodes(Clusters):
    """Handlers of the operations on nodes."""

    def ListClusterNodes(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        found = [
            n
            for n in cluster.nodes.values()
            if p.get("InstanceGroupNameContains", "") in n.group
            and (n.instance_id or p.get("IncludeNodeLogicalIds"))
            and (not p.get("CreationTimeAfter") or n.created > p["CreationTimeAfter"])
        ]
        by_name = p.get("SortBy") == "NAME"
        found.sort(
            key=lambda n: (n.logical_id if by_name else str(n.created), n.logical_id),
            reverse=p.get("SortOrder") == "Descending",
        )
        page, token = paginate(found, p.get("NextToken"), p.get("MaxResults") or 100)
        return {"ClusterNodeSummaries": [self.summarize_node(n) for n in page], "NextToken": token}

    def DescribeClusterNode(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        if bool(p.get("NodeId")) == bool(p.get("NodeLogicalId")):
            invalid("Exactly one of NodeId or NodeLogicalId must be specified.")
        identifier = p.get("NodeId") or p["NodeLogicalId"]
        node = cluster.node(identifier)
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
        self._require_idle(cluster, "updated")
        before = self.targets(cluster)
        answer: dict[str, Any] = {"Successful": [], "Failed": []}
        for wanted in p["NodesToAdd"]:
            self._add(call, cluster, wanted, answer)
        self.begin_scaling(cluster, before)
        if token:
            self.state.tokens[(cluster.arn, token)] = (digest, now, answer)
        return answer

    def BatchDeleteClusterNodes(self, call: Call) -> Any:
        cluster = self.cluster(call)
        ids, logical = call.params.get("NodeIds") or [], call.params.get("NodeLogicalIds") or []
        if not ids and not logical:
            invalid("Either NodeIds or NodeLogicalIds must be specified.")
        if len(ids) + len(logical) > MAX_BATCH_DELETE:
            invalid(f"The combined number of NodeIds and NodeLogicalIds cannot exceed {MAX_BATCH_DELETE}.")
        self._require_idle(cluster, "updated")
        before = self.targets(cluster)

        def delete(node: Node) -> tuple[str, str] | None:
            if node.status == "ShuttingDown":
                return "InvalidNodeStatus", f"Node {node.logical_id} is in ShuttingDown status."
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
        cluster = self.cluster(call)

        def reboot(node: Node) -> tuple[str, str] | None:
            if node.status not in ("Running", "Failure"):
                return "InvalidInstanceStatus", f"Instance {node.instance_id} is in {node.status} status."
            node.status = "SystemUpdating"
            self.event(cluster, f"Instance {node.instance_id} is being rebooted", node=node)
            self.after(timings.NODE_REBOOT, "rebooted", cluster, node)
            return None

        return self._repair(call, cluster, reboot)

    def BatchReplaceClusterNodes(self, call: Call) -> Any:
        cluster = self.cluster(call)

        def replace(node: Node) -> tuple[str, str] | None:
            if node.status not in ("Running", "Failure"):
                return "InvalidInstanceStatus", f"Instance {node.instance_id} is in {node.status} status."
            node.status = "SystemUpdating"
            self.after(timings.NODE_STOP, "replace", cluster, node, reason="replacement was requested")
            return None

        return self._repair(call, cluster, replace)

    def StartClusterHealthCheck(self, call: Call) -> Any:
        cluster = self.cluster(call)
        self._require_idle(cluster, "checked")
        configurations = call.params["DeepHealthCheckConfigurations"]
        operation = Operation(str(uuid.uuid4()), "DeepHealthCheck", self.world.now(), checks=configurations)
        cluster.operations.append(operation)
        for configuration in configurations:
            if configuration["InstanceGroupName"] not in cluster.groups:
                invalid(f"Instance group {configuration['InstanceGroupName']} does not exist.")
            chosen = configuration.get("InstanceIds")
            for node in cluster.members(configuration["InstanceGroupName"]):
                if node.status == "Running" and (not chosen or node.instance_id in chosen):
                    node.status = "DeepHealthCheckInProgress"
                    self.join(cluster, node)
                    self.after(timings.NODE_DEEP_HEALTH_CHECK, "checked", cluster, node, operation=operation.id)
        return {"ClusterArn": cluster.arn}

    def break_node(self, cluster: Cluster, node: Node, message: str) -> None:
        """The health monitoring agent finds a node broken; with automatic recovery HyperPod replaces it."""
        node.status, node.message = "Failure", message
        detail = {"Instance": {"FailureMessage": message, "NodeLogicalId": node.logical_id}}
        self.event(cluster, f"Instance {node.instance_id} is unhealthy: {message}", "Error", node=node, metadata=detail)
        if cluster.automatic_recovery:
            self.after(timings.NODE_FAILURE_LINGER, "replace", cluster, node, reason=message)

    def reclaim(self, cluster: Cluster, node: Node) -> None:
        """EC2 takes a Spot instance back, with two minutes' notice."""
        self.event(cluster, f"Spot instance {node.instance_id} will be interrupted", "Warn", node=node)
        self.after(timings.SPOT_NOTICE, "replace", cluster, node, reason="Spot capacity was reclaimed")

    def _add(self, call: Call, cluster: Cluster, wanted: dict[str, Any], answer: dict[str, Any]) -> None:
        name, count = wanted["InstanceGroupName"], wanted["IncrementTargetCountBy"]
        group = cluster.groups.get(name)
        if group is None or group.deleting:
            code = "InstanceGroupNotFound" if group is None else "InvalidInstanceGroupStatus"
            message = f"Instance group {name} was not found." if group is None else f"{name} is being deleted."
            answer["Failed"].append(
                {"InstanceGroupName": name, "ErrorCode": code, "FailedCount": count, "Message": message}
            )
            return
        if other := [t for t in wanted.get("InstanceTypes") or [] if t not in group.types]:
            answer["Failed"].append(
                {
                    "InstanceGroupName": name,
                    "ErrorCode": "IncompatibleInstanceTypes",
                    "FailedCount": count,
                    "InstanceTypes": other,
                    "Message": f"Instance group {name} does not allow {', '.join(other)}.",
                }
            )
            return
        grown = Group(group.spec, group.target + count)
        self.check_quota(call, {**cluster.groups, name: grown}, cluster)
        group.target += count
        fresh = [self.new_node(cluster, group) for _ in range(count)]
        for node in fresh:
            node.zones, node.types = wanted.get("AvailabilityZones") or [], wanted.get("InstanceTypes") or []
        self.launch_waiting(cluster, group)
        answer["Successful"] += [
            {"NodeLogicalId": n.logical_id, "InstanceGroupName": name, "Status": n.status} for n in fresh
        ]

    def _repair(self, call: Call, cluster: Cluster, action: Callable[[Node], tuple[str, str] | None]) -> Any:
        ids, logical = call.params.get("NodeIds") or [], call.params.get("NodeLogicalIds") or []
        if not ids and not logical:
            invalid("Either NodeIds or NodeLogicalIds must be specified.")
        if logical and not cluster.continuous:
            invalid("NodeLogicalIds are only supported for clusters with NodeProvisioningMode Continuous.")
        self._require_idle(cluster, "updated")
        return _each(cluster, ids, logical, action, "ErrorCode", "InstanceIdNotFound")


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
    for names, member, succeeded, failed in (
        (ids, "NodeId", "Successful", "Failed"),
        (logical, "NodeLogicalId", "SuccessfulNodeLogicalIds", "FailedNodeLogicalIds"),
    ):
        for name in names:
            node = cluster.node(name)
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
