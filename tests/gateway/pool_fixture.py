"""An MCP server of the handshake era over stdio with a memory of its own, for processes that have several calls.

  pool_fixture.py FOLDER [--MODE...]

Each call of a tool appends a line to FOLDER/calls, and each process its id to FOLDER/processes. Most tools answer with
the id of the process and how many calls it has had. Needs nothing but Python.

  --ttl        says that its lists hold for a second
  --only-more  has one tool only, the one that others get by `change`
"""

import json
import os
import sys
import threading
import time

folder, modes = sys.argv[1], sys.argv[2:]
had = 0
READ_ONLY = {"readOnlyHint": True}
TOOLS = {
    "who": None,
    "who_read_only": READ_ONLY,
    "fail": None,  # isError, which is an answer
    "refuse": None,  # a JSON-RPC error, which is an answer
    "die": None,  # dies in the call
    "die_later": None,  # dies soon after its answer
    "hush_later": None,  # closes its output soon after its answer, and reads on
    "never": None,  # never answers
    "leave_question": None,  # asks, and answers without waiting
    "ask_later": None,  # asks soon after its answer
    "twice": None,  # answers twice
    "noise": None,  # writes a line that is no message
    "late_progress": None,  # reports progress soon after its answer
    "slow": None,  # answers after two seconds
    "change": None,  # has one tool more from now on, and says so
    "change_silently": None,  # the same, and does not say so
}


def note(name, line):
    with open(os.path.join(folder, name), "a") as file:
        file.write(f"{line}\n")


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def later(act):
    threading.Timer(0.3, act).start()


def question():
    schema = {"type": "object", "properties": {}}
    send({"id": "q1", "method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": schema}})


def hush():
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)


def call(request, name, params):
    global had
    had += 1
    note("calls", name)
    answer = {"id": request, "result": text(f"{os.getpid()} {had}")}
    if name == "fail":
        answer["result"]["isError"] = True
    elif name == "refuse":
        answer = {"id": request, "error": {"code": -32050, "message": f"{os.getpid()} {had}"}}
    elif name == "die":
        os._exit(3)
    elif name == "die_later":
        later(lambda: os._exit(3))
    elif name == "hush_later":
        later(hush)
    elif name == "never":
        return
    elif name == "leave_question":
        question()
    elif name == "ask_later":
        later(question)
    elif name == "twice":
        send(answer)
    elif name == "noise":
        print("this is no message", flush=True)
    elif name == "late_progress":
        late = {"progressToken": params["_meta"]["progressToken"], "progress": 1, "message": "of an earlier call"}
        later(lambda: send({"method": "notifications/progress", "params": late}))
    elif name == "slow":
        time.sleep(2)
    elif name in ("change", "change_silently"):
        note("more", "")
        if name == "change":
            send({"method": "notifications/tools/list_changed"})
    send(answer)


def tools():
    has = {} if "--only-more" in modes else TOOLS
    more = {"more": READ_ONLY} if "--only-more" in modes or os.path.exists(os.path.join(folder, "more")) else {}
    described = [{"name": name, "inputSchema": {"type": "object"}, "annotations": hints or {}} for name, hints in (has | more).items()]
    return {"tools": described} | ({"ttlMs": 1000} if "--ttl" in modes else {})


def answer(message):
    request, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}} | ({} if "--only-more" in modes else {"prompts": {}})
        info = {"name": "pool_fixture", "version": "1"}
        send({"id": request, "result": {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}})
    elif method == "tools/list":
        note("lists", "")
        send({"id": request, "result": tools()})
    elif method == "tools/call":
        call(request, params["name"], params)
    elif method == "prompts/list":
        send({"id": request, "result": {"prompts": [{"name": "who"}]}})
    elif method == "prompts/get":
        send({"id": request, "result": {"messages": [{"role": "user", "content": text(str(os.getpid()))["content"][0]}]}})
    elif method and request is not None:
        send({"id": request, "error": {"code": -32601, "message": "Method not found"}})


note("processes", os.getpid())
for line in sys.stdin:
    answer(json.loads(line))
