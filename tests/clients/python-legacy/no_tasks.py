"""Drives a Longhaul server with a Python SDK that knows no tasks: 1.13 (2025-06-18) or 1.9 (2025-03-26).

    python no_tasks.py --url http://127.0.0.1:8080/mcp REVISION

Prints one line of JSON about what was seen. Exit code: 0 if all went as it should, 1 if not.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import anyio
import mcp.types as types
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

PATIENCE_S = 60


def expect(is_true: bool, otherwise: str) -> None:
    if not is_true:
        raise AssertionError(otherwise)


async def fill_in(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"answer": f"my answer to {params.message}"})


async def run(url: str, revision: str) -> dict[str, Any]:
    # The older of the two has no elicitation.
    can_be_asked = hasattr(types, "ElicitResult")
    callbacks = {"elicitation_callback": fill_in} if can_be_asked else {}
    with anyio.fail_after(PATIENCE_S):
        async with streamablehttp_client(url) as (read, write, session_id):
            async with ClientSession(read, write, **callbacks) as session:
                initialized = await session.initialize()
                expect(initialized.protocolVersion == revision, f"the server speaks {initialized.protocolVersion}")
                expect(bool(session_id()), "the handshake began no session")
                tools = (await session.list_tools()).tools
                shown = [tool.model_dump(exclude_none=True) for tool in tools]
                expect(all("execution" not in tool for tool in shown), "a field of a later revision is shown")
                result = await session.call_tool("echo", {"text": "hello"})
                expect("hello" in result.content[0].text, f"{result}")
                seen: dict[str, Any] = {"revision": revision, "tools": [tool.name for tool in tools]}
                if can_be_asked:
                    asked = await session.call_tool("ask", {"questions": ["one"]})
                    expect("my answer to" in asked.content[0].text, f"{asked}")
                    seen["asked"] = asked.content[0].text
                return seen


def main() -> int:
    parser = argparse.ArgumentParser(description="Drives a Longhaul server over a revision without tasks")
    parser.add_argument("revision", choices=["2025-06-18", "2025-03-26"])
    parser.add_argument("--url", required=True)
    arguments = parser.parse_args()
    print(json.dumps(anyio.run(run, arguments.url, arguments.revision)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
