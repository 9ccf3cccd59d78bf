"""How many GPUs a replica takes: the one thing that is asked for every model server, and never guessed."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver.resolve import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from pydantic import BaseModel, Field, JsonValue

from client.aio import GatewayProblem
from contracts.deployments import ASK_FOR_GPUS, MOST_GPUS
from contracts.problem import ProblemCode, problem
from mcp_server.asker import Who
from mcp_server.asking import can_ask
from mcp_server.commands import parsed
from mcp_server.free_gpus import free_gpus
from mcp_server.problems import ASK_THE_USER, wrong_argument


class Gpus(BaseModel):
    """The form."""

    gpu_count: Annotated[
        int, Field(ge=0, le=MOST_GPUS, title="GPUs", description="Of one replica, all of one machine; 0: none.")
    ]


class Told(BaseModel):
    """The agent brought the number, or whatever it took for one."""


async def _counted(
    who: Who,
    command: str,
    gpu_count: JsonValue,
    cluster: str | None,
    engine: str | None,
    image: str | None,
    shell: str | None,
) -> Told | Elicit[Gpus]:
    """Ask the person where the client has forms, with what is free now."""
    if gpu_count is not None:
        return Told()
    tag = await who.cluster(cluster)
    found = await parsed(who, tag, command=command, engine=engine, image=image, shell=shell)
    model = found.command.model or "the model"
    used = "" if found.gpus_used is None else f" By its own words the command uses {found.gpus_used}."
    facts = f"{await free_gpus(who, tag)}{used}"
    if can_ask(who.context):
        return Elicit(f"How many GPUs does one replica of {model} take on cluster {tag}? {facts}", Gpus)
    raise GatewayProblem(
        wrong_argument(
            "gpu_count",
            f"nobody has said how many GPUs one replica of {model} takes. {facts}",
            f"{ASK_FOR_GPUS} {ASK_THE_USER} Show what is free; do not take the number from the command.",
        )
    )


async def _gpus(said: Annotated[ElicitationResult[BaseModel], Resolve(_counted)]) -> Gpus | Told:
    """Raises GatewayProblem where the person gave no number."""
    match said:
        case AcceptedElicitation(data=Gpus() as filled):
            return filled
        case AcceptedElicitation():
            return Told()
        case _:
            raise GatewayProblem(
                problem(
                    ProblemCode.DENIED,
                    "the user was asked how many GPUs a replica takes, and did not say: nothing has been done",
                    remedy="Ask the user what they want instead.",
                )
            )


Counted = Annotated[Gpus | Told, Resolve(_gpus)]
"""A parameter of tools that start model servers, beside their ``gpu_count``."""


def number_of(counted: Gpus | Told, brought: int | None) -> int | None:
    """What is sent: the person's word where they were asked, else what the agent ``brought``."""
    return counted.gpu_count if isinstance(counted, Gpus) else brought
