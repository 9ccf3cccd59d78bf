"""What happens to nodes and clusters in time: launch, boot, checks, joining, failing, stopping; all on the clock.

``Continuous`` clusters become InService while nodes still come, report trouble as events and try again; others are done
when every group is, and fail or roll back otherwise
(https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-scaling-eks.html).
"""

from __future__ import annotations

from typing import Any

from sandbox import timings
from sandbox.aws import backends
from sandbox.aws.hyperpod.joining import Joining
from sandbox.aws.hyperpod.placement import Placement
from sandbox.aws.hyperpod.state import STARTED, Cluster, Group, Node
from sandbox.aws.world import alphanumeric, hex_id

EFA = (
    "EFA health checks did not run successfully. Ensure that your VPC and security groups are properly configured "
    "before attempting to create a new cluster."
)
LIFECYCLE = (
    "Lifecycle scripts did not run successfully. Ensure the scripts exist in provided S3 path, are accessible, and run "
    "without errors. Please see CloudWatch logs for lifecycle script execution details."
)
EVENTS = (
    "created",
    "retry",
    "booted",
    "lifecycle-done",
    "registered",
    "checked",
    "gone",
    "failed-over",
    "deleted",
    "rebooted",
    "software-updated",
    "settle",
    "replace",
)


class Lifecycle(Placement, Joining):
    """The engine. Clock events carry ids only and do nothing where what they were for is gone."""

    def listen(self) -> None:
        for name in EVENTS:
            self.world.on(f"hyperpod.{name}", getattr(self, f"_on_{name.replace('-', '_')}"))

    def reconcile(self, cluster: Cluster, group: Group) -> None:
        """Start or stop nodes until there are as many as wanted."""
        if cluster.status in ("Deleting", "Failed") or group.deleting:
            return
        live = [n for n in cluster.members(group.name) if n.status not in ("ShuttingDown", "Failure")]
        lingering = [n for n in cluster.members(group.name) if n.status == "Failure"]
        for _ in range(group.target - len(live) - len(lingering)):
            self.new_node(cluster, group)
        # Newest first, and those without an instance before all others.
        surplus = max(0, len(live) + len(lingering) - group.target)
        order = sorted(live, key=lambda n: (bool(n.instance_id), n.status in STARTED, -n.created.timestamp()))
        for node in (lingering + order)[:surplus]:
            self.stop(cluster, node)
        self.launch_waiting(cluster, group)

    def new_node(self, cluster: Cluster, group: Group) -> Node:
        node = Node(f"{group.name}-{alphanumeric(8)}", group.name, group.types[0], self.world.now())
        node.capacity_type = "Spot" if "Spot" in (group.spec.get("CapacityRequirements") or {}) else "OnDemand"
        cluster.nodes[node.logical_id] = node
        return node

    def launch_waiting(self, cluster: Cluster, group: Group) -> None:
        """Get instances for the nodes that have none yet."""
        waiting = [n for n in cluster.members(group.name) if not n.instance_id and n.status == "Pending"]
        for node in waiting:
            problem = self.place(cluster, group, node)
            if problem:
                self._no_capacity(cluster, group, problem)
                return
            node.instance_id, node.launched = "i-" + hex_id(17), self.world.now()
            self.event(
                cluster,
                f"Instance {node.instance_id} in instance group {group.name} is being provisioned",
                node=node,
                metadata={"Instance": {"NodeLogicalId": node.logical_id, "CustomerEni": node.interface}},
            )
            self.after(timings.NODE_BOOT, "booted", cluster, node)
        if waiting:
            group.shortages = 0

    def stop(self, cluster: Cluster, node: Node) -> None:
        """Terminate a node's instance."""
        if node.status == "ShuttingDown":
            return
        if not node.instance_id:
            del cluster.nodes[node.logical_id]
            self._cleanup_group(cluster, node.group)
            return
        node.status = "ShuttingDown"
        self.after(timings.NODE_STOP, "gone", cluster, node)

    def replace(self, cluster: Cluster, node: Node, reason: str) -> None:
        """Terminate a node's instance and start another in its place, with the same logical id."""
        group = cluster.groups[node.group]
        self.event(cluster, f"Instance {node.instance_id} is being replaced: {reason}", "Warn", node=node)
        self.release(cluster, node)
        del cluster.nodes[node.logical_id]
        successor = self.new_node(cluster, group)
        del cluster.nodes[successor.logical_id]
        successor.logical_id = node.logical_id
        cluster.nodes[node.logical_id] = successor
        self.launch_waiting(cluster, group)

    def fail(self, cluster: Cluster, node: Node, message: str, lifecycle: str = "") -> None:
        """A node could not be brought up. HyperPod reports it twice and, in Continuous mode, tries again."""
        node.status, node.message = "Failure", message
        detail: dict[str, Any] = {"FailureMessage": message, "NodeLogicalId": node.logical_id}
        if lifecycle:
            detail["LcsExecutionState"] = lifecycle
        self.event(
            cluster,
            f"Instance creation in cluster {cluster.name} and instance group {node.group} failed",
            "Error",
            node=node,
            metadata={"Instance": detail},
        )
        self.event(
            cluster,
            f"Instance {node.instance_id} failed to provision: {message}",
            "Error",
            node=node,
            metadata={"Instance": dict(detail)},
        )
        if cluster.continuous:
            group = cluster.groups[node.group]
            wait = min(timings.NODE_FAILURE_LINGER * 2 ** min(group.failures, 8), timings.FAILURE_RETRY_MAX)
            group.failures += 1
            self.after(wait, "failed-over", cluster, node)
        self.settle(cluster)

    def settle(self, cluster: Cluster) -> None:
        """Finish what is finished: operations, and the cluster's own transition."""
        for group in list(cluster.groups.values()):
            self._cleanup_group(cluster, group.name)
        if self._at_target(cluster):
            for operation in cluster.operations:
                if operation.type == "Scaling" and operation.status == "InProgress":
                    operation.status = "Done"
                    for detail in operation.scaling:
                        detail["Status"] = "Done"
        if cluster.continuous or cluster.status not in ("Creating", "Updating"):
            return
        broken = [n for n in cluster.nodes.values() if n.status == "Failure"]
        if broken:
            self._roll_back(
                cluster,
                f"Instance {broken[0].instance_id} failed to provision with the following error: "
                f'"{broken[0].message}" Note that multiple instances may be impacted.',
            )
        elif self._at_target(cluster):
            cluster.status = "InService"

    def after(self, seconds: float, event: str, cluster: Cluster, node: Node | None = None, **payload: Any) -> None:
        if node is not None:
            payload |= {"node": node.logical_id, "instance": node.instance_id}
        self.world.clock.schedule(seconds, f"hyperpod.{event}", cluster=cluster.arn, **payload)

    # Events of the clock

    def _alive(self, cluster: str, node: str, instance: str, *statuses: str) -> tuple[Cluster, Node] | None:
        """The node that an event was for, if it is still that instance and in one of these statuses."""
        held = self.find(cluster)
        member = held.nodes.get(node) if held is not None else None
        if held is None or member is None or member.instance_id != instance or member.status not in statuses:
            return None
        return held, member

    def _on_created(self, cluster: str) -> None:
        held = self.find(cluster)
        if held is None or held.status != "Creating":
            return
        if held.continuous:
            held.status = "InService"
            self.event(held, f"Cluster {held.name} is InService", metadata={"Cluster": {}})
        if autoscaling := held.settings.get("AutoScaling"):
            autoscaling["Status"] = "InService"
        for group in list(held.groups.values()):
            self.reconcile(held, group)
        self.settle(held)

    def _on_retry(self, cluster: str, group: str) -> None:
        held = self.find(cluster)
        if held is None or group not in held.groups:
            return
        held.groups[group].retrying = False
        self.reconcile(held, held.groups[group])

    def _on_booted(self, cluster: str, node: str, instance: str) -> None:
        if not (alive := self._alive(cluster, node, instance, "Pending")):
            return
        held, member = alive
        if self.efa_blocked(held, member):
            self.fail(held, member, EFA)
            return
        self.after(timings.NODE_LIFECYCLE, "lifecycle-done", held, member)

    def _on_lifecycle_done(self, cluster: str, node: str, instance: str) -> None:
        if not (alive := self._alive(cluster, node, instance, "Pending")):
            return
        held, member = alive
        if self._lifecycle_fails(held, member):
            self.fail(held, member, LIFECYCLE, "Failed")
            return
        self.after(timings.NODE_REGISTER, "registered", held, member)

    def _on_registered(self, cluster: str, node: str, instance: str) -> None:
        if not (alive := self._alive(cluster, node, instance, "Pending")):
            return
        held, member = alive
        if held.groups[member.group].spec.get("OnStartDeepHealthChecks"):
            member.status = "DeepHealthCheckInProgress"
            self.join(held, member)
            self.event(held, f"Deep health checks started on {instance}", node=member)
            self.after(timings.NODE_DEEP_HEALTH_CHECK, "checked", held, member)
        else:
            self._run(held, member)

    def _on_checked(self, cluster: str, node: str, instance: str, operation: str = "") -> None:
        if not (alive := self._alive(cluster, node, instance, "DeepHealthCheckInProgress")):
            return
        held, member = alive
        for running in held.operations:
            if running.id == operation:
                running.status = "Done"
        left = self.world.knobs.sick.get(member.group, 0)
        if left <= 0:
            self._run(held, member)
            return
        self.world.knobs.sick[member.group] = left - 1
        message = "InstanceStress deep health check failed"
        detail = {"Instance": {"FailureMessage": message, "NodeLogicalId": member.logical_id}}
        self.event(held, f"Deep health check failed on {instance}", "Warn", node=member, metadata=detail)
        if held.automatic_recovery:
            self.replace(held, member, message)
        else:
            member.status, member.message = "Failure", message
            self.settle(held)

    def _on_gone(self, cluster: str, node: str, instance: str) -> None:
        if not (alive := self._alive(cluster, node, instance, "ShuttingDown")):
            return
        held, member = alive
        role = held.groups[member.group].spec["ExecutionRole"]
        if backends.role(held.account, role.rsplit("/", 1)[-1]) is None:
            # Without the role HyperPod cannot detach the instance: it waits until somebody restores it.
            member.message = f"The role {role} does not have permission to perform ec2:DeleteNetworkInterface."
            self.after(timings.NODE_STOP, "gone", held, member)
            return
        self.release(held, member)
        del held.nodes[node]
        self.event(held, f"Instance {instance} of instance group {member.group} was terminated", group=member.group)
        self.settle(held)

    def _on_failed_over(self, cluster: str, node: str, instance: str) -> None:
        if alive := self._alive(cluster, node, instance, "Failure"):
            held, member = alive
            self.release(held, member)
            del held.nodes[node]
            self.reconcile(held, held.groups[member.group])

    def _on_replace(self, cluster: str, node: str, instance: str, reason: str) -> None:
        if alive := self._alive(cluster, node, instance, "Failure", "Running", "SystemUpdating"):
            self.replace(alive[0], alive[1], reason)

    def _on_rebooted(self, cluster: str, node: str, instance: str) -> None:
        if alive := self._alive(cluster, node, instance, "SystemUpdating"):
            self._run(*alive)

    def _on_software_updated(self, cluster: str, groups: list[str]) -> None:
        held = self.find(cluster)
        if held is None:
            return
        for name in groups:
            if group := held.groups.get(name):
                group.software_status = "Succeeded"
                for node in held.members(name):
                    if node.status == "SystemUpdating":
                        node.image, node.updated = group.desired_image, self.world.now()
                        self._run(held, node)
        if held.status == "SystemUpdating":
            held.status = "InService"

    def _on_settle(self, cluster: str) -> None:
        if held := self.find(cluster):
            self.settle(held)

    def _on_deleted(self, cluster: str) -> None:
        """The cluster is gone when its last node is, and not before."""
        held = self.find(cluster)
        if held is None:
            return
        if held.nodes:
            self.after(timings.NODE_STOP, "deleted", held)
            return
        del self.state.clusters[held.place][held.name]

    # Details

    def _run(self, cluster: Cluster, node: Node) -> None:
        node.status, node.message = "Running", ""
        cluster.groups[node.group].failures = 0
        self.join(cluster, node)
        detail = {"Instance": {"NodeLogicalId": node.logical_id, "LcsExecutionState": "Succeeded"}}
        self.event(cluster, f"Instance {node.instance_id} is running", node=node, metadata=detail)
        self.settle(cluster)

    def _no_capacity(self, cluster: Cluster, group: Group, problem: str) -> None:
        current = cluster.current(group.name)
        scaling = {"InstanceCount": current, "TargetCount": group.target, "FailureMessage": problem}
        if cluster.continuous:
            for description in (
                f"Instance group {group.name} scaling failed",
                f"Instance group {group.name} could not be scaled to {group.target} instances: {problem}",
            ):
                self.event(cluster, description, "Error", group.name, metadata={"InstanceGroupScaling": dict(scaling)})
            if not group.retrying:
                group.retrying = True
                wait = min(timings.CAPACITY_RETRY * 2 ** min(group.shortages, 8), timings.CAPACITY_RETRY_MAX)
                group.shortages += 1
                self.after(wait, "retry", cluster, group=group.name)
        elif cluster.status in ("Creating", "Updating", "InService"):
            self._roll_back(cluster, problem)

    def _roll_back(self, cluster: Cluster, message: str) -> None:
        """A cluster that is not Continuous fails if it is new, and otherwise returns to what it had."""
        cluster.failure = message
        created = cluster.status != "Creating"
        cluster.status = "InService" if created else "Failed"
        for group in cluster.groups.values():
            if created:
                group.target = cluster.current(group.name)
        for node in list(cluster.nodes.values()):
            if not created or node.status not in STARTED:
                self.stop(cluster, node)

    def _lifecycle_fails(self, cluster: Cluster, node: Node) -> bool:
        broken = self.world.knobs.broken_lifecycle
        if node.group in broken:
            left = broken[node.group]
            if left is None:
                return True
            if left > 0:
                broken[node.group] = left - 1
                return True
        config = cluster.groups[node.group].spec.get("LifeCycleConfig") or {}
        script = config.get("OnCreate") or config.get("OnInitComplete")
        if not config.get("SourceS3Uri") or not script:
            return False
        uri = f"{config['SourceS3Uri'].rstrip('/')}/{script}"
        return not self.world.s3_object_exists(cluster.account, uri)

    def _at_target(self, cluster: Cluster) -> bool:
        return not any(n.status == "ShuttingDown" for n in cluster.nodes.values()) and all(
            cluster.current(g.name) == g.target for g in cluster.groups.values() if not g.deleting
        )

    def _cleanup_group(self, cluster: Cluster, name: str) -> None:
        group = cluster.groups.get(name)
        if group is not None and group.deleting and not cluster.members(name):
            del cluster.groups[name]
