#!/usr/bin/env bash
# Builds the Lambda functions: target/lambda/api/bootstrap.zip and target/lambda/worker/bootstrap.zip.
#
#   [ARCH=x86_64|arm64] scripts/build-lambda.sh [ARGUMENTS FOR cargo lambda build]
#
# ARCH is the machine's own unless it is given. Another one needs its Rust target installed
# (rustup target add aarch64-unknown-linux-gnu). The linker is zig, which comes with cargo-lambda: so the binaries need no
# newer C library than Lambda has, whatever this machine has.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root

case ${ARCH:-$(uname -m)} in
    x86_64) target=--x86-64 ;;
    arm64 | aarch64) target=--arm64 ;;
    *)
        printf 'build-lambda: ARCH is %s; it has to be x86_64 or arm64\n' "${ARCH:-$(uname -m)}" >&2
        exit 2
        ;;
esac

"$root/scripts/setup-tools.sh" cargo-lambda
cd "$root"
"$root/.cache/tools/bin/cargo-lambda" lambda build --profile function --locked "$target" --output-format zip \
    --lambda-dir target/lambda --package longhaul-app --bin api --bin worker --no-default-features --features lambda "$@"
