"""Drives a Longhaul server with the official Python SDK: one flow per run, one line of JSON about what was seen.

    python driver.py --url http://127.0.0.1:8080/mcp FLOW [--task-id ID] [--key KEY] [--key-in header|meta]
                     [--how HOW] [--seconds N] [--bytes N] [--timeout-s N] [--login USER] [--token TOKEN]

With --login the driver logs in where the server says so, and the line has what that took, as "login". The flows are those of ../ts/driver.mjs. The server has to offer the diagnostic tools.
Exit code: 0 if the flow went as it should, 1 if not, 2 for bad usage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
import mcp_types as types

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from login import Login
from wire import TASKS, CreatedTask, DetailedTask, TasksExtension, answer_task, cancel_task, follow_task, get_task

REVISION = "2026-07-28"
# A URL that begins so is the command of a process that the client starts, instead.
STDIO = "stdio:"
UNKNOWN_TASK = "01890000-0000-7000-8000-000000000000"
INVALID_PARAMS = -32602


@contextlib.asynccontextmanager
async def connected(
    url: str, headers: dict[str, str] | None = None, login: Login | None = None
) -> AsyncIterator[Client]:
    async with create_mcp_http_client(headers=headers, auth=login.provider if login else None) as http:
        transport = streamable_http_client(url, http_client=http)
        if url.startswith(STDIO):
            program, *args = shlex.split(url.removeprefix(STDIO))
            transport = stdio_client(StdioServerParameters(command=program, args=args, env=dict(os.environ)))

        async def never_asked(context: Any, params: Any) -> types.ElicitResult:
            raise AssertionError("a task is answered with tasks/update")

        async with Client(
            transport,
            mode="auto",
            read_timeout_seconds=30,
            elicitation_callback=never_asked,
            extensions=[TasksExtension()],
            cache=None,
        ) as client:
            expect(client.protocol_version == REVISION, f"the server speaks {client.protocol_version}")
            yield client


def expect(is_true: bool, otherwise: str) -> None:
    if not is_true:
        raise AssertionError(otherwise)


async def call_task(client: Client, tool: str, arguments: dict[str, Any], meta: Any = None) -> CreatedTask:
    result = await client.session.call_tool(tool, arguments, allow_claimed=True, meta=meta)
    expect(isinstance(result, CreatedTask), f"{tool} did not become a task: {result}")
    return result


def seen(task: DetailedTask) -> dict[str, Any]:
    return {
        "taskId": task.task_id,
        "status": task.status,
        "result": task.result,
        "error": task.error,
        "statusMessage": task.status_message,
        "ttlMs": task.ttl_ms,
    }


def countdown(seconds: float, steps: int = 5) -> dict[str, Any]:
    return {"seconds": seconds, "steps": steps}


async def code_of(request: Any) -> int | None:
    """The code of the error that the request is answered with, or `None` if it succeeds."""
    try:
        await request
    except MCPError as error:
        return error.error.code
    return None


async def list_tools(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    tools = sorted(tool.name for tool in (await client.list_tools()).tools)
    extension = (client.server_capabilities.extensions or {}).get(TASKS)
    expect(bool(tools), "no tool is listed")
    expect(extension is not None, "the tasks extension is not advertised")
    return {"tools": tools, "extension": extension}


async def plain(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    result = await client.call_tool("echo", {"text": "by the client"})
    text = result.content[0].text if result.content else None
    expect(text is not None and "by the client" in text, f"echo answered {text}")
    return {"texts": [text]}


async def task(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    created = await call_task(client, "countdown", countdown(settings.seconds))
    states: list[Any] = []
    ended = await follow_task(
        client.session, created.task_id, on_state=lambda seen: states.append([seen.status, seen.status_message])
    )
    expect(ended.status == "completed", f"the task ended {ended.status}")
    return {"states": states, **seen(ended)}


async def start(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    created = await call_task(client, "countdown", countdown(settings.seconds))
    return {"taskId": created.task_id}


async def resume(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    return seen(await follow_task(client.session, settings.task_id))


async def cancel(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    created = await call_task(client, "countdown", countdown(600, 600))
    await cancel_task(client.session, created.task_id)
    ended = await follow_task(client.session, created.task_id)
    expect(ended.status == "cancelled", f"the task ended {ended.status}")
    await cancel_task(client.session, created.task_id)  # the second time is acknowledged as well
    after = await get_task(client.session, created.task_id)
    expect(after.status == "cancelled", f"a second cancel made it {after.status}")
    return seen(after)


async def cancel_other(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    await cancel_task(client.session, settings.task_id)
    after = await get_task(client.session, settings.task_id)
    return {"taskId": settings.task_id, "status": after.status}


async def ask(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    asked = ["What is your name?", "What is your quest?"]
    created = await call_task(client, "ask", {"questions": asked})
    questions: list[str] = []

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        expect(request["method"] == "elicitation/create", f"asked by {request['method']}")
        form = types.ElicitRequest.model_validate(request).params
        questions.append(form.message)
        return {"action": "accept", "content": {"answer": f"answer {len(questions)}"}}

    ended = await follow_task(client.session, created.task_id, answer)
    expect(ended.status == "completed", f"the task ended {ended.status}")
    expect(len(questions) == len(asked), f"{len(questions)} questions arrived")
    result = json.dumps(ended.result)
    for at, question in enumerate(asked):
        expect(question in questions[at], f"question {at} was {questions[at]}")
        expect(f"answer {at + 1}" in result, f"the result has no answer {at + 1}")
    # An answer to a question that is no longer open is acknowledged and changes nothing.
    await answer_task(client.session, created.task_id, {"no-such-key": {"action": "cancel"}})
    return {"questions": questions, **seen(ended)}


async def fail(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    created = await call_task(client, "fail", {"how": settings.how, "after_s": 0})
    ended = await follow_task(client.session, created.task_id)
    if settings.how == "tool_error":
        expect(ended.status == "completed", f"a tool error ended {ended.status}")
        expect((ended.result or {}).get("isError") is True, "the result does not say isError")
    else:
        expect(ended.status == "failed", f"{settings.how} ended {ended.status}")
        expect(isinstance((ended.error or {}).get("code"), int), f"the error has no code: {ended.error}")
    return seen(ended)


async def unknown(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    task_id = settings.task_id or UNKNOWN_TASK
    answer = {"key": {"action": "accept", "content": {"answer": "x"}}}
    codes = {
        "get": await code_of(get_task(client.session, task_id)),
        "cancel": await code_of(cancel_task(client.session, task_id)),
        "update": await code_of(answer_task(client.session, task_id, answer)),
    }
    for name, code in codes.items():
        expect(code == INVALID_PARAMS, f"tasks/{name} of an unknown task answered {code}")
    return {"codes": codes}


async def idempotent(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    # With --key-in header the key is on every request of this client already.
    meta = {"dev.longhaul/idempotencyKey": settings.key} if settings.key_in == "meta" else None
    first = await call_task(client, "countdown", countdown(1), meta)
    again = await call_task(client, "countdown", countdown(1), meta)
    expect(again.task_id == first.task_id, "the retry became another task")
    ended = await follow_task(client.session, first.task_id)
    expect(ended.status == "completed", f"the task ended {ended.status}")
    other = await code_of(client.session.call_tool("countdown", countdown(2), allow_claimed=True, meta=meta))
    expect(other is not None, "another request with the same key was accepted")
    return {"otherRequest": other, **seen(ended)}


async def large(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    created = await call_task(client, "large_result", {"bytes": settings.bytes})
    ended = await follow_task(client.session, created.task_id)
    length = len(json.dumps(ended.result)) if ended.result is not None else None
    return {**seen(ended), "length": length, "result": None}


FLOWS = {
    "list": list_tools,
    "plain": plain,
    "task": task,
    "start": start,
    "resume": resume,
    "cancel": cancel,
    "cancel-other": cancel_other,
    "ask": ask,
    "fail": fail,
    "unknown": unknown,
    "idempotent": idempotent,
    "large": large,
}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flow", choices=FLOWS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--task-id")
    parser.add_argument("--key", default="driver-key")
    parser.add_argument("--key-in", choices=("header", "meta"), default="header")
    parser.add_argument("--how", default="tool_error")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--bytes", type=int, default=1_000_000)
    parser.add_argument("--timeout-s", type=float, default=60)
    parser.add_argument("--login")
    parser.add_argument("--token")
    settings = parser.parse_args()
    if settings.flow in ("resume", "cancel-other") and not settings.task_id:
        parser.error("this flow needs --task-id")
    return settings


async def run(settings: argparse.Namespace) -> dict[str, Any]:
    is_keyed = settings.flow == "idempotent" and settings.key_in == "header"
    headers = {"Idempotency-Key": settings.key} if is_keyed else {}
    if settings.token:
        headers["Authorization"] = f"Bearer {settings.token}"
    login = Login(settings.url, settings.login) if settings.login else None
    with anyio.fail_after(settings.timeout_s):
        async with connected(settings.url, headers, login) as client:
            line = await FLOWS[settings.flow](client, settings)
    return {**line, "login": {**login.counts, "scope": login.scope}} if login else line


def causes(error: BaseException) -> list[str]:
    """The errors inside a group, which is how the SDK's task groups report theirs."""
    if isinstance(error, BaseExceptionGroup):
        return [text for inner in error.exceptions for text in causes(inner)]
    return [f"{type(error).__name__}: {error}"]


def main() -> None:
    settings = parse()
    try:
        line = {"flow": settings.flow, "ok": True, **anyio.run(run, settings)}
    except Exception as error:
        line = {"flow": settings.flow, "ok": False, "error": "; ".join(causes(error))}
    print(json.dumps(line))
    sys.exit(0 if line["ok"] else 1)


if __name__ == "__main__":
    main()
