"""Models and data sets on a cluster's storage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.models import ModelList
from mcp_server.arguments import OneNamespace, PageToken, PlanId, given
from mcp_server.asker import ClusterTag, Who
from mcp_server.originals import never_a_token, unless_unset
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox, as_is
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.MODELS)


@tools.tool(
    "Download a model",
    endpoints.DOWNLOAD_MODEL,
    toolset=Toolset.DEFAULT,
    aliases={
        "modelId": "repository",
        "s3Storage": as_is("claim"),
        "memory": unless_unset("memory_gib"),
        "hfToken": never_a_token("hfToken"),
    },
)
async def model_download_enhanced(
    who: Who,
    repository: Annotated[
        SkipValidation[str], Field(description="Of the Hugging Face Hub, owner/name, e.g. Qwen/Qwen3-0.6B.")
    ],
    cluster: ClusterTag = None,
    claim: Annotated[
        SkipValidation[str | None], Field(description="The claim that it goes to; absent: s3-claim.")
    ] = None,
    namespace: OneNamespace = None,
    path: Annotated[
        SkipValidation[str | None], Field(description="Folder on the claim; absent: models/owner-name.")
    ] = None,
    repository_type: Annotated[
        SkipValidation[Literal["model", "dataset"] | None], Field(description="Absent: model.")
    ] = None,
    revision: Annotated[SkipValidation[str | None], Field(description="Branch, tag or commit; absent: main.")] = None,
    include: Annotated[
        SkipValidation[list[str] | None], Field(description="Globs of files to take, e.g. [*.safetensors, *.json].")
    ] = None,
    exclude: Annotated[SkipValidation[list[str] | None], Field(description="Globs of files to leave out.")] = None,
    credential: Annotated[
        SkipValidation[str | None],
        Field(description="Name of a stored token, for a gated or private repository; never the token."),
    ] = None,
    cpu: Annotated[SkipValidation[float | None], Field(description="CPUs of the Job; absent: 2.")] = None,
    memory_gib: Annotated[SkipValidation[int | None], Field(description="GiB of the Job; absent: 8.")] = None,
    instance_types: Annotated[
        SkipValidation[list[str] | None], Field(description="Nodes of these types only; absent: any.")
    ] = None,
    deadline_hours: Annotated[
        SkipValidation[float | None], Field(description="Absent: by the repository's size.")
    ] = None,
    plan: PlanId = None,
) -> Started:
    """Download a model or data set of the Hugging Face Hub to a cluster's storage, where pods see it under /s3.

    Use it for large models that are deployed more than once. Files that are there are not downloaded again. A model
    server can also fetch a model by itself: then it is not needed. operation_wait decides completion, not a Job's end:
    every file was seen on the storage.
    """
    body = given(
        repository=repository,
        repository_type=repository_type,
        revision=revision,
        include=include,
        exclude=exclude,
        claim=claim,
        namespace=namespace,
        path=path,
        credential=credential,
        cpu=cpu,
        memory_gib=memory_gib,
        instance_types=instance_types,
        deadline_hours=deadline_hours,
    )
    return await who.start(endpoints.DOWNLOAD_MODEL, body, tag=await who.cluster(cluster), plan=plan)


@tools.tool("List models", endpoints.LIST_MODELS)
async def models_list(
    who: Who,
    cluster: ClusterTag = None,
    claim: Annotated[SkipValidation[str | None], Field(description="Only of this claim; absent: of all on S3.")] = None,
    namespace: OneNamespace = None,
    page_size: Annotated[SkipValidation[int], Field(description="Entries in one answer, at most 200.")] = 30,
    page_token: PageToken = None,
) -> ModelList:
    """Models and data sets on a cluster's S3 claims, and the downloads that run: path below the mount, commit, size.

    Use it before model_download_enhanced, and to find the path that a deployment reads. For single files use
    s3_storage_list_contents. What is on FSx only pods can see.
    """
    return await who.get(
        endpoints.LIST_MODELS,
        tag=await who.cluster(cluster),
        claim=claim,
        namespace=namespace,
        page_size=page_size,
        page_token=page_token,
    )
