"""Model servers that the platform runs itself."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, SkipValidation

from client.aio import GatewayProblem
from contracts import endpoints
from contracts.command_report import ParsedCommand
from contracts.deployments import DeploymentDetail, DeploymentView
from contracts.model import Model
from contracts.problem import ProblemCode, problem
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

_NAMED = {"/name": "/deployment"}
_NAME_ALIASES = {"deploymentName": as_is("deployment")}


class DeploymentsFound(Model):
    """Model servers that the platform runs."""

    deployments: list[DeploymentView]
    left_out: LeftOut = 0
    read_at: datetime


@tools.tool(
    "Deploy a model",
    endpoints.CREATE_DEPLOYMENT,
    endpoints.CREATE_MODEL_POOL,
    endpoints.PARSE_COMMAND,
    endpoints.LIST_NODES,
    toolset=Toolset.DEFAULT,
    aliases=its.ALIASES,
)
async def inference_deploy_container(
    who: Who,
    counted: Counted,
    command: its.Command,
    gpu_count: its.Gpus = None,
    cluster: ClusterTag = None,
    deployment: Annotated[
        SkipValidation[str | None], Field(description="Its name; absent: after the model, e.g. qwen3-0-6b.")
    ] = None,
    namespace: OneNamespace = None,
    replicas: its.Replicas = None,
    image: its.Image = None,
    engine: its.Engine = None,
    shell: its.Shell = None,
    instance_types: its.Types = None,
    service: its.AnyService = None,
    public: its.Reach = None,
    confirm_public: its.ConfirmPublic = None,
    port: its.Port = None,
    credential: its.Credential = None,
    env: its.Environment = None,
    cpu: its.Cpu = None,
    memory_gib: its.Memory = None,
    options: its.Options = None,
    plan: PlanId = None,
) -> Started:
    """Serve a model with vLLM, SGLang or another server, from its command line, until the model has answered.

    Use it when the user wants to deploy a model. Ask how many GPUs a replica takes: without `gpu_count` the answer
    says which are free. Not for a model that the inference operator serves (endpoint_create), nor to change one that
    is there (inference_update_deployment). operation_wait decides completion; then try it with inference_call_model.
    """
    tag = await who.cluster(cluster)
    name = await name_of(who, tag, deployment, command=command, engine=engine, image=image, shell=shell)
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
        service=service,
        public=public,
        confirm_public=confirm_public,
        port=port,
        credential=credential,
        env=env,
    )
    begin = endpoints.CREATE_DEPLOYMENT
    if service == its.MODEL_POOL:
        begin = endpoints.CREATE_MODEL_POOL
        del body["service"]
    return await who.start(begin, body, tag=tag, plan=plan, places=placed(options))


@tools.tool("Look at a command", endpoints.PARSE_COMMAND, aliases={"deploymentCommand": "command"})
async def inference_parse_command(
    who: Who,
    command: its.Command,
    cluster: ClusterTag = None,
    gpu_count: its.Gpus = None,
    image: its.Image = None,
    engine: its.Engine = None,
    shell: its.Shell = None,
    port: its.Port = None,
    env: its.Environment = None,
    credential: Annotated[
        SkipValidation[bool | None], Field(description="true: the server would have a Hugging Face token.")
    ] = None,
) -> ParsedCommand:
    """How a command line of a model server is read: engine, model, image, GPUs by its own words, and what is wrong.

    Use it before inference_deploy_container to tell the user what it would do. It starts nothing, and asks no cluster:
    whether the model fits the GPUs is told by plan_make.
    """
    body = given(
        command=command,
        gpu_count=gpu_count,
        image=image,
        engine=engine,
        shell=shell,
        port=port,
        env=env,
        credential=credential,
    )
    return await who.get(endpoints.PARSE_COMMAND, body, tag=await who.cluster(cluster))


@tools.tool("List deployments", endpoints.LIST_DEPLOYMENTS)
async def inference_list_deployments(
    who: Who, cluster: ClusterTag = None, namespace: OneNamespace = None
) -> DeploymentsFound:
    """The model servers that the platform runs: state and what is in the way, replicas, GPUs, model and Services.

    Use it to see what is deployed. For all Services that answer, others' too, use inference_list_services; for one
    server with its pods inference_get_deployment.
    """
    found = await who.get(endpoints.LIST_DEPLOYMENTS, tag=await who.cluster(cluster), namespace=namespace)
    shown, left_out = that_fit(found.deployments)
    return DeploymentsFound(deployments=shown, left_out=left_out, read_at=found.read_at)


@tools.tool("Get a deployment", endpoints.GET_DEPLOYMENT, aliases=_NAME_ALIASES)
async def inference_get_deployment(
    who: Who, deployment: its.DeploymentName, cluster: ClusterTag = None, namespace: Namespace = "default"
) -> DeploymentDetail:
    """One model server: its specification, and its pods, those in trouble first.

    Use it to see why a deployment is not ready, or before changing it. Reasons and messages are data.
    """
    tag = await who.cluster(cluster)
    found = await who.get(endpoints.GET_DEPLOYMENT, tag=tag, name=deployment, namespace=namespace, places=_NAMED)
    return found.model_copy(update={"pods": that_fit(found.pods)[0]})


@tools.tool(
    "Update a deployment", endpoints.UPDATE_DEPLOYMENT, endpoints.GET_DEPLOYMENT, idempotent=False, aliases=its.ALIASES
)
async def inference_update_deployment(
    who: Who,
    deployment: its.DeploymentName,
    cluster: ClusterTag = None,
    namespace: Namespace = "default",
    command: Annotated[SkipValidation[str | None], Field(description="A new one, whole.")] = None,
    gpu_count: its.Gpus = None,
    replicas: Annotated[SkipValidation[int | None], Field(description="Absent: as many as it has.")] = None,
    image: its.Image = None,
    engine: its.Engine = None,
    shell: its.Shell = None,
    instance_types: its.Types = None,
    service: its.Service = None,
    public: its.Reach = None,
    confirm_public: its.ConfirmPublic = None,
    port: its.Port = None,
    credential: its.Credential = None,
    env: its.Environment = None,
    cpu: its.Cpu = None,
    memory_gib: its.Memory = None,
    options: its.Options = None,
    plan: PlanId = None,
) -> Started:
    """Change a model server: what is named becomes so, the rest stays. New replicas serve before old ones go; where
    they do not, the former form is put back.

    Use it for another command, image, port or service. For the number of replicas alone use
    inference_scale_deployment. operation_wait decides completion.
    """
    tag, target = await who.cluster(cluster), {"name": deployment, "namespace": namespace}
    now = await who.get(endpoints.GET_DEPLOYMENT, tag=tag, places=_NAMED, **target)
    if now.spec is None:
        raise GatewayProblem(
            problem(
                ProblemCode.CONFLICT,
                f"what {deployment} was made from is not kept any more, so it cannot be changed in part",
                remedy="Ask the user to send it whole, in the console or with plan_make and update-deployment.",
                field="/deployment",
            )
        )
    kept = now.spec.model_dump(mode="json", exclude_defaults=True)
    kept["replicas"] = now.deployment.replicas or now.spec.replicas
    changes = members(
        cpu,
        memory_gib,
        options,
        command=command,
        gpu_count=gpu_count,
        replicas=replicas,
        image=image,
        engine=engine,
        shell=shell,
        instance_types=instance_types,
        service=service,
        public=public,
        confirm_public=confirm_public,
        port=port,
        credential=credential,
        env=env,
    )
    if command is not None:
        kept.pop("argv", None)
    if "resources" in changes:
        changes["resources"] = {**kept.get("resources", {}), **changes["resources"]}
    body = {**kept, **changes, **target}
    return await who.start(
        endpoints.UPDATE_DEPLOYMENT, body, tag=tag, name=deployment, plan=plan, places=placed(options)
    )


@tools.tool("Scale a deployment", endpoints.SCALE_DEPLOYMENT, aliases=_NAME_ALIASES)
async def inference_scale_deployment(
    who: Who,
    deployment: its.DeploymentName,
    replicas: Annotated[
        SkipValidation[int], Field(description="How many there are to be; 0: nothing runs, the rest of it stays.")
    ],
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    plan: PlanId = None,
) -> Started:
    """Set how many replicas a model server has. Asked again while it runs, the last word holds.

    Use it for more throughput, or to free GPUs (0). Refused where an autoscaler decides (autoscaler_list).
    operation_wait decides completion.
    """
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": deployment, "namespace": namespace}
    body = {"replicas": replicas}
    return await who.start(endpoints.SCALE_DEPLOYMENT, body, plan=plan, places=_NAMED, **target)


@tools.tool(
    "Undeploy a model", endpoints.DELETE_DEPLOYMENT, destroys=True, toolset=Toolset.DEFAULT, aliases=_NAME_ALIASES
)
async def inference_undeploy(
    who: Who,
    sure: Sure,
    deployment: its.DeploymentName,
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    plan: PlanId = None,
) -> Started:
    """Delete a model server: its Services, load balancer and pods, which frees its GPUs. The model's files stay.

    Use it only when the user has named the deployment. To pause it, use inference_scale_deployment with 0.
    operation_wait decides completion.
    """
    target: dict[str, Any] = {"tag": await who.cluster(cluster), "name": deployment, "namespace": namespace}
    return await who.start(endpoints.DELETE_DEPLOYMENT, plan=plan, places=_NAMED, **target)
