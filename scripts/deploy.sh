#!/usr/bin/env bash
# Deploys template.yaml with what scripts/build-lambda.sh has built, for the processor that it was built for.
#
#   [PARAMETERS="NAME=VALUE …"] [SETTINGS="NAME=VALUE …"] [AUTHENTICATION=JSON] [TAGS="NAME=VALUE …"] \
#       [GATEWAY_CONFIG=FILE] scripts/deploy.sh [ARGUMENTS FOR sam deploy]
#
# PARAMETERS are those of template.yaml; values have no spaces. SETTINGS and AUTHENTICATION become the parameters Settings
# and Authentication, each as a whole. All of them are checked before anything is created. Architecture comes from the
# build. Parameters that are not named keep the value that the stack has, or their default; but a first deployment has to
# be told who may call (AuthMode), and asks on a terminal. TAGS, whose values have no
# spaces either, are put on the stack and on everything in it that takes tags.
# GATEWAY_CONFIG is a file of JSON that becomes the setting config-json, in place of the one in the package.
# TEMPLATE is another template to deploy. LAYERS="ARN …" are layers of the workers, such as those with a program that
# tools run: a template that has them is written next to the other one, and deployed.
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

[[ -n ${SAM:-} ]] || "$root/scripts/setup-tools.sh" aws-lint
readonly sam=${SAM:-$root/.cache/tools/bin/sam}

# The arguments that say which stack is meant, as other commands of the SAM CLI take them.
where=()
stack=
for ((at = 1; at <= $#; at++)); do
    next=$((at + 1))
    case ${!at} in
        --stack-name | --region | --profile) where+=("${!at}" "${!next:-}") ;;
        --stack-name=* | --region=* | --profile=*) where+=("${!at%%=*}" "${!at#*=}") ;;
    esac
done
for ((at = 0; at < ${#where[@]}; at += 2)); do
    if [[ ${where[at]} == --stack-name ]]; then stack=${where[at + 1]}; fi
done

# With --guided, the SAM CLI asks for parameters itself.
if [[ -n $stack && " ${parameters[*]-}" != *" AuthMode="* && " $*" != *" --guided"* ]] &&
    ! "$sam" list stack-outputs --output json "${where[@]}" >/dev/null 2>&1; then
    cat >&2 <<TEXT
deploy: there is no stack $stack yet. Say who may call it, with PARAMETERS="AuthMode=…":
  bearer   those who have a token that \`longhaul token add\` makes
  oauth    people who sign in at your identity provider; needs OAuthIssuers=URL too
  iam      programs that sign their requests with credentials of AWS
TEXT
    [[ -t 0 && -t 2 ]] || exit 2
    read -r -p "AuthMode (bearer, oauth or iam): " answer
    case $answer in
        bearer | oauth | iam) parameters+=("AuthMode=$answer") ;;
        *)
            say "\`$answer\` is none of bearer, oauth and iam"
            exit 2
            ;;
    esac
fi

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

cd "$root"
template=${TEMPLATE:-template.yaml}
if [[ -n ${LAYERS:-} ]]; then
    # shellcheck disable=SC2086  # Several layers.
    python3 "$here/layers.py" "$template" $LAYERS >"$template.layers.yaml"
    template=$template.layers.yaml
fi
exec "$sam" deploy --template-file "$template" \
    --parameter-overrides "Architecture=$architecture" ${parameters[@]+"${parameters[@]}"} ${tags[@]+"${tags[@]}"} "$@"
