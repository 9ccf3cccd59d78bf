"""Model pools: servers that are loaded already, and are handed out to services."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.model import Model
from contracts.model_pools import ModelPoolDetail, ModelPoolView
from mcp_server import deployment_arguments as its
from mcp_server.arguments import Namespace, OneNamespace, PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.commands import name_of
from mcp_server.deployment_arguments import members, placed
from mcp_server.extracts import LeftOut, that_fit
from mcp_server.gpu_question import Counted, number_of
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox, as_is
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.SERVING)

PoolName = Annotated[SkipValidation[str], Field(description="Name of the pool, as model_pool_list has it.")]

_NAMED = {"/name": "/model_pool"}
_NAME_ALIASES = {"modelPool": as_is("model_pool")}


class PoolsFound(Model):
    """Model pools of a cluster."""

    model_pools: list[ModelPoolView]
    left_out: LeftOut = 0
    read_at: datetime


@tools.tool("List model pools", endpoints.LIST_MODEL_POOLS)
async def model_pool_list(who: Who, cluster: ClusterTag = None, namespace: OneNamespace = None) -> PoolsFound:
    """The model pools of a cluster: pods, how many are free, which service has how many, and what keeps it so.

    Use it before model_pool_assign. For single pods use model_pool_get.
    """
    found = await who.get(endpoints.LIST_MODEL_POOLS, tag=await who.cluster(cluster), namespace=namespace)
    shown, left_out = that_fit(found.model_pools)
    return PoolsFound(model_pools=shown, left_out=left_out, read_at=found.read_at)


@tools.tool("Get a model pool", endpoints.GET_MODEL_POOL, aliases=_NAME_ALIASES)
async def model_pool_get(
    who: Who, model_pool: PoolName, cluster: ClusterTag = None, namespace: Namespace = "default"
) -> ModelPoolDetail:
    """One pool with its pods: `business` is the service that each serves, `unassigned` or `leaving`.

    Use it to see why a service has fewer pods than it should.
    """
    tag = await who.cluster(cluster)
    found = await who.get(endpoints.GET_MODEL_POOL, tag=tag, name=model_pool, namespace=namespace, places=_NAMED)
    return found.model_copy(update={"pods": that_fit(found.pods)[0]})


@tools.tool(
    "Create a model pool",
    endpoints.CREATE_MODEL_POOL,
    endpoints.PARSE_COMMAND,
    endpoints.LIST_NODES,
    aliases={
        **{name: alias for name, alias in its.ALIASES.items() if name not in ("deploymentName", "serviceType")},
        **_NAME_ALIASES,
    },
)
async def model_pool_create(
    who: Who,
    counted: Counted,
    command: its.Command,
    gpu_count: its.Gpus = None,
    replicas: Annotated[SkipValidation[int | None], Field(description="How many pods; absent: 1.")] = None,
    cluster: ClusterTag = None,
    model_pool: Annotated[SkipValidation[str | None], Field(description="Its name; absent: after the model.")] = None,
    namespace: OneNamespace = None,
    image: its.Image = None,
    engine: its.Engine = None,
    shell: its.Shell = None,
    instance_types: its.Types = None,
    port: its.Port = None,
    credential: its.Credential = None,
    env: its.Environment = None,
    cpu: its.Cpu = None,
    memory_gib: its.Memory = None,
    options: its.Options = None,
    plan: PlanId = None,
) -> Started:
    """Start model servers without a Service, which model_pool_assign hands out to services in seconds.

    Use it where several services share one model and their load moves between them. Ask how many GPUs a pod takes. For
    one service use inference_deploy_container. operation_wait decides completion: a pod has answered.
    """
    tag = await who.cluster(cluster)
    name = await name_of(who, tag, model_pool, command=command, engine=engine, image=image, shell=shell)
    body = members(
        cpu,
        memory_gib,
        options,
        name=name,
        command=command,
        gpu_count=number_of(counted, gpu_count),
        namespace=namespace,
        replicas=replicas,
        image=image,
        engine=engine,
        shell=shell,
        instance_types=instance_types,
        port=port,
        credential=credential,
        env=env,
    )
    places = {**placed(options), **_NAMED}
    return await who.start(endpoints.CREATE_MODEL_POOL, body, tag=tag, plan=plan, places=places)


@tools.tool("Scale a model pool", endpoints.SCALE_MODEL_POOL, aliases=_NAME_ALIASES)
async def model_pool_scale(
    who: Who,
    model_pool: PoolName,
    replicas: Annotated[SkipValidation[int], Field(description="How many pods; at least as many as are assigned.")],
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    plan: PlanId = None,
) -> Started:
    """Set how many pods a pool has. Free ones go first; assigned ones stay.

    Use it before assigning more than are free. To hand pods out use model_pool_assign. operation_wait decides
    completion.
    """
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": model_pool, "namespace": namespace}
    return await who.start(endpoints.SCALE_MODEL_POOL, {"replicas": replicas}, plan=plan, places=_NAMED, **target)


@tools.tool("Assign a model pool's pods", endpoints.ASSIGN_MODEL_POOL, aliases=_NAME_ALIASES)
async def model_pool_assign(
    who: Who,
    model_pool: PoolName,
    assignments: Annotated[
        SkipValidation[dict[str, int]],
        Field(
            description="The whole wish, e.g. {chat: 2, search: 1}; a service that is not named gives its pods back."
        ),
    ],
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    public: Annotated[
        SkipValidation[dict[str, Literal["internal", "internet-facing"]] | None],
        Field(description="Services with a load balancer besides; internet-facing needs confirm_public."),
    ] = None,
    confirm_public: its.ConfirmPublic = None,
    keep_services: Annotated[
        SkipValidation[bool | None], Field(description="true: services without pods stay; absent: they are deleted.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Hand a pool's pods out to services, each a Service of that name. A pod that moves finishes its requests first.

    Use it to make, grow, shrink and end services of a pool: read model_pool_list, and send all that is to be. Show the
    user which services lose pods. operation_wait decides completion; try each with inference_call_model.
    """
    body = given(assignments=assignments, public=public, confirm_public=confirm_public, keep_services=keep_services)
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": model_pool, "namespace": namespace}
    return await who.start(endpoints.ASSIGN_MODEL_POOL, body, plan=plan, places=_NAMED, **target)


@tools.tool("Delete a model pool", endpoints.DELETE_MODEL_POOL, destroys=True, aliases=_NAME_ALIASES)
async def model_pool_delete(
    who: Who,
    sure: Sure,
    model_pool: PoolName,
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    plan: PlanId = None,
) -> Started:
    """Delete a model pool: its services first, then its pods, which frees their GPUs. The model's files stay.

    Use it only when the user has named the pool. operation_wait decides completion.
    """
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": model_pool, "namespace": namespace}
    return await who.start(endpoints.DELETE_MODEL_POOL, plan=plan, places=_NAMED, **target)
