#!/usr/bin/env bash
# Runs the workspace's tests: with cargo-nextest where it is installed, with `cargo test` otherwise.
#
#   scripts/nextest.sh [cargo's own arguments, such as --workspace or -p PACKAGE]
set -euo pipefail

if cargo nextest --version >/dev/null 2>&1; then
    exec cargo nextest run --locked "$@"
fi
exec cargo test --locked --lib --bins --tests "$@"
