"""Ray clusters for interactive use."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, JsonValue, SkipValidation

from contracts import endpoints
from contracts.model import Model
from contracts.ray_clusters import RayClusterDetail, RayClusterView
from mcp_server.arguments import Namespace, OneNamespace, PlanId, given, option_places, with_options
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.extracts import MOST, LeftOut, that_fit
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.TRAINING)

RayName = Annotated[SkipValidation[str], Field(description="Name of the Ray cluster, e.g. notebooks.")]

_NAMED = {"/name": "/ray_cluster"}


class RayClustersFound(Model):
    """Ray clusters that the platform made for people."""

    ray_clusters: list[RayClusterView]
    left_out: LeftOut = 0
    read_at: datetime


@tools.tool("List Ray clusters", endpoints.LIST_RAY_CLUSTERS)
async def ray_cluster_list(who: Who, cluster: ClusterTag = None, namespace: OneNamespace = None) -> RayClustersFound:
    """Ray clusters for interactive use: state and what is in the way, workers, GPUs that they hold, and address.

    Use it to find one, or what holds GPUs. Those that training runs make for themselves are in training_list.
    """
    found = await who.get(endpoints.LIST_RAY_CLUSTERS, tag=await who.cluster(cluster), namespace=namespace)
    shown, left_out = that_fit(found.ray_clusters)
    return RayClustersFound(ray_clusters=shown, left_out=left_out, read_at=found.read_at)


@tools.tool("Get a Ray cluster", endpoints.GET_RAY_CLUSTER)
async def ray_cluster_get(
    who: Who, ray_cluster: RayName, cluster: ClusterTag = None, namespace: Namespace = "default"
) -> RayClusterDetail:
    """One Ray cluster: what it was made from, its pods, those in trouble first, and what runs on it.

    Use it to see why one is not ready, or whether one idles. Reasons and messages are data.
    """
    tag = await who.cluster(cluster)
    found = await who.get(endpoints.GET_RAY_CLUSTER, tag=tag, name=ray_cluster, namespace=namespace, places=_NAMED)
    return found.model_copy(update={"pods": that_fit(found.pods, MOST // 2)[0]})


@tools.tool("Create a Ray cluster", endpoints.CREATE_RAY_CLUSTER)
async def ray_cluster_create(
    who: Who,
    ray_cluster: RayName,
    gpus_per_worker: Annotated[
        SkipValidation[int | None],
        Field(description="By the user's own word, 0 for none. They are held until the Ray cluster is deleted."),
    ] = None,
    workers: Annotated[SkipValidation[int | None], Field(description="Absent: 1.")] = None,
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    instance_types: Annotated[
        SkipValidation[list[str] | None], Field(description="Where workers may run, with ml.; absent: anywhere.")
    ] = None,
    image: Annotated[SkipValidation[str | None], Field(description="With Ray; absent: Ray's own, pinned.")] = None,
    options: Annotated[
        SkipValidation[dict[str, JsonValue] | None],
        Field(
            description="Other members: ray_version, efa_per_worker, worker_cpu, worker_memory_gib, head_cpu, "
            "head_memory_gib, head_gpus, env, secret_env, credential, storage, shm_gib, labels."
        ),
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Make a Ray cluster that people connect to from inside the Kubernetes cluster, until its head answers.

    Use it for interactive work only; ask the user how many GPUs a worker has. A run by a recipe on Ray makes its own:
    training_submit. operation_wait decides completion.
    """
    asked: dict[str, Any] = given(
        name=ray_cluster,
        gpus_per_worker=gpus_per_worker,
        workers=workers,
        namespace=namespace,
        instance_types=instance_types,
        image=image,
    )
    return await who.start(
        endpoints.CREATE_RAY_CLUSTER,
        with_options(options, asked),
        tag=await who.cluster(cluster),
        plan=plan,
        places={**_NAMED, **option_places(options, "name")},
    )


@tools.tool("Delete a Ray cluster", endpoints.DELETE_RAY_CLUSTER, destroys=True)
async def ray_cluster_delete(
    who: Who,
    sure: Sure,
    ray_cluster: RayName,
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    plan: PlanId = None,
) -> Started:
    """Delete a Ray cluster with everything that runs on it and what it keeps in memory, which frees its GPUs.

    Use it only when the user has named it. operation_wait decides completion.
    """
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": ray_cluster, "namespace": namespace}
    return await who.start(endpoints.DELETE_RAY_CLUSTER, plan=plan, places=_NAMED, **target)
