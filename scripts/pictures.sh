#!/usr/bin/env bash
# Makes the pictures of docs/images anew: pages of the console, and the command in a terminal. They show a server of their
# own with example tasks. Look at each before you commit it. `make pictures` builds what this needs.
#
#   scripts/pictures.sh [FOLDER [terminal|kill|console]...]        (default: docs/images, all of them)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
images=$(realpath -m "${1:-$root/docs/images}")
work=$(mktemp -d)
parts=("${@:2}")
[[ ${#parts[@]} -gt 0 ]] || parts=(terminal kill console)
readonly root images work parts
# What the command takes if nothing else is said, so that no line has to say it.
readonly port=8080
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")/debug

cd "$root"
server=
stop() {
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    [[ ! -e $work/pid ]] || kill "$(cat "$work/pid")" 2>/dev/null || true
    rm -rf "$work"
}
trap stop EXIT

mkdir -p "$images"
unset LONGHAUL_SERVER
export XDG_STATE_HOME=$work PATH=$target:$PATH TERM=xterm-256color

# The server on the database of this name. One that runs is killed as a crash would.
start() {
    [[ -z $server ]] || { kill -9 "$server"; wait "$server" 2>/dev/null || true; }
    "$target/longhaul" demo --diagnostics --listen "127.0.0.1:$port" --db "$work/$1.db" --data-dir "$work" >"$work/$1.log" 2>&1 &
    server=$!
    local attempt
    for ((attempt = 0; attempt < 100; attempt++)); do
        if longhaul tools >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    printf 'pictures: the server does not start\n' >&2
    exit 1
}

picture_terminal() {
    start terminal
    scripts/terminal_svg.py "$images/call.svg" <<'SCENES'
{"type": "longhaul call countdown seconds=12 steps=60", "keys": [{"after": 4, "press": "\u0003"}]}
{"type": "longhaul watch {LAST}"}
{"type": "longhaul call ask 'questions:=[\"Which table?\"]'", "keys": [{"after": 1.5, "press": "\r"}, {"after": 2.5, "press": "o"}, {"after": 2.6, "press": "r"}, {"after": 2.7, "press": "d"}, {"after": 2.8, "press": "e"}, {"after": 2.9, "press": "r"}, {"after": 3, "press": "s"}, {"after": 3.6, "press": "\r"}]}
SCENES
}

# A call that survives the death of its server. The typed `pkill` would reach every server of this machine.
picture_kill() {
    start kill
    printf '%s' "$server" >"$work/pid"
    server=
    export PID=$work/pid DB=$work/kill.db LOG=$work/kill.log
    scripts/terminal_svg.py "$images/kill.svg" <<'SCENES'
{"type": "longhaul call countdown seconds=12 --detach"}
{"type": "longhaul watch {LAST} --wait 4s"}
{"type": "pkill -9 -f 'longhaul demo'     # the server dies in the middle of the call", "run": "kill -9 $(cat $PID)"}
{"pause": 1, "type": "longhaul tasks"}
{"pause": 1, "type": "longhaul demo >demo.log 2>&1 &", "run": "nohup setsid -f sh -c 'echo $$ >$PID; exec longhaul demo --db $DB' >>$LOG 2>&1 </dev/null"}
{"pause": 1, "type": "longhaul watch {LAST}"}
SCENES
}

picture_console() {
    start console
    printf 'id,amount,day\n%s\n' "$(seq 1 2000 | awk '{print $1 "," $1 * 7 % 113 ",2026-11-" 1 + $1 % 28}')" >"$work/orders.csv"
    longhaul call profile_dataset path=orders.csv >/dev/null || true
    longhaul call fail how=tool_error after_s=2 >/dev/null 2>&1 || true
    longhaul call countdown seconds=3 steps=12 >/dev/null 2>&1
    cancelled=$(longhaul call countdown seconds=600 --detach)
    longhaul cancel "$cancelled"
    asking=$(longhaul call ask 'questions:=["Which table should be migrated first?", "And then?"]' --detach)
    working=$(longhaul call countdown seconds=40 steps=40 --detach)
    sleep 7
    start console
    sleep 12
    start console
    sleep 9
    "$root/.cache/tools/bin/node" "$root/tests/console/driver.mjs" --chromium "$root/.cache/tools/bin/chromium" \
        --url "http://127.0.0.1:$port/console" --task "$working" --other "$asking" --folder "$images" pictures
}

for part in "${parts[@]}"; do "picture_$part"; done
ls -l "$images"
