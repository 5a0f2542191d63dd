"""Drives a Longhaul server with FastMCP's client, which follows tasks by itself and sends no `Mcp-Name` with them.

    python fastmcp_driver.py --url http://127.0.0.1:8080/mcp FLOW [--seconds N] [--timeout-s N]

Flows: list plain task cancel ask fail. One flow per run, one line of JSON about what was seen.
Exit code: 0 if the flow went as it should, 1 if not, 2 for bad usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task


def expect(is_true: bool, otherwise: str) -> None:
    if not is_true:
        raise AssertionError(otherwise)


async def list_tools(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    tools = sorted(tool.name for tool in await client.list_tools())
    expect(bool(tools), "no tool is listed")
    return {"tools": tools}


async def plain(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    text = (await client.call_tool("echo", {"text": "by FastMCP"})).content[0].text
    expect("by FastMCP" in text, f"echo answered {text}")
    return {"texts": [text]}


async def task(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    arguments = {"seconds": settings.seconds, "steps": 5}
    followed = await client.call_tool("countdown", arguments)
    expect(not followed.is_error, f"countdown answered {followed}")
    started = await call_tool_task(client, "countdown", arguments)
    ended = await started.wait(timeout=settings.timeout_s)
    expect(ended.status == "completed", f"the task ended {ended.status}")
    return {"taskId": started.task_id, "status": ended.status, "result": ended.result}


async def cancel(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    started = await call_tool_task(client, "countdown", {"seconds": 600, "steps": 600})
    await started.cancel()
    ended = await started.wait(timeout=settings.timeout_s)
    expect(ended.status == "cancelled", f"the task ended {ended.status}")
    return {"taskId": started.task_id, "status": ended.status}


async def ask(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    result = await client.call_tool("ask", {"questions": ["What is your name?", "What is your quest?"]})
    text = json.dumps([block.text for block in result.content if block.type == "text"])
    for at, message in enumerate(settings.questions):
        expect(f"answer {at + 1}" in text, f"the result has no answer to {message}: {text}")
    expect(len(settings.questions) == 2, f"the questions were {settings.questions}")
    return {"questions": settings.questions, "text": text}


async def fail(client: Client, settings: argparse.Namespace) -> dict[str, Any]:
    messages = {}
    for how in ("tool_error", "protocol_error"):
        try:
            await client.call_tool("fail", {"how": how, "after_s": 0})
        except ToolError as error:
            messages[how] = str(error)
        expect(how in messages, f"{how} was not an error")
    return {"messages": messages}


FLOWS = {"list": list_tools, "plain": plain, "task": task, "cancel": cancel, "ask": ask, "fail": fail}


async def run(settings: argparse.Namespace) -> dict[str, Any]:
    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        settings.questions.append(message)
        return ElicitResult(action="accept", content={"answer": f"answer {len(settings.questions)}"})

    with anyio.fail_after(settings.timeout_s):
        async with Client(settings.url, elicitation_handler=answer) as client:
            return await FLOWS[settings.flow](client, settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flow", choices=FLOWS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--timeout-s", type=float, default=60)
    settings = parser.parse_args()
    settings.questions = []
    try:
        line = {"flow": settings.flow, "ok": True, **anyio.run(run, settings)}
    except Exception as error:
        line = {"flow": settings.flow, "ok": False, "error": f"{type(error).__name__}: {error}"}
    print(json.dumps(line, default=str))
    sys.exit(0 if line["ok"] else 1)


if __name__ == "__main__":
    main()
