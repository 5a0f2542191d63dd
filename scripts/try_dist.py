#!/usr/bin/env python3
"""Installs the packages of `make dist` into empty folders, each as a user does, and makes a first task with each.

  scripts/try_dist.py FOLDER [WAY…]     (FOLDER as scripts/dist.py wrote it; WAY: archive, npm, wheel, cargo; default: all)

Each way runs with an empty home folder and without this repository's programs in its PATH. It fails at the first one
that does not start, does not run a task, or loses the task when its server is killed.
"""

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
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_S_MAX = 30
CALL_S_MAX = 60


def archive(folder, into):
    [packed] = folder.glob("longhaul-*-linux-gnu.tar.gz")
    subprocess.run(["sha256sum", "--check", "--ignore-missing", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    with tarfile.open(packed) as files:
        files.extractall(into, filter="data")
    return next(into.rglob("longhaul"))


def npm(folder, into):
    packages = [str(package.resolve()) for package in sorted((folder / "npm").iterdir())]
    packed = [json.loads(subprocess.run(["npm", "pack", "--json", package], cwd=into, check=True, stdout=subprocess.PIPE).stdout)[0]["filename"] for package in packages]
    # From files only: the packages of other platforms, which are optional, are not looked for in the registry.
    subprocess.run(["npm", "install", "--offline", "--omit=optional", "--no-audit", "--no-fund", *(f"./{name}" for name in packed)], cwd=into, check=True)
    return into / "node_modules/.bin/longhaul"


def wheel(folder, into):
    [packed] = folder.glob("longhaul_mcp-*linux*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(into / "venv")], check=True)
    subprocess.run([str(into / "venv/bin/pip"), "install", "--quiet", "--no-index", str(packed)], check=True)
    return into / "venv/bin/longhaul"


def cargo(_folder, into):
    subprocess.run(["cargo", "install", "--locked", "--quiet", "--path", "crates/cli", "--root", str(into)], cwd=ROOT, check=True)
    return into / "bin/longhaul"


WAYS = {"archive": archive, "npm": npm, "wheel": wheel, "cargo": cargo}


class Server:
    """`longhaul demo` on a free port, in a process group of its own."""

    def __init__(self, program, home):
        self.out = open(home / "server.txt", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [str(program), "demo", "--listen", "127.0.0.1:0", "--db", str(home / "tasks.db")],
            stdout=self.out, stderr=subprocess.STDOUT, env=environment(home), start_new_session=True)
        self.url = self.wait_for_url(home / "server.txt")

    def wait_for_url(self, path):
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"serves MCP on (\S+)", path.read_text(encoding="utf-8"))
            if found:
                return found[1]
            time.sleep(0.1)
        self.kill()
        sys.exit(f"try-dist: the server did not start:\n{path.read_text(encoding='utf-8')}")

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.out.close()


def environment(home):
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home)}


def ask(program, home, *arguments):
    done = subprocess.run([str(program), *arguments], env=environment(home), stdout=subprocess.PIPE, check=True, text=True, timeout=CALL_S_MAX)
    return done.stdout.strip()


def try_one(way, folder, into):
    home = into / "home"
    home.mkdir()
    program = WAYS[way](folder, into)
    version = ask(program, home, "--version")
    first = Server(program, home)
    try:
        task = ask(program, home, "call", "countdown", "seconds=4", "--detach", "--server", first.url)
    finally:
        first.kill()
    second = Server(program, home)
    try:
        result = json.loads(ask(program, home, "watch", task, "--server", second.url))
    finally:
        second.kill()
    if result.get("attempts", 0) < 2:
        sys.exit(f"try-dist: {way}: the task was not continued after the kill: {result}")
    print(f"try-dist: {way}: {version} made a task, which ended after a kill: {json.dumps(result)}", flush=True)


def main():
    if len(sys.argv) < 2 or any(way not in WAYS for way in sys.argv[2:]):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    for way in sys.argv[2:] or WAYS:
        into = pathlib.Path(tempfile.mkdtemp(prefix=f"longhaul-{way}-"))
        try:
            try_one(way, folder, into)
        finally:
            shutil.rmtree(into)


main()
