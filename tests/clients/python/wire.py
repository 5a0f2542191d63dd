"""The Tasks extension on top of the official Python SDK, which has no task client of its own.

The SDK offers two hooks: an extension may claim a result type of `tools/call`, and a session sends any request. Both are
used as they are, so that what travels is the SDK's framing: headers, `_meta`, and its checks of what comes back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from pydantic import ConfigDict, Field

TASKS = "io.modelcontextprotocol/tasks"
ENDED = ("completed", "failed", "cancelled")


class TaskFields(types.Result):
    """What every result about a task has. As strict as real clients: times and numbers are required."""

    model_config = ConfigDict(extra="allow", strict=True)

    task_id: str = Field(alias="taskId")
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    created_at: str = Field(alias="createdAt")
    last_updated_at: str = Field(alias="lastUpdatedAt")
    ttl_ms: int | None = Field(alias="ttlMs")
    status_message: str | None = Field(default=None, alias="statusMessage")
    poll_interval_ms: int | None = Field(default=None, alias="pollIntervalMs")


class CreatedTask(TaskFields):
    """The answer to `tools/call` when the call became a task."""

    result_type: Literal["task"] = Field(alias="resultType")


class DetailedTask(TaskFields):
    """The answer to `tasks/get`."""

    result_type: Literal["complete"] = Field(alias="resultType")
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = Field(default=None, alias="inputRequests")


class Acknowledged(types.Result):
    """The answer to `tasks/update` and `tasks/cancel`: it has nothing in it."""

    model_config = ConfigDict(extra="forbid")

    result_type: Literal["complete"] = Field(alias="resultType")


class TaskParams(types.RequestParams):
    task_id: str = Field(serialization_alias="taskId")


class AnswerParams(TaskParams):
    input_responses: dict[str, Any] = Field(serialization_alias="inputResponses")


class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams


class CancelTask(types.Request[TaskParams, Literal["tasks/cancel"]]):
    name_param = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams


class AnswerTask(types.Request[AnswerParams, Literal["tasks/update"]]):
    name_param = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: AnswerParams


class TasksExtension(ClientExtension):
    """Declares the extension, so that the server may answer with a task."""

    identifier = TASKS

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._refuse)]

    async def _refuse(self, result: CreatedTask, context: ClaimContext) -> types.CallToolResult:
        raise AssertionError("the driver follows its tasks itself")


async def get_task(session: ClientSession, task_id: str) -> DetailedTask:
    return await session.send_request(GetTask(params=TaskParams(task_id=task_id)), DetailedTask)


async def cancel_task(session: ClientSession, task_id: str) -> Acknowledged:
    return await session.send_request(CancelTask(params=TaskParams(task_id=task_id)), Acknowledged)


async def answer_task(session: ClientSession, task_id: str, answers: dict[str, Any]) -> Acknowledged:
    params = AnswerParams(task_id=task_id, input_responses=answers)
    return await session.send_request(AnswerTask(params=params), Acknowledged)


async def follow_task(
    session: ClientSession,
    task_id: str,
    answer: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    on_state: Callable[[DetailedTask], None] = lambda task: None,
) -> DetailedTask:
    """Polls until the task ends, as often as the server suggests, and answers what it asks, each key once."""
    answered: set[str] = set()
    while True:
        task = await get_task(session, task_id)
        on_state(task)
        if task.status in ENDED:
            return task
        asked = {key: request for key, request in (task.input_requests or {}).items() if key not in answered}
        if asked and answer is not None:
            await answer_task(session, task_id, {key: answer(request) for key, request in asked.items()})
            answered.update(asked)
        else:
            await anyio.sleep((task.poll_interval_ms or 500) / 1000)
