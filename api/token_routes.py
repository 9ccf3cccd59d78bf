"""Routes of tokens, for administrators."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from api.auth import TokenManager
from api.problems import refuse
from api.secret_guard import without_secrets
from api.services import Parts, reply
from api.session_routes import SECRET
from api.tokens import LastAdmin, NameTaken
from contracts.access import CreatedToken, CreateTokenRequest, TokenList, TokenView
from contracts.problem import ProblemCode

router = APIRouter(prefix="/api/v1/tokens", tags=["access"])

Name = Annotated[str, Path(description="Whose token it is.", examples=["alice"], max_length=64)]


@router.get("", operation_id="list_tokens", response_model=TokenList, summary="List tokens")
async def list_tokens(services: Parts, _: TokenManager) -> Response:
    """Who has a token, and of which role. The tokens themselves are not kept."""
    records = services.tokens.records()
    views = [TokenView(name=each.name, role=each.role, created_at=each.created_at) for each in records]
    return reply(TokenList(tokens=views))


@router.post("", operation_id="create_token", response_model=CreatedToken, status_code=201, summary="Make a token")
async def create_token(request: Request, services: Parts, _: TokenManager, body: CreateTokenRequest) -> Response:
    """A new token. It is seen once, in this answer."""
    without_secrets(body)
    request.state.audit_detail = f"{body.name}, {body.role}"
    try:
        token = await asyncio.to_thread(services.tokens.add, body.name, body.role)
    except NameTaken as error:
        raise refuse(
            ProblemCode.CONFLICT,
            f"{body.name} has a token already",
            field="/name",
            remedy="Choose another name, or revoke that token first.",
        ) from error
    return reply(CreatedToken(name=body.name, role=body.role, token=token), 201, SECRET)


@router.delete("/{name}", operation_id="revoke_token", status_code=204, summary="Revoke a token")
async def revoke_token(services: Parts, _: TokenManager, name: Name) -> Response:
    """Makes the token, its sessions and its tickets worthless at once."""
    try:
        await asyncio.to_thread(lambda: services.tokens.revoke(name, keep_admin=True))
    except KeyError as error:
        raise refuse(
            ProblemCode.NOT_FOUND, f"{name} has no token", remedy="GET /api/v1/tokens lists who has one."
        ) from error
    except LastAdmin as error:
        raise refuse(
            ProblemCode.CONFLICT,
            f"{name} is the last administrator: without its token nobody could make another one from here",
            remedy="Make a token for another administrator first.",
        ) from error
    return Response(status_code=204)
