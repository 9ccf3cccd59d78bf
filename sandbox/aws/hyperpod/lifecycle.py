"""What happens to nodes in time: launch, boot, lifecycle script, joining, failing, stopping; all on the clock.

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
EVENTS = ("created", "retry", "booted", "lifecycle-done", "registered", "gone", "failed-over", "deleted", "settle")


class Lifecycle(Placement, Joining):
    """The engine. Clock events carry ids only and do nothing where what they were for is gone."""

    def listen(self) -> None:
        self.listen_to(EVENTS)

    def listen_to(self, events: tuple[str, ...]) -> None:
        for name in events:
            self.world.on(f"hyperpod.{name}", getattr(self, f"_on_{name.replace('-', '_')}"))

    def reconcile(self, cluster: Cluster, group: Group) -> None:
        """Start or stop nodes until there are as many as wanted."""
        if cluster.status in ("Deleting", "Failed") or group.deleting:
            return
        members = cluster.members(group.name)
        live = [n for n in members if n.status not in ("ShuttingDown", "Failure")]
        lingering = [n for n in members if n.status == "Failure"]
        for _ in range(group.target - len(live) - len(lingering)):
            self.new_node(cluster, group)
        # Newest first, and those without an instance before all others.
        surplus = max(0, len(live) + len(lingering) - group.target)
        if surplus:
            order = sorted(live, key=lambda n: (bool(n.instance_id), n.status in STARTED, -n.created.timestamp()))
            for node in (lingering + order)[:surplus]:
                self.stop(cluster, node)
        self.launch_waiting(cluster, group)

    def new_node(self, cluster: Cluster, group: Group) -> Node:
        node = Node(f"{group.name}-{alphanumeric(8)}", group.name, group.types[0], self.world.now())
        node.capacity_type = "Spot" if "Spot" in (group.spec.get("CapacityRequirements") or {}) else "OnDemand"
        cluster.put(node)
        return node

    def launch_waiting(self, cluster: Cluster, group: Group) -> None:
        """Get instances for the nodes that have none yet. Where capacity lacks for one, another may still start."""
        waiting = [n for n in cluster.members(group.name) if not n.instance_id and n.status == "Pending"]
        refused: dict[tuple[Any, ...], str] = {}
        for node in waiting:
            wish = (tuple(node.zones), tuple(node.types))
            if wish in refused:
                continue
            if problem := self.place(cluster, group, node):
                refused[wish] = problem
                continue
            node.instance_id, node.launched, node.spec = "i-" + hex_id(17), self.world.now(), group.spec
            node.image = group.image
            if group.rollout is not None:
                group.rollout.done.add(node.logical_id)
            cluster.put(node)
            self.event(
                cluster,
                f"Instance {node.instance_id} in instance group {group.name} is being provisioned",
                node=node,
                metadata={"Instance": {"NodeLogicalId": node.logical_id, "CustomerEni": node.interface}},
            )
            self.after(timings.NODE_BOOT, "booted", cluster, node)
        if refused:
            self._no_capacity(cluster, group, next(iter(refused.values())))
        elif waiting:
            group.shortages = 0

    def stop(self, cluster: Cluster, node: Node) -> None:
        """Terminate a node's instance."""
        if node.status == "ShuttingDown":
            return
        if not node.instance_id:
            cluster.drop(node)
            self._cleanup_group(cluster, node.group)
            return
        node.status = "ShuttingDown"
        self.after(timings.NODE_STOP, "gone", cluster, node)

    def replace(self, cluster: Cluster, node: Node, reason: str) -> None:
        """Terminate a node's instance and start another in its place, with the same logical id."""
        group = cluster.groups[node.group]
        self.event(cluster, f"Instance {node.instance_id} is being replaced: {reason}", "Warn", node=node)
        self.release(cluster, node)
        cluster.drop(node)
        successor = Node(node.logical_id, node.group, group.types[0], self.world.now())
        successor.capacity_type, successor.zones, successor.types = node.capacity_type, node.zones, node.types
        cluster.put(successor)
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
        if cluster.continuous or cluster.status == "InService":
            group = cluster.groups[node.group]
            wait = min(timings.NODE_FAILURE_LINGER * 2 ** min(group.failures, 8), timings.FAILURE_RETRY_MAX)
            group.failures += 1
            self.after(wait, "failed-over", cluster, node)
        self.settle(cluster)

    def settle(self, cluster: Cluster) -> None:
        """Finish what is finished: operations, groups, and the cluster's own transition."""
        for group in list(cluster.groups.values()):
            if not group.established and cluster.current(group.name) >= group.minimum:
                group.established, group.before = True, None
            self._cleanup_group(cluster, group.name)
        scaling = [o for o in cluster.operations if o.type == "Scaling" and o.status == "InProgress"]
        transition = not cluster.continuous and cluster.status in ("Creating", "Updating")
        if not scaling and not transition:
            return
        done = self._at_target(cluster)
        if done:
            for operation in scaling:
                operation.status = "Done"
                for detail in operation.scaling:
                    detail["Status"] = "Done"
        if not transition:
            return
        broken = [n for n in cluster.nodes.values() if n.status == "Failure"]
        if broken:
            self._roll_back(
                cluster,
                f"Instance {broken[0].instance_id} failed to provision with the following error: "
                f'"{broken[0].message}" Note that multiple instances may be impacted.',
            )
        elif done:
            cluster.status = "InService"

    def run(self, cluster: Cluster, node: Node) -> None:
        """A node works, for the first time or again."""
        node.status, node.message, node.pending = "Running", "", ""
        cluster.groups[node.group].failures = 0
        self.join(cluster, node)
        detail = {"Instance": {"NodeLogicalId": node.logical_id, "LcsExecutionState": "Succeeded"}}
        self.event(cluster, f"Instance {node.instance_id} is running", node=node, metadata=detail)
        self.settle(cluster)

    def after(self, seconds: float, event: str, cluster: Cluster, node: Node | None = None, **payload: Any) -> None:
        if node is not None:
            payload |= {"node": node.logical_id, "instance": node.instance_id}
        self.world.clock.schedule(seconds, f"hyperpod.{event}", cluster=cluster.arn, **payload)

    def alive(self, cluster: str, node: str, instance: str, *statuses: str) -> tuple[Cluster, Node] | None:
        """The node that an event was for, if it is still that instance and in one of these statuses."""
        held = self.find(cluster)
        member = held.nodes.get(node) if held is not None else None
        if held is None or member is None or member.instance_id != instance or member.status not in statuses:
            return None
        return held, member

    # Events of the clock

    def _on_created(self, cluster: str) -> None:
        held = self.find(cluster)
        if held is None or held.status != "Creating":
            return
        if held.continuous:
            held.status = "InService"
            self.event(held, f"Cluster {held.name} is InService", metadata={"Cluster": {}})
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
        if not (alive := self.alive(cluster, node, instance, "Pending")):
            return
        held, member = alive
        if self.efa_blocked(held, member):
            self.fail(held, member, EFA)
            return
        self.after(timings.NODE_LIFECYCLE, "lifecycle-done", held, member)

    def _on_lifecycle_done(self, cluster: str, node: str, instance: str) -> None:
        if not (alive := self.alive(cluster, node, instance, "Pending")):
            return
        held, member = alive
        if self._lifecycle_fails(held, member):
            self.fail(held, member, LIFECYCLE, "Failed")
            return
        self.after(timings.NODE_REGISTER, "registered", held, member)

    def _on_registered(self, cluster: str, node: str, instance: str) -> None:
        if not (alive := self.alive(cluster, node, instance, "Pending")):
            return
        held, member = alive
        if held.groups[member.group].spec.get("OnStartDeepHealthChecks"):
            member.status = "DeepHealthCheckInProgress"
            self.join(held, member)
            self.event(held, f"Deep health checks started on {instance}", node=member)
            self.after(timings.NODE_DEEP_HEALTH_CHECK, "checked", held, member)
        else:
            self.run(held, member)

    def _on_gone(self, cluster: str, node: str, instance: str) -> None:
        if not (alive := self.alive(cluster, node, instance, "ShuttingDown")):
            return
        held, member = alive
        role = str((member.spec or held.groups[member.group].spec)["ExecutionRole"])
        if backends.role(held.account, role.rsplit("/", 1)[-1]) is None:
            # Without the role HyperPod cannot detach the instance: it waits until somebody restores it.
            member.message = f"The role {role} does not have permission to perform ec2:DeleteNetworkInterface."
            self.after(timings.NODE_STOP, "gone", held, member)
            return
        self.release(held, member)
        held.drop(member)
        self.event(held, f"Instance {instance} of instance group {member.group} was terminated", group=member.group)
        self.settle(held)

    def _on_failed_over(self, cluster: str, node: str, instance: str) -> None:
        if alive := self.alive(cluster, node, instance, "Failure"):
            held, member = alive
            self.release(held, member)
            held.drop(member)
            self.reconcile(held, held.groups[member.group])

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

    def _no_capacity(self, cluster: Cluster, group: Group, problem: str) -> None:
        if not cluster.continuous and cluster.status in ("Creating", "Updating"):
            self._roll_back(cluster, problem)
            return
        scaling: dict[str, Any] = {"InstanceCount": cluster.current(group.name), "TargetCount": group.target}
        if group.minimum:
            scaling["MinCount"] = group.minimum
        scaling["FailureMessage"] = problem
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
        config = node.spec.get("LifeCycleConfig") or {}
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
        if group is not None and group.deleting and not cluster.by_group.get(name):
            del cluster.groups[name]
            cluster.by_group.pop(name, None)
