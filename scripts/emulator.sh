#!/usr/bin/env bash
# Runs the AWS emulator on loopback, for tests and for trying things out.
#
#   scripts/emulator.sh run-with COMMAND [ARGUMENTS]   an emulator of the command's own: starts with it, ends with it
#   scripts/emulator.sh start                          one that stays; prints its endpoint
#   scripts/emulator.sh stop                           ends the one that `start` started
#   scripts/emulator.sh spawn LOG                      the caller's own; prints its process group and its endpoint
#   scripts/emulator.sh end GROUP                      ends one of those, and what runs in it
#   scripts/emulator.sh shared                         one for all test processes of this checkout; prints its endpoint.
#                                                      Whoever uses it holds a shared lock on .cache/emulator/users.lock;
#                                                      it ends by itself soon after the last lock is gone.
#                                                      EMULATOR_STATE names another folder than .cache/emulator, for one
#                                                      that is shared by others.
#
# COMMAND sees AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. The port is free and chosen
# anew each time. EMULATOR_AUTH=true lets the emulator enforce IAM. Several calls at once are safe.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.cache/tools
state=${EMULATOR_STATE:-$root/.cache/emulator}
readonly root tools state
readonly ready_tries_max=300
readonly start_tries_max=3
# Long enough that the next of many tests, each a process of its own, finds it alive.
readonly idle_s=20

pid=
endpoint=
log=

say() { printf 'emulator: %s\n' "$*" >&2; }

is_ready() { curl --silent --fail --max-time 2 --output /dev/null "$1/_ministack/health"; }

free_port() {
    "$tools/aws/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Starts an emulator as the leader of a process group of its own, because its functions outlive it otherwise. Its
# environment is handed to every function it runs, so it gets nothing but what is named here. Sets $pid and $endpoint.
launch() {
    local log=$1 port tries
    port=$(free_port)
    endpoint=http://127.0.0.1:$port
    setsid env -i PATH="$PATH" HOME="$state" TMPDIR="${TMPDIR:-/tmp}" LANG=C.UTF-8 \
        BIND_HOST=127.0.0.1 GATEWAY_PORT="$port" IOT_MTLS_ENABLED=0 SFTP_ENABLED=0 LOG_LEVEL=WARNING \
        AUTH="${EMULATOR_AUTH:-false}" AWS_ENDPOINT_URL="$endpoint" AWS_REGION=us-east-1 \
        AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test \
        "$tools/aws/bin/ministack" </dev/null >"$log" 2>&1 7>&- 8>&- 9>&- &
    pid=$!
    for ((tries = 0; tries < ready_tries_max; tries++)); do
        if is_ready "$endpoint"; then return 0; fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    end_group "$pid"
    return 1
}

# Somebody else may take the port between the look and the start, so a start is tried more than once.
launch_surely() {
    local log=$1 tries
    if [[ ! -x $tools/aws/bin/ministack ]]; then
        say "not installed; run scripts/setup-tools.sh aws"
        return 1
    fi
    mkdir -p "$state"
    for ((tries = 0; tries < start_tries_max; tries++)); do
        if launch "$log"; then return 0; fi
        say "did not start (try $((tries + 1)))"
    done
    tail -n 20 "$log" >&2
    return 1
}

# Ends process group $1 and waits until it is gone.
end_group() {
    local group=$1 tries
    kill -TERM -- "-$group" 2>/dev/null || return 0
    for ((tries = 0; tries < 30; tries++)); do
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
    launch_surely "$log"
    AWS_ENDPOINT_URL=$endpoint AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test "$@" || status=$?
    return "$status"
}

start() {
    mkdir -p "$state"
    exec 9>"$state/start.lock"
    flock 9
    if [[ -f $state/started ]]; then
        read -r pid endpoint <"$state/started"
        if is_ready "$endpoint"; then
            printf '%s\n' "$endpoint"
            return
        fi
    fi
    launch_surely "$state/started.log"
    printf '%s %s\n' "$pid" "$endpoint" >"$state/started"
    printf '%s\n' "$endpoint"
}

spawn() {
    launch_surely "$1"
    printf '%s %s\n' "$pid" "$endpoint"
}

stop() {
    [[ -f $state/started ]] || return 0
    read -r pid endpoint <"$state/started"
    # The number may belong to another process by now: it is ours only while the endpoint answers.
    if is_ready "$endpoint"; then end_group "$pid"; fi
    rm -f "$state/started"
}

shared() {
    mkdir -p "$state"
    exec 8>"$state/shared.lock"
    flock 8
    if [[ -f $state/shared ]]; then
        read -r endpoint <"$state/shared"
        if is_ready "$endpoint"; then
            printf '%s\n' "$endpoint"
            return
        fi
    fi
    rm -f "$state/shared"
    launch_surely "$state/shared.log"
    printf '%s\n' "$endpoint" >"$state/shared"
    setsid "${BASH_SOURCE[0]}" _end-when-unused "$pid" "$endpoint" </dev/null >/dev/null 2>&1 8>&- &
    printf '%s\n' "$endpoint"
}

# Ends the shared emulator once nobody has held the users' lock for a while.
end_when_unused() {
    pid=$1 endpoint=$2
    local idle=0
    exec 7>"$state/users.lock" 8>"$state/shared.lock"
    while is_ready "$endpoint"; do
        sleep 2
        if is_unused; then idle=$((idle + 2)); else idle=0; fi
        ((idle >= idle_s)) || continue
        # Whoever takes the users' lock from now on has to wait for this one, and then finds no emulator.
        flock 8
        if is_unused; then break; fi
        flock --unlock 8
        idle=0
    done
    flock 8
    if [[ $(cat "$state/shared" 2>/dev/null) == "$endpoint" ]]; then rm -f "$state/shared"; fi
    end_group "$pid"
}

is_unused() { flock --nonblock 7 && flock --unlock 7; }

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
