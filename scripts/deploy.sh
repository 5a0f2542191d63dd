#!/usr/bin/env bash
# Deploys template.yaml with what scripts/build-lambda.sh has built, for the processor that it was built for.
#
#   [PARAMETERS="NAME=VALUE …"] [TAGS="NAME=VALUE …"] [GATEWAY_CONFIG=FILE] scripts/deploy.sh [ARGUMENTS FOR sam deploy]
#
# PARAMETERS are those of template.yaml; values have no spaces. Architecture comes from the build. Parameters that are
# not named keep the value that the stack has, or their default. TAGS, whose values have no spaces
# either, are put on the stack and on everything in it that takes tags.
# GATEWAY_CONFIG is a file of JSON that becomes the parameter GatewayConfig, in place of the one in the package.
# SAM is the SAM CLI to use (default: the one that scripts/setup-tools.sh installs).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly built=${LAMBDA_DIR:-$root/target/lambda}

say() { printf 'deploy: %s\n' "$*" >&2; }

[[ -f $built/architecture ]] || { say "nothing is built: run \`make build\` first"; exit 1; }
architecture=$(cat "$built/architecture")
readonly architecture

for argument in "$@"; do
    case $argument in
        --parameter-overrides*)
            say "name parameters in PARAMETERS=\"NAME=VALUE …\": a second $argument would replace Architecture=$architecture"
            exit 2
            ;;
    esac
done
# shellcheck disable=SC2206  # Several parameters.
parameters=(${PARAMETERS:-})
for parameter in ${parameters[@]+"${parameters[@]}"}; do
    case $parameter in
        Architecture="$architecture") ;;
        Architecture=*)
            say "$parameter, but the functions were built for $architecture: run \`ARCH=${parameter#*=} make build\`"
            exit 2
            ;;
        [A-Z]*=*) ;;
        *)
            say "$parameter is not NAME=VALUE"
            exit 2
            ;;
    esac
done

# The SAM CLI takes a value with spaces in quotation marks, and knows no escaped backslash.
gateway_config() {
    python3 - "$1" <<'PYTHON'
import json, sys
try:
    with open(sys.argv[1], encoding="utf-8") as file:
        text = json.dumps(json.load(file), separators=(",", ":"))
except (OSError, ValueError) as error:
    sys.exit(f"deploy: GATEWAY_CONFIG: {sys.argv[1]}: {error}")
text = text.replace("\\\\", "\\u005c").replace('\\"', "\\u0022").replace('"', '\\"')
print(f'GatewayConfig="{text}"', end="")
PYTHON
}
if [[ -n ${GATEWAY_CONFIG:-} ]]; then
    config=$(gateway_config "$GATEWAY_CONFIG")
    parameters+=("$config")
fi

# Lambda takes 4 KiB for all variables of a function, and CloudFormation finds out when the stack is half made.
readonly shared_bytes_max=2000
shared_bytes=0
for parameter in ${parameters[@]+"${parameters[@]}"}; do
    case $parameter in
        GatewayConfig=* | Webhooks=* | ToolEnvironment=* | ToolSecretNames=* | ToolSecretArns=*)
            value=${parameter#*=}
            shared_bytes=$((shared_bytes + $(printf '%s' "$value" | wc -c)))
            ;;
    esac
done
if ((shared_bytes > shared_bytes_max)); then
    say "GatewayConfig, Webhooks, ToolEnvironment, ToolSecretNames and ToolSecretArns have $shared_bytes bytes together, and" \
        "Lambda has room for $shared_bytes_max: shorten them, or put the gateway's configuration into its package"
    exit 2
fi

# shellcheck disable=SC2206  # Several tags.
tags=(${TAGS:-})
for tag in ${tags[@]+"${tags[@]}"}; do
    case $tag in
        ?*=*) ;;
        *)
            say "the tag $tag is not NAME=VALUE"
            exit 2
            ;;
    esac
done
if ((${#tags[@]} > 0)); then tags=(--tags "${tags[@]}"); fi

[[ -n ${SAM:-} ]] || "$root/scripts/setup-tools.sh" aws-lint
cd "$root"
exec "${SAM:-$root/.cache/tools/bin/sam}" deploy --template-file template.yaml \
    --parameter-overrides "Architecture=$architecture" ${parameters[@]+"${parameters[@]}"} ${tags[@]+"${tags[@]}"} "$@"
