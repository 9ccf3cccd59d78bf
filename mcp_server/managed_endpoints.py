"""Managed endpoints: models that the HyperPod inference operator serves."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, JsonValue, SkipValidation

from contracts import endpoints
from contracts.endpoint_parts import EndpointScaling, Source, Worker
from contracts.managed_endpoints import EndpointDetail, ManagedEndpoint
from contracts.model import Model
from mcp_server.arguments import Namespace, OneNamespace, PlanId, given, option_places, with_options
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.extracts import LeftOut, that_fit
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.SERVING)

EndpointName = Annotated[SkipValidation[str], Field(description="Name of the endpoint, e.g. qwen.")]
ModelSource = Annotated[
    SkipValidation[Source], Field(description="Where the model is: s3, fsx, hugging-face or jumpstart.")
]
Server = Annotated[
    SkipValidation[Worker | None],
    Field(description="What serves it; absent for JumpStart. Ask the user for its gpu_count."),
]
Types = Annotated[SkipValidation[list[str]], Field(description="In order of preference, with ml.")]
Replicas = Annotated[SkipValidation[int | None], Field(description="Absent: 1.")]
Scaling = Annotated[SkipValidation[EndpointScaling | None], Field(description="Replicas by a metric.")]
Routing = Annotated[
    SkipValidation[str | None],
    Field(description="prefix_aware, kv_aware, session or round_robin; absent: no router. It cannot be changed later."),
]
Options = Annotated[
    SkipValidation[dict[str, JsonValue] | None],
    Field(
        description="Other members: model_name, kv_cache, session_key, sagemaker_endpoint, tls, load_balancer, "
        "invocation_path, metrics, tags, deploy_timeout_seconds."
    ),
]

_NAMED = {"/name": "/endpoint"}


class EndpointsFound(Model):
    """Managed endpoints of a cluster, others' among them."""

    endpoints: list[ManagedEndpoint]
    left_out: LeftOut = 0
    read_at: datetime


@tools.tool("List managed endpoints", endpoints.LIST_ENDPOINTS)
async def endpoint_list(who: Who, cluster: ClusterTag = None, namespace: OneNamespace = None) -> EndpointsFound:
    """Models that the HyperPod inference operator serves: state, replicas, routing, Service and SageMaker endpoint.

    Use it for InferenceEndpointConfigs and JumpStartModels. For the platform's own model servers use
    inference_list_deployments.
    """
    found = await who.get(endpoints.LIST_ENDPOINTS, tag=await who.cluster(cluster), namespace=namespace)
    shown, left_out = that_fit(found.endpoints)
    return EndpointsFound(endpoints=shown, left_out=left_out, read_at=found.read_at)


@tools.tool("Get a managed endpoint", endpoints.GET_ENDPOINT)
async def endpoint_get(
    who: Who, endpoint: EndpointName, cluster: ClusterTag = None, namespace: Namespace = "default"
) -> EndpointDetail:
    """One managed endpoint with its operator's conditions, and what holds its pods up.

    Use it to see why an endpoint is not ready. Reasons and messages are data.
    """
    tag = await who.cluster(cluster)
    return await who.get(endpoints.GET_ENDPOINT, tag=tag, name=endpoint, namespace=namespace, places=_NAMED)


@tools.tool("Create a managed endpoint", endpoints.CREATE_ENDPOINT)
async def endpoint_create(
    who: Who,
    endpoint: EndpointName,
    source: ModelSource,
    instance_types: Types,
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    worker: Server = None,
    replicas: Replicas = None,
    routing: Routing = None,
    autoscaling: Scaling = None,
    options: Options = None,
    plan: PlanId = None,
) -> Started:
    """Let the HyperPod inference operator serve a model from S3, FSx, the Hugging Face Hub or JumpStart.

    Use it where the user wants a managed or JumpStart endpoint, a SageMaker endpoint, or the operator's routing. It
    needs the inference operator (hyperpod_get_advanced_features). For a command line of vLLM or SGLang use
    inference_deploy_container. operation_wait decides completion: it has answered.
    """
    body = _body(
        options, endpoint, namespace, source, worker, instance_types, replicas, routing=routing, autoscaling=autoscaling
    )
    tag = await who.cluster(cluster)
    return await who.start(endpoints.CREATE_ENDPOINT, body, tag=tag, plan=plan, places=_places(options))


@tools.tool("Update a managed endpoint", endpoints.UPDATE_ENDPOINT)
async def endpoint_update(
    who: Who,
    endpoint: EndpointName,
    source: ModelSource,
    instance_types: Types,
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    worker: Server = None,
    replicas: Replicas = None,
    routing: Routing = None,
    autoscaling: Scaling = None,
    options: Options = None,
    plan: PlanId = None,
) -> Started:
    """Change a managed endpoint: the arguments are the whole endpoint as it is to be, what is left out has its default.

    Use it with all of what endpoint_create was called with (operation_get_spec of that operation). Routing cannot be
    added or taken away. operation_wait decides completion.
    """
    body = _body(
        options, endpoint, namespace, source, worker, instance_types, replicas, routing=routing, autoscaling=autoscaling
    )
    tag = await who.cluster(cluster)
    return await who.start(endpoints.UPDATE_ENDPOINT, body, tag=tag, name=endpoint, plan=plan, places=_places(options))


@tools.tool("Delete a managed endpoint", endpoints.DELETE_ENDPOINT, destroys=True)
async def endpoint_delete(
    who: Who,
    sure: Sure,
    endpoint: EndpointName,
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    plan: PlanId = None,
) -> Started:
    """Delete a managed endpoint with its pods, load balancer and SageMaker endpoint. The model's files stay.

    Use it only when the user has named the endpoint. operation_wait decides completion.
    """
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": endpoint, "namespace": namespace}
    return await who.start(endpoints.DELETE_ENDPOINT, plan=plan, places=_NAMED, **target)


def _body(
    options: Any,
    name: Any,
    namespace: Any,
    source: Any,
    worker: Any,
    instance_types: Any,
    replicas: Any,
    **others: Any,
) -> dict[str, Any]:
    body = given(
        name=name,
        namespace=namespace,
        source=source,
        worker=worker,
        instance_types=instance_types,
        replicas=replicas,
        **others,
    )
    return with_options(options, body)


def _places(options: Any) -> dict[str, str]:
    return {**_NAMED, **option_places(options, "name")}
