#!/usr/bin/env python3
"""Makes a folder in which a new server is built against the packages that would be published.

  workspace.py PACKAGES FOLDER SERVER

PACKAGES  where the packages are unpacked; it stays, so that they are built once for each change
FOLDER    the new server is in FOLDER/SERVER; nothing in FOLDER belongs to the checkout

The new server is not changed. Around it:

- `.cargo/config.toml` lets it find `longhaul` in the packages instead of on crates.io, and has Cargo keep what it builds
  from other packages where the checkout has it.
- `Cargo.toml` and `features` make a workspace of it and a package that has its dependencies with the features that the
  checkout's tests have: only then Cargo takes what they have built, instead of building all of it again.
- `cargo` is Cargo for the whole of this workspace.
"""

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# The features with which all tests are built: WORKSPACE in the Makefile.
FEATURES = "longhaul-app/lambda,longhaul-conformance/lambda,longhaul-gateway/lambda"
# All of the facade that the new server uses, in its programs or its tests.
FACADE = '{ version = "*", features = ["aws", "lambda", "serve", "testing"] }'


def run(*command, folder=ROOT):
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def metadata():
    return json.loads(run("cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"))


def target_directory(data):
    return Path(data["target_directory"])


def packaged(data, unpacked):
    """Packages all crates that are published, and unpacks them. Returns their folders by name."""
    published = [package for package in data["packages"] if package["source"] is None and package["publish"] != []]
    names = [argument for package in published for argument in ("--package", package["name"])]
    run("cargo", "package", "--quiet", "--locked", "--allow-dirty", "--no-verify", *names)
    return {
        package["name"]: unpack(unpacked, target_directory(data) / "package", f"{package['name']}-{package['version']}")
        for package in published
    }


def unpack(unpacked, packages, name):
    """Unpacks a package. Files that are as they were are left alone: Cargo tells by their times what to build again."""
    folder = unpacked / name
    with tarfile.open(packages / f"{name}.crate") as archive:
        files = {unpacked / file.name: archive.extractfile(file).read() for file in archive if file.isfile()}
    # The commit is another one for each change, whatever it changes.
    del files[folder / ".cargo_vcs_info.json"]
    for path in folder.rglob("*"):
        if path.is_file() and path not in files:
            path.unlink()
    for path, text in files.items():
        if not path.exists() or path.read_bytes() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    return folder


def linked(folder, *selection):
    """The packages that the programs and tests of a workspace are linked with: name and version, and features."""
    options = ["--edges", "no-build,no-proc-macro", "--prefix", "none", "--format", "{p}|{f}|"]
    tree = run("cargo", "tree", "--workspace", *selection, *options, folder=folder)
    lines = (line.split("|")[:2] for line in tree.splitlines() if line)
    # Our own have a path after their version.
    return {tuple(package.split()[:2]): features for package, features in lines if "(/" not in package}


def manifest_of_features(folder):
    """A package with those of the new server's dependencies that the checkout's tests have too, with their features."""
    lines = ["[package]", 'name = "features"', 'edition = "2024"', "", "[dependencies]", f"longhaul = {FACADE}"]
    needed = linked(folder, "--all-features")
    for number, ((name, version), features) in enumerate(sorted(linked(ROOT, "--locked", "--features", FEATURES).items())):
        if (name, version) in needed:
            lines.append(
                f'd{number} = {{ package = "{name}", version = "={version.removeprefix("v")}", '
                f"default-features = false, features = {json.dumps(features.split(',') if features else [])} }}"
            )
    return "\n".join(lines) + "\n"


def profiles():
    """The profiles of the checkout: with another one, everything would be built again."""
    text = (ROOT / "Cargo.toml").read_text()
    return text[text.index("[profile.") :]


def write(folder, server, target, packages):
    own = "".join(f"[profile.dev.package.{name}]\nopt-level = 0\n" for name in packages)
    patches = "".join(f"{name} = {{ path = {json.dumps(str(path))} }}\n" for name, path in packages.items())
    build = f"build-dir = {json.dumps(str(target))}\ntarget-dir = {json.dumps(str(folder / 'target'))}\n"
    (folder / ".cargo").mkdir()
    (folder / ".cargo" / "config.toml").write_text(f"[net]\noffline = true\n\n[build]\n{build}\n[patch.crates-io]\n{patches}")
    shutil.copyfile(ROOT / "Cargo.lock", folder / "Cargo.lock")
    workspace = f'[workspace]\nresolver = "3"\nmembers = ["{server}"]\n\n{profiles()}\n{own}'
    (folder / "Cargo.toml").write_text(workspace)
    features = manifest_of_features(folder)
    (folder / "Cargo.toml").write_text(workspace.replace(f'"{server}"', f'"{server}", "features"'))
    (folder / "features" / "src").mkdir(parents=True)
    (folder / "features" / "src" / "lib.rs").write_text("")
    (folder / "features" / "Cargo.toml").write_text(features)
    cargo = folder / "cargo"
    # These two know no option of that name.
    exempt = 'case "$1" in fmt | metadata) exec cargo "$@" ;; esac'
    cargo.write_text(f'#!/bin/sh\n{exempt}\nverb=$1\nshift\nexec cargo "$verb" --workspace "$@"\n')
    cargo.chmod(0o755)


def main(unpacked, folder, server):
    data = metadata()
    write(Path(folder).resolve(), server, target_directory(data), packaged(data, Path(unpacked).resolve()))


main(*sys.argv[1:])
