#!/usr/bin/env bash
# Looks for inputs that break a promise, with libFuzzer: each target of crates/fuzz for some seconds.
#
#   scripts/fuzz.sh SECONDS [TARGET...]      (default: all targets)
#
# What was found in earlier runs is in .cache/fuzz/corpus, and is where the next run begins. An input that breaks a promise
# is left in .cache/fuzz/found: copy it to crates/fuzz/corpus/TARGET under a name that says what was wrong, and repair what
# it shows; `scripts/nextest.sh -p longhaul-fuzz` runs it from then on.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root work=$root/.cache/fuzz
# Bytes of one input, seconds that it may take, and megabytes that the process may have.
readonly input_bytes_max=8192 input_s_max=20 memory_mb_max=4096

say() { printf 'fuzz: %s\n' "$*" >&2; }

# The same packages and features as for the tests, so that dependencies are not built again.
build() {
    RUSTC_WORKSPACE_WRAPPER=$root/scripts/coverage-rustc.sh CARGO_PROFILE_DEV_OPT_LEVEL=1 \
        "${CARGO:-cargo}" test --locked --manifest-path "$root/Cargo.toml" --workspace --no-run --test libfuzzer \
        --features longhaul-app/lambda,longhaul-conformance/lambda,longhaul-gateway/lambda,longhaul-fuzz/libfuzzer \
        --config profile.dev.package.longhaul-app.opt-level=1 --message-format json-render-diagnostics |
        sed -n 's/.*"executable":"\([^"]*\/libfuzzer-[^"]*\)".*/\1/p'
}

run() {
    local binary=$1 seconds=$2 target=$3
    mkdir -p "$work/corpus/$target" "$work/found/$target"
    say "$target, for $seconds s"
    LONGHAUL_FUZZ_TARGET=$target "$binary" "$work/corpus/$target" "$root/crates/fuzz/corpus/$target" \
        -max_total_time="$seconds" -max_len="$input_bytes_max" -timeout="$input_s_max" -rss_limit_mb="$memory_mb_max" \
        -artifact_prefix="$work/found/$target/" -print_final_stats=1 >"$work/$target.log" 2>&1 || {
        tail -n 40 "$work/$target.log" >&2
        say "$target: an input in .cache/fuzz/found/$target breaks a promise"
        return 1
    }
    grep -E 'stat::(number_of_executed_units|new_units_added)' "$work/$target.log" >&2
}

main() {
    local seconds=${1:?"scripts/fuzz.sh SECONDS [TARGET...]"}
    shift
    local binary targets=("$@") target failed=0
    binary=$(build)
    if [[ ${#targets[@]} -eq 0 ]]; then
        for target in "$root"/crates/fuzz/corpus/*/; do targets+=("$(basename "$target")"); done
    fi
    for target in "${targets[@]}"; do run "$binary" "$seconds" "$target" || failed=1; done
    return "$failed"
}

main "$@"
