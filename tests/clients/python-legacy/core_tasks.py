"""Drives a Longhaul server with the official Python SDK 1.30, which speaks the tasks of MCP 2025-11-25.

    python core_tasks.py --url http://127.0.0.1:8080/mcp [--login USER] FLOW

Flows: handshake, plain, task, cancel, fail, ask, plain_ask, list, no_list. The server has to offer the diagnostic tools.
Prints one line of JSON about what was seen; with --login also what logging in took. Exit code: 0 if the flow went as it should, 1 if not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import sys
import warnings
from collections.abc import AsyncIterator
from typing import Any

import anyio
import mcp.types as types
from mcp import ClientSession, McpError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamablehttp_client

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from login import Login

REVISION = "2025-11-25"
PATIENCE_S = 60
COUNTDOWN = {"seconds": 0.5}


def expect(is_true: bool, otherwise: str) -> None:
    if not is_true:
        raise AssertionError(otherwise)


async def fill_in(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"answer": f"my answer to {params.message}"})


def opened(url: str, login: Login | None) -> Any:
    """A URL that begins with `stdio:` is the command of a process that the client starts, instead."""
    if not url.startswith("stdio:"):
        return streamablehttp_client(url, auth=login.provider if login else None)
    program, *args = shlex.split(url.removeprefix("stdio:"))
    return stdio_client(StdioServerParameters(command=program, args=args, env=dict(os.environ)))


@contextlib.asynccontextmanager
async def connected(
    url: str, login: Login | None
) -> AsyncIterator[tuple[ClientSession, types.InitializeResult]]:
    async with opened(url, login) as (read, write, *_):
        async with ClientSession(read, write, elicitation_callback=fill_in) as session:
            initialized = await session.initialize()
            expect(initialized.protocolVersion == REVISION, f"the server speaks {initialized.protocolVersion}")
            yield session, initialized


async def created(session: ClientSession, tool: str, arguments: dict[str, Any]) -> types.Task:
    made = await session.experimental.call_tool_as_task(tool, arguments, ttl=7_200_000)
    expect(made.task.status == "working", f"a new task is {made.task.status}")
    return made.task


async def ended(session: ClientSession, task_id: str) -> str:
    async for status in session.experimental.poll_task(task_id):
        if status.status == "input_required":
            break
    return status.status


def text(result: types.CallToolResult) -> str:
    return result.content[0].text if result.content else ""


async def handshake(session: ClientSession, initialized: types.InitializeResult) -> dict[str, Any]:
    tasks = initialized.capabilities.tasks
    expect(tasks is not None and tasks.cancel is not None, "the server declares no tasks")
    listed = await session.list_tools()
    support = {tool.name: tool.execution.taskSupport if tool.execution else None for tool in listed.tools}
    expect(support["countdown"] == "optional" and support["echo"] == "forbidden", f"{support}")
    return {"taskSupport": support}


async def plain(session: ClientSession, _: types.InitializeResult) -> dict[str, Any]:
    result = await session.call_tool("echo", {"text": "hello"})
    expect("hello" in text(result), f"{result}")
    return {"text": text(result)}


async def task(session: ClientSession, _: types.InitializeResult) -> dict[str, Any]:
    # The result is asked for at once: the server keeps the stream open until the task has ended.
    made = await created(session, "countdown", COUNTDOWN)
    result = await session.experimental.get_task_result(made.taskId, types.CallToolResult)
    expect(not result.isError, f"{result}")
    status = await session.experimental.get_task(made.taskId)
    expect(status.status == "completed", f"the task is {status.status}")
    related = (result.meta or {}).get("io.modelcontextprotocol/related-task")
    expect(related == {"taskId": made.taskId}, f"related to {related}")
    return {"ttl": made.ttl, "status": status.status, "text": text(result)}


async def cancel(session: ClientSession, _: types.InitializeResult) -> dict[str, Any]:
    made = await created(session, "countdown", {"seconds": 120})
    cancelled = await session.experimental.cancel_task(made.taskId)
    expect(cancelled.status == "cancelled", f"the task is {cancelled.status}")
    try:
        await session.experimental.cancel_task(made.taskId)
    except McpError as error:
        expect(error.error.code == -32602, f"{error.error}")
        return {"again": error.error.message}
    raise AssertionError("a task was cancelled twice")


async def fail(session: ClientSession, _: types.InitializeResult) -> dict[str, Any]:
    made = await created(session, "fail", {"how": "tool_error"})
    result = await session.experimental.get_task_result(made.taskId, types.CallToolResult)
    expect(result.isError, f"{result}")
    status = await session.experimental.get_task(made.taskId)
    expect(status.status == "failed", f"the task is {status.status}")
    expect(bool(status.statusMessage), "nothing says why")
    return {"status": status.status, "statusMessage": status.statusMessage}


async def ask(session: ClientSession, _: types.InitializeResult) -> dict[str, Any]:
    made = await created(session, "ask", {"questions": ["one", "two"]})
    expect(await ended(session, made.taskId) == "input_required", "the task asks nothing")
    result = await session.experimental.get_task_result(made.taskId, types.CallToolResult)
    expect("my answer to" in text(result) and "two" in text(result), f"{result}")
    return {"text": text(result)}


async def plain_ask(session: ClientSession, _: types.InitializeResult) -> dict[str, Any]:
    result = await session.call_tool("ask", {"questions": ["one"]})
    expect("my answer to" in text(result), f"{result}")
    return {"text": text(result)}


async def list_tasks(session: ClientSession, _: types.InitializeResult) -> dict[str, Any]:
    made = await created(session, "countdown", COUNTDOWN)
    listed = await session.experimental.list_tasks()
    expect(made.taskId in [task.taskId for task in listed.tasks], f"{listed}")
    return {"tasks": len(listed.tasks)}


async def no_list(session: ClientSession, initialized: types.InitializeResult) -> dict[str, Any]:
    """A server with anonymous callers lists no tasks, and does not declare the list."""
    tasks = initialized.capabilities.tasks
    expect(tasks is not None and tasks.list is None, f"the server declares {tasks}")
    try:
        await session.experimental.list_tasks()
    except McpError as error:
        expect(error.error.code == -32601, f"{error.error}")
        return {"refused": error.error.message}
    raise AssertionError("tasks were listed")


FLOWS = {
    "handshake": handshake,
    "plain": plain,
    "task": task,
    "cancel": cancel,
    "fail": fail,
    "ask": ask,
    "plain_ask": plain_ask,
    "list": list_tasks,
    "no_list": no_list,
}


async def run(url: str, flow: str, user: str | None) -> dict[str, Any]:
    login = Login(url, user) if user else None
    with anyio.fail_after(PATIENCE_S):
        async with connected(url, login) as (session, initialized):
            line = await FLOWS[flow](session, initialized)
    return {**line, "login": {**login.counts, "scope": login.scope}} if login else line


def main() -> int:
    # The SDK warns that later versions have its tasks elsewhere.
    warnings.simplefilter("ignore", DeprecationWarning)
    parser = argparse.ArgumentParser(description="Drives a Longhaul server over MCP 2025-11-25")
    parser.add_argument("flow", choices=sorted(FLOWS))
    parser.add_argument("--url", required=True)
    parser.add_argument("--login")
    arguments = parser.parse_args()
    print(json.dumps({"flow": arguments.flow, **anyio.run(run, arguments.url, arguments.flow, arguments.login)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
