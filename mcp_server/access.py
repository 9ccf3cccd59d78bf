"""Who calls, who may call, and who did what.

No tool makes a token: its answer would carry a secret through the agent's conversation.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SkipValidation

from contracts import endpoints
from contracts.access import Caller, TokenList
from contracts.answers import AuditPage
from contracts.model import Model
from mcp_server.arguments import PageSize, PageToken
from mcp_server.asker import Who
from mcp_server.asking import Sure
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.AUDIT)


class Revoked(Model):
    """Whose token is worthless now."""

    name: str


@tools.tool("Who calls", endpoints.GET_CALLER)
async def access_get_caller(who: Who) -> Caller:
    """Name and role of the token that your calls carry, and your default cluster.

    Use it to tell what you may do: a viewer reads; what an agent starts waits for a person where it deletes or costs.
    """
    return await who.get(endpoints.GET_CALLER)


@tools.tool("List tokens", endpoints.LIST_TOKENS)
async def access_list_tokens(who: Who) -> TokenList:
    """Who has a token, and of which role, for administrators. The tokens themselves are kept nowhere.

    Tokens are made by `instantstart token add` or in the console, not by tools.
    """
    return await who.get(endpoints.LIST_TOKENS)


@tools.tool("Revoke a token", endpoints.REVOKE_TOKEN, destroys=True)
async def access_revoke_token(
    who: Who,
    sure: Sure,
    name: Annotated[SkipValidation[str], Field(description="Whose: a name of access_list_tokens.")],
) -> Revoked:
    """Make somebody's token, with its sessions, worthless at once, for administrators. Done when it answers.

    Use it only when the user has named the holder: whoever uses the token is locked out.
    """
    await who.get(endpoints.REVOKE_TOKEN, name=name)
    return Revoked(name=name)


@tools.tool("Read the audit trail", endpoints.LIST_AUDIT)
async def audit_list(who: Who, page_size: PageSize = None, page_token: PageToken = None) -> AuditPage:
    """Every request that changed something, every decision and every denial, the newest first, for administrators.

    Use it to find who did what. For what operations did, use operation_list and operation_get.
    """
    return await who.get(endpoints.LIST_AUDIT, page_size=page_size, page_token=page_token)
