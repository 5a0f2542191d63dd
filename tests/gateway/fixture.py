"""An MCP server of the handshake era over stdio that behaves as servers should not. Needs nothing but Python.

  fixture.py FOLDER [--MODE...]

Each call of a tool appends a line to FOLDER/calls, and each process its id to FOLDER/processes.

  --noise            writes lines that are no messages, before and between all others
  --die-at-start     writes 30 lines to standard error and ends
  --no-initialize    never answers `initialize`
  --die-at-discover  ends when its first message is not `initialize`
  --stubborn         ignores the end of its input, and SIGTERM
  --many-pages       its list of tools never ends
  --last-words       writes a line after the end of its input, whatever SIGTERM says; FOLDER/ends says whether anybody read
"""

import json
import os
import signal
import subprocess
import sys
import time

folder, modes = sys.argv[1], set(sys.argv[2:])

EMPTY = {"type": "object", "properties": {}}
READ_ONLY = {"readOnlyHint": True}
TOOLS = {
    "count": None,  # counts and answers
    "count_read_only": READ_ONLY,
    "slow": None,  # counts, and answers after two seconds
    "slow_read_only": READ_ONLY,
    "never": READ_ONLY,  # never answers
    "twice": READ_ONLY,  # answers twice, and with ids that nobody knows
    "huge": READ_ONLY,  # a line of 20 MiB
    "large": READ_ONLY,  # a result that is too large to keep
    "die": None,  # counts and dies
    "die_read_only": READ_ONLY,
    "die_once_read_only": READ_ONLY,  # dies in its first call
    "fork": READ_ONLY,  # starts a process that keeps the output open, and dies
    "forked": READ_ONLY,  # starts a process that stays, and answers
    "refuse": None,  # answers with a JSON-RPC error
    "fail": None,  # answers with isError
    "ask": None,  # asks, and answers what it was told
    "ask_read_only": READ_ONLY,
    "progress": READ_ONLY,
    "log_read_only": READ_ONLY,  # logs at three levels
    "environment": READ_ONLY,  # the names of its environment variables
    "rich": READ_ONLY,  # text, image, link, structured content
}


def note(name, line):
    with open(os.path.join(folder, name), "a") as file:
        file.write(f"{line}\n")


def calls():
    try:
        with open(os.path.join(folder, "calls")) as file:
            return len(file.readlines())
    except FileNotFoundError:
        return 0


def send(message):
    if "--noise" in modes:
        print("this is no message\n[1, 2\n{}", flush=True)
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def ask(params):
    """Sends a question in the middle of a call, and waits for the answer."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    send({"id": "q1", "method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": schema}})
    while True:
        message = json.loads(sys.stdin.readline() or sys.exit())
        if message.get("id") == "q1":
            if "error" in message:
                return text(message["error"]["message"], isError=True)
            return text(json.dumps(message["result"].get("content")))


def sleeping_child():
    return subprocess.Popen(["sleep", "300"])


def call(request, name, params):
    note("calls", name)
    name = name.removesuffix("_read_only")
    if name == "slow":
        time.sleep(2)
    elif name == "never":
        return
    elif name == "twice":
        send({"id": 4711, "result": text("not this")})
        send({"id": request, "result": text("first")})
        send({"id": request, "result": text("second")})
        return
    elif name == "huge":
        print('{"jsonrpc": "2.0", "id": 1, "x": "' + "x" * (20 << 20) + '"}', flush=True)
        time.sleep(300)
    elif name == "large":
        send({"id": request, "result": text("x" * (6 << 20))})
        return
    elif name == "die" or (name == "die_once" and calls() == 1):
        print("about to die", file=sys.stderr, flush=True)
        os._exit(3)
    elif name == "fork":
        sleeping_child()
        os._exit(3)
    elif name == "forked":
        note("processes", sleeping_child().pid)
    elif name == "refuse":
        send({"id": request, "error": {"code": -32050, "message": "no", "data": {"why": "because"}}})
        return
    elif name == "fail":
        send({"id": request, "result": text("it failed", isError=True)})
        return
    elif name == "ask":
        send({"id": request, "result": ask(params)})
        return
    elif name == "progress":
        token = params["_meta"]["progressToken"]
        for done in (1, 2):
            progress = {"progressToken": token, "progress": done, "total": 4, "message": f"part {done}"}
            send({"method": "notifications/progress", "params": progress})
        send({"method": "notifications/message", "params": {"level": "info", "data": "a word for the log"}})
        while calls() < 2:
            time.sleep(0.05)
    elif name == "log":
        for level, words in ("debug", "for nobody"), ("info", "for everybody"), ("error", "for a careful one"):
            send({"method": "notifications/message", "params": {"level": level, "data": words}})
    elif name == "environment":
        send({"id": request, "result": text(json.dumps(dict(os.environ)))})
        return
    elif name == "rich":
        content = [
            {"type": "text", "text": "one", "annotations": {"audience": ["user"]}},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///a.txt", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:///b.txt", "text": "b"}},
        ]
        structured = {"numbers": [1, 2.5], "nothing": None}
        send({"id": request, "result": {"content": content, "structuredContent": structured, "_meta": {"x/y": 1}}})
        return
    send({"id": request, "result": text(f"done: {calls()}")})


def answer(message):
    request, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method == "initialize":
        if "--no-initialize" in modes:
            return
        capabilities = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}, "logging": {}}
        info = {"name": "fixture", "version": "1.2.3"}
        version = params["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info, "instructions": "Be kind."}
        send({"id": request, "result": result})
    elif method == "tools/list":
        tools = [{"name": name, "inputSchema": EMPTY} | ({"annotations": hints} if hints else {}) for name, hints in TOOLS.items()]
        tools[0] |= {"title": "Counts", "icons": [{"src": "data:image/png;base64,AA=="}], "_meta": {"x/y": 1}}
        more = {"nextCursor": "more"} if "--many-pages" in modes else {}
        send({"id": request, "result": {"tools": tools, **more}})
    elif method == "tools/call":
        call(request, params["name"], params)
    elif method == "prompts/list":
        prompt = {"name": "greet", "arguments": [{"name": "who"}]}
        send({"id": request, "result": {"prompts": [prompt]}})
    elif method == "prompts/get":
        words = f"Greet {params['arguments']['who']}"
        send({"id": request, "result": {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}})
    elif method == "resources/list":
        send({"id": request, "result": {"resources": [{"uri": "fixture://one", "name": "one"}]}})
    elif method == "resources/templates/list":
        send({"id": request, "result": {"resourceTemplates": [{"uriTemplate": "fixture://n/{n}", "name": "n"}]}})
    elif method == "resources/read":
        uri = params["uri"]
        send({"id": request, "result": {"contents": [{"uri": uri, "text": f"the text of {uri}"}]}})
    elif method == "completion/complete":
        send({"id": request, "result": {"completion": {"values": [f"{params['ref'].get('name')}-Ann"]}}})
    elif request is not None:
        send({"id": request, "error": {"code": -32601, "message": "Method not found"}})


def main():
    if "--die-at-start" in modes:
        for number in range(30):
            print(f"line {number}", file=sys.stderr, flush=True)
        sys.exit(1)
    if modes & {"--stubborn", "--last-words"}:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note("processes", os.getpid())
    first = True
    for line in sys.stdin:
        message = json.loads(line)
        if first:
            note("first", message.get("method"))
        if first and "--die-at-discover" in modes and message.get("method") != "initialize":
            sys.exit(1)
        first = False
        answer(message)
    if "--last-words" in modes:
        say_last_words()
    while "--stubborn" in modes:
        time.sleep(1)


def say_last_words():
    time.sleep(0.2)
    try:
        send({"method": "notifications/message", "params": {"level": "info", "data": "goodbye"}})
        note("ends", "read")
    except BrokenPipeError:
        note("ends", "not read")
        os._exit(1)  # What Python would write at its end cannot be written either.


main()
