#!/usr/bin/env python3
"""Compiles each feature set of the workspace with the oldest Rust that Cargo.toml supports (`rust-version`).

For each published package with features: without any of them, and with each one alone. Otherwise only the sets that
the tests use would be compiled, and features of other packages would hide what one of them lacks.
"""

import json
import subprocess
import sys


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def fail(message):
    sys.exit(f"check-features: {message}")


def oldest_rust(packages):
    versions = {package["rust_version"] for package in packages}
    if len(versions) != 1 or None in versions:
        fail(f"the packages do not agree on one rust-version: {versions}")
    return versions.pop()


def cargo_of(rust):
    """The cargo that belongs to Rust `rust`: the default one, or another one that rustup has installed."""
    installed = run("rustc", "--version").split()[1]
    if installed == rust or installed.startswith(f"{rust}."):
        return ["cargo"]
    cargo = ["cargo", f"+{rust}"]
    if subprocess.run([*cargo, "--version"], capture_output=True).returncode:
        fail(f"Rust {rust}, the oldest supported version, is not installed: run `rustup toolchain install {rust}`")
    return cargo


def feature_sets(package):
    """None stands for no feature. `make fuzz` compiles the fuzzer, which needs a C++ compiler."""
    features = set(package["features"]) - {"default", "libfuzzer"}
    return [None, *sorted(features)] if features else []


def check(cargo, package, feature):
    command = [*cargo, "check", "--quiet", "--locked", "--package", package, "--no-default-features"]
    if feature:
        command += ["--features", feature]
    print(f"check-features: {package} {feature or 'without features'}", flush=True)
    checked = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(checked.stderr)
    # `-D warnings` in RUSTFLAGS would build every dependency once more.
    if checked.returncode or "warning:" in checked.stderr:
        fail(f"failed, or warned: {' '.join(command)}")


def main():
    metadata = json.loads(run("cargo", "metadata", "--no-deps", "--locked", "--format-version", "1"))
    cargo = cargo_of(oldest_rust(metadata["packages"]))
    for package in metadata["packages"]:
        # An empty list of registries stands for `publish = false`. Others choose no features of such a package.
        if package["publish"] == []:
            continue
        for feature in feature_sets(package):
            check(cargo, package["name"], feature)


main()
