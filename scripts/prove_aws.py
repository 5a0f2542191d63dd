#!/usr/bin/env python3
"""Proves a deployment on AWS itself, and writes what it saw to docs/aws-report.md: `make prove-aws`.

  scripts/prove_aws.py [--yes] [--packages FOLDER] [--template FILE] [--longhaul PROGRAM]
      deploys a scratch stack for each endpoint. On each: real clients, workers that are killed, 1,000 tasks, and empty
      streamed answers. On the first also 50 cold starts at three sizes of the package, and a restored table. It says
      first what this costs, and asks. However it ends, it removes what it made, and says what it could not remove
  scripts/prove_aws.py --rehearsal …
      the same in small, against an emulator: this writes no report

PACKAGES has api/bootstrap.zip and worker/bootstrap.zip (default: target/lambda, where `make build` puts them).
It needs credentials that may deploy the template, and a region: AWS_REGION.
"""

import argparse
import base64
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import zipfile

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from local_aws import outputs_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs/aws-report.md"
TOOLS = ROOT / ".cache/tools/bin"
ENDPOINTS = {"function-url": 0.0, "http-api": 1.0, "rest-api": 3.5}  # dollars for a million requests: docs/costs.md
TASK_DOLLARS = 24.02e-6
COLD_START_DOLLARS = 0.20e-6 + 0.5 * 13.3334e-6
CLIENTS = (("node", "ts/driver.mjs"), ("python", "python/driver.py"))
FLOWS = ("list", "plain", "task", "cancel", "ask", "fail", "unknown", "idempotent", "large")
CALLERS = 4
SIZES_MIB = (0, 20, 45)
EMPTY_ANSWERS = 20
EMPTY_S_MAX = 5
ROUNDS_MAX = 5
TASK_S_MAX = 180
RESTORABLE_S_MAX = 1800
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "prove-aws", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}


class Unproven(Exception):
    """A promise that was not kept."""


def say(text):
    print(f"prove-aws: {text}", file=sys.stderr, flush=True)


def expect(holds, otherwise):
    if not holds:
        raise Unproven(otherwise)


def client(service):
    return boto3.client(service, config=Config(s3={"addressing_style": "path"}))


def is_emulator():
    """Whether any of the services is not AWS's own."""
    hosts = [urllib.parse.urlsplit(client(name).meta.endpoint_url).hostname for name in ("lambda", "dynamodb", "sqs")]
    named = any(name.startswith("AWS_ENDPOINT_URL") for name in os.environ)
    return named or not all(host.endswith((".amazonaws.com", ".amazonaws.com.cn")) for host in hosts)


def spread(numbers):
    """The median, the 90th percentile and the largest."""
    ordered = sorted(numbers)
    return " / ".join(f"{ordered[min(len(ordered) - 1, len(ordered) * part // 100)]:.0f}" for part in (50, 90, 100))


class Caller:
    """A client of revision 2026-07-28 with a token."""

    def __init__(self, url, token, patience_s):
        self.url, self.token, self.patience_s = urllib.parse.urlsplit(url), token, patience_s

    def post(self, body, headers):
        kind = http.client.HTTPSConnection if self.url.scheme == "https" else http.client.HTTPConnection
        connection = kind(self.url.netloc, timeout=60)
        common = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        with contextlib.closing(connection):
            begun = time.monotonic()
            common["authorization"] = f"Bearer {self.token}"
            connection.request("POST", self.url.path, json.dumps(body), common | headers)
            answer = connection.getresponse()
            return answer, answer.read().decode(), time.monotonic() - begun

    def request(self, method, **params):
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if name := params.get("name") or params.get("taskId"):
            headers["mcp-name"] = name
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": META}}
        for pause in (1, 2, 4, 8, None):
            answer, text, _ = self.post(body, headers)
            # A new account has ten executions.
            if answer.status not in (429, 503) or pause is None:
                break
            time.sleep(pause)
        data = [line[5:] for line in text.splitlines() if line.startswith("data:") and line[5:].strip()]
        expect(answer.status == 200, f"{method} is answered with status {answer.status}: {text[:200]}")
        said = json.loads(data[-1] if data else text)
        expect("result" in said, f"{method} is answered with {text[:200]}")
        return said["result"]

    def start(self, tool, **arguments):
        created = self.request("tools/call", name=tool, arguments=arguments)
        expect(created.get("resultType") == "task", f"{tool} is no task: {created}")
        return created["taskId"]

    def until(self, task_id, *wanted):
        deadline = time.monotonic() + self.patience_s
        while True:
            task = self.request("tasks/get", taskId=task_id)
            if task["status"] in wanted:
                return task
            is_over = task["status"] in ("completed", "failed", "cancelled") or time.monotonic() > deadline
            expect(not is_over, f"the task {task_id} is {task['status']} and not {wanted[0]}: {task}")
            time.sleep(0.5)


class Proof:
    """One run: what it made, and what it saw."""

    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)
        self.name = f"longhaul-prove-{secrets.token_hex(3)}"
        self.stacks, self.tables, self.lines, self.reports = [], [], [], []
        self.packages = {name: options.packages / name / "bootstrap.zip" for name in ("api", "worker")}
        self.tasks, self.starts, self.sizes = (20, 1, (0, 1, 2)) if options.rehearsal else (1000, 50, SIZES_MIB)
        self.flows, self.others = (("list", "task"), 3) if options.rehearsal else (FLOWS, 10)

    def saw(self, text):
        say(text)
        self.lines.append(text)

    def longhaul(self, *arguments):
        command = [str(self.options.longhaul), *map(str, arguments)]
        ended = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        expect(ended.returncode == 0, f"`longhaul {' '.join(command[1:3])}` ends with {ended.returncode}")
        return ended.stdout

    def flags(self, api=None):
        api = api or self.packages["api"]
        return "--yes", "--bucket", self.name, "--api", api, "--worker", self.packages["worker"]

    def deploy(self, endpoint, **parameters):
        """A stack, and a caller who may call it."""
        stack = f"{self.name}-{len(self.stacks)}"
        self.stacks.append(stack)
        parameters |= {"Endpoint": endpoint, "AuthMode": "bearer", "WorkerMaximumConcurrency": "2"}
        parameters |= {"AttemptsPerWorker": "10", "Settings": "diagnostics=true"}
        given = [word for name, value in parameters.items() for word in ("--parameter", f"{name}={value}")]
        template = ["--template", self.options.template] if self.options.template else []
        self.longhaul("deploy", stack, *self.flags(), *given, *template, "--tag", f"longhaul-prove={self.name}")
        (description,) = client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        outputs = {output["OutputKey"]: output["OutputValue"] for output in description["Outputs"]}
        if self.options.rehearsal:
            outputs = outputs_of(description)
        if "ExistingTableName" not in parameters:
            self.tables.append(outputs["Table"])
        file = self.folder / f"{stack}.token"
        self.longhaul("token", "add", "prove", "--out", file, "--parameter", outputs["TokenParameter"])
        caller = Caller(outputs["McpUrl"], file.read_text().strip(), 60 if self.options.rehearsal else TASK_S_MAX)
        deadline = time.monotonic() + 60
        while caller.post({}, {})[0].status == 401 and time.monotonic() < deadline:
            time.sleep(1)
        self.longhaul("status", stack)
        return stack, outputs, caller

    def clients(self, url, token):
        for program, script in CLIENTS:
            for flow in self.flows:
                command = [TOOLS / program, ROOT / "tests/clients" / script, "--url", url, flow, "--token", token]
                command += ["--key", script, *(("--seconds", "120") if flow == "cancel" else ())]
                ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
                expect(ended.returncode == 0, f"{script} {flow}: {ended.stdout.strip()}")
        self.saw(f"clients: {len(self.flows)} flows each of the SDKs for TypeScript and Python")

    def kill(self, caller):
        """A worker that ends in the middle of several tasks: all of them are resumed, and lose no step."""
        for _ in range(ROUNDS_MAX):
            begun = time.monotonic()
            others = [caller.start("countdown", seconds=10, steps=10) for _ in range(self.others)]
            killer = caller.start("fail", how="exit", after_s=3)
            others += [caller.start("countdown", seconds=10, steps=10) for _ in range(self.others)]
            # Its last record before it ends its worker. It is to do that once only.
            while not caller.request("dev.longhaul/tasks/inspect", taskId=killer)["journal"]:
                expect(time.monotonic() - begun < caller.patience_s, f"the task {killer} does not begin")
                time.sleep(0.2)
            caller.request("tasks/cancel", taskId=killer)
            done = [caller.until(task, "completed")["result"]["structuredContent"] for task in others]
            expect(all(each["steps"] == 10 for each in done), f"steps were lost: {done}")
            if resumed := sum(each["attempts"] > 1 for each in done):
                seconds = time.monotonic() - begun
                kept = f"{resumed} of {len(others)} tasks of 10 s were resumed after a kill"
                self.saw(f"kill: {kept}, and all ended in {seconds:.0f} s")
                return
        raise Unproven("no task shared a worker with the one that was killed")

    def load(self, caller):
        def one(_):
            begun = time.monotonic()
            caller.until(caller.start("countdown", seconds=0, steps=1), "completed")
            return 1000 * (time.monotonic() - begun)

        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(CALLERS) as pool:
            times = list(pool.map(one, range(self.tasks)))
        seconds = time.monotonic() - begun
        ended = f"{self.tasks} tasks of {CALLERS} callers, all ended, in {seconds:.0f} s"
        self.saw(f"load: {ended}; a task {spread(times)} ms")

    def empty_answers(self, caller):
        """A streamed answer without a byte may be held until a time-out."""
        client_info = {"name": "prove-aws", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client_info}
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        answer, text, _ = caller.post(begin, {})
        expect(answer.status == 200, f"initialize is answered with status {answer.status}: {text[:200]}")
        headers = {"mcp-protocol-version": "2025-11-25"}
        if session := answer.headers["mcp-session-id"]:
            headers["mcp-session-id"] = session
        times = []
        for _ in range(EMPTY_ANSWERS):
            answer, text, seconds = caller.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
            expect(answer.status == 202, f"a notification is answered with status {answer.status}: {text[:200]}")
            expect(seconds < EMPTY_S_MAX, f"an empty answer was held for {seconds:.1f} s")
            times.append(1000 * seconds)
        kind = answer.headers["content-type"]
        self.saw(f"empty answers: {EMPTY_ANSWERS} of 202, {len(text)} bytes, {kind}; {spread(times)} ms")

    def cold_starts(self, stack, outputs):
        function, event = outputs["ApiFunction"], (ROOT / "infra/events/api-function-url.json").read_bytes()
        functions = client("lambda")
        for size in self.sizes:
            padded = self.folder / f"api-{size}.zip"
            shutil.copyfile(self.packages["api"], padded)
            with zipfile.ZipFile(padded, "a") as package:
                package.writestr("padding", secrets.token_bytes(size << 20))
            self.longhaul("update", stack, *self.flags(padded))
            times = []
            for number in range(self.starts):
                functions.update_function_configuration(FunctionName=function, Description=f"cold start {number}")
                functions.get_waiter("function_updated_v2").wait(FunctionName=function)
                invoked = functions.invoke(FunctionName=function, LogType="Tail", Payload=event)
                expect("FunctionError" not in invoked, f"{function} ends with an error")
                log = base64.b64decode(invoked.get("LogResult", "")).decode()
                report = re.search(r"REPORT RequestId: \S+\s+(.*Init Duration: ([0-9.]+) ms.*)", log)
                # An emulator reports no start.
                expect(report or self.options.rehearsal, f"{function} reports no cold start: {log}")
                times.append(float(report[2]) if report else 0)
                self.reports.append(f"{size} MiB: REPORT {' '.join(report[1].split())}" if report else log)
            self.saw(f"cold starts: {self.starts} with {size} MiB besides the program; init {spread(times)} ms")

    def restore(self, stack, outputs, caller):
        """The steps of docs/restore.md, with a task that asks."""
        ended, asking = caller.start("countdown", seconds=0, steps=1), caller.start("ask", questions=["Which table?"])
        caller.until(ended, "completed")
        caller.until(asking, "input_required")
        table, restored = outputs["Table"], f"{self.name}-restored"
        dynamo, noted = client("dynamodb"), datetime.datetime.now(datetime.timezone.utc)
        deadline = time.monotonic() + RESTORABLE_S_MAX
        while not self.options.rehearsal:
            backups = dynamo.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
            latest = backups["PointInTimeRecoveryDescription"].get("LatestRestorableDateTime")
            if latest and latest > noted:
                break
            expect(time.monotonic() < deadline, f"{table} cannot be restored to a second after {noted}")
            time.sleep(10)
        self.remove_stack(stack)
        begun = time.monotonic()
        dynamo.restore_table_to_point_in_time(
            SourceTableName=table, TargetTableName=restored, UseLatestRestorableTime=True
        )
        self.tables.append(restored)
        script = [sys.executable, "-B", ROOT / "scripts/existing_table.py"]
        prepared = subprocess.run([*script, "prepare", restored], stdout=subprocess.PIPE, text=True, check=True).stdout
        seconds = time.monotonic() - begun
        again, outputs, caller = self.deploy(self.endpoint("function-url"), ExistingTableName=prepared.strip())
        subprocess.run([*script, "resend", restored, outputs["QueueUrl"]], stdout=subprocess.DEVNULL, check=True)
        caller.until(ended, "completed")
        asked = caller.until(asking, "input_required")
        answers = {key: {"action": "accept", "content": {"answer": "orders"}} for key in asked["inputRequests"]}
        caller.request("tasks/update", taskId=asking, inputResponses=answers)
        caller.until(asking, "completed")
        self.saw(f"restore: a copy after {seconds:.0f} s; what had ended is there, and what asked has ended")
        self.remove_stack(again)

    def endpoint(self, name):
        # The emulator sends each answer as a whole.
        return f"{name}-buffered" if self.options.rehearsal and name != "http-api" else name

    def run(self):
        for name in ENDPOINTS:
            self.saw(f"endpoint {name}")
            stack, outputs, caller = self.deploy(self.endpoint(name))
            self.load(caller)
            self.clients(outputs["McpUrl"], caller.token)
            self.kill(caller)
            self.empty_answers(caller)
            if name == "function-url":
                self.cold_starts(stack, outputs)
                self.restore(stack, outputs, caller)
            else:
                self.remove_stack(stack)

    def remove_stack(self, stack):
        self.longhaul("destroy", stack, "--yes", "--bucket", self.name)
        self.stacks[self.stacks.index(stack)] += " (removed)"

    def remove(self):
        """Removes everything, whatever is there. Returns what is left."""
        left = []

        def gone(what, remove):
            try:
                remove()
            # Whatever it is: the rest has to be removed too.
            except Exception as error:
                code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
                if not re.search("NotFound|NoSuchBucket|NotExist|^404$", code):
                    left.append(f"{what}: {error}")

        for stack in self.stacks:
            name = stack.removesuffix(" (removed)")
            if stack == name:
                with contextlib.suppress(Unproven, OSError):
                    self.longhaul("destroy", name, "--yes", "--bucket", self.name)
            gone(f"the stack {name}", lambda: self.delete_stack(name))
            parameter = f"/longhaul/{name}/tokens"
            gone(f"the parameter {parameter}", lambda: client("ssm").delete_parameter(Name=parameter))
        tables = []
        gone("some tables", lambda: tables.extend(self.found_tables()))
        for table in tables:
            gone(f"the table {table}", lambda: self.delete_table(table))
        gone(f"the bucket {self.name}", self.delete_bucket)
        gone("log groups", self.delete_log_groups)
        return left

    @staticmethod
    def delete_stack(name):
        formation = client("cloudformation")
        try:
            status = formation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        except ClientError as error:
            if "does not exist" in str(error):
                return
            raise
        if status != "DELETE_COMPLETE":
            formation.delete_stack(StackName=name)
            formation.get_waiter("stack_delete_complete").wait(StackName=name)

    def found_tables(self):
        pages = client("dynamodb").get_paginator("list_tables").paginate()
        named = [table for page in pages for table in page["TableNames"] if table.startswith(self.name)]
        return {*self.tables, *named}

    def delete_log_groups(self):
        logs = client("logs")
        for prefix in (self.name, f"/aws/lambda/{self.name}"):
            for group in logs.describe_log_groups(logGroupNamePrefix=prefix)["logGroups"]:
                logs.delete_log_group(logGroupName=group["logGroupName"])

    @staticmethod
    def delete_table(table):
        dynamo = client("dynamodb")
        if dynamo.describe_table(TableName=table)["Table"].get("DeletionProtectionEnabled"):
            dynamo.update_table(TableName=table, DeletionProtectionEnabled=False)
        dynamo.get_waiter("table_exists").wait(TableName=table)
        dynamo.delete_table(TableName=table)
        dynamo.get_waiter("table_not_exists").wait(TableName=table)

    def delete_bucket(self):
        s3 = client("s3")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=self.name):
            for item in page.get("Contents", []):
                s3.delete_object(Bucket=self.name, Key=item["Key"])
        s3.delete_bucket(Bucket=self.name)

    def price(self):
        """Dollars, from docs/costs.md: a task of each endpoint with its requests; kills, cold starts, flows."""
        tasks = sum(self.tasks * (TASK_DOLLARS + 4e-6 * request) for request in ENDPOINTS.values())
        workers = 3 * ROUNDS_MAX * 20 * 10 * 13.3334e-6
        return tasks + workers + self.starts * len(self.sizes) * COLD_START_DOLLARS + 0.05


def write_report(proof):
    expect(not is_emulator(), "this is an emulator: its figures are no report")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    seen = [f"- {line}" for line in proof.lines]
    seen = [re.sub("^- endpoint (.*)", r"\n## \1\n", line) for line in seen]
    REPORT.write_text("\n".join([
        "# Report of a run on AWS\n",
        f"Region {boto3.Session().region_name}, {datetime.date.today()}, commit {commit[:12]}.\n",
        "`make prove-aws` wrote this page. Three numbers are the median, the 90th percentile and the largest.",
        *seen,
        "\n## Cold starts\n\n```text",
        *proof.reports,
        "```\n",
    ]))  # fmt: skip
    say(f"wrote {REPORT}: put it into docs/SUMMARY.md")


def agreed(proof):
    account = client("sts").get_caller_identity()["Account"]
    stacks = len(ENDPOINTS) + 1
    say(f"in the account {account}, region {boto3.Session().region_name}: {stacks} stacks, one after the other")
    say(f"this takes about an hour and costs about {proof.price():.2f} dollars (docs/costs.md)")
    say(f"everything is named {proof.name}")
    if proof.options.yes:
        return True
    if not sys.stdin.isatty():
        sys.exit("prove-aws: it cannot ask here: add --yes to agree")
    return input("prove-aws: go on? [y/N] ").strip().lower() in ("y", "yes")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yes", action="store_true", help="agrees to what it costs")
    parser.add_argument("--rehearsal", action="store_true", help="in small, against an emulator, without a report")
    parser.add_argument("--packages", type=pathlib.Path, default=ROOT / "target/lambda")
    parser.add_argument("--template", type=pathlib.Path)
    parser.add_argument("--longhaul", type=pathlib.Path, default=ROOT / "target/release/longhaul")
    options = parser.parse_args()
    for name in ("packages", "template", "longhaul"):
        if (path := getattr(options, name)) is not None:
            setattr(options, name, path.resolve())
    if is_emulator() != options.rehearsal:
        sys.exit(
            "prove-aws: --rehearsal is for an emulator, and AWS_ENDPOINT_URL names none"
            if options.rehearsal
            else "prove-aws: AWS_ENDPOINT_URL is set, and an emulator's figures are no report: unset it, or add "
            "--rehearsal"
        )
    return options


def main():
    # boto3 reads another variable than the other SDKs do.
    if region := os.environ.get("AWS_REGION"):
        os.environ["AWS_DEFAULT_REGION"] = region
    try:
        prove(read_options())
    except (BotoCoreError, ClientError) as error:
        sys.exit(f"prove-aws: {error}")


def prove(options):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        proof = Proof(options, folder)
        if not agreed(proof):
            sys.exit("prove-aws: nothing was made")
        why = None
        try:
            proof.run()
        except (Unproven, BotoCoreError, ClientError, OSError, subprocess.CalledProcessError) as error:
            why = str(error)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            say("removing everything")
            left = proof.remove()
            for each in left:
                say(f"NOT REMOVED: {each}")
    if why or left:
        sys.exit(f"prove-aws: not proven: {why or 'something could not be removed'}")
    if options.rehearsal:
        say("all of it held on the emulator; there is no report of that")
    else:
        write_report(proof)


main()
