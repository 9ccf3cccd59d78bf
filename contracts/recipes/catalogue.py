"""What faces are told of recipes: which there are, and how to ask for one."""

from __future__ import annotations

from typing import Any

from pydantic import Field, JsonValue

from contracts.model import Model
from contracts.recipes import RECIPES
from contracts.recipes.base import RecipeBase


class RecipeInfo(Model):
    """A kind of recipe."""

    kind: str
    title: str
    description: str
    submissions: list[str]
    """Paths that it may take, the usual one first."""
    image: str | None
    """What it runs in where the run names none; null: the run must name one."""
    json_schema: dict[str, JsonValue]
    """Of ``recipe``, as a run takes it."""
    defaults: dict[str, JsonValue]
    """What holds where nothing is said."""


class RecipeList(Model):
    """All recipes."""

    recipes: list[RecipeInfo] = Field(default_factory=list)


def recipe_list() -> RecipeList:
    return RecipeList(recipes=[_info(kind, recipe) for kind, recipe in RECIPES.items()])


def _info(kind: str, recipe: type[RecipeBase]) -> RecipeInfo:
    return RecipeInfo(
        kind=kind,
        title=recipe.title,
        description=" ".join((recipe.__doc__ or "").split()),
        submissions=list(recipe.submissions),
        image=recipe.image,
        json_schema=recipe.model_json_schema(),
        defaults=_defaults(recipe),
    )


def _defaults(recipe: type[RecipeBase]) -> dict[str, Any]:
    return {
        name: field.get_default(call_default_factory=True, validated_data={})
        for name, field in recipe.model_fields.items()
        if not field.is_required()
    }
