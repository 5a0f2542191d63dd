"""An MCP server over stdio that tells of changes of its resources. Needs nothing but Python.

  subscription_fixture.py FOLDER [--per-request | --refuses]

It speaks the handshake era, or with --per-request only revision 2026-07-28. A line in FOLDER/changes is a resource that
has changed. It notes processes in FOLDER/processes, and in FOLDER/subscribed what it has been subscribed to, each time
anew.
"""

import json
import os
import sys
import threading
import time

folder, modes = sys.argv[1], sys.argv[2:]
per_request, refuses = "--per-request" in modes, "--refuses" in modes
LISTED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
RESOURCES = [{"uri": f"fixture://{name}", "name": name} for name in ("one", "two", "three")]
ID = "io.modelcontextprotocol/subscriptionId"
subscribed = set()  # (the id of a stream, or nothing; a resource)
writing = threading.Lock()


def note(name, line):
    with open(os.path.join(folder, name), "a") as file:
        file.write(f"{line}\n")


def send(message):
    with writing:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tell_changes():
    try:
        told = len(open(os.path.join(folder, "changes")).readlines())
    except FileNotFoundError:
        told = 0
    while True:
        time.sleep(0.02)
        try:
            changes = open(os.path.join(folder, "changes")).read().split("\n")[:-1]
        except FileNotFoundError:
            continue
        for uri in changes[told:]:
            for stream, wanted in list(subscribed):
                meta = {} if stream is None else {"_meta": {ID: stream}}
                if wanted == uri:
                    send({"method": "notifications/resources/updated", "params": {"uri": uri} | meta})
        told = len(changes)


def noted():
    note("subscribed", " ".join(sorted({uri for _, uri in subscribed})))


def answer(message):
    request, method, params = message.get("id"), message.get("method"), message.get("params", {})
    about = {"capabilities": {"resources": {"subscribe": True}}, "serverInfo": {"name": "fixture", "version": "1"}}
    if per_request and method == "initialize":
        error = {"code": -32022, "message": "Unsupported protocol version", "data": {"supported": ["2026-07-28"]}}
        send({"id": request, "error": error})
    elif per_request and method == "server/discover":
        send({"id": request, "result": LISTED | {"supportedVersions": ["2026-07-28"]} | about})
    elif not per_request and method == "initialize":
        send({"id": request, "result": {"protocolVersion": params["protocolVersion"]} | about})
    elif method == "resources/list":
        send({"id": request, "result": LISTED | {"resources": RESOURCES}})
    elif not per_request and method == "ping":
        send({"id": request, "result": {}})
    elif method == "resources/subscribe" and refuses:
        send({"id": request, "error": {"code": -32050, "message": "nobody may know"}})
    elif not per_request and method in ("resources/subscribe", "resources/unsubscribe"):
        (subscribed.add if method == "resources/subscribe" else subscribed.discard)((None, params["uri"]))
        send({"id": request, "result": {}})
        noted()
    elif per_request and method == "subscriptions/listen":
        subscribed.update((request, uri) for uri in params["notifications"]["resourceSubscriptions"])
        acknowledged = {"_meta": {ID: request}, "notifications": params["notifications"]}
        send({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
        noted()
    elif per_request and method == "notifications/cancelled":
        ended = {wanted for wanted in subscribed if wanted[0] == params["requestId"]}
        subscribed.difference_update(ended)
        noted()
    elif request is not None:
        send({"id": request, "error": {"code": -32601, "message": "Method not found"}})


note("processes", os.getpid())
threading.Thread(target=tell_changes, daemon=True).start()
for line in sys.stdin:
    answer(json.loads(line))
