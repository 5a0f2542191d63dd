"""A system that runs jobs, for servers to start, look at and stop, over HTTP. Prints its URL.

  job_system.py LEDGER CALLBACKS [LIE]

    POST   /repeatable/jobs   starts one; a second start with the same key is the same job, whose callbacks then have two tokens
    POST   /once/jobs         starts one, always
    GET    /jobs/of/KEY       the job that was started first with this key
    GET    /jobs/ID           how it is
    DELETE /jobs/ID           stops it

What happens is noted in LEDGER/NAME.jobs: `asked KEY`, `started KEY ID`, then `done ID`, `failed ID` or `stopped ID`, and
`accepted ID` if a callback was answered with 202. What a request has changed is noted before it is answered, and that takes a
while, so that whoever has asked may be gone by then. CALLBACKS has the URLs of the servers, a line for each, once they are
known. LIE is a mistake made on purpose: forgets-keys, loses-results, ignores-stops.
"""

import http.client
import http.server
import json
import os
import random
import sys
import threading
import time
import urllib.error
import urllib.request

ledger, callbacks = sys.argv[1:3]
lie = sys.argv[3] if len(sys.argv) > 3 else None

THINKS_S_MAX = 1
TICK_S = 0.05
CALLBACK_S = 10
CALLBACKS_MAX = 600
# The value is on record, another one is, or nobody waits for it any more.
BROUGHT = (202, 409, 410)

lock = threading.Lock()
jobs = []
by_key = {}


def note(job, line):
    with open(os.path.join(ledger, f"{job['name']}.jobs"), "a") as file:
        file.write(f"{line}\n")


def start(repeatable, asked):
    key = asked["key"]
    with lock:
        note(asked, f"asked {key}")
        job = by_key.get(key) if repeatable and lie != "forgets-keys" else None
        if job is None:
            until = time.monotonic() + asked["ms"] / 1000
            job = {"id": len(jobs), "name": asked["name"], "end": asked["end"], "until": until, "state": "going", "tokens": []}
            jobs.append(job)
            by_key.setdefault(key, job)
            note(job, f"started {key} {job['id']}")
        job["tokens"] += [asked["token"]] if "token" in asked else []
    time.sleep(random.uniform(0, THINKS_S_MAX))
    return {"id": job["id"]}


def seen(job):
    answer = {"id": job["id"], "state": job["state"]}
    if job["state"] == "done" and lie != "loses-results":
        answer["output"] = output(job)
    if job["state"] == "failed":
        answer["error"] = "it fails, as it should"
    return answer


def output(job):
    return {"name": job["name"], "done": f"job {job['id']}"}


def stop(job):
    with lock:
        if job["state"] != "going":
            return 409
        if lie != "ignores-stops":
            end(job, "stopped")
        return 200


def end(job, state):
    job["state"] = state
    note(job, f"{state} {job['id']}")


def bring(job, token):
    """Sends the output to any of the servers, until one has taken it."""
    for _ in range(CALLBACKS_MAX):
        status = brought(job, token)
        if status == 202:
            note(job, f"accepted {job['id']}")
        if status in BROUGHT:
            return
        time.sleep(random.uniform(0, 1))


def brought(job, token):
    value = {} if lie == "loses-results" else output(job)
    try:
        with open(callbacks) as file:
            url = random.choice(file.read().split())
        request = urllib.request.Request(url + token, json.dumps(value).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=CALLBACK_S) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        return refusal.code
    except (OSError, http.client.HTTPException):
        return None


def end_jobs():
    """Ends jobs when their time is over. A repeated start may bring further tokens later."""
    while True:
        time.sleep(TICK_S)
        with lock:
            for job in jobs:
                if job["state"] == "going" and job["until"] <= time.monotonic():
                    end(job, job["end"])
                if job["state"] != "going":
                    tokens, job["tokens"] = job["tokens"], []
                    for token in tokens:
                        threading.Thread(target=bring, args=(job, token), daemon=True).start()


class Requests(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def job(self):
        last = self.path.rsplit("/", 1)[1]
        if self.path.startswith("/jobs/of/"):
            return by_key.get(last)
        return jobs[int(last)] if last.isdigit() and int(last) < len(jobs) else None

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.answer(201, start(self.path.startswith("/repeatable/"), asked))

    def do_GET(self):
        job = self.job()
        self.answer(200, seen(job)) if job else self.answer(404, {})

    def do_DELETE(self):
        job = self.job()
        self.answer(stop(job) if job else 404, {})

    def log_message(self, *_words):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        # Connections break, as they should here.
        pass


server = Server(("127.0.0.1", 0), Requests)
threading.Thread(target=end_jobs, daemon=True).start()
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
