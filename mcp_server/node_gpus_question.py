"""How many GPUs a training run uses of each node: asked for every run, and never guessed."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver.resolve import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from pydantic import BaseModel, Field, JsonValue

from client.aio import GatewayProblem
from contracts import endpoints
from contracts.preset_loading import reference
from contracts.problem import ProblemCode, problem
from contracts.training import ASK_FOR_GPUS, MOST_GPUS
from mcp_server.asker import Who
from mcp_server.asking import can_ask
from mcp_server.free_gpus import free_gpus
from mcp_server.problems import ASK_THE_USER, wrong_argument

MEMBER = "gpus_per_node"


async def _saved(who: Who, preset: JsonValue) -> dict[str, Any]:
    """What the preset holds; nothing where none is named. Raises GatewayProblem where there is no such preset."""
    if preset is None or preset == "":
        return {}
    try:
        name, version = reference(str(preset))
    except ValueError as error:
        raise GatewayProblem(wrong_argument("preset", str(error), "preset_list has their names.")) from None
    found = await who.get(
        endpoints.GET_PRESET, name=name, version=version, places={"/name": "/preset", "/version": "/preset"}
    )
    return dict(found.version.document)


Saved = Annotated[dict[str, Any], Resolve(_saved)]
"""A parameter of tools that begin with a preset, beside their ``preset``: what it holds."""


class NodeGpus(BaseModel):
    """The form."""

    gpus_per_node: Annotated[
        int, Field(ge=0, le=MOST_GPUS, title="GPUs of each node", description="That the run uses; 0: none.")
    ]


class Told(BaseModel):
    """The agent brought the number, or whatever it took for one, or the preset has it."""


async def _counted(
    who: Who,
    saved: Saved,
    run: JsonValue,
    gpus_per_node: JsonValue,
    options: JsonValue,
    nodes: JsonValue,
    cluster: str | None,
) -> Told | Elicit[NodeGpus]:
    """Ask the person where the client has forms, with what is free now."""
    if gpus_per_node is not None or MEMBER in saved or (isinstance(options, dict) and MEMBER in options):
        return Told()
    tag = await who.cluster(cluster)
    of = f"each of the {nodes} nodes" if isinstance(nodes, int) and nodes > 1 else "its node"
    facts = await free_gpus(who, tag)
    if can_ask(who.context):
        return Elicit(f"How many GPUs of {of} does the training run {run} use on cluster {tag}? {facts}", NodeGpus)
    raise GatewayProblem(
        wrong_argument(
            MEMBER,
            f"nobody has said how many GPUs of {of} the run uses. {facts}",
            f"{ASK_FOR_GPUS} {ASK_THE_USER} Show what is free.",
        )
    )


async def _gpus(said: Annotated[ElicitationResult[BaseModel], Resolve(_counted)]) -> NodeGpus | Told:
    """Raises GatewayProblem where the person gave no number."""
    match said:
        case AcceptedElicitation(data=NodeGpus() as filled):
            return filled
        case AcceptedElicitation():
            return Told()
        case _:
            raise GatewayProblem(
                problem(
                    ProblemCode.DENIED,
                    "the user was asked how many GPUs of each node the run uses, and did not say: nothing has been "
                    "done",
                    remedy="Ask the user what they want instead.",
                )
            )


Counted = Annotated[NodeGpus | Told, Resolve(_gpus)]
"""A parameter of tools that submit training runs, beside their ``gpus_per_node``."""


def number_of(counted: NodeGpus | Told, brought: int | None) -> int | None:
    """What is sent: the person's word where they were asked, else what the agent ``brought``."""
    return counted.gpus_per_node if isinstance(counted, NodeGpus) else brought
