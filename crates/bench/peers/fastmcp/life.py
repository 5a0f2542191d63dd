"""The life of a task on FastMCP with Docket: a tool in the background, on Redis. It has no journal, so steps are loops.

    life.py PORT REDIS_PORT
"""

import asyncio
import pathlib
import sys
import uuid
from datetime import timedelta

import uvicorn
from fastmcp import FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

server = FastMCP("life")


@server.tool(task=TaskConfig(mode="required"))
async def life(steps: int, pauseMs: int, log: str | None = None, id: str | None = None) -> str:
    total = 0
    for number in range(steps):
        note(log, id, "begins", number)
        if pauseMs:
            await asyncio.sleep(pauseMs / 1_000)
        note(log, id, "ends", number)
        total += number
    return str(total)


@server.tool(task=TaskConfig(mode="required"))
async def blob(bytes: int) -> str:
    return "x" * bytes


def note(log: str | None, id: str | None, what: str, number: int) -> None:
    if log is not None:
        with pathlib.Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{id or uuid.uuid4()} {what} {number}\n")


if __name__ == "__main__":
    # By default a process may have 100 connections to Redis, and fails when 64 tasks run while 64 clients call.
    server.add_extension(TasksExtension(
        url=f"redis://127.0.0.1:{sys.argv[2]}/0?max_connections=1000", concurrency=64,
        redelivery_timeout=timedelta(seconds=10)
    ))
    application = server.http_app(path="/mcp", stateless_http=True, json_response=True)
    uvicorn.run(
        application, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools",
        log_level="error", access_log=False, timeout_keep_alive=600,
    )
