"""MinInstanceCount: how many instances a group needs to become InService, and what follows where it does not get them.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html: three hours, then
back to zero instances (a new group) or to the previous settings (one that was there).
"""

from __future__ import annotations

from typing import Any

from sandbox import timings
from sandbox.aws.hyperpod.lifecycle import Lifecycle
from sandbox.aws.hyperpod.state import Cluster, Group

EVENTS = ("minimum",)


class Minimum(Lifecycle):
    """Watching over the minimum of each group."""

    def listen(self) -> None:
        super().listen()
        self.listen_to(EVENTS)

    def expect_minimum(self, cluster: Cluster, group: Group, before: tuple[dict[str, Any], int] | None) -> None:
        """Await the group's minimum; ``before`` is what the group was, None for a new one."""
        group.attempt += 1
        group.failed = False
        group.established = cluster.current(group.name) >= group.minimum
        group.before = None if group.established else before
        if not group.established:
            self.after(timings.MINIMUM_COUNT_LIMIT, "minimum", cluster, group=group.name, attempt=group.attempt)

    def _on_minimum(self, cluster: str, group: str, attempt: int) -> None:
        held = self.find(cluster)
        found = held.groups.get(group) if held is not None else None
        if held is None or found is None or found.attempt != attempt or found.established or held.status == "Deleting":
            return
        message = (
            f"Instance group {group} has {held.current(group)} instances and did not reach its MinInstanceCount of "
            f"{found.minimum} within 3 hours."
        )
        before = self.targets(held)
        if found.before is None:
            found.spec, found.target, found.failed = {**found.spec, "InstanceCount": 0}, 0, True
        else:
            found.spec, found.target = found.before
        found.established, found.before = True, None
        metadata = {"InstanceGroup": {"FailureMessage": message}}
        self.event(held, f"Instance group {group} was rolled back", "Error", group, metadata=metadata)
        self.begin_scaling(held, before)
        self.reconcile(held, found)
        self.settle(held)
