"""An MCP server with jobs, over stdio or Streamable HTTP (handshake era): three tools start, show and stop one. Its state is
in files, so that it outlives each process. Needs nothing but Python.

  job_fixture.py FOLDER stdio
  job_fixture.py FOLDER http [PORT]      prints its URL

Each call of a tool appends a line to FOLDER/calls, and each process its id to FOLDER/processes. A job does as many parts as
it is asked to: each look is one. FOLDER/hold keeps all jobs where they are while it exists. What a call has changed is on disk
before it is answered.
"""

import fcntl
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

folder, transport = sys.argv[1:3]

PARTS = {"type": "object", "properties": {"parts": {"type": "integer"}, "how": {"type": "string"}}}
JOB = {"type": "object", "properties": {"scanId": {"type": "string"}}, "required": ["scanId"]}
TOOLS = [
    {"name": "start_scan", "description": "Scans a host", "inputSchema": PARTS},
    {"name": "start_scan_again", "inputSchema": PARTS, "annotations": {"idempotentHint": True}},
    {"name": "get_scan", "inputSchema": JOB, "annotations": {"readOnlyHint": True}},
    {"name": "get_report", "inputSchema": JOB, "annotations": {"readOnlyHint": True}},
    {"name": "stop_scan", "inputSchema": JOB},
    {"name": "count", "inputSchema": {"type": "object"}},
]


def path(name):
    return os.path.join(folder, name)


def note(name, line):
    with open(path(name), "a") as file:
        file.write(f"{line}\n")


def jobs():
    try:
        with open(path("jobs")) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def keep(jobs):
    with open(path("jobs.new"), "w") as file:
        json.dump(jobs, file)
    os.replace(path("jobs.new"), path("jobs"))


def text(value, **more):
    return {"content": [{"type": "text", "text": json.dumps(value)}], **more}


def start(arguments):
    all = jobs()
    id = f"scan-{len(all)}"
    all[id] = {"status": "running", "done": 0, "parts": arguments.get("parts", 1), "how": arguments.get("how", "done")}
    keep(all)
    # As a server of an older revision answers: JSON as text.
    return text({"job": {"scanId": id}})


def look(id):
    all = jobs()
    job = all[id]
    if job["status"] == "running" and not os.path.exists(path("hold")):
        job["done"] += 1
        if job["done"] >= job["parts"] and job["how"] != "never":
            job["status"] = job["how"]
        keep(all)
    state = {"status": job["status"], "done": job["done"], "parts": job["parts"], "phase": "looking at ports"}
    return text("see the structured content", structuredContent=state)


def call(name, arguments):
    note("calls", name)
    if name.startswith("start_scan"):
        if arguments.get("how") == "refused":
            return text("there is no such host", isError=True)
        return start(arguments)
    if name == "count":
        return text("counted")
    id = arguments["scanId"]
    if id not in jobs():
        return text(f"there is no job {id}", isError=True)
    if name == "get_scan":
        return look(id)
    if name == "get_report":
        return text(f"the report of {id}")
    all = jobs()
    all[id]["status"] = "stopped"
    keep(all)
    return text("stopped")


def answer(message):
    request, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method == "initialize":
        info = {"name": "jobs", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        # Each call may have a process of its own, and all of them change one file.
        with open(path("lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            result = call(params["name"], params.get("arguments", {}))
    elif request is None:
        return None
    else:
        return {"jsonrpc": "2.0", "id": request, "error": {"code": -32601, "message": "Method not found"}}
    return {"jsonrpc": "2.0", "id": request, "result": result}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(405)

    def do_DELETE(self):
        self.send(200)

    def do_POST(self):
        reply = answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send(202) if reply is None else self.send(200, json.dumps(reply).encode())


note("processes", os.getpid())
if transport == "http":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 0), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
    server.serve_forever()
for line in sys.stdin:
    reply = answer(json.loads(line))
    if reply is not None:
        print(json.dumps(reply), flush=True)
