#!/usr/bin/env bash
# Runs tests with cargo-nextest: the one that is installed on this machine, otherwise the pinned one.
#
#   scripts/nextest.sh [ARGUMENTS OF cargo nextest run, such as --workspace, -p PACKAGE or -E FILTER]
set -euo pipefail

if cargo nextest --version >/dev/null 2>&1; then
    exec cargo nextest run --locked "$@"
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/setup-tools.sh" nextest
exec "$root/.cache/tools/bin/cargo-nextest" nextest run --locked "$@"
