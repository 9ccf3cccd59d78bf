"""Credentials of a cluster: their names. A token comes in by the console or the command line, and by no tool."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.credentials import CredentialList
from mcp_server.arguments import OneNamespace, PlanId
from mcp_server.asker import ClusterTag, Who
from mcp_server.asking import Sure
from mcp_server.started import Started
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.MODELS)


@tools.tool("List credentials", endpoints.LIST_CREDENTIALS)
async def credential_list(who: Who, cluster: ClusterTag = None) -> CredentialList:
    """Names of the tokens that a cluster keeps for the Hugging Face Hub, with what uses them; never the tokens.

    Use it for a gated or private model: send a name as `credential`. Where there is none, the user stores it in the
    console or on the command line: never ask for a token here.
    """
    return await who.get(endpoints.LIST_CREDENTIALS, tag=await who.cluster(cluster))


@tools.tool("Delete a credential", endpoints.DELETE_CREDENTIAL, destroys=True)
async def credential_delete(
    who: Who,
    sure: Sure,
    credential: Annotated[SkipValidation[str], Field(description="Its name, as credential_list has it.")],
    cluster: ClusterTag = None,
    namespace: OneNamespace = None,
    plan: PlanId = None,
) -> Started:
    """Delete a stored token. Refused while something refers to it.

    Use it only when the user has named the credential. operation_wait decides completion.
    """
    tag, places = await who.cluster(cluster), {"/name": "/credential"}
    return await who.start(
        endpoints.DELETE_CREDENTIAL, tag=tag, name=credential, namespace=namespace, plan=plan, places=places
    )
