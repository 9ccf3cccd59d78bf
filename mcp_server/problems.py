"""Errors as agents get them: the problem, and the tool to call next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import Field

from client.request import GatewayProblem
from contracts import deployments, ray_clusters, training
from contracts.model import Model
from contracts.problem import FieldError, Problem, ProblemCode, invalid


class NextTool(Model):
    """What to call after an error."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    why: str


_WHERE_NAMED = {
    "/job": NextTool(tool="job_list_all", why="see which Jobs the cluster has"),
    "/group": NextTool(tool="cluster_get_instance_groups", why="see which groups the cluster has"),
    "/node_group": NextTool(tool="cluster_get_instance_groups", why="see which groups the cluster has"),
    "/deployment": NextTool(tool="inference_list_deployments", why="see which deployments the cluster has"),
    "/service_name": NextTool(tool="inference_list_services", why="see which Services answer for models"),
    "/model_pool": NextTool(tool="model_pool_list", why="see which model pools the cluster has"),
    "/router": NextTool(tool="router_list", why="see which routers the cluster has"),
    "/endpoint": NextTool(tool="endpoint_list", why="see which managed endpoints the cluster has"),
    "/autoscaler": NextTool(tool="autoscaler_list", why="see which autoscalers the cluster has"),
    "/run": NextTool(tool="training_list", why="see which training runs the cluster has"),
    "/preset": NextTool(tool="preset_list", why="see which presets there are"),
    "/ray_cluster": NextTool(tool="ray_cluster_list", why="see which Ray clusters the cluster has"),
    "/tracking_server": NextTool(tool="tracking_server_list", why="see which tracking servers there are"),
    "/claim": NextTool(tool="s3_storage_list", why="see which claims the cluster has"),
    "/credential": NextTool(tool="credential_list", why="see which credentials the cluster has"),
}
"""By the argument that names what is not there."""


class ToolProblem(Model):
    """What a tool that failed answers with."""

    problem: Problem
    next: NextTool | None = None
    """Null: there is nothing to call; tell the user."""


ASK_THE_USER = "Ask the user: it is theirs to say, never to be guessed."
_THEIRS = frozenset(
    {deployments.ASK_FOR_GPUS, training.ASK_FOR_GPUS, training.ASK_FOR_TYPES, ray_clusters.ASK_FOR_GPUS}
)
"""Remedies of what only a person can say. The gateway's words are for everybody; an agent hears whom to ask."""


def failure(problem: Problem, tool: str | None) -> CallToolResult:
    """The result of a call of ``tool`` that met ``problem``; None: there is no such tool."""
    told = for_agents(problem)
    document = ToolProblem(problem=told, next=next_tool(told, tool) if tool is not None else None)
    return CallToolResult(
        content=[TextContent(type="text", text=document.model_dump_json(exclude_none=True))],
        structured_content=document.model_dump(mode="json", exclude_none=True),
        is_error=True,
    )


def for_agents(problem: Problem) -> Problem:
    """The problem, which says to ask the user where a choice that is a person's is missing."""
    errors = [
        error.model_copy(update={"remedy": f"{error.remedy} {ASK_THE_USER}"}) if error.remedy in _THEIRS else error
        for error in problem.errors
    ]
    remedy = f"{problem.remedy} {ASK_THE_USER}" if problem.remedy in _THEIRS else problem.remedy
    return problem.model_copy(update={"errors": errors, "remedy": remedy})


def next_tool(problem: Problem, tool: str) -> NextTool | None:
    """What an agent does best after ``tool`` met ``problem``."""
    if problem.operation is not None:
        return NextTool(
            tool="operation_get",
            arguments={"operation": problem.operation},
            why="this operation stands in the way or knows more; see what it does or waits for",
        )
    match problem.code:
        case ProblemCode.NOT_FOUND if tool.startswith("operation_"):
            return NextTool(tool="operation_list", why="see which operations there are")
        case ProblemCode.NOT_FOUND if problem.field in _WHERE_NAMED:
            return _WHERE_NAMED[problem.field]
        case ProblemCode.NOT_FOUND:
            return NextTool(tool="cluster_list_all", why="see which clusters there are")
        case ProblemCode.CAPACITY | ProblemCode.QUOTA:
            return NextTool(tool="cluster_get_available_instances", why="see what can be had now")
        case ProblemCode.STALE:
            return NextTool(tool="plan_make", why="the world has changed since the plan; show the user the new one")
        case ProblemCode.INVALID:
            return NextTool(tool=tool, why="call it again with the fields in `errors` corrected")
        case ProblemCode.UNAVAILABLE | ProblemCode.THROTTLED | ProblemCode.BUSY | ProblemCode.PROPAGATION:
            return NextTool(tool=tool, why="call it again in a few seconds; nothing is done twice")
        case ProblemCode.CREDENTIALS | ProblemCode.DENIED:
            return None
        case _:
            return NextTool(tool="operation_list", why="see what runs and what waits")


def moved(problem: Problem, places: Mapping[str, str]) -> Problem:
    """The problem with its pointers into the arguments of a tool. ``places``: where in them the parts of the request
    come from; the first that fits counts."""

    def place(pointer: str) -> str:
        for sent, argument in places.items():
            if pointer == sent or pointer.startswith(f"{sent}/"):
                return argument + pointer.removeprefix(sent)
        return pointer

    errors = [error.model_copy(update={"field": place(error.field)}) for error in problem.errors]
    field = None if problem.field is None else place(problem.field)
    return problem.model_copy(update={"field": field, "errors": errors})


def wrong_argument(name: str, detail: str, remedy: str) -> Problem:
    """The problem of one argument of a call."""
    return invalid([FieldError(field=f"/{name}", detail=detail, remedy=remedy)])


def unless(wrong: object, name: str, detail: str, remedy: str) -> None:
    """Raises GatewayProblem of the argument ``name`` where something is ``wrong``."""
    if wrong:
        raise GatewayProblem(wrong_argument(name, detail, remedy))
