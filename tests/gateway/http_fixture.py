"""An MCP server over Streamable HTTP, in this mode; prints its URL. Needs nothing but Python.

  http_fixture.py FOLDER MODE

Each call of a tool appends a line to FOLDER/calls, and the headers of each request to FOLDER/headers.

  plain        answers as JSON, with a session
  expired      its first session is unknown when the first call comes
  reset        closes the connection when a call has come
  redirect     answers everything with a redirect to a place that would get the headers
  html         answers everything with a page
  cut          ends its stream before the answer is in it
  hang         never answers a call
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

folder, mode = sys.argv[1:]
sessions = []


def note(name, line):
    with open(os.path.join(folder, name), "a") as file:
        file.write(f"{line}\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def result(self, request, result, **headers):
        self.answer(200, json.dumps({"jsonrpc": "2.0", "id": request, "result": result}).encode(), **headers)

    def do_GET(self):
        if self.path == "/elsewhere":
            note("calls", "elsewhere")
        self.answer(405)

    def do_DELETE(self):
        self.answer(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        note("headers", json.dumps(dict(self.headers.items())))
        if self.path == "/elsewhere":
            note("calls", "elsewhere")
        if mode == "redirect":
            return self.answer(307, location="/elsewhere")
        if mode == "html":
            return self.answer(200, b"<html>Please log in</html>", "text/html")
        method, request = message.get("method"), message.get("id")
        if method == "initialize":
            sessions.append(f"s{len(sessions)}")
            info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "h", "version": "1"}}
            return self.result(request, info, mcp_session_id=sessions[-1])
        if request is None:
            return self.answer(202)
        if method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("count", "count_read_only")]
            tools[1]["annotations"] = {"readOnlyHint": True}
            return self.result(request, {"tools": tools})
        if method != "tools/call":
            error = {"jsonrpc": "2.0", "id": request, "error": {"code": -32601, "message": "Method not found"}}
            return self.answer(200, json.dumps(error).encode())
        if mode == "expired" and self.headers["mcp-session-id"] == "s1":
            return self.answer(404)
        note("calls", message["params"]["name"])
        if mode == "reset":
            self.close_connection = True
            return self.connection.close()
        if mode == "cut":
            self.close_connection = True
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            return self.wfile.write(b": nothing yet\n\n")
        if mode == "hang":
            time.sleep(300)
        self.result(request, {"content": [{"type": "text", "text": "done"}]})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
server.serve_forever()
