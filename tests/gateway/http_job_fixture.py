"""A service whose jobs are done at the third look."""

import http.server
import json

jobs = {}


class Jobs(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        job = json.loads(self.rfile.read(int(self.headers["content-length"])))
        job["authorized"] = self.headers["authorization"].startswith("Bearer /")
        jobs[str(len(jobs))] = {"looks": 0, "output": job}
        self.answer(201, {"id": len(jobs) - 1})

    def do_GET(self):
        job = jobs[self.path.rsplit("/", 1)[1]]
        job["looks"] += 1
        done = job["looks"] >= 3
        self.answer(200, {"state": "done" if done else "busy", "frames": job["looks"], "output": done and job["output"]})

    def do_DELETE(self):
        self.answer(200, {})

    def log_message(self, *_words):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Jobs)
print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
server.serve_forever()
