#!/usr/bin/env bash
# The whole deployment on this machine: the AWS emulator, with template.yaml and the real functions deployed in it.
#
#   scripts/local-aws.sh [PARAMETER=VALUE…]            builds, deploys, prints where everything is, and runs until it is
#                                                      stopped (Ctrl-C or SIGTERM); then it removes everything
#   scripts/local-aws.sh run-with COMMAND [ARGUMENTS]  the same without a deployment, for as long as COMMAND runs: the
#                                                      functions are in the emulator's S3, ready to be deployed
#   scripts/local-aws.sh shared                        the same as run-with for all test processes of this checkout; prints
#                                                      the endpoint. Each user holds a shared lock on
#                                                      .cache/local-aws/users.lock; the emulator stops soon after the last
#                                                      lock is released
#   scripts/local-aws.sh deploy STACK [--demand-tls] [--resend-unclaimed] [PARAMETER=VALUE…]
#                                                      deploys template.yaml there once more; prints the stack's outputs as
#                                                      JSON. With --demand-tls also the queue policies that refuse requests
#                                                      without TLS, which the emulator does not speak: no work is done then;
#                                                      with --resend-unclaimed also what finds tasks whose message was lost
#   scripts/local-aws.sh delete STACK                  deletes that stack
#   scripts/local-aws.sh outputs STACK                 prints the outputs of a stack that another tool has deployed, such as
#                                                      the SAM CLI; McpUrl is one that this machine reaches
#
# PARAMETERs are those of template.yaml; of several with the name Settings all values hold, of others the last one. By
# default everyone may call (AuthMode=anonymous), and answers are buffered, because the emulator cannot stream. The first
# form also serves the diagnostic tools.
# COMMAND sees, and `deploy` and `outputs` need, AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
# LOCAL_AWS_BIN_DIR     a folder with the programs `api` and `worker`, built for this machine. Without it they are built
#                       here, quickly and without optimisation: scripts/build-lambda.sh builds what is deployed to AWS
# LOCAL_AWS_BIN_PREFIX  goes before the names of these programs
# LOCAL_AWS_STATE       another folder than .cache/local-aws, for an emulator whose users deploy other programs
# EMULATOR_AUTH=true    makes the emulator enforce the roles of the functions; `shared` does, unless it is false
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
# shellcheck source=scripts/cleanup.sh
source "$root/scripts/cleanup.sh"
readonly python=$root/.cache/tools/aws/bin/python
readonly stack_default=longhaul
readonly bin_prefix=${LOCAL_AWS_BIN_PREFIX:-}

group=
scratch=

say() { printf 'local-aws: %s\n' "$*" >&2; }

# Stops everything that was started here.
clean_up() {
    end_child
    if [[ -n $group ]]; then "$root/scripts/emulator.sh" end "$group"; fi
    if [[ -n $scratch ]]; then rm -rf "$scratch"; fi
}

bin_dir() {
    if [[ -n ${LOCAL_AWS_BIN_DIR:-} ]]; then
        printf '%s\n' "$LOCAL_AWS_BIN_DIR"
        return
    fi
    say "building the functions"
    (cd "$root" && cargo build --quiet --locked --package longhaul-app --features lambda --bin api --bin worker) >&2
    printf '%s\n' "${CARGO_TARGET_DIR:-$root/target}/debug"
}

# Copies the programs without debug information, if `strip` is installed: the emulator unpacks them often.
pack() {
    local bin_dir=$1 name
    for name in api worker; do
        mkdir "$scratch/$name"
        strip -o "$scratch/$name/bootstrap" "$bin_dir/$bin_prefix$name" 2>/dev/null ||
            cp "$bin_dir/$bin_prefix$name" "$scratch/$name/bootstrap"
    done
}

begin() {
    "$root/scripts/setup-tools.sh" aws
    clean_up_at_the_end
    local bin_dir started
    bin_dir=$(bin_dir)
    scratch=$(mktemp -d)
    mkdir "$scratch/tmp"
    started=$(TMPDIR=$scratch/tmp "$root/scripts/emulator.sh" spawn "$scratch/emulator.log")
    read -r group AWS_ENDPOINT_URL <<<"$started"
    upload "$bin_dir"
}

# Puts the functions of folder $1 into the S3 of the emulator at $AWS_ENDPOINT_URL.
upload() {
    # The SAM CLI and version 1 of the AWS CLI read AWS_DEFAULT_REGION only.
    export AWS_ENDPOINT_URL AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
    export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
    unset AWS_PROFILE AWS_SESSION_TOKEN
    pack "$1"
    "$python" "$root/scripts/local_aws.py" upload "$scratch/api/bootstrap" "$scratch/worker/bootstrap"
    rm -r "$scratch/api" "$scratch/worker"
}

shared() {
    local state=${LOCAL_AWS_STATE:-$root/.cache/local-aws} bin_dir uploaded
    bin_dir=$(bin_dir)
    mkdir -p "$state/tmp"
    exec 5>"$state/upload.lock"
    python3 "$root/scripts/portable.py" lock 5
    # What an earlier emulator has unpacked is useless to the next one.
    if ! curl --silent --fail --max-time 2 --output /dev/null "$(cat "$state/shared" 2>/dev/null)/_ministack/health"; then
        rm -rf "$state/tmp"
        mkdir "$state/tmp"
    fi
    # The emulator outlives this script and must not hold the lock.
    AWS_ENDPOINT_URL=$(EMULATOR_STATE=$state EMULATOR_AUTH=${EMULATOR_AUTH:-true} TMPDIR=$state/tmp "$root/scripts/emulator.sh" shared 5>&-)
    uploaded="$AWS_ENDPOINT_URL $(python3 "$root/scripts/portable.py" stamp "$bin_dir/$bin_prefix"{api,worker})"
    if [[ $(cat "$state/uploaded" 2>/dev/null) != "$uploaded" ]]; then
        scratch=$(mktemp -d)
        trap clean_up EXIT
        upload "$bin_dir"
        printf '%s\n' "$uploaded" >"$state/uploaded"
    fi
    printf '%s\n' "$AWS_ENDPOINT_URL"
}

run_with() {
    begin
    local status=0
    run "$@" || status=$?
    if ((status != 0)) && [[ -s $scratch/emulator.log ]]; then
        say "the last lines of the emulator's log:"
        tail -n "${LOCAL_AWS_LOG_LINES:-40}" "$scratch/emulator.log" >&2
    fi
    return "$status"
}

stay() {
    begin
    "$python" "$root/scripts/local_aws.py" deploy "$stack_default" --explain Settings=diagnostics=true "$@"
    while :; do run sleep 3600; done
}

main() {
    case ${1:-} in
        run-with)
            shift
            run_with "$@"
            ;;
        shared) shared ;;
        deploy | delete | outputs)
            "$python" "$root/scripts/local_aws.py" "$@"
            ;;
        -h | --help | help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" ;;
        "" | *=*) stay "$@" ;;
        *)
            say "unknown: $1 (try --help)"
            exit 2
            ;;
    esac
}

main "$@"
