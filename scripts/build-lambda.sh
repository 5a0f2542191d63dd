#!/usr/bin/env bash
# Builds the Lambda functions: below target/lambda the programs api/bootstrap and worker/bootstrap, beside each its
# bootstrap.zip, and in the file `architecture` what they were built for.
#
#   [ARCH=x86_64|arm64] [PACKAGE=NAME] [API=BINARY] [WORKER=BINARY] [FEATURES=LIST] scripts/build-lambda.sh [ARGUMENTS FOR
#                                                                                                    cargo lambda build]
#
# PACKAGE has the binaries API and WORKER (longhaul-app, api, worker), which become the functions api and worker. FEATURES
# are its features (lambda); if empty, the defaults of the package. PROFILE is the profile of the build (function), which
# the workspace has to declare. WORKSPACE is the folder of the workspace to build (this one); what is built is below its
# target folder. A workspace of your own with a package `reports` that has binaries `reports-api` and `reports-worker`:
#
#   WORKSPACE=. PACKAGE=reports API=reports-api WORKER=reports-worker FEATURES= PROFILE=release …/build-lambda.sh
#
# BUNDLE is a folder of files that the worker finds beside its program, such as the servers behind the gateway
# (scripts/pack_lambda.py); LAYER is `worker` if its program is also to be packed as a layer.
#
# ARCH is this machine's architecture by default. Another one needs its Rust target installed
# (rustup target add aarch64-unknown-linux-gnu). The linker is zig, which comes with cargo-lambda, so that the binaries
# run with Lambda's C library even if this machine has a newer one.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
workspace=$(cd "${WORKSPACE:-$root}" && pwd)
readonly workspace package=${PACKAGE:-longhaul-app} api=${API:-api} worker=${WORKER:-worker}
readonly features=${FEATURES-lambda} profile=${PROFILE:-function}

case ${ARCH:-$(uname -m)} in
    x86_64) target=--x86-64 ;;
    arm64 | aarch64) target=--arm64 ;;
    *)
        printf 'build-lambda: ARCH is %s; it must be x86_64 or arm64\n' "${ARCH:-$(uname -m)}" >&2
        exit 2
        ;;
esac

# From the folder of the caller.
if [[ -n ${BUNDLE:-} ]]; then
    bundle=$(cd "$BUNDLE" && pwd) || { printf 'build-lambda: BUNDLE is %s, which is not a folder\n' "$BUNDLE" >&2; exit 2; }
    readonly bundle
fi

[[ -n ${CARGO_LAMBDA:-} ]] || "$root/scripts/setup-tools.sh" cargo-lambda
cd "$workspace"
# With --disable-optimizations, the profile says all: cargo-lambda would otherwise have a panic end the whole program if the
# workspace's profile `release` does not say what it does.
selected=()
if [[ -n $features ]]; then selected=(--no-default-features --features "$features"); fi
"${CARGO_LAMBDA:-$root/.cache/tools/bin/cargo-lambda}" lambda build --profile "$profile" --locked "$target" \
    --disable-optimizations --lambda-dir target/lambda --package "$package" --bin "$api" --bin "$worker" \
    ${selected[@]+"${selected[@]}"} "$@"
# The template and the scripts know the functions by what they do.
rename() {
    if [[ $1 == "$2" ]]; then return; fi
    rm -rf "target/lambda/$2"
    mv "target/lambda/$1" "target/lambda/$2"
}
rename "$api" api
rename "$worker" worker
if [[ $package == longhaul-app && $profile == function && $target == --x86-64 ]]; then
    python3 "$root/scripts/check_sizes.py" target/lambda/api/bootstrap target/lambda/worker/bootstrap
fi
python3 "$root/scripts/pack_lambda.py" target/lambda api worker ${BUNDLE:+--bundle "$bundle"} ${LAYER:+--layer "$LAYER"}
