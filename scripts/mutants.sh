#!/usr/bin/env bash
# Changes the code in one place at a time and expects a test to fail: what no test detects is a survivor.
#
#   scripts/mutants.sh [core] [engine] [sqlite] [aws]              (default: all of them)
#
#   MUTANTS_SHARD=k/n   only the kth of n shares, counted from 0: for several machines
#   MUTANTS_ONLY=code|texts
#                       only what cargo-mutants changes, or only DynamoDB's conditions and SQL, which it ignores
#   MUTANTS_RESUME=1    continues an interrupted run: mutants that it caught are not tested again
#   MUTANTS_ARGS="..."  more arguments for cargo-mutants, such as "--file crates/sqlite/src/purge.rs"
#
# Works in a copy of the checkout, .cache/mutants/work, which keeps build output from one run to the next. The results
# are below .cache/mutants/out. Fails if a mutant survives that tests/mutants/survivors.txt does not accept.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
state=$root/.cache/mutants
work=$state/work
out=$state/out
shard=${MUTANTS_SHARD:-0/1}
readonly root state work out shard

say() { printf 'mutants: %s\n' "$*" >&2; }

# The present files of the checkout, with uncommitted changes; build output stays. The files get new time stamps, because
# an interrupted run leaves artifacts of a mutant that would otherwise look up to date.
copy_checkout() {
    mkdir -p "$work"
    find "$work" -mindepth 1 -maxdepth 1 ! -name target ! -name .cache -exec rm -rf {} +
    git -C "$root" ls-files --cached --others --exclude-standard -z |
        (cd "$root" && while IFS= read -r -d '' file; do [[ -e $file ]] && printf '%s\0' "$file"; done) |
        tar -C "$root" --null --files-from=- --create | tar -C "$work" -m --extract
    mkdir -p "$work/.cache"
    ln -sfn "$root/.cache/tools" "$work/.cache/tools"
}

# The packages whose tests have to detect a mutant of crate $1.
testers() {
    case $1 in
        # This crate decides what the engine and its simulation do.
        core) printf 'longhaul-core,longhaul-engine\n' ;;
        engine | sqlite | aws) printf 'longhaul-%s\n' "$1" ;;
    esac
}

# The files of crate $1 that are changed: all of them, or those that decide about writes.
files() {
    case $1 in
        aws)
            local file
            for file in applying change creating expressions item keys lifetimes mailboxes quota record retention; do
                printf -- '--file\ncrates/aws/src/%s.rs\n' "$file"
            done
            ;;
        core | engine | sqlite) ;;
    esac
}

mutate_code() {
    local crate=$1 tool=cargo filter=() resume=() file
    if [[ ${MUTANTS_RESUME:-0} != 0 ]]; then resume=(--iterate); fi
    if cargo nextest --version >/dev/null 2>&1; then tool=nextest; fi
    while IFS= read -r file; do filter+=("$file"); done < <(files "$crate")
    say "the code of $crate, tested by $(testers "$crate")"
    # 2: survivors, 3: time-outs. Both are examined at the end.
    local status=0
    # shellcheck disable=SC2086  # Several arguments.
    "$root/.cache/tools/mutants/bin/cargo-mutants" mutants --dir "$work" --in-place --output "$out/$crate" \
        --package "longhaul-$crate" --test-package "$(testers "$crate")" --test-tool "$tool" \
        --shard "$shard" --sharding round-robin --no-shuffle --colors never --cargo-arg=--locked \
        ${filter[@]+"${filter[@]}"} ${resume[@]+"${resume[@]}"} ${MUTANTS_ARGS:-} || status=$?
    if [[ $status -ne 0 && $status -ne 2 && $status -ne 3 ]]; then
        say "cargo-mutants failed with status $status"
        return "$status"
    fi
}

mutate_texts() {
    say "the texts of $1"
    (cd "$work" && python3 "$root/tests/mutants/texts.py" run "$1" "$out/$1/texts" "$shard")
}

main() {
    local crates=("$@") crate
    [[ ${#crates[@]} -gt 0 ]] || crates=(core engine sqlite aws)
    for crate in "${crates[@]}"; do
        case $crate in
            core | engine | sqlite | aws) ;;
            *)
                say "unknown crate '$crate': core, engine, sqlite, aws"
                exit 2
                ;;
        esac
    done
    mkdir -p "$state"
    exec 9>"$state/lock"
    python3 "$root/scripts/portable.py" try-lock 9 || { say "another run uses $state"; exit 1; }
    copy_checkout
    if [[ ${MUTANTS_RESUME:-0} == 0 ]]; then rm -rf "$out"; fi
    mkdir -p "$out"
    # Fewer seeds: if the simulation detects a mutant, it does so in the first ones, or in a use case.
    export LONGHAUL_SIM_SEEDS=${LONGHAUL_SIM_SEEDS:-200} NEXTEST_PROFILE=mutants
    for crate in "${crates[@]}"; do
        mkdir -p "$out/$crate"
        if [[ ${MUTANTS_ONLY:-code} == code ]]; then mutate_code "$crate"; fi
        case ${MUTANTS_ONLY:-texts}/$crate in
            texts/sqlite | texts/aws) mutate_texts "$crate" ;;
        esac
    done
    python3 "$root/tests/mutants/compare.py" "$root/tests/mutants/survivors.txt" "$out"
}

main "$@"
