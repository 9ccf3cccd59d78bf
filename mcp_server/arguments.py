"""Arguments that several tools take.

Their types are shown to agents and not enforced here: what was sent goes to the gateway, which judges it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SkipValidation

PageSize = Annotated[SkipValidation[int | None], Field(description="Entries in one answer, at most 200.")]
PageToken = Annotated[SkipValidation[str | None], Field(description="next_page_token of the answer before.")]
PlanId = Annotated[
    SkipValidation[str | None],
    Field(description="`plan` of an answer of plan_make: starts only if that plan still holds."),
]
Region = Annotated[SkipValidation[str | None], Field(description="AWS region; absent: the deployment's default.")]

GroupName = Annotated[SkipValidation[str], Field(description="Name of the instance group, e.g. workers.")]
InstanceType = Annotated[
    SkipValidation[str], Field(description="HyperPod's name of the type, with ml., e.g. ml.g6.4xlarge.")
]
Zone = Annotated[
    SkipValidation[str | None],
    Field(description="Availability Zone by name or ID, e.g. us-west-2c; absent: one that offers the type."),
]
CapacityKind = Annotated[
    SkipValidation[Literal["on-demand", "spot", "training-plan"] | None],
    Field(description="How it is bought; absent: on demand. Cannot be changed later."),
]
TrainingPlanName = Annotated[
    SkipValidation[str | None], Field(description="Name or ARN of the training plan to take the capacity from.")
]
VolumeSize = Annotated[SkipValidation[int | None], Field(description="Size of each node's volume in GiB; absent: 500.")]
SubnetId = Annotated[
    SkipValidation[str | None], Field(description="Compute subnet to use; absent: one that fits, or a new one.")
]
Namespace = Annotated[SkipValidation[str], Field(description="Kubernetes namespace.")]
OneNamespace = Annotated[
    SkipValidation[str | None], Field(description="Kubernetes namespace; absent: default, of lists all.")
]


def given(**members: Any) -> dict[str, Any]:
    """A request's body: what was given of it, and nothing else, so that the gateway's defaults hold."""
    return {name: value for name, value in members.items() if value is not None}


def with_options(options: Any, body: dict[str, Any]) -> dict[str, Any]:
    """A body with the members that came together as the argument ``options``; what was said by itself wins."""
    return {**(options if isinstance(options, dict) else {}), **body}


def option_places(options: Any, *own: str) -> dict[str, str]:
    """Where problems of members that came as ``options`` point to. ``own``: members that are arguments themselves."""
    named = options if isinstance(options, dict) else {}
    return {f"/{name}": f"/options/{name}" for name in named if name not in own}


def capacity(kind: Any, training_plan: Any) -> dict[str, Any] | None:
    """How capacity is bought, as instance groups have it; None: it was not said."""
    if kind is None and training_plan is None:
        return None
    return given(kind="training-plan" if kind is None else kind, training_plan=training_plan)


CAPACITY_PLACES = {"/capacity/training_plan": "/training_plan", "/capacity/kind": "/capacity"}
"""Where problems of :func:`capacity` point to."""
