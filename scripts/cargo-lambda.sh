#!/usr/bin/env bash
# What `cargo lambda deploy` has no flags for: the table, the queues, the roles and the variables of both functions, and the
# queues that call the worker. AWS is found by the usual variables; `scripts/emulator.sh run-with bash` is a shell for which
# it is the emulator.
#
#   scripts/cargo-lambda.sh prepare LONGHAUL_AUTH=… [NAME=VALUE…]
#                                     creates or updates the stack of infra/cargo-lambda.yaml; writes to target/lambda the
#                                     variables and the role of each function (longhaul-api.env, longhaul-api.role,
#                                     longhaul-worker.env, longhaul-worker.role); prints the two commands that deploy them.
#                                     The NAMEs are settings (docs/settings.md). LONGHAUL_AUTH has to be among them: the
#                                     whole internet reaches the function URLs that cargo-lambda makes
#   scripts/cargo-lambda.sh attach    has both queues call the function longhaul-worker
#   scripts/cargo-lambda.sh url       prints the MCP endpoint of the function longhaul-api
#   scripts/cargo-lambda.sh remove    removes the functions and the stack; the table and its tasks stay
#
# STACK is another name than longhaul, for the stack and in the names of functions and files.
# LAMBDA_DIR is another folder than target/lambda.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

case ${1:-} in
    prepare | attach | url | remove)
        "$root/scripts/setup-tools.sh" aws
        exec "$root/.cache/tools/aws/bin/python" "$root/scripts/cargo_lambda.py" "$@"
        ;;
    *)
        printf 'cargo-lambda: usage: scripts/cargo-lambda.sh prepare LONGHAUL_AUTH=… | attach | url | remove\n' >&2
        exit 2
        ;;
esac
