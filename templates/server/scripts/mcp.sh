#!/usr/bin/env bash
# Sends one MCP request by hand, as a client of revision 2026-07-28 that supports tasks.
#
#   scripts/mcp.sh call TOOL ['{"argument": "value"}']       calls a tool
#   scripts/mcp.sh get TASK_ID                               polls a task
#   scripts/mcp.sh cancel TASK_ID                            cancels a task
#   scripts/mcp.sh answer TASK_ID KEY '{"property": "…"}'    answers a form that a task asks for
#   scripts/mcp.sh list                                      lists the tools
#
# MCP_URL is the endpoint of the server (default: http://127.0.0.1:8080/mcp), MCP_TOKEN an access token if it wants one.
set -euo pipefail

url=${MCP_URL:-http://127.0.0.1:8080/mcp}
readonly url
readonly meta='"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"mcp.sh","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}'

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

# The header with the access token, as curl's configuration: other users of this machine see arguments, but not this.
authorization() {
    [[ -z ${MCP_TOKEN:-} ]] || printf 'header = "authorization: Bearer %s"\n' "$MCP_TOKEN"
}

# send METHOD NAME FIELDS: a NAME that is not empty goes into the Mcp-Name header.
send() {
    authorization | curl --silent --show-error --config - "$url" \
        --header 'content-type: application/json' --header 'accept: application/json, text/event-stream' \
        --header 'mcp-protocol-version: 2026-07-28' --header "mcp-method: $1" ${2:+--header "mcp-name: $2"} \
        --data "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$1\",\"params\":{${3:+$3,}$meta}}"
    echo
}

[[ $# -ge 1 ]] || usage
case $1 in
list) send tools/list '' '' ;;
call) send tools/call "${2:?which tool?}" "\"name\":\"$2\",\"arguments\":${3:-{\}}" ;;
get) send tasks/get "${2:?which task?}" "\"taskId\":\"$2\"" ;;
cancel) send tasks/cancel "${2:?which task?}" "\"taskId\":\"$2\"" ;;
answer)
    send tasks/update "${2:?which task?}" \
        "\"taskId\":\"$2\",\"inputResponses\":{\"${3:?which key?}\":{\"action\":\"accept\",\"content\":${4:?which content?}}}"
    ;;
*) usage ;;
esac
