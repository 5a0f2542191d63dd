#!/usr/bin/env bash
# Runs the pinned MCP conformance suite against conformance-server, and fails on every unexpected failure.
#
#   scripts/conformance.sh [REVISION]        (default: 2026-07-28)
#
# A run is everything that the revision requires of a server, scored or not, and for 2026-07-28 also every scenario of
# the Tasks extension. For 2025-06-18, whose requirements the suite has not frozen, it is every scenario of that revision.
# The expected failures are listed in tests/conformance/expected-failures.txt.
#
# CONFORMANCE_SERVER    a server program to start, instead of building one
# CONFORMANCE_URL       a server that is already running, instead of starting one
# CONFORMANCE_EXPECTED  another file of expected failures
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.cache/tools
revision=${1:-2026-07-28}
readonly root tools revision
readonly ready_polls_max=100

results=$(mktemp -d)
server_pid=

say() { printf 'conformance: %s\n' "$*" >&2; }

stop() {
    if [[ -n $server_pid ]]; then
        kill "$server_pid" 2>/dev/null || true
        wait "$server_pid" 2>/dev/null || true
    fi
    rm -rf "$results"
}
trap stop EXIT

# Prints the path of the server program.
server_program() {
    if [[ -n ${CONFORMANCE_SERVER:-} ]]; then
        printf '%s\n' "$CONFORMANCE_SERVER"
        return
    fi
    cargo build --manifest-path "$root/Cargo.toml" --quiet --locked -p longhaul-conformance
    local target
    target=$(cargo metadata --manifest-path "$root/Cargo.toml" --format-version 1 --no-deps |
        "$tools/bin/node" -p 'JSON.parse(require("fs").readFileSync(0)).target_directory')
    printf '%s\n' "$target/debug/conformance-server"
}

# Starts the server on a free port and sets $url.
start_server() {
    local program port polls
    program=$(server_program)
    port=$("$tools/bin/node" -e 'const s = require("net").createServer(); s.listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
    "$program" --listen "127.0.0.1:$port" 2>"$results/server.log" &
    server_pid=$!
    for ((polls = 0; polls < ready_polls_max; polls++)); do
        if curl --silent --fail --output /dev/null "http://127.0.0.1:$port/healthz"; then
            url=http://127.0.0.1:$port/mcp
            return
        fi
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.1
    done
    say "the server did not become ready:"
    cat "$results/server.log" >&2
    exit 1
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

main() {
    "$root/scripts/setup-tools.sh" suite
    url=${CONFORMANCE_URL:-}
    [[ -n $url ]] || start_server
    run_suite
    if [[ -n $server_pid ]] && ! kill -0 "$server_pid" 2>/dev/null; then
        say "the server died during the run:"
        tail -n 20 "$results/server.log" >&2
        exit 1
    fi
    "$tools/bin/node" "$root/tests/conformance/report.mjs" "$revision" "$results" \
        "${CONFORMANCE_EXPECTED:-$root/tests/conformance/expected-failures.txt}"
}

main
