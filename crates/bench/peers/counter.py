"""What a system calls on AWS: a proxy before the emulator that counts calls, what DynamoDB would bill, and bytes."""

import base64
import collections
import dataclasses
import http.client
import http.server
import json
import threading
import time
import urllib.parse

# The bytes that a unit of a read covers, and those of a write.
READ_BYTES, WRITE_BYTES = 4_096, 1_024
WRITES = {"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"}
# The operation that waits for something, of which a system always has some open.
WAITS = "ReceiveMessage"
REST_WAIT_S = 30
# The emulator takes the account and the region from it, and verifies nothing.
UNSIGNED = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none")


@dataclasses.dataclass
class Tally:
    """What was counted."""

    dynamo: int = 0
    # Without the receives that brought no message, which are in `empty`.
    sqs: int = 0
    empty: int = 0
    read_units: float = 0
    write_units: float = 0
    # Of the bodies of requests and answers, as compact JSON.
    bytes: int = 0
    operations: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # Reads whose units may be too few, because their answers show less than they read.
    unsure: int = 0

    def __add__(self, other):
        return Tally(*(one + another for one, another in zip(vars(self).values(), vars(other).values())))

    def add(self, service, operation, request, answer, size):
        if operation == WAITS and not answer.get("Messages"):
            self.empty += 1
            return
        self.bytes += size
        self.operations[operation] += 1
        if not service.startswith("DynamoDB"):
            self.sqs += 1
            return
        self.dynamo += 1
        if operation in WRITES:
            self.write_units += write_units(request, answer)
        else:
            self.read_units += read_units(operation, request, answer)
            parts = ("ProjectionExpression", "FilterExpression", "AttributesToGet", "Select")
            self.unsure += any(request.get(part) for part in parts)


class Counter:
    """The proxy."""

    def __init__(self, endpoint):
        self.target = urllib.parse.urlsplit(endpoint)
        self.lock = threading.Lock()
        self.tally, self.open, self.busy_at = Tally(), 0, time.monotonic()
        handler = type("Handler", (Handler,), {"counter": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error):
        self.server.shutdown()
        self.server.server_close()

    def take(self):
        """What was counted since the last time."""
        with self.lock:
            taken, self.tally = self.tally, Tally()
            return taken

    def rests(self, rest_s):
        """Returns once no call has begun or ended for so long."""
        begun = time.monotonic()
        while self.open or time.monotonic() - self.busy_at < rest_s:
            if time.monotonic() - begun > REST_WAIT_S:
                raise OSError("it does not stop calling AWS")
            time.sleep(0.01)

    def moved(self, by):
        with self.lock:
            self.open += by
            self.busy_at = time.monotonic()


class Handler(http.server.BaseHTTPRequestHandler):
    """Passes calls on. Of writes the answer is asked what they took, which the system does not see."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    counter = None

    def do_POST(self):
        service, _, operation = self.headers.get("x-amz-target", "").partition(".")
        if operation != WAITS:
            self.counter.moved(1)
        try:
            self.pass_on(service, operation)
        finally:
            if operation != WAITS:
                self.counter.moved(-1)

    def pass_on(self, service, operation):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        request = json.loads(body or b"{}")
        asks = service.startswith("DynamoDB") and operation in WRITES
        sent = json.dumps(request | {"ReturnConsumedCapacity": "TOTAL"}).encode() if asks else body
        connection = http.client.HTTPConnection(self.counter.target.hostname, self.counter.target.port)
        headers = {name: value for name, value in self.headers.items()
                   if name.lower() not in ("content-length", "host", "connection")}
        connection.request("POST", self.path, sent, headers)
        answer = connection.getresponse()
        received = answer.read()
        connection.close()
        said = json.loads(received or b"{}")
        # Without the answer to what the system did not ask.
        shown = {name: value for name, value in said.items() if name != "ConsumedCapacity"} if asks else said
        shown = json.dumps(shown, separators=(",", ":")).encode() if received else b""
        with self.counter.lock:
            self.counter.tally.add(service, operation, request, said, len(body) + len(shown))
        self.send_response(answer.status)
        self.send_header("content-type", answer.getheader("content-type", "application/x-amz-json-1.0"))
        self.send_header("content-length", str(len(shown)))
        self.end_headers()
        self.wfile.write(shown)

    def log_message(self, *_what):
        pass


def call_aws(endpoint, target, request):
    """One call of the emulator."""
    address = urllib.parse.urlsplit(endpoint)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    headers = {"x-amz-target": target, "content-type": "application/x-amz-json-1.0", "authorization": UNSIGNED}
    connection.request("POST", "/", json.dumps(request), headers)
    response = connection.getresponse()
    answer = json.loads(response.read() or b"{}")
    connection.close()
    if response.status != 200:
        raise OSError(f"{target}: {answer}")
    return answer


def item_bytes(item):
    """The bytes of an item, as DynamoDB counts them: names and values."""
    return sum(len(name.encode()) + value_bytes(value) for name, value in item.items())


def value_bytes(typed):
    """The bytes of a value such as {"S": "text"}."""
    [(kind, value)] = typed.items()
    match kind:
        case "S":
            return len(value.encode())
        case "N":
            # About a byte for two digits, and one more.
            return (sum(character.isdigit() for character in value) + 1) // 2 + 1
        case "B":
            return len(base64.b64decode(value))
        case "SS" | "NS" | "BS":
            return sum(value_bytes({kind[0]: member}) for member in value)
        case "L":
            return 3 + sum(1 + value_bytes(member) for member in value)
        case "M":
            return 3 + len(value) + item_bytes(value)
        case _:
            return 1


def units(size, each):
    """Units are begun whole; what is not there takes one too."""
    return max(-(-size // each), 1)


def read_units(operation, request, answer):
    """The units of a read: one for each 4 KiB, a half where the latest write need not be seen, two in a transaction. Of
    a query the items of a page count together. The emulator does not look at the size, so they are computed here."""
    def each(request):
        return 1 if request.get("ConsistentRead") else 0.5

    def of(item):
        return units(item_bytes(item or {}), READ_BYTES)

    match operation:
        case "GetItem":
            return each(request) * of(answer.get("Item"))
        case "Query" | "Scan":
            return each(request) * units(sum(item_bytes(item) for item in answer.get("Items", [])), READ_BYTES)
        case "BatchGetItem":
            tables = answer.get("Responses", {}).items()
            return sum(each(request["RequestItems"].get(table, {})) * sum(of(item) for item in items)
                       for table, items in tables)
        case "TransactGetItems":
            return sum(2 * of(found.get("Item")) for found in answer.get("Responses", []))
        case _:
            return 0


def write_units(request, answer):
    """The units of a write: what the answer says, or for a write that was refused those of the item that was sent."""
    match answer.get("ConsumedCapacity"):
        case list() as tables:
            return sum(table["CapacityUnits"] for table in tables)
        case dict() as table:
            return table["CapacityUnits"]
        case _:
            return units(item_bytes(request.get("Item", {})), WRITE_BYTES)
