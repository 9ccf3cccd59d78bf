"""Which GPUs of a cluster are free, in words: what a person wants to know who says how many a model gets."""

from __future__ import annotations

from collections import defaultdict

from client.aio import GatewayProblem
from contracts import endpoints
from contracts.node_views import NodeView
from contracts.words import number_of
from mcp_server.asker import Asker

_MOST_NODES = 200


async def free_gpus(who: Asker, tag: str) -> str:
    """One sentence. Where the cluster's nodes cannot be read now, that it is not known."""
    try:
        page = await who.get(endpoints.LIST_NODES, tag=tag, page_size=_MOST_NODES)
    except GatewayProblem as error:
        return f"Which GPUs are free is not known now ({error.problem.detail})."
    return told(page.nodes, page.matching - len(page.nodes))


def told(nodes: list[NodeView], more: int = 0) -> str:
    """One sentence on ``nodes``, of which ``more`` there are."""
    free = defaultdict[str, list[int]](list)
    devices = defaultdict[str, int](int)
    for node in nodes:
        for resource in node.resources:
            if not resource.name.endswith("/gpu") or not resource.capacity:
                continue
            devices[node.instance_type] += resource.allocatable
            takes = node.ready and not node.unschedulable
            free[node.instance_type].append(max(0, resource.allocatable - resource.used) if takes else 0)
    if not free:
        return "The cluster has no GPUs now."
    parts = (
        f"{kind}: {sum(each)} of {devices[kind]} GPUs free on {number_of(len(each), 'node')}, "
        f"at most {max(each)} on one"
        for kind, each in sorted(free.items())
    )
    beyond = f" ({number_of(more, 'node')} more not looked at)" if more > 0 else ""
    return f"{'; '.join(parts)}{beyond}."
