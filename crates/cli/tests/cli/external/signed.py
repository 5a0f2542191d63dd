"""A front door as AWS has one before a function URL: it lets in who signs, and says who does not, by botocore's own code.

    python signed.py PORT SERVER_PORT SECRET SERVICE/REGION

Takes requests at PORT and sends them on to the server at SERVER_PORT. What it sees of each is a line on its standard output.
"""

import http.client
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

PORT, SERVER_PORT = int(sys.argv[1]), int(sys.argv[2])
SECRET = sys.argv[3]
SERVICE, REGION = sys.argv[4].split("/")
MUST_BE_SIGNED = {"host", "x-amz-date", "x-amz-content-sha256"}
CHUNK_BYTES = 65_536


def fault(method, path, headers, body):
    """What is wrong with a request, or nothing."""
    authorization = headers.get("authorization", "")
    if not authorization.startswith("AWS4-HMAC-SHA256 "):
        return "Missing Authentication Token"
    parts = dict(part.split("=", 1) for part in authorization.split(" ", 1)[1].replace(" ", "").split(","))
    key, *scope = parts["Credential"].split("/")
    names = parts["SignedHeaders"].split(";")
    token = headers.get("x-amz-security-token")
    if scope[1:] != [REGION, SERVICE, "aws4_request"]:
        return f"Credential should be scoped to {SERVICE}/{REGION}"
    if missing := (MUST_BE_SIGNED | ({"x-amz-security-token"} if token else set())) - set(names):
        return f"not signed: {sorted(missing)}"
    signed = {name: headers[name] for name in names}
    url = f"http://{headers['host']}{path}"
    signer = SigV4Auth(ReadOnlyCredentials(key, SECRET, token), SERVICE, REGION)
    # Its checksum of the body is made anew: the one that was sent is compared with it.
    request = AWSRequest(method, url, data=body, headers=signed)
    if headers["x-amz-content-sha256"] != signer.payload(AWSRequest(method, url, data=body)):
        return "the checksum is that of another body"
    request.context["timestamp"] = headers["x-amz-date"]
    if scope[0] != headers["x-amz-date"][:8]:
        return "the scope is of another day"
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    return None if signature == parts["Signature"] else "The request signature we calculated does not match"


class Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        wrong = fault(self.command, self.path, headers, body)
        key = headers.get("authorization", "").partition("Credential=")[2].partition("/")[0]
        print(f"{self.command} {key} {wrong or 'signed'}", flush=True)
        if wrong:
            return self.refuse(wrong)
        server = http.client.HTTPConnection("127.0.0.1", SERVER_PORT)
        headers = {name: value for name, value in headers.items() if not name.startswith("x-amz-")}
        del headers["authorization"]
        headers["host"] = f"127.0.0.1:{SERVER_PORT}"
        server.request(self.command, self.path, body, headers)
        answer = server.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        while chunk := answer.read1(CHUNK_BYTES):
            self.wfile.write(chunk)
            self.wfile.flush()
        self.close_connection = True

    do_POST = do_GET = do_DELETE = answer

    def refuse(self, why):
        body = f'{{"Message":"{why}"}}'.encode()
        self.send_response(403)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", PORT), Door).serve_forever()
