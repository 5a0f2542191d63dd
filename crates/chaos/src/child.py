"""An MCP server over stdio for the gateway to run. `write` notes a line and must not be called twice; `look` changes nothing.

  child.py LEDGER
"""

import json
import os
import sys
import time

ledger = sys.argv[1]
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TOOLS = [
    {"name": "write", "inputSchema": NAMED, "annotations": {"readOnlyHint": False, "idempotentHint": False}},
    {"name": "look", "inputSchema": NAMED, "annotations": {"readOnlyHint": True}},
]


def call(tool, name):
    if tool == "write":
        with open(os.path.join(ledger, name), "a") as file:
            file.write("written\n")
    time.sleep(0.2)
    return {"content": [{"type": "text", "text": f"{tool} {name}"}]}


def answer(method, params):
    if method == "initialize":
        info = {"name": "chaos-child", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params["name"], params["arguments"]["name"])
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params") or {})
    end = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **end}), flush=True)
