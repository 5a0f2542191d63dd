# shellcheck shell=bash
# For scripts that start what they have to stop again, however they end. The script that sources this has a function
# `clean_up`, which calls `end_child` first.

# The command that `run` runs now.
child=

# Calls clean_up once, also after Ctrl-C and SIGTERM.
clean_up_at_the_end() {
    trap 'trap - EXIT INT TERM; clean_up' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# Runs a command that can be interrupted: a shell does not handle signals while it waits for one in the foreground.
run() {
    local status=0
    "$@" <&0 &
    child=$!
    wait "$child" || status=$?
    child=
    return "$status"
}

# Ends the command that was interrupted.
end_child() {
    if [[ -n $child ]] && kill -0 "$child" 2>/dev/null; then
        kill -TERM "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
}
