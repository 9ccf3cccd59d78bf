"""Arguments that make a training run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, SkipValidation

from contracts.experiments import ExperimentTarget
from contracts.recipes import Recipe
from contracts.training_parts import QueuePlace
from mcp_server.arguments import given, option_places, with_options

RunName = Annotated[SkipValidation[str], Field(description="Name of the training run, e.g. qwen3-sft.")]
AnyRecipe = Annotated[
    SkipValidation[Recipe | None],
    Field(description="The framework and what it runs, by `kind`. Absent only with a preset, which has one."),
]
Types = Annotated[
    SkipValidation[list[str] | None],
    Field(description="The type of its nodes, with ml., e.g. [ml.g5.12xlarge]: one, and the user's choice."),
]
Nodes = Annotated[SkipValidation[int | None], Field(description="Absent: 1.")]
Gpus = Annotated[
    SkipValidation[int | None],
    Field(description="GPUs that it uses of each node, by the user's own word, 0 for none. Never guessed."),
]
Submission = Annotated[
    SkipValidation[Literal["hyperpod", "ray", "sagemaker"] | None],
    Field(description="Absent: the recipe's own (VERL: ray, else hyperpod). sagemaker: besides the cluster's nodes."),
]
Efa = Annotated[SkipValidation[int | None], Field(description="EFA interfaces of a node; absent: all that it has.")]
Image = Annotated[
    SkipValidation[str | None], Field(description="Absent: the recipe's, pinned. VERL and torchtitan need one.")
]
Environment = Annotated[
    SkipValidation[dict[str, str] | None], Field(description="Plain variables; secrets are credentials.")
]
SecretEnvironment = Annotated[
    SkipValidation[dict[str, str] | None], Field(description="Variable to the name of the credential that it holds.")
]
Credential = Annotated[
    SkipValidation[str | None], Field(description="Name of a stored Hugging Face token; never the token.")
]
CheckpointPath = Annotated[
    SkipValidation[str | None], Field(description="Where checkpoints go to, e.g. /s3/checkpoints/run.")
]
Queue = Annotated[SkipValidation[QueuePlace | None], Field(description="Its place where task governance is on.")]
Experiment = Annotated[SkipValidation[ExperimentTarget | None], Field(description="Where it reports metrics to.")]
Preset = Annotated[
    SkipValidation[str | None],
    Field(description="A saved run to begin with, NAME or NAME@VERSION; what is said here wins, part by part."),
]
Options = Annotated[
    SkipValidation[dict[str, JsonValue] | None],
    Field(
        description="Other members: storage, shm_gib, resources, labels, local_cache, recovery, log_monitoring, "
        "elastic, spares, tiered_checkpointing, checkpointless, keep_logs, deadline_hours, ray, sagemaker."
    ),
]


def placed(options: Any) -> dict[str, str]:
    """Where parts of a run come from among the arguments."""
    return {"/name": "/run", **option_places(options, "name")}


def members(options: Any, **others: Any) -> dict[str, Any]:
    """A run of what was given."""
    return with_options(options, given(**others))
