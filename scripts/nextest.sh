#!/usr/bin/env bash
# Runs tests with cargo-nextest: the one that is installed on this machine, otherwise the pinned one. Notes each test
# that needed a second try in target/second-tries.txt.
#
#   scripts/nextest.sh [ARGUMENTS OF cargo nextest run, such as --workspace, -p PACKAGE or -E FILTER]
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
noted=${CARGO_TARGET_DIR:-$root/target}/second-tries.txt
nextest=(cargo nextest)
if ! cargo nextest --version >/dev/null 2>&1; then
    "$root/scripts/setup-tools.sh" nextest
    nextest=("$root/.cache/tools/bin/cargo-nextest" nextest)
fi
mkdir -p "$(dirname "$noted")"
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
status=0
"${nextest[@]}" run --locked --final-status-level flaky "$@" 2>&1 | tee "$printed" || status=$?
grep -aE '^ *(TRY [2-9]+ PASS|FLAKY)' "$printed" | sed -E 's/^ *//' | sort -u >>"$noted" || true
exit "$status"
