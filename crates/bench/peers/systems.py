"""The systems that are compared: how each is started, how the client speaks to it, and in what its durability differs."""

import dataclasses
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from typing import Callable

from counter import call_aws, item_bytes

SOURCES = pathlib.Path(__file__).resolve().parent
READY_WAIT_S = 60
STOP_WAIT_S = 20
# How often a message is delivered before it is a dead letter, as in infra/container/resources.yaml.
RECEIVES_MAX = 5
ACCOUNT = "000000000000"


class Failed(Exception):
    """A system that could not be measured."""


@dataclasses.dataclass(frozen=True)
class Ground:
    """What the systems need to start."""

    folder: pathlib.Path
    tools: pathlib.Path
    bench: pathlib.Path
    aws: "Aws | None"

    def tool(self, name):
        return self.tools / "bin" / name

    def data(self, name):
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def clear(self, system, folder):
        subprocess.run(["rm", "-rf", folder], check=True)
        if system.is_on_aws:
            self.aws.remove(folder)


@dataclasses.dataclass(frozen=True)
class System:
    """A system, in one way of using it."""

    name: str
    title: str
    durable_by: str
    # Its processes, in the order in which they start, with their data in the folder.
    commands: Callable = lambda running: []
    protocol: str = "tasks"
    # The key of its table in DynamoDB, if it has one.
    key: tuple = ()
    has_journal: bool = True
    # Whether what was recorded outlives the process.
    is_durable: bool = True
    # Whether it has processes of its own.
    is_served: bool = True
    # Where its version is from.
    version: Callable = lambda ground: "as Longhaul's"

    @property
    def is_on_aws(self):
        return bool(self.key)

    @property
    def is_longhaul(self):
        return self.title.startswith("Longhaul")

    @property
    def is_plain_call(self):
        """Whether clients are answered with the result, and what it stores is what another row stores."""
        return self.protocol == "plain"


class Aws:
    """What the systems on AWS have in the emulator: a table each, and a queue with its dead letters."""

    def __init__(self, endpoint):
        self.endpoint = endpoint

    @classmethod
    def found(cls):
        try:
            return cls(os.environ["AWS_ENDPOINT_URL"])
        except KeyError:
            raise SystemExit("AWS_ENDPOINT_URL is not set; run this with `make bench-peers`") from None

    @staticmethod
    def table(folder):
        return f"peers-{os.getpid()}-{folder.name}"

    def queue_url(self, folder):
        return f"{self.endpoint}/{ACCOUNT}/{self.table(folder)}"

    def is_there(self, folder):
        return self.table(folder) in call_aws(self.endpoint, "DynamoDB_20120810.ListTables", {})["TableNames"]

    def prepare(self, system, folder):
        """Makes a table and queues, unless they are there."""
        if self.is_there(folder):
            return
        table = self.table(folder)
        attributes = [{"AttributeName": key, "AttributeType": "S"} for key in system.key]
        keys = [{"AttributeName": key, "KeyType": kind} for key, kind in zip(system.key, ("HASH", "RANGE"))]
        call_aws(self.endpoint, "DynamoDB_20120810.CreateTable", {
            "TableName": table, "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": attributes,
            "KeySchema": keys})
        call_aws(self.endpoint, "AmazonSQS.CreateQueue", {"QueueName": f"{table}-dead"})
        redrive = {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:{table}-dead",
                   "maxReceiveCount": str(RECEIVES_MAX)}
        attributes = {"VisibilityTimeout": "60", "RedrivePolicy": json.dumps(redrive)}
        call_aws(self.endpoint, "AmazonSQS.CreateQueue", {"QueueName": table, "Attributes": attributes})

    def remove(self, folder):
        """Removes them again, so that the emulator does not hold the data of the whole run. A system that did not start
        has none."""
        if not self.is_there(folder):
            return
        call_aws(self.endpoint, "DynamoDB_20120810.DeleteTable", {"TableName": self.table(folder)})
        for dead in ("", "-dead"):
            call_aws(self.endpoint, "AmazonSQS.DeleteQueue", {"QueueUrl": self.queue_url(folder) + dead})

    def kept_bytes(self, folder):
        """The bytes of all items in a table, as DynamoDB counts them."""
        total, more = 0, {}
        while True:
            page = call_aws(self.endpoint, "DynamoDB_20120810.Scan", {"TableName": self.table(folder), **more})
            total += sum(item_bytes(item) for item in page["Items"])
            if "LastEvaluatedKey" not in page:
                return total
            more = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def sdk(self, ground, system, folder, through=None):
        """A function that makes the calls of the SDK alone, and returns how many milliseconds they took."""
        self.prepare(system, folder)
        client = Client(ground)
        names = {"endpoint": through or self.endpoint, "table": self.table(folder), "queue_url": self.queue_url(folder)}
        return lambda verb, id, **more: client.ask("sdk", verb=verb, id=id, **names, **more)["ms"]


class Client:
    """The program that speaks to a system. It ends with its input."""

    def __init__(self, ground):
        self.process = subprocess.Popen(
            [ground.bench, "peers-client"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, do, **request):
        print(json.dumps({"do": do, **request}), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline() or '{"error": "the client has ended"}')
        if "error" in answer:
            raise Failed(answer["error"])
        return answer


class Running:
    """A system that runs, and its client. Killed at the end of `with`."""

    # How the names of the files begin into which processes print.
    LOG = "process-"

    def __init__(self, system, ground, folder, through=None):
        self.system, self.ground, self.folder = system, ground, folder
        self.endpoint = through or (ground.aws.endpoint if ground.aws else None)
        # Restate's server remembers where the service is, so all stay where they are when the system starts again.
        self.front, self.second, self.third, self.fourth = free_ports(4)
        self.client, self.processes = Client(ground), []
        if system.is_on_aws:
            ground.aws.prepare(system, folder)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        self.kill()
        self.client.process.stdin.close()
        self.client.process.wait()

    def start(self):
        """Starts its processes, and returns once it has answered its first call."""
        begun = time.monotonic()
        for number, (command, environment) in enumerate(self.system.commands(self)):
            with (self.folder / f"{self.LOG}{number}.log").open("w", encoding="utf-8") as log:
                self.processes.append(subprocess.Popen(
                    [str(word) for word in command], cwd=self.folder, env=os.environ | environment,
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        is_registered = self.system.name != "restate"
        while True:
            is_registered = is_registered or self.register()
            try:
                self.lives(1, 0, lives=1)
                if is_registered:
                    break
            except Failed as why:
                if time.monotonic() - begun > READY_WAIT_S:
                    self.kill()
                    raise Failed(f"{self.system.title} does not answer ({why}): {self.said()}") from None
            if ended := [process.args for process in self.processes if process.poll() is not None]:
                self.kill()
                raise Failed(f"{ended} ended: {self.said()}")
            time.sleep(0.002)
        self.first_result_s = time.monotonic() - begun

    def register(self):
        """Tells Restate's server where the service is."""
        body = json.dumps({"uri": f"http://127.0.0.1:{self.third}"}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.second}/deployments", body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def said(self):
        """The end of what its processes wrote."""
        logs = sorted(self.folder.glob(f"{self.LOG}*"))
        return " || ".join(" | ".join(log.read_text(errors="replace").splitlines()[-5:]) for log in logs)

    def ask(self, do, **request):
        pause_ms = 20 if self.system.is_on_aws else 5
        peer = {"front": f"127.0.0.1:{self.front}", "protocol": self.system.protocol, "pause_ms": pause_ms}
        return self.client.ask(do, peer=peer, **request)

    def lives(self, connections, steps, **enough):
        return self.ask("lives", life={"steps": steps, "pauseMs": 0}, connections=connections, **enough)

    def pids(self):
        return [process.pid for process in self.processes]

    def cpu_s(self):
        """The processor time that its processes have used so far, to a hundredth of a second."""
        return sum(cpu_s(pid) for pid in self.pids())

    def written_bytes(self):
        """The bytes that its processes have handed to the disk so far; a page that is written twice counts twice."""
        return sum(number_after(f"/proc/{pid}/io", "write_bytes:") for pid in self.pids())

    def memory_peak_mib(self):
        return sum(number_after(f"/proc/{pid}/status", "VmHWM:") for pid in self.pids()) / 1_024

    def stop(self):
        """Asks its processes to stop, the first one last, and returns once they have."""
        while self.processes:
            process = self.processes.pop()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kill(self):
        """Ends all of its processes with SIGKILL."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self.processes = []


def cpu_s(pid):
    # The name in parentheses may hold spaces; user and system time are the 12th and 13th field after it.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def number_after(path, start):
    lines = pathlib.Path(path).read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(start))


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def longhaul(running):
    return [([running.ground.bench, "serve-noop", f"127.0.0.1:{running.front}", running.folder / "longhaul.db"], {})]


def rmcp(running):
    return [([running.ground.bench, "serve-rmcp", f"127.0.0.1:{running.front}"], {})]


def restate(running):
    service = [running.ground.tool("restate-life"), f"127.0.0.1:{running.third}"]
    environment = {
        "RESTATE_BASE_DIR": str(running.folder / "data"), "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_IP": "127.0.0.1", "RESTATE_BIND_PORT": str(running.fourth),
        "RESTATE_INGRESS__BIND_PORT": str(running.front), "RESTATE_ADMIN__BIND_PORT": str(running.second),
        "RESTATE_DISABLE_TELEMETRY": "true", "RESTATE_LOG_FILTER": "error",
    }
    return [(service, {}), ([running.ground.tool("restate-server"), "--no-logo"], environment)]


def dbos(journal):
    return lambda running: [([running.ground.tool("python-dbos"), SOURCES / "dbos/life.py", running.front,
                              running.folder / "dbos.db", journal], {})]


def fastmcp(sync):
    return lambda running: [
        ([running.ground.tool("redis-server"), "--bind", "127.0.0.1", "--port", running.second, "--appendonly", "yes",
          "--appendfsync", sync, "--save", "", "--dir", running.folder], {}),
        ([running.ground.tool("python-fastmcp"), SOURCES / "fastmcp/life.py", running.front, running.second], {}),
    ]


def on_aws(program, *words):
    """A process that finds its table, and whatever else, as its arguments, and AWS by its environment."""
    def commands(running):
        aws, table = running.ground.aws, Aws.table(running.folder)
        path = running.ground.bench if program == "bench" else running.ground.tool(program)
        queue = [aws.queue_url(running.folder)] if program == "bench" else []
        environment = {"AWS_ENDPOINT_URL": running.endpoint, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test",
                       "AWS_SECRET_ACCESS_KEY": "test"}
        return [([path, *words, f"127.0.0.1:{running.front}", table, *queue], environment)]
    return commands


def own_version(ground):
    return said([ground.bench, "--version"]).rpartition(" ")[2]


def python_versions(tool, *packages):
    code = f"from importlib.metadata import version as v; print(', '.join(f'{{p}} {{v(p)}}' for p in {packages!r}))"
    return lambda ground: said([ground.tool(tool), "-c", code])


def locked_versions(peer, *packages):
    """The versions of packages in the lock file of a peer that is built from source."""
    def version(ground):
        lines = (SOURCES / peer / "Cargo.lock").read_text(encoding="utf-8").splitlines()
        of = lambda package: lines[lines.index(f'name = "{package}"') + 1].split('"')[1]
        return ", ".join(f"{package} {of(package)}" for package in packages)
    return version


def fastmcp_versions(ground):
    words = said([ground.tool("redis-server"), "--version"]).split()
    redis = next((word.removeprefix("v=") for word in words if word.startswith("v=")), "unknown")
    return f"{python_versions('python-fastmcp', 'fastmcp', 'fastmcp-tasks', 'pydocket')(ground)}, Redis {redis}"


def said(command):
    """The first line that a command prints."""
    try:
        printed = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    except OSError:
        printed = ""
    return next(iter(printed.splitlines()), "unknown")


LONGHAUL = "SQLite, WAL, `synchronous=FULL`: each answer waits for the disk; steps are journalled"
LONGHAUL_AWS = "DynamoDB; SQS brings the work, to any process; steps are journalled (a container: `--store dynamodb:`)"
IN_PROCESS = (
    "DynamoDB has the record; **the work is in the process that accepted the call** and is lost with it; no journal")
AOF_ALWAYS = "Redis, `appendfsync always`; **no journal**: a crash repeats all steps, so steps are loops"
DBOS_VERSIONS = python_versions("python-dbos", "dbos", "aiohttp")
OWN_KEY = ("pk", "sk")

SYSTEMS = {system.name: system for system in [
    System("longhaul", "Longhaul, task", LONGHAUL, longhaul, version=own_version),
    System("longhaul-call", "Longhaul, plain call", LONGHAUL, longhaul, "plain", version=own_version),
    System("restate", "Restate", "log of one node and RocksDB, waits for the disk; steps are journalled (defaults)",
           restate, "restate", version=lambda ground: said([ground.tool("restate-server"), "--version"])),
    System("dbos-wal", "DBOS, SQLite in WAL", "SQLite, WAL, `synchronous=FULL`, as Longhaul; steps are journalled",
           dbos("wal"), "dbos", version=DBOS_VERSIONS),
    System("dbos", "DBOS, SQLite as shipped",
           "SQLite with a rollback journal, `FULL`; steps are journalled (defaults)", dbos("rollback"), "dbos",
           version=DBOS_VERSIONS),
    System("fastmcp-always", "FastMCP + Docket, AOF always", AOF_ALWAYS, fastmcp("always"), has_journal=False,
           version=fastmcp_versions),
    System("fastmcp-everysec", "FastMCP + Docket, AOF every second",
           "Redis, `appendfsync everysec`: **a loss of power loses a second**; no journal", fastmcp("everysec"),
           has_journal=False, version=fastmcp_versions),
    System("rmcp", "rmcp TaskManager", "**nothing**: tasks are lost with the process; what the protocol costs", rmcp,
           has_journal=False, is_durable=False),
    System("aws-longhaul", "Longhaul on AWS, task", LONGHAUL_AWS, on_aws("bench", "serve-aws"), key=OWN_KEY,
           version=own_version),
    System("aws-longhaul-call", "Longhaul on AWS, plain call", LONGHAUL_AWS, on_aws("bench", "serve-aws"), "plain",
           key=OWN_KEY, version=own_version),
    System("aws-pmcp", "pmcp + pmcp-tasks", IN_PROCESS, on_aws("pmcp-life"), key=("PK", "SK"), has_journal=False,
           version=locked_versions("pmcp", "pmcp", "pmcp-tasks")),
    System("aws-turul", "turul + turul-mcp-ext-tasks", IN_PROCESS, on_aws("turul-life"), key=("taskId",),
           has_journal=False, version=locked_versions("turul", "turul-mcp-server", "turul-mcp-ext-tasks")),
    System("aws-sdk", "AWS SDK alone", "DynamoDB and SQS: a `PutItem` and a `SendMessage` as the call, a `GetItem` as"
           " the poll; **runs nothing**", key=OWN_KEY, has_journal=False, is_durable=False, is_served=False),
]}
