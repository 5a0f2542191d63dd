"""Drives a Longhaul server with a Python SDK without tasks: 1.13 (2025-06-18) or 1.9 (2025-03-26).

    python no_tasks.py --url http://127.0.0.1:8080/mcp --revision REVISION [--login USER] FLOW

1.13 can log in; 1.9 looks for the authorization server on the MCP server itself, as its revision says.
Flows: plain, ask, job. The server has to offer the diagnostic tools, and for "job" to wait for a second only
(LONGHAUL_INLINE_WAIT_S=1). Prints one line of JSON about what was seen. Exit code: 0 if all went as it should, 1 if not.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import pathlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import mcp.types as types
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

PATIENCE_S = 60
UNKNOWN_JOB = "01890000-0000-7000-8000-000000000000"
JOB_TOOLS = {"get_job_status", "cancel_job"}
UNFINISHED = ("queued", "running")

# The older one of the two has no elicitation.
CAN_BE_ASKED = hasattr(types, "ElicitResult")

Connect = Callable[[], contextlib.AbstractAsyncContextManager[ClientSession]]


def expect(is_true: bool, otherwise: str) -> None:
    if not is_true:
        raise AssertionError(otherwise)


async def fill_in(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"answer": f"my answer to {params.message}"})


@contextlib.asynccontextmanager
async def connected(url: str, revision: str, login: Any) -> AsyncIterator[ClientSession]:
    callbacks = {"elicitation_callback": fill_in} if CAN_BE_ASKED else {}
    async with streamablehttp_client(url, auth=login.provider if login else None) as (read, write, session_id):
        async with ClientSession(read, write, **callbacks) as session:
            initialized = await session.initialize()
            expect(initialized.protocolVersion == revision, f"the server speaks {initialized.protocolVersion}")
            expect(bool(session_id()), "the handshake began no session")
            yield session


async def plain(connect: Connect) -> dict[str, Any]:
    async with connect() as session:
        tools = (await session.list_tools()).tools
        shown = [tool.model_dump(exclude_none=True) for tool in tools]
        expect(all("execution" not in tool for tool in shown), "a field of a later revision is shown")
        result = await session.call_tool("echo", {"text": "hello"})
        expect("hello" in result.content[0].text, f"{result}")
        quick = await session.call_tool("countdown", {"seconds": 0.2})
        expect(json.loads(quick.content[0].text)["steps"] == 10, f"{quick}")
        return {"tools": [tool.name for tool in tools]}


async def ask(connect: Connect) -> dict[str, Any]:
    expect(CAN_BE_ASKED, "this SDK has no elicitation")
    async with connect() as session:
        asked = await session.call_tool("ask", {"questions": ["one"]})
        expect("my answer to one" in asked.content[0].text, f"{asked}")
        return {"text": asked.content[0].text}


async def job(connect: Connect) -> dict[str, Any]:
    """A call that takes longer than the server waits: a job, polled and cancelled by tools, also from a later session."""
    async with connect() as session:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        expect(JOB_TOOLS <= tools.keys(), f"the job tools are not listed: {sorted(tools)}")
        expect("job_id" in tools["countdown"].description, f"{tools['countdown']}")
        begun = await begin(session, {"seconds": 4})
        looked = await look(session, begun["job_id"], wait_s=0)
        expect(looked["status"] in UNFINISHED, f"{looked}")
        ended = await until_it_ends(session, begun["job_id"])
        expect(ended["status"] == "completed" and ended["result"]["steps"] == 10, f"{ended}")
        expect(ended["enqueued_at"] == begun["enqueued_at"], f"{begun} became {ended}")

        stopped = await begin(session, {"seconds": 120})
        await call_for_data(session, "cancel_job", {"job_id": stopped["job_id"]})
        stopped = await look(session, stopped["job_id"])
        expect(stopped["status"] == "failed" and stopped["error"]["code"] == "cancelled", f"{stopped}")

        unknown = await session.call_tool("get_job_status", {"job_id": UNKNOWN_JOB})
        expect(unknown.isError and json.loads(unknown.content[0].text)["error"]["code"] == "not_found", f"{unknown}")
        left_open = await begin(session, {"seconds": 3})

    async with connect() as later:
        expect(await look(later, begun["job_id"]) == ended, "another session sees another end")
        also = await until_it_ends(later, left_open["job_id"])
        expect(also["status"] == "completed", f"{also}")
    return {"begun": begun, "ended": ended, "stopped": stopped}


async def begin(session: ClientSession, arguments: dict[str, Any]) -> dict[str, Any]:
    """Calls a tool that does not end within the bound: the answer is the job, and a sentence for the model."""
    result = await session.call_tool("countdown", arguments)
    begun = data(result)
    expect(begun["status"] in UNFINISHED, f"{begun}")
    expect(any("get_job_status" in block.text for block in result.content[1:]), f"nothing says what to do: {result}")
    datetime.datetime.fromisoformat(begun["enqueued_at"].replace("Z", "+00:00"))
    return begun


async def look(session: ClientSession, job_id: str, **wait: Any) -> dict[str, Any]:
    seen = await call_for_data(session, "get_job_status", {"job_id": job_id, **wait})
    expect(seen["job_id"] == job_id, f"{seen}")
    return seen


async def until_it_ends(session: ClientSession, job_id: str) -> dict[str, Any]:
    while (seen := await look(session, job_id))["status"] in UNFINISHED:
        expect(seen["poll_after_s"] >= 1, f"{seen}")
    return seen


async def call_for_data(session: ClientSession, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return data(await session.call_tool(tool, arguments))


def data(result: types.CallToolResult) -> dict[str, Any]:
    """What is in the envelope, which is the first text, and the structured content if the revision has that."""
    expect(not result.isError, f"{result}")
    envelope = json.loads(result.content[0].text)
    structured = getattr(result, "structuredContent", None)
    expect(structured in (None, envelope), f"{structured} is not {envelope}")
    return envelope["data"]


FLOWS = {"plain": plain, "ask": ask, "job": job}


def login_as(url: str, user: str) -> Any:
    sys.path.append(str(pathlib.Path(__file__).parent.parent))
    from login import Login

    return Login(url, user)


async def run(url: str, revision: str, flow: str, user: str | None) -> dict[str, Any]:
    login = login_as(url, user) if user else None
    with anyio.fail_after(PATIENCE_S):
        line = await FLOWS[flow](lambda: connected(url, revision, login))
    return {**line, "login": {**login.counts, "scope": login.scope}} if login else line


def main() -> int:
    parser = argparse.ArgumentParser(description="Drives a Longhaul server over a revision without tasks")
    parser.add_argument("flow", choices=sorted(FLOWS))
    parser.add_argument("--revision", choices=["2025-06-18", "2025-03-26"], required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--login")
    arguments = parser.parse_args()
    line = anyio.run(run, arguments.url, arguments.revision, arguments.flow, arguments.login)
    print(json.dumps({"flow": arguments.flow, **line}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
