"""SGLang routers before many model servers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, SkipValidation

from contracts import endpoints
from contracts.model import Model
from contracts.routers import RouterDetail, RouterTarget, RouterView
from mcp_server.arguments import Namespace, OneNamespace, PlanId, given, option_places, with_options
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.deployment_arguments import ConfirmPublic
from mcp_server.extracts import LeftOut, that_fit
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.SERVING)

RouterName = Annotated[SkipValidation[str], Field(description="Name of the router, e.g. chat-router.")]

_NAMED = {"/name": "/router"}


class RoutersFound(Model):
    """Routers of a cluster."""

    routers: list[RouterView]
    left_out: LeftOut = 0
    read_at: datetime


@tools.tool("List routers", endpoints.LIST_ROUTERS)
async def router_list(who: Who, cluster: ClusterTag = None, namespace: OneNamespace = None) -> RoutersFound:
    """The SGLang routers of a cluster: whom each sends requests to, how it chooses, replicas and Services.

    Use it to see what is before a deployment or pool. For the servers that one sees use router_get.
    """
    found = await who.get(endpoints.LIST_ROUTERS, tag=await who.cluster(cluster), namespace=namespace)
    shown, left_out = that_fit(found.routers)
    return RoutersFound(routers=shown, left_out=left_out, read_at=found.read_at)


@tools.tool("Get a router", endpoints.GET_ROUTER)
async def router_get(
    who: Who, router: RouterName, cluster: ClusterTag = None, namespace: Namespace = "default"
) -> RouterDetail:
    """One router: the servers that it sees, which of them are healthy, its pods and its numbers.

    Use it to see why requests do not reach a server.
    """
    tag = await who.cluster(cluster)
    found = await who.get(endpoints.GET_ROUTER, tag=tag, name=router, namespace=namespace, places=_NAMED)
    return found.model_copy(update={"workers": that_fit(found.workers)[0]})


@tools.tool("Create a router", endpoints.CREATE_ROUTER)
async def router_create(
    who: Who,
    router: RouterName,
    target: Annotated[
        SkipValidation[RouterTarget],
        Field(description="Whose pods: of a deployment, of a pool's service (pool and service), or by labels."),
    ],
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    policy: Annotated[
        SkipValidation[Literal["cache_aware", "round_robin", "random"] | None],
        Field(description="Absent: cache_aware, which sends equal beginnings to the same server."),
    ] = None,
    replicas: Annotated[SkipValidation[int | None], Field(description="Absent: 1.")] = None,
    service: Annotated[
        SkipValidation[Literal["in_cluster", "public"] | None],
        Field(description="Absent: in_cluster. public: a load balancer besides, in the VPC."),
    ] = None,
    public: Annotated[
        SkipValidation[Literal["internal", "internet-facing"] | None],
        Field(description="Of a public router; internet-facing needs confirm_public."),
    ] = None,
    confirm_public: ConfirmPublic = None,
    options: Annotated[
        SkipValidation[dict[str, JsonValue] | None],
        Field(
            description="Other members: worker_port, cache_threshold, balance_abs_threshold, balance_rel_threshold, "
            "eviction_interval_seconds, max_tree_size, image, port, metrics_port, cpu, memory_gib."
        ),
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Put an SGLang router before several model servers: one address, requests spread by what each has cached.

    Use it for a deployment or pool with more than one replica; one replica needs none. operation_wait decides
    completion: it sees every ready server, and one has answered through it.
    """
    body = given(
        name=router,
        target=target,
        namespace=namespace,
        policy=policy,
        replicas=replicas,
        service=service,
        public=public,
        confirm_public=confirm_public,
    )
    tag, places = await who.cluster(cluster), {**_NAMED, **option_places(options, "name")}
    return await who.start(endpoints.CREATE_ROUTER, with_options(options, body), tag=tag, plan=plan, places=places)


@tools.tool("Delete a router", endpoints.DELETE_ROUTER, destroys=True)
async def router_delete(
    who: Who,
    sure: Sure,
    router: RouterName,
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    plan: PlanId = None,
) -> Started:
    """Delete a router with its Services and account. The model servers behind it stay.

    Use it only when the user has named the router. operation_wait decides completion.
    """
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": router, "namespace": namespace}
    return await who.start(endpoints.DELETE_ROUTER, plan=plan, places=_NAMED, **target)
