"""A FastMCP server over Streamable HTTP with a tool that is always a task of the Tasks extension; prints its URL.

  fastmcp_fixture.py FOLDER PORT

Each run of the tool appends a line to FOLDER/calls. Its tasks are in its memory: they live as long as it does.
"""

import asyncio
import os
import sys
from datetime import timedelta

from fastmcp import FastMCP
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension

folder, port = sys.argv[1:]
mcp = FastMCP("fixture")
mcp.add_extension(TasksExtension())


@mcp.tool(task=TaskConfig(mode="required", poll_interval=timedelta(milliseconds=300)))
async def slow() -> str:
    with open(os.path.join(folder, "calls"), "a") as file:
        file.write("slow\n")
    while os.path.exists(os.path.join(folder, "hold")):
        await asyncio.sleep(0.05)
    return "done"


print(f"http://127.0.0.1:{port}/mcp", flush=True)
mcp.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False)
