#!/usr/bin/env bash
# Builds the Lambda functions: below target/lambda the programs api/bootstrap and worker/bootstrap, beside each its
# bootstrap.zip, and in the file `architecture` what they were built for.
#
#   [ARCH=x86_64|arm64] scripts/build-lambda.sh [ARGUMENTS FOR cargo lambda build]
#
# ARCH is this machine's architecture by default. Another one needs its Rust target installed
# (rustup target add aarch64-unknown-linux-gnu). The linker is zig, which comes with cargo-lambda, so that the binaries
# run with Lambda's C library even if this machine has a newer one.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root

case ${ARCH:-$(uname -m)} in
    x86_64) target=--x86-64 ;;
    arm64 | aarch64) target=--arm64 ;;
    *)
        printf 'build-lambda: ARCH is %s; it must be x86_64 or arm64\n' "${ARCH:-$(uname -m)}" >&2
        exit 2
        ;;
esac

"$root/scripts/setup-tools.sh" cargo-lambda
cd "$root"
"$root/.cache/tools/bin/cargo-lambda" lambda build --profile function --locked "$target" \
    --lambda-dir target/lambda --package longhaul-app --bin api --bin worker --no-default-features --features lambda "$@"
python3 scripts/pack_lambda.py target/lambda api worker
