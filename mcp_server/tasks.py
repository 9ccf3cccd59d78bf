"""The protocol's extension for tasks (2026-07-28, SEP-2663): an operation is a task, and its ID is the task's.

Nothing is kept here: what a task is follows from its operation. Clients that do not declare the extension never notice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import httpx
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.elicitation import render_elicitation_schema
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    RequestParams,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.alias_generators import to_camel

from client.aio import GatewayProblem
from contracts import endpoints
from contracts.endpoints import Endpoint
from contracts.operation import Operation, Phase, Stage, StageState
from contracts.problem import Problem, ProblemCode, field_errors, invalid
from contracts.requests import AbortRequest, DecideRequest, RetryRequest, SkipRequest
from mcp_server.asker import gateway_for
from mcp_server.asking import Form, has_forms
from mcp_server.operations import followed, line
from mcp_server.problems import failure
from mcp_server.started import started, what_next

IDENTIFIER = "io.modelcontextprotocol/tasks"
POLL_MILLISECONDS = 5000
MODERN = frozenset(MODERN_PROTOCOL_VERSIONS)

Context = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    """Which task is read or cancelled."""

    task_id: str = Field(min_length=1, max_length=600)


class UpdateParams(TaskParams):
    """Answers to what a task asks, by the keys that tasks/get told."""

    input_responses: dict[str, ElicitResult]


class TaskStatus(StrEnum):
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    """Also where the operation has failed: ``failed`` is for errors of the protocol alone."""
    CANCELLED = "cancelled"


class Task(BaseModel):
    """A task as every answer about it has it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    task_id: str
    status: TaskStatus
    status_message: str
    created_at: datetime
    last_updated_at: datetime
    ttl_ms: int | None = None
    """Null: operations are kept for as long as Temporal keeps them."""
    poll_interval_ms: int = POLL_MILLISECONDS

    @classmethod
    def of(cls, operation: Operation, asked: Sequence[Ask]) -> Task:
        """``asked``: what the client is asked for."""
        match operation.phase:
            case Phase.SUCCEEDED | Phase.FAILED:
                status = TaskStatus.COMPLETED
            case Phase.ABORTED:
                status = TaskStatus.CANCELLED
            case _:
                status = TaskStatus.INPUT_REQUIRED if asked else TaskStatus.WORKING
        if status is TaskStatus.INPUT_REQUIRED:
            message = " ".join(ask.message for ask in asked)
        elif operation.phase.needs_attention or operation.phase.ended:
            message = what_next(operation)
        else:
            message = line(operation)
        return cls(
            task_id=operation.id,
            status=status,
            status_message=message,
            created_at=operation.started_at,
            last_updated_at=operation.updated_at,
        )

    def wire(self) -> dict[str, Any]:
        """As it is sent: with ``ttlMs`` also where it is null."""
        return self.model_dump(mode="json", by_alias=True)


@dataclass(frozen=True)
class Ask:
    """Something that an operation asks for, as a form."""

    key: str
    """Never used again for anything else."""
    message: str
    form: type[BaseModel]
    answer: Callable[[Any], tuple[Endpoint[Operation], BaseModel]]
    """From what was filled in: what is sent to the gateway."""

    def request(self) -> dict[str, Any]:
        """As tasks/get sends it."""
        form = ElicitRequestFormParams(message=self.message, requested_schema=render_elicitation_schema(self.form))
        return ElicitRequest(params=form).model_dump(mode="json", by_alias=True, exclude_none=True)


def asks(operation: Operation) -> list[Ask]:
    """What an operation waits for that a form can answer. (Approvals are given where the plan is seen.)"""
    found = [_unblocking(stage) for stage in operation.stages if stage.state is StageState.BLOCKED]
    if (asked := operation.decision) is not None:
        form = Form(asked)
        found.insert(
            0,
            Ask(
                f"{asked.id}@{asked.asked_at.isoformat()}",
                asked.question,
                form.model,
                lambda filled: (
                    endpoints.DECIDE_OPERATION,
                    DecideRequest(decision=asked.id, answer=form.answer(filled)),
                ),
            ),
        )
    return found


def _unblocking(stage: Stage) -> Ask:
    """What should become of a blocked stage."""
    kind: Any = Literal["retry", "skip", "abort"] if stage.skippable else Literal["retry", "abort"]
    about = Field(title="What now?", description="Try the stage again, or end the operation; what exists stays.")
    form = create_model("Unblocking", action=(kind, about))

    def answer(filled: Any) -> tuple[Endpoint[Operation], BaseModel]:
        match filled.action:
            case "retry":
                return endpoints.RETRY_OPERATION, RetryRequest(stage=stage.name, attempt=stage.attempt)
            case "skip":
                return endpoints.SKIP_STAGE, SkipRequest(stage=stage.name, attempt=stage.attempt)
            case _:
                return endpoints.ABORT_OPERATION, AbortRequest(reason=f"stage {stage.name} was blocked")

    said = stage.problem
    why = f"{said.detail}. {said.remedy or ''}".strip() if said is not None else ""
    return Ask(f"{stage.name}#{stage.attempt}", f"{stage.title} is blocked. {why}".strip(), form, answer)


class Tasks(Extension):
    """Serves operations as tasks. ``http``, ``token``: as :class:`mcp_server.asker.Face` has them; ``starting``: the
    tools that start an operation."""

    identifier = IDENTIFIER

    def __init__(self, http: httpx.AsyncClient, token: str | None, starting: Collection[str]) -> None:
        self._http = http
        self._token = token
        self._starting = frozenset(starting)

    def methods(self) -> Sequence[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self._get, MODERN),
            MethodBinding("tasks/update", UpdateParams, self._update, MODERN),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, MODERN),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """An operation that was started and goes on is answered as a task, where the client knows tasks."""
        result = await call_next(ctx)
        if params.name not in self._starting or not _declared(ctx) or not isinstance(result, CallToolResult):
            return result
        if result.is_error or result.structured_content is None:
            return result
        try:
            operation = await self._operation(ctx, result.structured_content["operation"])
        except MCPError:
            return result  # it runs, and this answer says how to follow it
        return result if operation.phase.ended else {"resultType": "task", **self._task(ctx, operation).wire()}

    async def _get(self, ctx: Context, params: TaskParams) -> HandlerResult:
        require_client_extension(ctx, IDENTIFIER)
        operation = await self._operation(ctx, params.task_id)
        task = self._task(ctx, operation)
        document = task.wire()
        match task.status:
            case TaskStatus.INPUT_REQUIRED:
                document["inputRequests"] = {ask.key: ask.request() for ask in asks(operation)}
            case TaskStatus.COMPLETED:
                document["result"] = _result(operation).model_dump(mode="json", by_alias=True, exclude_none=True)
        return document

    async def _update(self, ctx: Context, params: UpdateParams) -> HandlerResult:
        """Answers to what is not asked any more are ignored, as the protocol has it; so is no answer."""
        require_client_extension(ctx, IDENTIFIER)
        for ask in asks(await self._operation(ctx, params.task_id)):
            said = params.input_responses.get(ask.key)
            if said is None or said.action != "accept":
                continue
            try:
                endpoint, body = ask.answer(ask.form.model_validate(said.content or {}))
            except ValidationError as error:
                raise _error(invalid(field_errors(error))) from None
            await self._call(ctx, endpoint, body, id=params.task_id)
        return {}

    async def _cancel(self, ctx: Context, params: TaskParams) -> HandlerResult:
        require_client_extension(ctx, IDENTIFIER)
        operation = await self._operation(ctx, params.task_id)
        if not operation.phase.ended:
            body = AbortRequest(reason="the client cancelled the task")
            await self._call(ctx, endpoints.ABORT_OPERATION, body, id=params.task_id)
        return {}

    def _task(self, ctx: Context, operation: Operation) -> Task:
        return Task.of(operation, asks(operation) if has_forms(ctx.session.client_capabilities) else [])

    async def _operation(self, ctx: Context, identifier: str) -> Operation:
        return await self._call(ctx, endpoints.GET_OPERATION, id=identifier)

    async def _call(self, ctx: Context, endpoint: Endpoint[Operation], *body: BaseModel, **options: Any) -> Operation:
        """What the gateway answers this caller. Raises MCPError with the problem as its data."""
        gateway = gateway_for(self._http, self._token, getattr(ctx.request, "headers", None))
        try:
            return await gateway.call(endpoint, *body, **options)
        except GatewayProblem as error:
            raise _error(error.problem) from None


def _declared(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    declared = capabilities.extensions if capabilities is not None else None
    return ctx.protocol_version in MODERN and IDENTIFIER in (declared or {})


def _error(problem: Problem) -> MCPError:
    wrong = problem.code in (ProblemCode.INVALID, ProblemCode.NOT_FOUND)
    data = problem.model_dump(mode="json", exclude_none=True)
    return MCPError(INVALID_PARAMS if wrong else INTERNAL_ERROR, problem.detail, data)


def _result(operation: Operation) -> CallToolResult:
    """What the tool that started it would have answered if it had waited: of the shape that the tool promises, with the
    whole operation as text."""
    if operation.phase is Phase.FAILED and operation.problem is not None:
        return failure(operation.problem.model_copy(update={"operation": operation.id}), "operation_get")
    whole = TextContent(type="text", text=followed(operation).model_dump_json())
    return CallToolResult(
        content=[whole],
        structured_content=started(operation, "operation_get").model_dump(mode="json"),
        is_error=operation.phase is Phase.FAILED,
    )
