#!/usr/bin/env python3
"""Makes published MCP servers durable as docs/existing-server.md says, and kills, stops and cancels them.

  scripts/published_servers.py LONGHAUL [NAME…]     (LONGHAUL: the program; NAME: a server; default: all of them)

Each server is a pinned package of crates.io, which is unpacked and built in .cache/published-servers. One is changed by
the lines of that page, with Longhaul from this checkout. The other one stays as it is, behind `longhaul gateway`. The
program runs in the folder of a project, and a call that runs another program is interrupted in the middle. The test
fails if the result is wrong, if the call is lost, or if a process is left. It also fails if the server shows or answers
less to a client that knows nothing of tasks.
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

# The end of a call that was interrupted: the signal for the server, the status of the task, and how often its program ran.
INTERRUPTIONS = {
    "kill": (signal.SIGKILL, "completed", 2),
    "stop": (signal.SIGTERM, "completed", 2),
    "cancel": (None, "cancelled", 1),
}

# A handler written by hand, on standard input and output. Its 33 tools run programs and wait for them on other threads.
CARGO_RUNNER = {
    "version": "0.4.1",
    "sha256": "04ec84d5dc28ec546f2629e61c51045af1e3ae7be17312da6c93e8e6f40b0941",
    "tools": 33,
    "plain": ("rustc-explain", {"error_code": "E0382"}, "moved"),
    "call": ("cargo-build", {}, "cargo-build: Success"),
    "interruptions": INTERRUPTIONS,
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
# A handler of macros with rmcp 1, on standard input and output, which stays as it is. By its annotations no call may be
# repeated, so the operator says in which runs that is right.
SHELL = {
    "version": "0.1.1",
    "sha256": "ac161df42307e89830c9ed378fc9d153216d6603ee15a0820538d1d3532a89e4",
    "tools": 2,
    "plain": ("shell_describe", {}, "./build.sh"),
    "call": ("shell_exec", {"command": "./build.sh"}, "built"),
    "interruptions": INTERRUPTIONS | {"kill of a call that may not be repeated": (signal.SIGKILL, "failed", 1)},
    "edits": [],
}
SERVERS = {"rust-mcp-server": CARGO_RUNNER, "shell-mcp": SHELL}

# Programs that write their process ids. They only end in the second run: the script of a package's build, and another one.
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
SHELL_SCRIPT = """\
#!/bin/sh
echo $$ >> pids
[ "$(wc -l < pids)" -gt 1 ] || exec sleep 3600
echo built
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
    added = "\n[workspace]\n"
    if server["edits"]:
        added += f"\n[patch.crates-io]\nlonghaul = {{ path = {json.dumps(str(ROOT / 'crates/longhaul'))} }}\n"
    with open(folder / "Cargo.toml", "a", encoding="utf-8") as manifest:
        manifest.write(added)
    environment = {**os.environ, "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0"}
    environment.pop("CARGO_TARGET_DIR", None)
    target = CACHE / "target"
    command = ["cargo", "build", "--quiet", "--target-dir", str(target), *([] if server["edits"] else ["--locked"])]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return target / "debug" / name


def environment(home):
    variables = {**os.environ, "HOME": str(home), "LONGHAUL_LEASE_MS": "3000", "LONGHAUL_HEARTBEAT_MS": "500"}
    for name in ("CARGO_HOME", "RUSTUP_HOME"):
        variables.setdefault(name, str(pathlib.Path.home() / f".{name.split('_')[0].lower()}"))
    variables.pop("XDG_STATE_HOME", None)
    return variables


class Client:
    """A window of a client, which has started the server."""

    def __init__(self, command, home, project):
        self.process = subprocess.Popen(command, cwd=project, env=environment(home), text=True,
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

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)


class BehindGateway(Client):
    """A client that reaches `longhaul gateway` through `longhaul bridge`. The gateway starts the server."""

    def __init__(self, longhaul, program, home, project, repeat):
        config = {"mcpServers": {"server": {"command": str(program), "env": {"HOME": str(home)}}},
                  "longhaul": {"servers": {"server": {"prefix": "", "repeat": repeat}}}}
        (home / "mcp.json").write_text(json.dumps(config))
        with open(home / "gateway.txt", "w", encoding="utf-8") as said:
            command = [longhaul, "gateway", "--config", home / "mcp.json", "--listen", "127.0.0.1:0", "--db", home / "tasks.db"]
            self.gateway = subprocess.Popen(command, cwd=project, env=environment(home), stdout=said, stderr=said)
        found = until(lambda: re.search(r"serves MCP on (\S+)", (home / "gateway.txt").read_text()), "the gateway starts")
        super().__init__([longhaul, "bridge", found[1]], home, project)

    def end(self, how):
        self.gateway.send_signal(how)
        self.gateway.wait(PATIENCE_S)
        super().end(signal.SIGKILL)

    def close(self):
        super().close()
        self.gateway.terminate()
        self.gateway.wait(PATIENCE_S)


def runs(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def project(folder):
    """A package of Rust whose build does not end in the first run, and a script that does not either."""
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text('[package]\nname = "built"\nversion = "0.1.0"\nedition = "2024"\n[workspace]\n')
    (folder / "Cargo.lock").write_text('version = 4\n\n[[package]]\nname = "built"\nversion = "0.1.0"\n')
    (folder / "src/lib.rs").write_text("")
    (folder / "build.rs").write_text(BUILD_SCRIPT)
    (folder / "build.sh").write_text(SHELL_SCRIPT)
    (folder / "build.sh").chmod(0o755)
    (folder / ".shell-mcp.toml").write_text('allow = ["./build.sh"]\n')
    return folder


def pids(folder):
    return (folder / "pids").read_text().split() if (folder / "pids").exists() else []


def start(longhaul, program, server, how, home, package):
    if server["edits"]:
        return Client([str(program)], home, package)
    _, status, _ = server["interruptions"][how]
    return BehindGateway(longhaul, program, home, package, "never" if status == "failed" else "always")


def interrupt(how, longhaul, program, server, folder):
    """A call whose server is killed or stopped, or which is cancelled, while its program runs."""
    number, wanted, runs_wanted = server["interruptions"][how]
    tool, arguments, built = server["call"]
    home, package = folder / "home", project(folder / "project")
    home.mkdir()
    client = start(longhaul, program, server, how, home, package)
    task = client.ask("tools/call", {"name": tool, "arguments": arguments, "_meta": NEWEST})["taskId"]
    [pid] = until(lambda: pids(package), "the program runs")
    if number:
        client.end(number)
    else:
        client.task("tasks/cancel", task)
    until(lambda: not runs(pid), f"{how}: the process {pid} ends")
    if number:
        client = start(longhaul, program, server, how, home, package)
    ended = until(lambda: ended_task(client, task), f"{how}: the call ends")
    text = json.dumps(ended.get("result"), ensure_ascii=False)
    if ended["status"] != wanted or (wanted == "completed" and built not in text):
        fail(f"{how}: the call ended as {json.dumps(ended)}")
    if len(pids(package)) != runs_wanted:
        fail(f"{how}: the program ran {len(pids(package))} times instead of {runs_wanted}")
    client.close()
    print(f"published-servers: {program.name}: {how}: {ended['status']}, and no process is left", flush=True)


def ended_task(client, task):
    seen = client.task("tasks/get", task)
    return seen if seen["status"] not in ("working", "input_required") else None


def serve_as_before(longhaul, program, server, folder):
    """A client of an older revision, without tasks."""
    home, package = folder / "home", project(folder / "project")
    home.mkdir()
    client = start(longhaul, program, server, "kill", home, package)
    client.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}})
    client.send({"method": "notifications/initialized"})
    listed = client.ask("tools/list", {})["tools"]
    own = [tool["name"] for tool in listed if "job" not in tool["name"]]
    if len(own) != server["tools"]:
        fail(f"{len(own)} tools are listed instead of {server['tools']}: {own}")
    tool, arguments, wanted = server["plain"]
    answer = client.ask("tools/call", {"name": tool, "arguments": arguments})
    if wanted not in json.dumps(answer):
        fail(f"a plain call is answered with {answer}")
    client.close()
    print(f"published-servers: {program.name}: {server['tools']} tools for a client without tasks", flush=True)


def main():
    if len(sys.argv) < 2 or set(sys.argv[2:]) - set(SERVERS):
        sys.exit(__doc__)
    longhaul = pathlib.Path(sys.argv[1]).resolve()
    for name in sys.argv[2:] or SERVERS:
        server = SERVERS[name]
        program = build(name, server)
        with tempfile.TemporaryDirectory() as folder:
            serve_as_before(longhaul, program, server, pathlib.Path(folder) / "before")
            for how in server["interruptions"]:
                interrupt(how, longhaul, program, server, pathlib.Path(folder) / how.replace(" ", "-"))


main()
