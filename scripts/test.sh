#!/usr/bin/env bash
# Builds all programs and tests, and runs the tests that need nothing but a Rust toolchain, a C compiler and make.
# Called by `make test`, with the packages and features in its arguments:
#
#   scripts/test.sh --workspace --features FEATURE,…
#
# At the end it says how many tests ran, and how long that took.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Modules whose tests need what scripts/setup-tools.sh installs.
readonly needs_other_programs=(--skip external:: --skip real::)
# The test binaries that need nothing else, and take no minutes.
readonly alone=(
    architecture audit_lines console delivering endpoint fakes function jobs load pages planted profile_dataset proofs
    refused server settings simulation sqlite stdio streams targets task tokens use_cases
)
# Most of these tests wait for a server that they have started.
readonly server_tests_at_a_time=8

cargo=${CARGO:-cargo}
built=("$@")
started=$SECONDS
logs=$(mktemp -d)
failed=0
# Without a job left, `kill` fails, and its status would become that of this script.
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$logs"' EXIT

say() { printf 'test: %s\n' "$*"; }

# Runs `cargo test` with the arguments after the first one, which names its log. Goes on if a test fails.
run() {
    local name=$1
    shift
    "$cargo" test --locked --quiet --no-fail-fast "${built[@]}" "$@" 2>&1 | tee -a "$logs/$name" || failed=1
}

# Prints the sum of the numbers before the word $1 in the lines `test result: …`.
sum() {
    cat "$logs"/* | grep -E '^test result: ' | grep -oE "[0-9]+ $1" | awk '{ all += $1 } END { print all + 0 }'
}

whole_programs() {
    # Alone, because it compiles.
    run whole_programs --test local -- checkout::
    run whole_programs --test cli --test local -- "${needs_other_programs[@]}" --skip checkout:: \
        --test-threads "$server_tests_at_a_time"
    return "$failed"
}

say "building all programs and tests"
# With the tests, so that dependencies have the same features in both, and nothing is built twice.
"$cargo" build --locked "${built[@]}" --bins --tests
built_s=$((SECONDS - started))

# At the same time, because the tests of whole programs mostly wait.
whole_programs >"$logs/printed" 2>&1 &
others=$!
run alone --lib --bins --examples "${alone[@]/#/--test=}" -- --skip external::
say "examples in the documentation"
run alone --doc
say "tests of whole programs"
wait "$others" || failed=1
cat "$logs/printed"
rm "$logs/printed"

say "built in $built_s s, ran in $((SECONDS - started - built_s)) s"
say "\`make test-all\` adds real clients, a browser, an AWS emulator, the conformance suite and 100,000 simulated worlds"
printf 'test: %s passed, %s failed, %s skipped\n' "$(sum passed)" "$(sum failed)" "$(sum ignored)"
exit "$failed"
