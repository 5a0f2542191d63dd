#!/usr/bin/env bash
# A place where `sam local` runs the functions in containers: a Docker daemon of this checkout, a base image, and the AWS
# emulator with a table and queues that the containers reach as host.docker.internal:4566 (infra/sam-local-env.json).
#
#   scripts/sam-local.sh run-with COMMAND [ARGUMENTS]  runs COMMAND there, such as `bash`, and then removes everything
#   scripts/sam-local.sh work ENDPOINT                 inside of that: gives the messages of the work queue to the function
#                                                      Worker at the endpoint of `sam local start-lambda`, as Lambda's
#                                                      event source mapping would; runs until it is stopped
#
# COMMAND sees DOCKER_HOST; AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION and credentials of the emulator; and in its PATH
# the tools of .cache/tools/bin, such as `sam`.
#
# The daemon has a socket, a network and a data folder (.cache/sam-local) of its own, and changes no firewall rules. It needs
# root, and what `scripts/setup-tools.sh containers` installs. The image is made of the system's packages: it stands for
# Lambda's, which has another C library. If DOCKER_HOST is set, that daemon is used, and SAM pulls Lambda's own image.
#
# Ends with status 3, and a sentence that says why, where no daemon can be started.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=scripts/cleanup.sh
source "$root/scripts/cleanup.sh"
readonly root tools=$root/.cache/tools state=$root/.cache/sam-local portable=$root/scripts/portable.py
readonly python=$tools/aws/bin/python image=$tools/lambda-image.tar
readonly repository=public.ecr.aws/lambda/provided
# The port of infra/sam-local-env.json. It is a port of the containers' network, which no other program uses.
readonly port=4566
readonly networks_max=32 ready_polls_max=600 stop_polls_max=300
readonly cannot_start=3

scratch=
bridge=
gateway=127.0.0.1
daemon=
forwarder=
group=

say() { printf 'sam-local: %s\n' "$*" >&2; }

refuse() {
    say "$*"
    exit "$cannot_start"
}

# Stops everything that was started here.
clean_up() {
    end_child
    # What COMMAND has left in the background.
    if [[ -n $scratch ]]; then "$python" "$root/scripts/sam_local.py" end-all "$scratch" || true; fi
    if [[ -n $forwarder ]]; then kill "$forwarder" 2>/dev/null || true; fi
    if [[ -n $group ]]; then "$root/scripts/emulator.sh" end "$group"; fi
    if [[ -n $daemon ]]; then stop_daemon; fi
    if [[ -n $bridge ]]; then ip link delete "$bridge" 2>/dev/null || true; fi
    # The daemon leaves the namespace of a container that had the network of this machine.
    if [[ -n $daemon ]]; then umount "$scratch"/exec/netns/* 2>/dev/null || true; fi
    if [[ -n $scratch ]]; then rm -rf "$scratch"; fi
}

stop_daemon() {
    local running polls
    # Containers that an interrupted `sam local` has left.
    running=$(timeout 20 docker ps --quiet --no-trunc 2>/dev/null || true)
    # shellcheck disable=SC2086
    if [[ -n $running ]]; then timeout 60 docker rm --force $running >/dev/null 2>&1 || true; fi
    timeout 20 docker network prune --force >/dev/null 2>&1 || true
    kill -TERM "$daemon" 2>/dev/null || true
    for ((polls = 0; polls < stop_polls_max; polls++)); do
        kill -0 "$daemon" 2>/dev/null || return 0
        sleep 0.1
    done
    say "the daemon does not stop; it is killed"
    kill -KILL -- "-$daemon" 2>/dev/null || true
}

# One daemon at a time uses the data folder. Another run of this checkout waits for this one.
lock_state() {
    mkdir -p "$state"
    exec 6>"$state/lock"
    if ! python3 "$portable" try-lock 6; then
        say "waiting for another run in this checkout"
        python3 "$portable" lock 6
    fi
}

# Makes a network for the containers that nothing else on this machine has. Sets $bridge and $gateway.
make_bridge() {
    local number subnet
    # The one of a run that was killed.
    if [[ -s $state/bridge ]]; then ip link delete "$(cat "$state/bridge")" 2>/dev/null || true; fi
    for ((number = 0; number < networks_max; number++)); do
        subnet=172.29.$((100 + number))
        [[ -z $(ip -4 route show root "$subnet.0/24") ]] || continue
        ip link add name "longhaul$number" type bridge 2>/dev/null || continue
        bridge=longhaul$number gateway=$subnet.1
        printf '%s\n' "$bridge" >"$state/bridge"
        ip address add "$gateway/24" dev "$bridge"
        ip link set "$bridge" up
        return 0
    done
    refuse "no network for containers can be made: is this process allowed to run \`ip link add type bridge\`?"
}

start_daemon() {
    local needed missing=() polls
    [[ $(uname -s) == Linux && $(id -u) -eq 0 ]] ||
        refuse "a Docker daemon of its own needs root on Linux; set DOCKER_HOST to use one that runs already"
    for needed in dockerd docker ip; do command -v "$needed" >/dev/null || missing+=("$needed"); done
    [[ ${#missing[@]} -eq 0 && -s $image ]] ||
        refuse "not installed: ${missing[*]:-the base image}; run scripts/setup-tools.sh containers"
    make_bridge
    mkdir -p "$state/docker"
    DOCKER_HOST=unix://$scratch/docker.sock
    export DOCKER_HOST
    # Containers reach this machine only, so no rules of a firewall are needed.
    python3 "$portable" setsid dockerd --host "$DOCKER_HOST" --data-root "$state/docker" --exec-root "$scratch/exec" \
        --pidfile "$scratch/dockerd.pid" --bridge "$bridge" --host-gateway-ip "$gateway" --iptables=false \
        --ip6tables=false --ip-masq=false --ip-forward=false </dev/null >"$scratch/dockerd.log" 2>&1 6>&- &
    daemon=$!
    for ((polls = 0; polls < ready_polls_max; polls++)); do
        if timeout 10 docker version >/dev/null 2>&1; then return 0; fi
        if ! kill -0 "$daemon" 2>/dev/null; then
            daemon=
            tail -n 5 "$scratch/dockerd.log" >&2
            refuse "the Docker daemon does not start here; its last lines are above"
        fi
        sleep 0.1
    done
    refuse "the Docker daemon does not answer"
}

# SAM looks for the image by the version of the runtime and by the architecture.
import_image() {
    local architecture=x86_64 stamp
    if [[ $(uname -m) == aarch64 ]]; then architecture=arm64; fi
    stamp=$(python3 "$portable" stamp "$image")
    if [[ $(cat "$state/imported" 2>/dev/null) == "$stamp" ]] &&
        docker image inspect "$repository:al2023-$architecture" >/dev/null 2>&1; then return; fi
    docker import --change 'WORKDIR /var/task' --change 'ENTRYPOINT ["/lambda-entrypoint.sh"]' "$image" \
        "$repository:al2023" >/dev/null
    docker tag "$repository:al2023" "$repository:al2023-$architecture"
    printf '%s\n' "$stamp" >"$state/imported"
}

# The address at which the containers of a daemon that is not ours find this machine.
gateway_of_daemon() {
    local address
    docker version >/dev/null 2>&1 || refuse "no Docker daemon answers at DOCKER_HOST=$DOCKER_HOST"
    address=$(docker network inspect bridge --format '{{(index .IPAM.Config 0).Gateway}}' 2>/dev/null || true)
    # A daemon in a virtual machine passes connections on to this machine's loopback interface.
    if [[ -n $address ]] && "$python" "$root/scripts/sam_local.py" is-here "$address"; then gateway=$address; fi
}

start_emulator() {
    local started
    mkdir "$scratch/tmp"
    started=$(TMPDIR=$scratch/tmp "$root/scripts/emulator.sh" spawn "$scratch/emulator.log" 6>&-)
    read -r group AWS_ENDPOINT_URL <<<"$started"
    export AWS_ENDPOINT_URL AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
    export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
    unset AWS_PROFILE AWS_SESSION_TOKEN
    forwarder=$("$python" "$root/scripts/sam_local.py" forward "$gateway" "$port" "$AWS_ENDPOINT_URL" 6>&-)
    "$python" "$root/scripts/sam_local.py" create-resources
}

run_with() {
    [[ $# -gt 0 ]] || set -- "${SHELL:-sh}"
    clean_up_at_the_end
    "$root/scripts/setup-tools.sh" aws aws-lint
    if [[ ! -e target/lambda/api/bootstrap.zip ]]; then say "no functions are built in $PWD: run make build"; fi
    scratch=$(mktemp -d)
    if [[ -n ${DOCKER_HOST:-} ]]; then
        gateway_of_daemon
    else
        lock_state
        start_daemon
        import_image
        # SAM would ask a registry whether there is a newer one.
        export SAM_SKIP_PULL_IMAGE=true
    fi
    start_emulator
    export PATH=$tools/bin:$PATH SAM_CLI_TELEMETRY=0
    SAM_LOCAL_RUN=$scratch run "$@" 6>&-
}

main() {
    local verb=${1:-}
    [[ $# -eq 0 ]] || shift
    case $verb in
        run-with) run_with "$@" ;;
        work) exec "$python" "$root/scripts/sam_local.py" work "$@" ;;
        *)
            say "usage: scripts/sam-local.sh run-with COMMAND… | work ENDPOINT"
            exit 2
            ;;
    esac
}

main "$@"
