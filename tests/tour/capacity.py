"""Capacity of a cluster that exists: instance groups, nodes and their software, EKS node groups, Karpenter."""

from __future__ import annotations

from contracts import endpoints
from contracts.operation import Phase
from tests.durability.runs import wait_for
from tests.tour.founding import SINGLE, TAG, ZONE
from tests.tour.traveller import Traveller

GROUP = "more"
REFUSAL = {"service": "sagemaker", "code": "AccessDeniedException", "status": 400, "message": "not today"}


def groups(traveller: Traveller, agent: Traveller) -> None:
    """A group that an agent asks for, in a zone that has no capacity; scaled, changed, and not deleted yet."""
    given = {"tag": TAG, "group": GROUP}
    shortage(traveller, {"us-west-2b": 0})
    wish = {"name": GROUP, "instance_type": SINGLE, "count": 1, "availability_zone": "us-west-2b"}
    asked = agent.ask(endpoints.ADD_INSTANCE_GROUP, wish, tag=TAG)
    plan = agent.until_phase(asked, Phase.WAITING_FOR_APPROVAL).plan_hash
    traveller.call(endpoints.APPROVE_OPERATION, {"plan_hash": plan, "reason": "it fits"}, id=asked)
    traveller.until_phase(asked, Phase.WAITING_FOR_DECISION)
    remedy = {"kind": "zone", "availability_zone": ZONE}
    traveller.call(endpoints.DECIDE_OPERATION, {"answer": {"remedy": remedy}}, id=asked)
    traveller.done(asked, "approved")

    deletion = agent.ask(endpoints.DELETE_INSTANCE_GROUP, **given)
    agent.until_phase(deletion, Phase.WAITING_FOR_APPROVAL)
    traveller.call(endpoints.REJECT_OPERATION, {"reason": "it is needed"}, id=deletion)
    traveller.ended(deletion, Phase.ABORTED, "rejected")

    shortage(traveller, {ZONE: 0})
    scaling = traveller.ask(endpoints.SCALE_INSTANCE_GROUP, {"count": 3}, **given)
    traveller.until_phase(scaling, Phase.WAITING_FOR_DECISION)
    assert traveller.ask(endpoints.SCALE_INSTANCE_GROUP, {"count": 2}, **given) == scaling
    shortage(traveller, {})
    traveller.done(scaling, "superseded")
    traveller.do(endpoints.SCALE_INSTANCE_GROUP, {"count": 3}, **given)
    traveller.do(endpoints.UPDATE_INSTANCE_GROUP, {"labels": {"example.com/pool": GROUP}}, **given)
    traveller.call(endpoints.LIST_INSTANCE_GROUPS, tag=TAG)
    traveller.call(endpoints.GET_OPTIONS, region="us-west-2", instance_type=[SINGLE])


def shortage(traveller: Traveller, free: dict[str, int]) -> None:
    """How many instances of the group's type each zone has; what is not named has enough."""
    body = {zone: {SINGLE: count} for zone, count in free.items()}
    traveller.stack.sandbox.put("/capacity", json=body).raise_for_status()


def nodes(traveller: Traveller) -> None:
    """Nodes of that group, each refused at first: skipped, aborted, terminated while another operation waits for it."""
    given = {"tag": TAG}
    found = traveller.call(endpoints.LIST_NODES, group=GROUP, **given).nodes
    reboot, replace, delete = (str(each.name) for each in found)
    traveller.call(endpoints.GET_NODE, node=reboot, **given)

    traveller.fault(operation="BatchRebootClusterNodes", **REFUSAL)
    asked = traveller.ask(endpoints.REBOOT_NODES, {"nodes": [reboot]}, **given)
    traveller.blocked(asked, "request")
    traveller.resolve(endpoints.SKIP_STAGE, asked, {})
    traveller.done(asked, "skipped")
    traveller.do(endpoints.REBOOT_NODES, {"nodes": [reboot], "drain": True}, **given)

    traveller.fault(operation="BatchReplaceClusterNodes", **REFUSAL)
    asked = traveller.ask(endpoints.REPLACE_NODES, {"nodes": [replace]}, **given)
    traveller.blocked(asked, "request")
    traveller.resolve(endpoints.ABORT_OPERATION, asked, {"reason": "another day"})
    traveller.ended(asked, Phase.ABORTED, "aborted")
    traveller.do(endpoints.REPLACE_NODES, {"nodes": [replace]}, **given)

    traveller.fault(operation="BatchDeleteClusterNodes", **REFUSAL)
    asked = traveller.ask(endpoints.DELETE_NODES, {"nodes": [delete]}, **given)
    traveller.blocked(asked, "request")
    waiting = traveller.ask(endpoints.UPDATE_SOFTWARE, {"groups": [GROUP]}, **given)
    traveller.until_phase(waiting, Phase.QUEUED)
    traveller.at(asked, lambda operation: operation.terminate("the tour gives it up"))
    traveller.ended(asked, Phase.ABORTED, "terminated")
    traveller.done(waiting, "queued")
    traveller.do(endpoints.DELETE_NODES, {"nodes": [delete]}, **given)
    traveller.call(endpoints.GET_SOFTWARE, **given)
    traveller.do(endpoints.DELETE_INSTANCE_GROUP, group=GROUP, **given)


def eks_groups(traveller: Traveller) -> None:
    given = {"tag": TAG, "name": "cpus"}
    wish = {"name": "cpus", "instance_types": ["m6i.xlarge"], "scaling": {"desired": 1}}
    traveller.do(endpoints.CREATE_NODE_GROUP, wish, tag=TAG)
    traveller.do(endpoints.SCALE_NODE_GROUP, {"desired": 2}, **given)
    traveller.call(endpoints.LIST_NODE_GROUPS, tag=TAG)
    traveller.do(endpoints.DELETE_NODE_GROUP, **given)


def pools(traveller: Traveller) -> None:
    """A group that Karpenter scales from zero."""
    wish = {"name": "elastic", "instance_type": SINGLE, "count": 0, "availability_zone": ZONE}
    traveller.do(endpoints.ADD_INSTANCE_GROUP, wish, path="empty", tag=TAG)
    traveller.do(endpoints.CREATE_NODE_POOL, {"name": "elastic", "instance_groups": ["elastic"]}, tag=TAG)
    traveller.call(endpoints.LIST_NODE_POOLS, tag=TAG)
    traveller.do(endpoints.DELETE_NODE_POOL, tag=TAG, name="elastic")


def renewed(traveller: Traveller) -> None:
    """The cluster's entity goes on with a short history."""
    entity = f"cluster/{TAG}"

    def run_id() -> str:
        return traveller.at(entity, lambda handle: handle.describe()).run_id

    before = run_id()
    traveller.at(entity, lambda handle: handle.signal("renew"))
    wait_for(lambda: run_id() != before)
