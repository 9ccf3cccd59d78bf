"""UpdateClusterSoftware: nodes get another image, batch by batch, and the old one again where that fails.

API: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateClusterSoftware.html. A node keeps its instance
and its name and loses its root volume. Without a rolling policy a group is one batch.
"""

from __future__ import annotations

import math
import uuid
from typing import Any

from sandbox import timings
from sandbox.aws.call import Call
from sandbox.aws.hyperpod.checks import Checks, invalid
from sandbox.aws.hyperpod.recovery import Recovery
from sandbox.aws.hyperpod.state import DEFAULT_IMAGE, Cluster, Group, Image, Node, Rollout

EVENTS = ("software-batch", "software-updated")
ENDED = ("", "Succeeded", "Failed", "RollbackComplete")
FAILED = "The instance did not start with the new image."


class Software(Checks, Recovery):
    """The operation, and what it sets going. UNVERIFIED in the details listed in ``checks.UNVERIFIED``."""

    def listen(self) -> None:
        super().listen()
        self.listen_to(EVENTS)

    def UpdateClusterSoftware(self, call: Call) -> Any:
        p, cluster = call.params, self.cluster(call)
        self.require_idle(cluster, "updated")
        self.require_no_checks(cluster)
        chosen = {g["InstanceGroupName"]: g for g in p.get("InstanceGroups") or []}
        if unknown := [g for g in chosen if g not in cluster.groups]:
            invalid(f"Instance group {unknown[0]} does not exist in cluster {cluster.name}.")
        groups = [g for g in cluster.groups.values() if (not chosen or g.name in chosen) and not g.deleting]
        custom = [g.name for g in groups if g.image.id != DEFAULT_IMAGE]
        if custom and not p.get("ImageId"):
            invalid(f"ImageId is required: instance group {custom[0]} uses a custom AMI.")
        if not groups:
            return {"ClusterArn": cluster.arn}
        for group in groups:
            wanted = self.image(p.get("ImageId"), chosen.get(group.name, {}).get("ImageReleaseVersion"))
            group.rollout = Rollout(str(uuid.uuid4()), p.get("DeploymentConfig") or {}, group.current_image)
            group.image, group.software_status = wanted, "Pending"
            self._next_batch(cluster, group, timings.SOFTWARE_UPDATE_START)
        cluster.status = "SystemUpdating"
        return {"ClusterArn": cluster.arn}

    def image(self, image_id: str | None, release: str | None) -> Image:
        """What a request means: HyperPod's newest release unless it says otherwise."""
        if image_id and image_id != DEFAULT_IMAGE:
            return Image(image_id, release or "")
        return Image(DEFAULT_IMAGE, release or self.state.release)

    def _next_batch(self, cluster: Cluster, group: Group, seconds: float) -> None:
        assert group.rollout is not None
        self.after(seconds, "software-batch", cluster, group=group.name, rollout=group.rollout.id)

    def _rolling(self, cluster: str, group: str, rollout: str) -> tuple[Cluster, Group, Rollout] | None:
        held = self.find(cluster)
        found = held.groups.get(group) if held is not None else None
        if held is None or found is None or found.rollout is None or found.rollout.id != rollout:
            return None
        return held, found, found.rollout

    def _on_software_batch(self, cluster: str, group: str, rollout: str) -> None:
        """Start the next batch, or end."""
        if not (rolling := self._rolling(cluster, group, rollout)):
            return
        held, found, current = rolling
        if found.software_status == "Pending":
            found.software_status = "InProgress"
        running = [n for n in held.members(group) if n.status == "Running"]
        if current.back is None:
            left = [n for n in running if n.logical_id not in current.done]
        else:
            left = [n for n in running if n.logical_id in current.back]
        if not left:
            self._end(held, found, "Succeeded" if current.back is None else "RollbackComplete")
            return
        batch = left[: _batch_size(current, len(held.members(group)))]
        for node in batch:
            node.status, node.pending = "SystemUpdating", "SoftwareUpdate"
            self.join(held, node)
        self.after(
            timings.NODE_SOFTWARE_UPDATE,
            "software-updated",
            held,
            group=group,
            rollout=rollout,
            nodes=[[n.logical_id, n.instance_id] for n in batch],
        )

    def _on_software_updated(self, cluster: str, group: str, rollout: str, nodes: list[list[str]]) -> None:
        """A batch is through: on with the next, or back."""
        if not (rolling := self._rolling(cluster, group, rollout)):
            return
        held, found, current = rolling
        failed = []
        for logical_id, instance_id in nodes:
            if not (alive := self.alive(cluster, logical_id, instance_id, "SystemUpdating")):
                continue
            node = alive[1]
            if self._breaks(group):
                failed.append(node)
                continue
            node.image, node.updated, node.boots = found.image, self.world.now(), node.boots + 1
            if current.back is None:
                current.done.add(logical_id)
            else:
                current.back.discard(logical_id)
            self.run(held, node)
        wait = float(current.config.get("WaitIntervalInSeconds") or 0)
        if not failed:
            self._next_batch(held, found, wait)
        elif current.back is not None:
            for node in failed:
                self._report(held, node)
                node.status, node.message, node.pending = "Failure", FAILED, ""
                self.join(held, node)
            self._end(held, found, "Failed")
        else:
            self._roll_software_back(held, found, current, failed)

    def _roll_software_back(self, cluster: Cluster, group: Group, rollout: Rollout, failed: list[Node]) -> None:
        """Current and desired image change places, and the nodes that have the new one get the old one again."""
        for node in failed:
            self._report(cluster, node)
            # On its root volume is the image that does not start; it is in the first batch of the way back.
            node.image, node.status, node.pending = group.image, "Running", ""
        group.image, group.current_image = rollout.before, group.image
        rollout.back = rollout.done | {n.logical_id for n in failed}
        group.software_status = "RollbackInProgress"
        self._on_software_batch(cluster.arn, group.name, rollout.id)

    def _end(self, cluster: Cluster, group: Group, status: str) -> None:
        group.software_status, group.rollout, group.current_image = status, None, group.image
        if cluster.status == "SystemUpdating" and not any(g.rollout for g in cluster.groups.values()):
            cluster.status = "InService"
        self.settle(cluster)

    def _breaks(self, group: str) -> bool:
        left = self.state.broken_software.get(group, 0)
        if left > 0:
            self.state.broken_software[group] = left - 1
        return left > 0

    def _report(self, cluster: Cluster, node: Node) -> None:
        detail = {"Instance": {"FailureMessage": FAILED, "NodeLogicalId": node.logical_id}}
        description = f"Software update of instance {node.instance_id} failed"
        self.event(cluster, description, "Error", node=node, metadata=detail)


def _batch_size(rollout: Rollout, members: int) -> int:
    """How many nodes at once; a percentage is of the group's nodes, rounded up."""
    policy = rollout.config.get("RollingUpdatePolicy") or {}
    size = policy.get("MaximumBatchSize")
    if rollout.back is not None:
        size = policy.get("RollbackMaximumBatchSize") or size
    if not size:
        return members
    if size["Type"] == "INSTANCE_COUNT":
        return int(size["Value"])
    return max(1, math.ceil(members * int(size["Value"]) / 100))
