"""An MCP server of revision 2026-07-28 over stdio: it knows no `initialize`, and asks by returning its questions.

  per_request_fixture.py FOLDER

It notes its calls, processes and first messages as fixture.py does.
"""

import json
import os
import sys

folder = sys.argv[1]
VERSION = "io.modelcontextprotocol/protocolVersion"
LISTED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def note(name, line):
    with open(os.path.join(folder, name), "a") as file:
        file.write(f"{line}\n")


def text(words):
    return {"resultType": "complete", "content": [{"type": "text", "text": words}]}


def ask(params):
    """Asks for two names, one in each round, and keeps the first one in its state."""
    names = json.loads(params.get("requestState", "[]"))
    answers = params.get("inputResponses", {})
    if answers:
        names.append(answers[f"name-{len(names)}"]["content"]["name"])
    if len(names) == 2:
        return text(" and ".join(names))
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    question = {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": schema}}
    return {
        "resultType": "input_required",
        "inputRequests": {f"name-{len(names)}": question},
        "requestState": json.dumps(names),
    }


def result(method, params):
    if method == "server/discover":
        info = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        return LISTED | info | {"serverInfo": {"name": "fixture", "version": "1"}}
    if method == "tools/list":
        return LISTED | {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "count")]}
    note("calls", params["name"])
    if params["name"] == "ask":
        return ask(params)
    with open(os.path.join(folder, "calls")) as file:
        return text(f"done: {len(file.readlines())}")


note("processes", os.getpid())
first = True
for line in sys.stdin:
    message = json.loads(line)
    if first:
        note("first", message["method"])
        first = False
    if "id" not in message:
        continue
    params = message.get("params", {})
    if message["method"] == "initialize" or VERSION not in params.get("_meta", {}):
        error = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": ["2026-07-28"]}}
        answer = {"error": error}
    else:
        answer = {"result": result(message["method"], params)}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | answer), flush=True)
