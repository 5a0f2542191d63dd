#!/usr/bin/env bash
# Runs a command at the lowest priority beside another one, and prints its output after that of the other. Fails if one
# of them fails.
#
#   scripts/beside.sh FILE FOR THE OUTPUT 'COMMAND AT THE LOWEST PRIORITY' -- COMMAND...
set -uo pipefail

printed=$1
lowest=$2
shift 3
mkdir -p "$(dirname "$printed")"
# A process group of its own, so that nothing of it goes on when this script is stopped.
set -m
nice -n 19 bash -c "$lowest" >"$printed" 2>&1 &
set +m
readonly beside=$!
trap 'kill -- "-$beside" 2>/dev/null' EXIT
"$@"
status=$?
wait "$beside" || status=$?
cat "$printed"
exit "$status"
