"""Nodes that are checked, break, are rebooted, replaced or reclaimed.

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency.html
"""

from __future__ import annotations

from sandbox import timings
from sandbox.aws.hyperpod.lifecycle import Lifecycle
from sandbox.aws.hyperpod.state import STARTED, Cluster, Node, Operation

EVENTS = ("checked", "replace", "rebooted")
CHECK_FAILED = "InstanceStress deep health check failed"


class Recovery(Lifecycle):
    """What happens to nodes that run already."""

    def listen(self) -> None:
        super().listen()
        self.listen_to(EVENTS)

    def check(self, cluster: Cluster, node: Node, operation: Operation) -> None:
        """Run deep health checks on a node that runs."""
        operation.waiting.add(node.logical_id)
        node.status = "DeepHealthCheckInProgress"
        self.join(cluster, node)
        self.after(timings.NODE_DEEP_HEALTH_CHECK, "checked", cluster, node)

    def reboot(self, cluster: Cluster, node: Node) -> None:
        """Restart the operating system; instance, addresses and volumes stay."""
        node.status, node.pending = "SystemUpdating", "Reboot"
        self.join(cluster, node)
        self.event(cluster, f"Instance {node.instance_id} is being rebooted", node=node)
        self.after(timings.NODE_REBOOT, "rebooted", cluster, node)

    def order_replacement(self, cluster: Cluster, node: Node) -> None:
        """Replace a node because somebody asked for it."""
        node.status, node.pending = "SystemUpdating", "Replacement"
        self.join(cluster, node)
        self.after(timings.NODE_STOP, "replace", cluster, node, reason="replacement was requested", status=node.status)

    def break_node(self, cluster: Cluster, node: Node, message: str) -> None:
        """The health monitoring agent finds a node broken; with automatic recovery HyperPod replaces it."""
        node.status, node.message = "Failure", message
        detail = {"Instance": {"FailureMessage": message, "NodeLogicalId": node.logical_id}}
        self.event(cluster, f"Instance {node.instance_id} is unhealthy: {message}", "Error", node=node, metadata=detail)
        if node.joined:
            self.join(cluster, node)
        if cluster.automatic_recovery:
            self.after(timings.NODE_FAILURE_LINGER, "replace", cluster, node, reason=message, status="Failure")

    def reclaim(self, cluster: Cluster, node: Node) -> None:
        """EC2 takes a Spot instance back, with two minutes' notice."""
        self.event(cluster, f"Spot instance {node.instance_id} will be interrupted", "Warn", node=node)
        self.after(timings.SPOT_NOTICE, "replace", cluster, node, reason="Spot capacity was reclaimed", status="")

    def fail_cluster(self, cluster: Cluster, message: str) -> None:
        """Put a cluster into its last status but one: it can only be deleted."""
        cluster.status, cluster.failure = "Failed", message
        self.event(
            cluster, f"Cluster {cluster.name} failed", "Error", metadata={"Cluster": {"FailureMessage": message}}
        )

    def _on_checked(self, cluster: str, node: str, instance: str) -> None:
        held = self.find(cluster)
        for running in held.operations if held else ():
            # A node that is gone has nothing left to be checked.
            running.waiting.discard(node)
            if running.type == "DeepHealthCheck" and not running.waiting:
                running.status = "Done"
        if not (alive := self.alive(cluster, node, instance, "DeepHealthCheckInProgress")):
            return
        held, member = alive
        left = self.world.knobs.sick.get(member.group, 0)
        if left <= 0:
            member.checked = "Passed"
            self.run(held, member)
            return
        self.world.knobs.sick[member.group] = left - 1
        member.checked = "Failed"
        detail = {"Instance": {"FailureMessage": CHECK_FAILED, "NodeLogicalId": member.logical_id}}
        self.event(held, f"Deep health check failed on {instance}", "Warn", node=member, metadata=detail)
        if held.automatic_recovery:
            self.replace(held, member, CHECK_FAILED)
            return
        member.status, member.message = "Failure", CHECK_FAILED
        self.join(held, member)
        self.settle(held)

    def _on_replace(self, cluster: str, node: str, instance: str, reason: str, status: str) -> None:
        """``status`` is the one that the node must still have; empty for any of a node that is not going already."""
        wanted = (status,) if status else ("Pending", "Failure", *STARTED)
        if alive := self.alive(cluster, node, instance, *wanted):
            self.replace(alive[0], alive[1], reason)

    def _on_rebooted(self, cluster: str, node: str, instance: str) -> None:
        if alive := self.alive(cluster, node, instance, "SystemUpdating"):
            alive[1].boots += 1
            self.run(*alive)
