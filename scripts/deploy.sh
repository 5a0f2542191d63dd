#!/usr/bin/env bash
# Deploys template.yaml with what scripts/build-lambda.sh has built, for the processor that it was built for.
#
#   [PARAMETERS="NAME=VALUE …"] [SETTINGS="NAME=VALUE …"] [AUTHENTICATION=JSON] [TAGS="NAME=VALUE …"] \
#       [GATEWAY_CONFIG=FILE] scripts/deploy.sh [ARGUMENTS FOR sam deploy]
#
# PARAMETERS are those of template.yaml; values have no spaces. SETTINGS and AUTHENTICATION become the parameters Settings
# and Authentication, each as a whole. All of them are checked before anything is created. Architecture comes from the
# build. Parameters that are not named keep the value that the stack has, or their default. TAGS, whose values have no
# spaces either, are put on the stack and on everything in it that takes tags.
# GATEWAY_CONFIG is a file of JSON that becomes the setting config-json, in place of the one in the package.
# TEMPLATE is another template to deploy, such as one that scripts/make_template.py wrote with layers.
# SAM is the SAM CLI to use (default: the one that scripts/setup-tools.sh installs).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# A checkout of Longhaul. In the package of the crate, the template is beside this script, and the project is where it is
# called.
root=$here/..
if [[ -f $here/template.yaml ]]; then root=$PWD; fi
readonly here root
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
    esac
done

settings=${SETTINGS:-}
if [[ -n ${GATEWAY_CONFIG:-} ]]; then
    # Values of settings have no spaces.
    config=$(python3 - "$GATEWAY_CONFIG" <<'PYTHON'
import json, sys
try:
    with open(sys.argv[1], encoding="utf-8") as file:
        print(json.dumps(json.load(file), separators=(",", ":")).replace(" ", "\\u0020"))
except (OSError, ValueError) as error:
    sys.exit(f"deploy: GATEWAY_CONFIG: {sys.argv[1]}: {error}")
PYTHON
    )
    settings="${settings:+$settings }config-json=$config"
fi
[[ -z $settings ]] || parameters+=("Settings=$settings")
[[ -z ${AUTHENTICATION:-} ]] || parameters+=("Authentication=$AUTHENTICATION")
checked=$(python3 "$here/parameters.py" ${parameters[@]+"${parameters[@]}"}) || exit 2
parameters=()
if [[ -n $checked ]]; then mapfile -t parameters <<<"$checked"; fi

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
exec "${SAM:-$root/.cache/tools/bin/sam}" deploy --template-file "${TEMPLATE:-template.yaml}" \
    --parameter-overrides "Architecture=$architecture" ${parameters[@]+"${parameters[@]}"} ${tags[@]+"${tags[@]}"} "$@"
