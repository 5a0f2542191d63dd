#!/usr/bin/env bash
# Runs the AWS emulator on the loopback interface, for tests and for trying things out.
#
#   scripts/emulator.sh run-with COMMAND [ARGUMENTS]   runs COMMAND with its own emulator, and then stops that
#   scripts/emulator.sh start                          starts an emulator that keeps running; prints its endpoint
#   scripts/emulator.sh stop                           stops the emulator that `start` started
#   scripts/emulator.sh spawn LOG                      starts one for the caller; prints its process group and endpoint
#   scripts/emulator.sh end GROUP                      stops an emulator that `spawn` started, and everything in it
#   scripts/emulator.sh shared                         starts one for all test processes of this checkout, or finds it;
#                                                      prints its endpoint. Each user holds a shared lock on
#                                                      .cache/emulator/users.lock; the emulator stops by itself soon
#                                                      after the last lock is released. EMULATOR_STATE names another
#                                                      folder than .cache/emulator, for an emulator with other users.
#
# COMMAND sees AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION for tools that know this one only, AWS_ACCESS_KEY_ID and
# AWS_SECRET_ACCESS_KEY. Each emulator gets a free port.
# With EMULATOR_AUTH=true the emulator enforces IAM. Several calls at the same time are safe.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.cache/tools
state=${EMULATOR_STATE:-$root/.cache/emulator}
readonly root tools state
readonly ready_polls_max=300
readonly start_attempts_max=3
# Long enough for the next of many tests, each of which is a process, to find it running.
readonly idle_s=20
readonly portable=$root/scripts/portable.py

pid=
endpoint=
log=

say() { printf 'emulator: %s\n' "$*" >&2; }

is_ready() { curl --silent --fail --max-time 2 --output /dev/null "$1/_ministack/health"; }

free_port() {
    "$tools/aws/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Starts an emulator as the leader of its own process group, because otherwise its functions would outlive it. It passes
# its environment to every function that it runs, so it gets only what is named here. Sets $pid and $endpoint.
launch() {
    local log=$1 port polls
    port=$(free_port)
    endpoint=http://127.0.0.1:$port
    python3 "$portable" setsid env -i PATH="$PATH" HOME="$state" TMPDIR="${TMPDIR:-/tmp}" LANG=C.UTF-8 \
        BIND_HOST=127.0.0.1 GATEWAY_PORT="$port" IOT_MTLS_ENABLED=0 SFTP_ENABLED=0 LOG_LEVEL=WARNING \
        AUTH="${EMULATOR_AUTH:-false}" AWS_ENDPOINT_URL="$endpoint" AWS_REGION=us-east-1 \
        AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test \
        "$tools/aws/bin/ministack" </dev/null >"$log" 2>&1 7>&- 8>&- 9>&- &
    pid=$!
    for ((polls = 0; polls < ready_polls_max; polls++)); do
        if is_ready "$endpoint"; then return 0; fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    end_group "$pid"
    return 1
}

# Another process may take the port before the emulator does, so the start is attempted more than once.
launch_with_retry() {
    local log=$1 attempt
    if [[ ! -x $tools/aws/bin/ministack ]]; then
        say "not installed; run scripts/setup-tools.sh aws"
        return 1
    fi
    mkdir -p "$state"
    for ((attempt = 1; attempt <= start_attempts_max; attempt++)); do
        if launch "$log"; then return 0; fi
        say "did not start (attempt $attempt of $start_attempts_max)"
    done
    tail -n 20 "$log" >&2
    return 1
}

# Ends process group $1 and waits until it is gone.
end_group() {
    local group=$1 polls
    kill -TERM -- "-$group" 2>/dev/null || return 0
    for ((polls = 0; polls < 30; polls++)); do
        kill -0 -- "-$group" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "-$group" 2>/dev/null || true
}

run_with() {
    local status=0
    log=$(mktemp)
    trap 'if [[ -n $pid ]]; then end_group "$pid"; fi; rm -f "$log"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    launch_with_retry "$log"
    AWS_ENDPOINT_URL=$endpoint AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1 AWS_ACCESS_KEY_ID=test \
        AWS_SECRET_ACCESS_KEY=test "$@" || status=$?
    return "$status"
}

start() {
    mkdir -p "$state"
    exec 9>"$state/start.lock"
    python3 "$portable" lock 9
    if [[ -f $state/started ]]; then
        read -r pid endpoint <"$state/started"
        if is_ready "$endpoint"; then
            printf '%s\n' "$endpoint"
            return
        fi
    fi
    launch_with_retry "$state/started.log"
    printf '%s %s\n' "$pid" "$endpoint" >"$state/started"
    printf '%s\n' "$endpoint"
}

spawn() {
    launch_with_retry "$1"
    printf '%s %s\n' "$pid" "$endpoint"
}

stop() {
    [[ -f $state/started ]] || return 0
    read -r pid endpoint <"$state/started"
    # Another process may have this id by now: it is the emulator's only while the endpoint answers.
    if is_ready "$endpoint"; then end_group "$pid"; fi
    rm -f "$state/started"
}

shared() {
    mkdir -p "$state"
    exec 8>"$state/shared.lock"
    python3 "$portable" lock 8
    if [[ -f $state/shared ]]; then
        read -r endpoint <"$state/shared"
        if is_ready "$endpoint"; then
            printf '%s\n' "$endpoint"
            return
        fi
    fi
    rm -f "$state/shared"
    launch_with_retry "$state/shared.log"
    printf '%s\n' "$endpoint" >"$state/shared"
    python3 "$portable" setsid "${BASH_SOURCE[0]}" _end-when-unused "$pid" "$endpoint" </dev/null >/dev/null 2>&1 8>&- &
    printf '%s\n' "$endpoint"
}

# Stops the shared emulator when the users' lock has been free for a while.
end_when_unused() {
    pid=$1 endpoint=$2
    local idle=0
    exec 7>"$state/users.lock" 8>"$state/shared.lock"
    # A busy machine may take seconds to answer, so an emulator is in use as long as its process is there.
    while kill -0 "$pid" 2>/dev/null; do
        sleep 2
        if is_unused; then idle=$((idle + 2)); else idle=0; fi
        ((idle >= idle_s)) || continue
        # A process that takes the users' lock from now on has to wait for this lock, and then finds no emulator.
        python3 "$portable" lock 8
        if is_unused; then break; fi
        python3 "$portable" unlock 8
        idle=0
    done
    python3 "$portable" lock 8
    if [[ $(cat "$state/shared" 2>/dev/null) == "$endpoint" ]]; then rm -f "$state/shared"; fi
    end_group "$pid"
}

is_unused() { python3 "$portable" try-lock 7 && python3 "$portable" unlock 7; }

main() {
    local verb=${1:-}
    [[ $# -eq 0 ]] || shift
    case $verb in
        run-with) run_with "$@" ;;
        start) start ;;
        stop) stop ;;
        spawn) spawn "$@" ;;
        end) end_group "$@" ;;
        shared) shared ;;
        _end-when-unused) end_when_unused "$@" ;;
        *)
            say "usage: scripts/emulator.sh run-with COMMAND… | start | stop | spawn LOG | end GROUP | shared"
            exit 2
            ;;
    esac
}

main "$@"
