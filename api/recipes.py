"""Recipes of training runs."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter
from starlette.responses import Response

from api.auth import Reader
from contracts.recipes.catalogue import RecipeList, recipe_list

router = APIRouter(prefix="/api/v1/recipes", tags=["training"])


@cache
def _content() -> str:
    """It is the same for as long as the gateway runs."""
    return recipe_list().model_dump_json()


@router.get("", operation_id="list_recipes", response_model=RecipeList, summary="List recipes")
async def list_recipes(_: Reader) -> Response:
    """Which frameworks a training run may use: what each is asked with as a JSON schema, its defaults, the ways that it
    can be submitted, and the image that it runs in."""
    return Response(_content(), media_type="application/json")
