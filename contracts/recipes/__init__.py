"""Recipes: which framework a training job runs. One module each, and one entry here.

How a job is submitted and kept alive is another matter (contracts/training.py). docs/recipes.md tells how to add one.
"""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from contracts.recipes.base import RecipeBase
from contracts.recipes.llama_factory import LlamaFactoryRecipe
from contracts.recipes.ms_swift import MsSwiftRecipe
from contracts.recipes.pytorch import PyTorchRecipe, ScriptRecipe
from contracts.recipes.torchtitan import TorchTitanRecipe
from contracts.recipes.verl import VerlRecipe

AnyRecipe = PyTorchRecipe | ScriptRecipe | LlamaFactoryRecipe | MsSwiftRecipe | VerlRecipe | TorchTitanRecipe
Recipe = Annotated[AnyRecipe, Field(discriminator="kind")]
RECIPES: dict[str, type[RecipeBase]] = {recipe.model_fields["kind"].default: recipe for recipe in get_args(AnyRecipe)}
"""By kind, in the order that people are shown them."""
