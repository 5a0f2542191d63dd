#!/usr/bin/env bash
# Runs the pinned MCP conformance suite against conformance-server, and fails on every unexpected failure.
#
#   scripts/conformance.sh [REVISION]            (default: 2026-07-28)
#   scripts/conformance.sh REVISION gateway      through `longhaul gateway`, with conformance-server behind it
#
# A run is everything that the revision requires of a server, scored or not, and for 2026-07-28 also every scenario of
# the Tasks extension. For 2025-06-18, whose requirements the suite has not frozen, it is every scenario of that revision.
# The expected failures are listed in tests/conformance/expected-failures.txt, those of the gateway in
# tests/conformance/expected-failures-gateway.txt.
#
# CONFORMANCE_SERVER    a server program to start, instead of building one
# CONFORMANCE_GATEWAY   a program `longhaul` to start, instead of building one
# CONFORMANCE_URL       a server that is already running, instead of starting one
# CONFORMANCE_EXPECTED  another file of expected failures
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.cache/tools
revision=${1:-2026-07-28}
through=${2:-}
readonly root tools revision through
readonly ready_polls_max=100

results=$(mktemp -d)
server_pids=()

say() { printf 'conformance: %s\n' "$*" >&2; }

stop() {
    local pid
    for pid in "${server_pids[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$results"
}
trap stop EXIT

# Prints the path of the program $2 of the package $1, which is built now.
built() {
    cargo build --manifest-path "$root/Cargo.toml" --quiet --locked -p "$1" --bin "$2"
    local target
    target=$(cargo metadata --manifest-path "$root/Cargo.toml" --format-version 1 --no-deps |
        "$tools/bin/node" -p 'JSON.parse(require("fs").readFileSync(0)).target_directory')
    printf '%s\n' "$target/debug/$2"
}

# Starts a server, whose command is in the arguments, on a free port, and sets $url.
start() {
    local port polls
    port=$("$tools/bin/node" -e 'const s = require("net").createServer(); s.listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
    "$@" --listen "127.0.0.1:$port" >>"$results/server.log" 2>&1 &
    server_pids+=($!)
    for ((polls = 0; polls < ready_polls_max; polls++)); do
        if curl --silent --fail --output /dev/null "http://127.0.0.1:$port/healthz"; then
            url=http://127.0.0.1:$port/mcp
            return
        fi
        kill -0 "$!" 2>/dev/null || break
        sleep 0.1
    done
    say "the server did not become ready:"
    cat "$results/server.log" >&2
    exit 1
}

start_servers() {
    local program
    program=${CONFORMANCE_SERVER:-$(built longhaul-conformance conformance-server)}
    start "$program"
    [[ $through == gateway ]] || return 0
    program=${CONFORMANCE_GATEWAY:-$(built longhaul-cli longhaul)}
    CONFORMANCE_UPSTREAM=$url start "$program" gateway --db "$results/tasks.db" \
        --config "$root/tests/conformance/gateway.json"
}

# The suite's own exit code ignores what it does not score, so the results are read instead.
suite() {
    "$tools/bin/conformance" server --url "$url" --output-dir "$results" "$@" >"$results/suite.log" 2>&1 || true
}

run_suite() {
    say "running everything that $revision requires"
    if [[ $revision == 2025-06-18 ]]; then
        suite --suite all --spec-version "$revision"
        return
    fi
    suite --requirements "$revision"
    [[ $revision == 2026-07-28 ]] || return 0
    local scenario
    for scenario in lifecycle capability-negotiation wire-fields request-state-removal mrtr-input request-headers \
        dispatch-and-envelope status-notifications required-task-error mrtr-composition; do
        if compgen -G "$results/server-tasks-$scenario-*" >/dev/null; then continue; fi
        say "running tasks-$scenario"
        suite --scenario "tasks-$scenario"
    done
}

check_servers() {
    local pid
    for pid in "${server_pids[@]}"; do
        if ! kill -0 "$pid" 2>/dev/null; then
            say "a server died during the run:"
            tail -n 20 "$results/server.log" >&2
            exit 1
        fi
    done
}

main() {
    if [[ -n $through && $through != gateway ]]; then
        say "'$through' is not known: leave it out, or write 'gateway'"
        exit 2
    fi
    "$root/scripts/setup-tools.sh" suite
    url=${CONFORMANCE_URL:-}
    [[ -n $url ]] || start_servers
    run_suite
    check_servers
    "$tools/bin/node" "$root/tests/conformance/report.mjs" "$revision" "$results" \
        "${CONFORMANCE_EXPECTED:-$root/tests/conformance/expected-failures${through:+-$through}.txt}"
}

main
