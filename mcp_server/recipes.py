"""Recipes: which frameworks a training run may use."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, JsonValue, SkipValidation

from client.aio import GatewayProblem
from contracts import endpoints
from contracts.model import Model
from contracts.recipes.catalogue import RecipeInfo
from mcp_server.asker import Who
from mcp_server.problems import wrong_argument
from mcp_server.toolbox import Toolbox
from mcp_server.toolsets import Toolset

tools = Toolbox(Toolset.TRAINING)


class RecipeShown(Model):
    """A kind of recipe."""

    kind: str
    title: str
    description: str
    submissions: list[str]
    """Ways that it can be submitted, the usual one first."""
    image: str | None
    """What it runs in where a run names none; null: a run must name one."""
    defaults: dict[str, JsonValue]
    json_schema: dict[str, JsonValue] | None = None
    """Of `recipe` of training_submit; only of a kind that was asked for."""


class RecipesFound(Model):
    """Recipes that there are."""

    recipes: list[RecipeShown]


@tools.tool("List recipes", endpoints.LIST_RECIPES)
async def recipe_list(
    who: Who,
    kind: Annotated[SkipValidation[str | None], Field(description="Only this one, with its whole schema.")] = None,
) -> RecipesFound:
    """The frameworks that a training run may use: what each is for, how it can be submitted, its image and defaults.

    Use it to choose a framework with the user, or, with `kind`, to see what a recipe is asked with. training_submit
    runs one.
    """
    found = (await who.get(endpoints.LIST_RECIPES)).recipes
    if kind is None:
        return RecipesFound(recipes=[_shown(each, schema=False) for each in found])
    chosen = [each for each in found if each.kind == kind]
    if not chosen:
        kinds = ", ".join(each.kind for each in found)
        raise GatewayProblem(wrong_argument("kind", f"there is no recipe {kind!r}", f"Send one of {kinds}."))
    return RecipesFound(recipes=[_shown(each, schema=True) for each in chosen])


def _shown(recipe: RecipeInfo, *, schema: bool) -> RecipeShown:
    members: dict[str, Any] = recipe.model_dump(exclude=None if schema else {"json_schema"})
    return RecipeShown.model_validate(members)
