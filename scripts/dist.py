#!/usr/bin/env python3
"""Packs the program `longhaul` for a release: everything that is published besides the crates and the image.

  scripts/dist.py PROGRAM FOLDER [TARGET]

PROGRAM is a built `longhaul`, for this machine or for TARGET (such as aarch64-unknown-linux-gnu). FOLDER gets:

  longhaul-VERSION-TARGET.tar.gz   the program, completions of shells, licences, the list of its dependencies
  longhaul-VERSION.cdx.json        the list of its dependencies (CycloneDX 1.5)
  npm/                             the package `longhaul`, and one with the program for this platform
  longhaul_mcp-VERSION-….whl       the same for `uvx --from longhaul-mcp longhaul`
  longhaul.rb                      a Homebrew formula of all archives in FOLDER
  SHA256SUMS                       of all archives and wheels in FOLDER

Packages of several targets in one FOLDER are published together. The same inputs make the same bytes.
"""

import base64
import gzip
import hashlib
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "longhaul-cli"
# `longhaul` is another project's on PyPI.
WHEEL_PROJECT = "longhaul-mcp"
NPM_SCOPE = "@longhaul-mcp"
SUMMARY = "Makes the tools of an MCP server durable"
# What Node and wheels call the platforms. A wheel for Linux also says which glibc its program needs.
PLATFORMS = {
    "x86_64-unknown-linux-gnu": ("linux", "x64", "linux_x86_64"),
    "aarch64-unknown-linux-gnu": ("linux", "arm64", "linux_aarch64"),
    "x86_64-apple-darwin": ("darwin", "x64", "macosx_10_12_x86_64"),
    "aarch64-apple-darwin": ("darwin", "arm64", "macosx_11_0_arm64"),
}
COMPLETIONS = {"bash": "longhaul.bash", "zsh": "_longhaul", "fish": "longhaul.fish"}
LICENCE_FILE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE)([-._].*)?$", re.IGNORECASE)
# The versions of glibc that a program asks for: the newest one is in the name of its wheel.
GLIBC = re.compile(rb"GLIBC_2\.(\d+)")


def run(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def host():
    return re.search(r"^host: (.+)$", run("rustc", "-vV"), re.MULTILINE)[1]


def metadata(target):
    return json.loads(run("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target, "--features", f"{PACKAGE}/aws"))


def dependencies(meta):
    """The packages that the program is linked from, without what only tests or build scripts need, and without ours."""
    packages = {package["id"]: package for package in meta["packages"]}
    nodes = {node["id"]: node for node in meta["resolve"]["nodes"]}
    found, open_ids = {}, [package["id"] for package in meta["packages"] if package["name"] == PACKAGE]
    while open_ids:
        package_id = open_ids.pop()
        if package_id in found:
            continue
        found[package_id] = packages[package_id]
        for dependency in nodes[package_id]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                open_ids.append(dependency["pkg"])
    others = [package for package in found.values() if package["source"]]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def licences(packages):
    """The licences of all dependencies: each text once, with those that have it."""
    users, unknown = {}, []
    for package in packages:
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted(file for file in folder.iterdir() if file.is_file() and LICENCE_FILE.match(file.name))
        name = f"{package['name']} {package['version']} ({package['license'] or 'see its file'})"
        if not files:
            unknown.append(name)
        for file in files:
            users.setdefault(file.read_text(encoding="utf-8", errors="replace").strip(), []).append(name)
    parts = ["The program contains these packages:\n\n" + "\n".join(f"  {name}" for name in names) + f"\n\n{text}\n" for text, names in users.items()]
    if unknown:
        parts.append("These packages have no file with their licence:\n\n" + "\n".join(f"  {name}" for name in unknown) + "\n")
    return ("\n" + "-" * 80 + "\n\n").join(parts)


def bill(packages, version):
    """The dependencies as a bill of materials."""
    components = [
        {
            "type": "library",
            "name": package["name"],
            "version": package["version"],
            "purl": f"pkg:cargo/{package['name']}@{package['version']}",
            "licenses": [{"expression": package["license"].replace("/", " OR ")}] if package["license"] else [],
        }
        for package in packages
    ]
    component = {"type": "application", "name": "longhaul", "version": version, "licenses": [{"expression": "Apache-2.0"}]}
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": component}, "components": components}


def archive(to, files):
    """A tar archive of (name, bytes, mode) in one folder, whose bytes depend on nothing else."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data, mode in files:
            entry = tarfile.TarInfo(f"{to.name.removesuffix('.tar.gz')}/{name}")
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    with open(to, "wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as zipped:
        zipped.write(packed.getvalue())


LAUNCHER = """#!/usr/bin/env node
// Starts the program of the package for this platform, with the same standard streams, signals and exit code.
const { spawn } = require('node:child_process');

const name = `SCOPE/longhaul-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/longhaul`);
} catch {
  console.error(`longhaul: there is no program for ${process.platform} on ${process.arch}, or ${name} is not installed: npm install ${name}`);
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => { console.error(`longhaul: ${error.message}`); process.exit(1); });
child.on('exit', (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
"""


def npm(folder, program, version, target, repository, texts):
    """The package that users name, and the one with the program for this platform, as esbuild has them."""
    system, processor, _ = PLATFORMS[target]
    common = {"version": version, "license": "Apache-2.0", "repository": {"type": "git", "url": f"git+{repository}.git"}}
    platform = f"{NPM_SCOPE}/longhaul-{system}-{processor}"
    own = folder / "npm" / f"longhaul-{system}-{processor}"
    (own / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(program, own / "bin/longhaul")
    (own / "bin/longhaul").chmod(0o755)
    description = {"name": platform, "description": f"The program longhaul for {system} on {processor}", **common}
    limits = {"os": [system], "cpu": [processor], **({"libc": ["glibc"]} if system == "linux" else {})}
    (own / "package.json").write_text(json.dumps({**description, **limits, "files": ["bin"]}, indent=2) + "\n")
    main = folder / "npm/longhaul"
    main.mkdir(parents=True, exist_ok=True)
    (main / "longhaul.js").write_text(LAUNCHER.replace("SCOPE", NPM_SCOPE))
    all_platforms = {f"{NPM_SCOPE}/longhaul-{system}-{processor}": version for system, processor, _ in PLATFORMS.values()}
    description = {"name": "longhaul", "description": SUMMARY, **common, "bin": {"longhaul": "longhaul.js"}, "files": ["longhaul.js"]}
    (main / "package.json").write_text(json.dumps({**description, "engines": {"node": ">=18"}, "optionalDependencies": all_platforms}, indent=2) + "\n")
    (main / "LICENSE").write_text(texts["LICENSE"], encoding="utf-8")
    for name, text in texts.items():
        (own / name).write_text(text, encoding="utf-8")


def wheel(folder, program, version, target, readme, texts):
    """A wheel whose only content is the program."""
    tag = PLATFORMS[target][2]
    if tag.startswith("linux"):
        needed = max((int(minor) for minor in GLIBC.findall(program.read_bytes())), default=17)
        tag = f"manylinux_2_{max(needed, 17)}_{tag.removeprefix('linux_')}"
    base = f"{WHEEL_PROJECT.replace('-', '_')}-{version}"
    about = f"Metadata-Version: 2.1\nName: {WHEEL_PROJECT}\nVersion: {version}\nSummary: {SUMMARY}\nLicense: Apache-2.0\nDescription-Content-Type: text/markdown\n\n{readme}"
    files = [
        (f"{base}.data/scripts/longhaul", program.read_bytes(), 0o755),
        (f"{base}.dist-info/METADATA", about.encode(), 0o644),
        (f"{base}.dist-info/WHEEL", f"Wheel-Version: 1.0\nGenerator: longhaul\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode(), 0o644),
    ]
    files += [(f"{base}.dist-info/licenses/{name}", text.encode(), 0o644) for name, text in texts.items()]
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data, _ in files) + f"{base}.dist-info/RECORD,,\n"
    with zipfile.ZipFile(folder / f"{base}-py3-none-{tag}.whl", "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data, mode in [*files, (f"{base}.dist-info/RECORD", record.encode(), 0o644)]:
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            packed.writestr(entry, data)


def formula(folder, version, repository, sums):
    """A formula for Homebrew with each archive that there is."""
    blocks = []
    for target, (system, processor, _) in PLATFORMS.items():
        name = f"longhaul-{version}-{target}.tar.gz"
        if name in sums:
            where = f"on_{'macos' if system == 'darwin' else 'linux'} do\n    on_{'arm' if processor == 'arm64' else 'intel'} do\n"
            url = f"{repository}/releases/download/v{version}/{name}"
            blocks.append(f'  {where}      url "{url}"\n      sha256 "{sums[name]}"\n    end\n  end\n')
    (folder / "longhaul.rb").write_text(
        f'class Longhaul < Formula\n  desc "{SUMMARY}"\n  homepage "{repository}"\n  version "{version}"\n  license "Apache-2.0"\n\n'
        + "\n".join(blocks)
        + '\n  def install\n    bin.install "longhaul"\n    bash_completion.install "completions/longhaul.bash" => "longhaul"\n'
        '    zsh_completion.install "completions/_longhaul"\n    fish_completion.install "completions/longhaul.fish"\n  end\n\n'
        '  test do\n    assert_match version.to_s, shell_output("#{bin}/longhaul --version")\n  end\nend\n'
    )


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    program, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    here = host()
    target = sys.argv[3] if len(sys.argv) == 4 else here
    if target not in PLATFORMS:
        sys.exit(f"dist: {target} is not one of {', '.join(PLATFORMS)}")
    meta = metadata(target)
    about = next(package for package in meta["packages"] if package["name"] == PACKAGE)
    version, repository = about["version"], about["repository"]
    packages = dependencies(meta)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    texts = {"LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8"), "THIRD-PARTY-LICENSES": licences(packages)}
    bill_text = json.dumps(bill(packages, version), indent=1) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"longhaul-{version}.cdx.json").write_text(bill_text)
    # A program for another machine cannot be asked; the completions are the same on all.
    asked = program if target == here else ROOT / "target/release/longhaul"
    completions = [(f"completions/{name}", run(str(asked.resolve()), "completions", shell).encode(), 0o644) for shell, name in COMPLETIONS.items()]
    others = [("README.md", readme), *texts.items(), (f"longhaul-{version}.cdx.json", bill_text)]
    files = [("longhaul", program.read_bytes(), 0o755), *((name, text.encode(), 0o644) for name, text in others), *completions]
    archive(folder / f"longhaul-{version}-{target}.tar.gz", files)
    npm(folder, program, version, target, repository, texts)
    wheel(folder, program, version, target, readme, texts)
    packed = sorted([*folder.glob("*.tar.gz"), *folder.glob("*.whl")])
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in packed}
    formula(folder, version, repository, sums)
    (folder / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    print((folder / "SHA256SUMS").read_text(), end="")


main()
