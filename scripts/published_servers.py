#!/usr/bin/env python3
"""Makes published MCP servers durable by the lines of docs/existing-server.md, and kills, stops and cancels them.

  scripts/published_servers.py [NAME…]     (default: all of them)

Each server is a pinned package of crates.io. It is unpacked and built in .cache/published-servers, with Longhaul from
this checkout. Its program then runs as its users start it: on standard input and output, in the folder of a project. A
call that runs a program is interrupted in the middle. The test fails if the result is wrong, if the call is lost, or if
a process is left. It also fails if the server shows or answers less to a client that knows nothing of tasks.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache/published-servers"
PATIENCE_S = 120
NEWEST = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}

# A handler written by hand, on standard input and output. Its 33 tools run programs and wait for them on other threads.
CARGO_RUNNER = {
    "version": "0.4.1",
    "sha256": "04ec84d5dc28ec546f2629e61c51045af1e3ae7be17312da6c93e8e6f40b0941",
    "tools": 33,
    "edits": [
        ("Cargo.toml", r"\Z", '\n[dependencies.longhaul]\nversion = "0.1"\n'),
        ("src/command.rs", r"cmd\.output\(\)",
         "longhaul::Program::of(&cmd).and_then(longhaul::Program::output_blocking)"),
        ("src/rmcp_server.rs", r"tokio::task::spawn_blocking", "longhaul::spawn_blocking"),
        ("src/main.rs", r"use rmcp::ServiceExt;\nuse rmcp::service::QuitReason;\n", ""),
        ("src/main.rs", r"serve_stdio\(build_server\(&args, detect_workspace\)\)\.await",
         "serve_stdio(args, detect_workspace).await"),
        ("src/main.rs", r"async fn serve_stdio\([\s\S]*\Z", """\
async fn serve_stdio(args: Args, detect_workspace: bool) -> Result<(), ohno::AppError> {
    let args = std::sync::Arc::new(args);
    let server = longhaul::Server::new(move || build_server(&args, detect_workspace))
        .policies(|tool| tool.starts_with("cargo-").then(longhaul::TaskPolicy::optional));
    let options = longhaul::serve::Options::from_env().into_app_err("Wrong settings")?;
    longhaul::serve_stdio(server, options).await.into_app_err("Server failed")
}
"""),
    ],
}
SERVERS = {"rust-mcp-server": CARGO_RUNNER}

# The script of a package's build, which writes its process id. It only ends in the second run.
BUILD_SCRIPT = """\
use std::io::Write;

fn main() {
    let seen = std::path::Path::new("pids").exists();
    let mut pids = std::fs::File::options().create(true).append(true).open("pids").unwrap();
    writeln!(pids, "{}", std::process::id()).unwrap();
    if !seen {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}
"""


def fail(message):
    sys.exit(f"published-servers: {message}")


def until(holds, what):
    deadline = time.monotonic() + PATIENCE_S
    while not (value := holds()):
        if time.monotonic() > deadline:
            fail(f"waited {PATIENCE_S} s in vain: {what}")
        time.sleep(0.1)
    return value


def crate(name, server):
    """The package, from Cargo's own cache, into which `cargo info` downloads it."""
    file = f"{name}-{server['version']}.crate"
    home = pathlib.Path(os.environ.get("CARGO_HOME", pathlib.Path.home() / ".cargo"))
    found = list(home.glob(f"registry/cache/*/{file}"))
    if not found:
        subprocess.run(["cargo", "info", "--quiet", f"{name}@{server['version']}"], cwd="/", check=True,
                       stdout=subprocess.DEVNULL)
        found = list(home.glob(f"registry/cache/*/{file}"))
    if hashlib.sha256(found[0].read_bytes()).hexdigest() != server["sha256"]:
        fail(f"{file} is not the package that was pinned")
    return found[0]


def build(name, server):
    """Unpacks, changes and builds it. Returns the program."""
    folder = CACHE / f"{name}-{server['version']}"
    shutil.rmtree(folder, ignore_errors=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tarfile.open(crate(name, server)) as files:
        files.extractall(CACHE, filter="data")
    for file, pattern, replacement in server["edits"]:
        path = folder / file
        text, changes = re.subn(pattern, lambda _: replacement, path.read_text(encoding="utf-8"), count=1)
        if not changes:
            fail(f"{name}: {file} has nothing like {pattern}")
        path.write_text(text, encoding="utf-8")
    # It is no part of the workspace in whose folder it lies.
    longhaul = json.dumps(str(ROOT / "crates/longhaul"))
    with open(folder / "Cargo.toml", "a", encoding="utf-8") as manifest:
        manifest.write(f"\n[workspace]\n\n[patch.crates-io]\nlonghaul = {{ path = {longhaul} }}\n")
    environment = {**os.environ, "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0"}
    environment.pop("CARGO_TARGET_DIR", None)
    target = CACHE / "target"
    subprocess.run(["cargo", "build", "--quiet", "--target-dir", str(target)], cwd=folder, env=environment, check=True)
    return target / "debug" / name


class Client:
    """A window of a client, which has started the server."""

    def __init__(self, program, home, project):
        environment = {**os.environ, "HOME": str(home), "LONGHAUL_LEASE_MS": "3000", "LONGHAUL_HEARTBEAT_MS": "500"}
        for name in ("CARGO_HOME", "RUSTUP_HOME"):
            environment.setdefault(name, str(pathlib.Path.home() / f".{name.split('_')[0].lower()}"))
        environment.pop("XDG_STATE_HOME", None)
        self.process = subprocess.Popen([str(program)], cwd=project, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.answers, self.sent = {}, 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self.answers[message["id"]] = message

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.sent += 1
        self.send({"id": self.sent, "method": method, "params": params})
        answer = until(lambda: self.answers.get(self.sent), f"{method} {params}")
        if "error" in answer:
            fail(f"{method}: {answer['error']}")
        return answer["result"]

    def task(self, method, task, **params):
        return self.ask(method, {"taskId": task, **params, "_meta": NEWEST})

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait(PATIENCE_S)


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def project(folder):
    """A package of Rust whose build does not end in the first run."""
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text('[package]\nname = "built"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n')
    (folder / "Cargo.lock").write_text('version = 4\n\n[[package]]\nname = "built"\nversion = "0.1.0"\n')
    (folder / "src/lib.rs").write_text("")
    (folder / "build.rs").write_text(BUILD_SCRIPT)
    return folder


def pids(folder):
    return (folder / "pids").read_text().split() if (folder / "pids").exists() else []


def interrupt(how, program, folder):
    """A call of `cargo-build` whose server is killed or stopped, or which is cancelled, while the build runs."""
    home, package = folder / "home", project(folder / "project")
    home.mkdir()
    client = Client(program, home, package)
    task = client.ask("tools/call", {"name": "cargo-build", "arguments": {}, "_meta": NEWEST})["taskId"]
    [pid] = until(lambda: pids(package), "the build runs")
    if how == "cancel":
        client.task("tasks/cancel", task)
    else:
        client.end(signal.SIGKILL if how == "kill" else signal.SIGTERM)
    until(lambda: not runs(pid), f"{how}: the process {pid} of the build ends")
    if how != "cancel":
        client = Client(program, home, package)
    ended = until(lambda: ended_task(client, task), f"{how}: the call ends")
    wanted = "cancelled" if how == "cancel" else "completed"
    text = json.dumps(ended.get("result"), ensure_ascii=False)
    if ended["status"] != wanted or (wanted == "completed" and "cargo-build: Success" not in text):
        fail(f"{how}: the call ended as {json.dumps(ended)}")
    runs_wanted = 1 if how == "cancel" else 2
    if len(pids(package)) != runs_wanted:
        fail(f"{how}: the build ran {len(pids(package))} times instead of {runs_wanted}")
    client.process.stdin.close()
    client.process.wait(PATIENCE_S)
    print(f"published-servers: {program.name}: {how} during a build: {ended['status']}, and no process is left", flush=True)


def ended_task(client, task):
    seen = client.task("tasks/get", task)
    return seen if seen["status"] not in ("working", "input_required") else None


def serve_as_before(program, tools, folder):
    """A client of an older revision, without tasks."""
    folder.mkdir()
    client = Client(program, folder, folder)
    client.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}})
    client.send({"method": "notifications/initialized"})
    listed = client.ask("tools/list", {})["tools"]
    own = [tool for tool in listed if "job" not in tool["name"]]
    if len(own) != tools:
        fail(f"{len(own)} tools are listed instead of {tools}: {[tool['name'] for tool in own]}")
    explained = client.ask("tools/call", {"name": "rustc-explain", "arguments": {"error_code": "E0382"}})
    if "moved" not in json.dumps(explained):
        fail(f"a plain call is answered with {explained}")
    client.process.stdin.close()
    client.process.wait(PATIENCE_S)
    print(f"published-servers: {program.name}: {tools} tools for a client without tasks", flush=True)


def main():
    unknown = set(sys.argv[1:]) - set(SERVERS)
    if unknown:
        sys.exit(__doc__)
    for name in sys.argv[1:] or SERVERS:
        program = build(name, SERVERS[name])
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            serve_as_before(program, SERVERS[name]["tools"], folder / "before")
            for how in ("kill", "stop", "cancel"):
                interrupt(how, program, folder / how)


main()
